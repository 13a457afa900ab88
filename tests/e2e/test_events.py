"""What a run tells its observer of rounds, and of tables that stop and go on."""

from __future__ import annotations

from pathlib import Path

from consumer import app
from consumer.model.events import Event, RoundFinished, RoundStarted
from consumer.model.names import TableName
from tests.support.feed import Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "t")


class All(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.all: list[Event] = []

    def tell(self, event: Event) -> None:
        super().tell(event)
        self.all.append(event)


def observed(replica: MemoryReplica) -> All:
    seen = All()
    app.once(replica.settings(), seen, InlineLoader())
    return seen


def test_a_table_that_goes_on_after_a_stop_is_reported_once(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    replica = MemoryReplica(feed)
    feed.create("d.t", 10)
    file = feed.damaged("d.t", 10)
    replica.once(20)
    assert (list(replica.seen.stopped), replica.seen.resumed) == ([T], [])
    replica.once(20)
    assert (list(replica.seen.stopped), replica.seen.resumed) == ([T], [])
    file.unlink()
    feed.puts("d.t", 10, {11: (1, "1")}, number=1)
    replica.once(20)
    assert (list(replica.seen.stopped), replica.seen.resumed) == ([], [T])
    replica.once(30)
    assert replica.seen.resumed == []


def test_a_round_ends_with_how_many_tables_are_stopped(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    replica = MemoryReplica(feed)
    feed.create("d.t", 10)
    feed.create("d.u", 10)
    feed.damaged("d.t", 10)
    feed.checkpoint(20)
    seen = observed(replica)
    (began,) = [event for event in seen.all if isinstance(event, RoundStarted)]
    assert (began.checkpoint, began.tables, began.files) == (20, 1, 1)
    assert [(table, files) for table, files, _ in began.largest] == [(T, 1)]
    assert began.statements == 2
    assert [(str(table), version) for table, version, _ in began.first] == [("d.t", 10), ("d.u", 10)]
    last = seen.all[-1]
    assert isinstance(last, RoundFinished)
    assert (last.checkpoint, last.stopped, last.waiting) == (20, 1, 0)
