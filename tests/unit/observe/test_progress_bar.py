"""What a person sees of a round: bytes, changes and rows as parts of loads end, how fast, how long still."""

from __future__ import annotations

import re

import pytest

from consumer.model.events import RoundStarted, StepFinished, WorkEnded, WorkMoved, WorkStarted, WorkUnit
from consumer.model.load import LoadPart
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.observe.heartbeat import Activity
from consumer.observe.meter import Meter, Reading
from consumer.observe.progress_bar import ProgressBar, line_text

MIB = 1 << 20
ORDERS = TableName("shop", "orders")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_parts_count_until_their_load_has_ended(clock: Clock) -> None:
    meter, load = Meter(clock), WorkUnit((ORDERS,), files=2, bytes=6 * MIB)
    meter.tell(RoundStarted(1, 1, 1, 8 * MIB))
    meter.tell(WorkStarted(load))
    meter.tell(WorkMoved(load, LoadPart(MIB, changes=10)))
    meter.tell(WorkMoved(load, LoadPart(MIB, rows=4)))
    clock.now += 4
    reading = meter.reading()
    assert (reading.done, reading.rate, reading.left) == (LoadPart(2 * MIB, 10, 4), MIB / 2, 12.0)
    assert line_text("", reading) == ("2.0 MiB of 8.0 MiB, 10 changes, 4 rows, 512.0 KiB/s, 12.0 s left, 4.0 s so far")
    meter.tell(WorkEnded(load))
    meter.tell(WorkMoved(load, LoadPart(MIB)))
    meter.tell(StepFinished(AuditRow("load", ORDERS, 0, 9, changes=30, puts=7, deletes=2), 1.0, 6 * MIB))
    assert meter.reading().done == LoadPart(6 * MIB, 30, 9)


def test_a_load_that_fails_is_not_done(clock: Clock) -> None:
    meter, load = Meter(clock), WorkUnit((ORDERS,), files=1, bytes=MIB)
    meter.tell(RoundStarted(1, 1, 1, MIB))
    meter.tell(WorkStarted(load))
    meter.tell(WorkMoved(load, LoadPart(MIB, 5, 5)))
    meter.tell(WorkEnded(load))
    assert meter.reading().done == LoadPart()


def test_what_is_read_again_never_makes_more_than_all(clock: Clock) -> None:
    meter = Meter(clock)
    meter.tell(RoundStarted(1, 1, 1, MIB))
    meter.tell(StepFinished(AuditRow("load", ORDERS, 0, 9, changes=1, puts=1), 1.0, 3 * MIB))
    reading = meter.reading()
    assert (reading.total, reading.done.bytes) == (3 * MIB, 3 * MIB)


def test_a_statement_is_told_by_its_text_and_is_no_load(clock: Clock) -> None:
    meter = Meter(clock)
    meter.tell(RoundStarted(1, 1, 1, MIB))
    meter.tell(WorkStarted(WorkUnit((ORDERS,), statement="ALTER TABLE orders ADD INDEX (a)")))
    clock.now += 30
    reading = meter.reading()
    assert line_text("", reading) == "ALTER TABLE orders ADD INDEX (a) of shop.orders, 30.0 s"
    assert (reading.loads, reading.statements, reading.left) == (0, 1, None)


def test_the_line_is_drawn_and_cleared(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    reading = Reading(LoadPart(MIB, 7, 5), 2 * MIB, 1.0, 1, 0, "load of shop.orders")
    bar = ProgressBar(Activity(clock), lambda: reading, clock)
    bar.show()
    bar.stop()
    bar.show()
    bar.stop()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert shown.count("1.0 MiB of 2.0 MiB, 7 changes, 5 rows, 1.0 MiB/s, 1.0 s left") >= 1
    assert "2.0 MiB of 2.0 MiB" not in shown
