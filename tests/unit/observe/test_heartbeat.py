"""Off a terminal long work, and idleness, say so from time to time; trouble is told once, and when it is over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import CheckpointMissing, ProgressMoved, TableError, TargetBusy, TargetUnavailable
from consumer.model.events import (
    Idle,
    NowDoing,
    Retrying,
    RetryPassed,
    RoundStarted,
    StepFinished,
    TableStopped,
    WorkMoved,
    WorkStarted,
    WorkUnit,
)
from consumer.model.load import LoadPart
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.observe.heartbeat import IDLE_SECONDS, SILENT_SECONDS
from consumer.observe.logs import Log, LogSettings
from consumer.observe.observer import CommandObserver
from consumer.observe.troubles import SAY_AGAIN_AFTER, Places
from tests.unit.observe.test_progress_bar import Clock

ORDERS = TableName("shop", "orders")
DOWN = TargetUnavailable("nobody listens")


class Told:
    """An observer whose time a test moves, and whose pulse it makes; and the lines that it wrote."""

    def __init__(self, file: Path) -> None:
        self._file, self.clock = file, Clock()
        log = Log(LogSettings(format="json", file=str(file)), self.clock)
        places = Places("s3://bucket/cdc", "mysql://u@h/")
        self.observer = CommandObserver(log, places=places, clock=self.clock, pulse_seconds=3600)

    def after(self, seconds: float) -> None:
        self.clock.now += seconds
        self.observer.beat()

    def lines(self) -> list[dict[str, Any]]:
        """Those since they were asked for last."""
        found = [json.loads(line) for line in self._file.read_text().splitlines()]
        self._file.write_text("")
        return found


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "log")


def test_a_long_load_says_how_far_it_is(told: Told) -> None:
    load = WorkUnit((ORDERS,), files=3, bytes=1000)
    told.observer.tell(RoundStarted(9, 1, 3, 1000))
    told.observer.tell(WorkStarted(load))
    started = told.lines()
    assert [line["event"] for line in started] == ["round started", "load started"]
    assert (started[1]["table"], started[1]["files"], started[1]["bytes"]) == ("shop.orders", 3, 1000)
    told.after(SILENT_SECONDS - 1)
    assert told.lines() == []
    told.observer.tell(WorkMoved(load, LoadPart(500, 40)))
    told.after(1)
    told.after(1)
    (line,) = told.lines()
    assert line["event"] == "at work"
    assert (line["loads"], line["bytes"], line["of"], line["changes"]) == (1, 500, 1000, 40)
    assert line["left"] == "10.0 s"


def test_what_takes_long_beside_loads_is_named(told: Told) -> None:
    told.observer.tell(NowDoing("looks for new files"))
    told.after(SILENT_SECONDS)
    (line,) = told.lines()
    assert (line["event"], line["doing"], line["seconds"]) == ("at work", "looks for new files", 10)


def test_an_idle_run_says_so_now_and_then(told: Told) -> None:
    for _ in range(2):
        told.observer.tell(NowDoing("looks for new files"))
        told.observer.tell(RoundStarted(9, 0, 0, 0))
        told.observer.tell(Idle(9))
        told.after(SILENT_SECONDS)
    (line,) = told.lines()
    assert line["event"] == "nothing new, waits for new files"
    told.after(IDLE_SECONDS)
    assert [line["event"] for line in told.lines()] == ["nothing new, waits for new files"]


def test_an_outage_is_one_trouble_whatever_meets_it(told: Told) -> None:
    told.observer.tell(Retrying("commit", DOWN, 30.0))
    (first,) = told.lines()
    assert (first["level"], first["event"], first["what"]) == ("warning", "trying again", "commit")
    assert (first["at"], first["error"]) == ("mysql://u@h/", "nobody listens")
    assert first["until"].endswith("Z")
    told.observer.tell(Retrying("commit", DOWN, 29.0))
    told.observer.tell(Retrying("round", DOWN, None))
    assert told.lines() == []
    told.clock.now += SAY_AGAIN_AFTER
    told.observer.tell(Retrying("round", DOWN, None))
    (again,) = told.lines()
    assert (again["event"], again["seconds"], again["until"]) == ("still trying", 60, "it succeeds")
    told.observer.tell(RetryPassed("commit"))
    (over,) = told.lines()
    assert (over["level"], over["event"], over["seconds"]) == ("warning", "succeeded after retries", 60.0)
    told.observer.tell(RetryPassed("round"))
    assert told.lines() == []


def test_what_goes_on_again_is_told_of_the_same_place(told: Told) -> None:
    told.observer.tell(Retrying("round", ProgressMoved("it is behind"), None))
    told.observer.tell(RetryPassed("round"))
    assert [line["at"] for line in told.lines()] == ["mysql://u@h/", "mysql://u@h/"]


def test_the_storage_s_trouble_is_not_the_target_s(told: Told) -> None:
    told.observer.tell(Retrying("round", CheckpointMissing("no metadata", hint="wait for it"), None))
    told.observer.tell(Retrying("commit", DOWN, 5.0))
    assert [(line["at"], line.get("hint")) for line in told.lines()] == [
        ("s3://bucket/cdc", "wait for it"),
        ("mysql://u@h/", None),
    ]


def test_a_table_s_trouble_ends_with_its_next_step_or_its_stop(told: Told) -> None:
    busy = TargetBusy("locked", table="shop.orders")
    told.observer.tell(Retrying("load shop.orders", busy, 5.0))
    told.observer.tell(StepFinished(AuditRow("load", ORDERS, 0, 9, changes=1), 0.1, 10))
    assert [line["event"] for line in told.lines()] == ["trying again", "succeeded after retries", "load finished"]
    told.observer.tell(Retrying("load shop.orders", busy, 5.0))
    told.observer.tell(TableStopped(ORDERS, TableError("broken")))
    told.observer.tell(Retrying("load shop.orders", busy, 5.0))
    assert [line["event"] for line in told.lines()] == ["trying again", "table stopped", "trying again"]
