"""A table with a backlog does not hold up the others of `run`: its rows are read some at a time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from consumer import app
from consumer.model.events import Event, RoundFinished, StepFinished
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.pipeline.manager import ConsumerManager
from consumer.results import RunResult
from tests.support.feed import Feed, MemoryReplica, Rows, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

FILES = 12
BACKLOG, LIVE = TableName("d", "backlog"), TableName("d", "live")


class Upstream(Recorder):
    """Writes a row of d.live whenever the backlog has moved twice. Ends the run once all of it is there, or at the load
    `ends_at` of the backlog."""

    def __init__(self, feed: Feed, replica: MemoryReplica, ends_at: int | None) -> None:
        super().__init__()
        self.stop, self._feed, self._replica, self._ends_at = threading.Event(), feed, replica, ends_at
        self.written: Rows = {}
        self.when: list[int] = []
        """How many loads of the backlog there were before each of the other table."""

    def tell(self, event: Event) -> None:
        super().tell(event)
        moved = [step for step in self.steps if step.step == "load" and step.table == BACKLOG]
        match event:
            case StepFinished(AuditRow("load", table)) if table == LIVE:
                self.when.append(len(moved))
            case StepFinished(AuditRow("load")) if len(moved) % 2 == 0:
                number = len(self.written) + 1
                self.written[number] = "new"
                self._feed.puts("d.live", 3, {1000 + number: (number, "new")})
                self._feed.checkpoint(1000 + number)
            case RoundFinished() if self._replica.tables["d.live"] == self.written:
                self.stop.set()
        if len(moved) == self._ends_at:
            self.stop.set()


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.backlog", 2)
    feed.create("d.live", 3)
    for number in range(1, FILES + 1):
        feed.puts("d.backlog", 2, {10 * number: (number, "old")})
    feed.checkpoint(10 * FILES)
    return feed


def run(feed: Feed, replica: MemoryReplica, ends_at: int | None = None) -> tuple[RunResult, Upstream]:
    seen = Upstream(feed, replica, ends_at)
    limit = threading.Timer(60, seen.stop.set)
    limit.start()
    settings = replica.settings(tz="UTC", flush_interval="100ms", round_bytes="1")
    result = app.run(settings, seen, seen.stop, InlineLoader())
    limit.cancel()
    return result, seen


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round makes way as soon as it may, and not after some seconds."""
    monkeypatch.setattr(ConsumerManager, "shortest_round", 0.0)
    monkeypatch.setattr(ConsumerManager, "round_share", 0.0)


@pytest.mark.usefixtures("hurried")
def test_new_rows_of_other_tables_come_while_a_backlog_is_read(feed: Feed) -> None:
    replica = MemoryReplica(feed)
    result, seen = run(feed, replica)
    assert (result.exit_code, result.unfinished) == (0, False)
    assert replica.tables["d.backlog"] == dict.fromkeys(range(1, FILES + 1), "old")
    assert replica.tables["d.live"] == seen.written
    assert len(seen.when) > 3
    assert seen.when[0] < FILES / 2


@pytest.mark.usefixtures("hurried")
def test_a_run_that_ends_in_the_middle_of_a_backlog_says_so_and_is_gone_on_with(feed: Feed) -> None:
    replica = MemoryReplica(feed)
    result, _ = run(feed, replica, ends_at=3)
    assert result.unfinished
    assert result.tables[BACKLOG].watermark < 10 * FILES
    assert replica.place("d.backlog") == (result.tables[BACKLOG].watermark, "ok")
    assert states(replica.once(2000, tz="UTC")) == {"d.backlog": "ok", "d.live": "ok"}
    assert replica.tables["d.backlog"] == dict.fromkeys(range(1, FILES + 1), "old")


@pytest.mark.usefixtures("hurried")
def test_a_table_that_stops_is_found_and_what_is_behind_it_runs(feed: Feed) -> None:
    """Where a step failed the round goes on: the next one would begin with it again."""
    feed.create("d.broken", 4)
    feed.damaged("d.broken", 4)
    feed.drop("d.broken", 5)
    replica = MemoryReplica(feed)
    result, _ = run(feed, replica)
    assert (result.exit_code, result.unfinished) == (0, False)
    assert "d.broken" not in replica.tables


def test_a_short_round_goes_through(feed: Feed) -> None:
    replica = MemoryReplica(feed)
    _, seen = run(feed, replica)
    assert seen.when[0] == FILES
