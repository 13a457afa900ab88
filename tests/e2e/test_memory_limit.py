"""`memory-limit`: how many bytes of change files are in flight, over all tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from consumer import app
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.target import Writer
from tests.support.feed import Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

TABLES = 12


class Gauge(InlineLoader):
    """One call a table, eight at a time; `seen` are the bytes of those that ran together, at each beginning."""

    connections = 8

    def __init__(self, together: bool = False) -> None:
        super().__init__()
        self._lock, self._running, self._together = threading.Lock(), list[int](), together
        self.seen: list[list[int]] = []

    def split(self, tasks: Sequence[LoadTask]) -> list[Sequence[LoadTask]]:
        return [tasks] if self._together else [[task] for task in tasks]

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        size = sum(task.bytes for task in tasks)
        with self._lock:
            self._running.append(size)
            self.seen.append(list(self._running))
        try:
            time.sleep(0.02)
            return super().load(tasks, writer, reader, moved)
        finally:
            with self._lock:
                self._running.remove(size)


@pytest.fixture
def replica(tmp_path: Path) -> MemoryReplica:
    """d.t0 to d.t11 with 10 rows each, d.large with 400."""
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    for number in range(TABLES):
        feed.create(f"d.t{number}", 2 + number)
        feed.puts(f"d.t{number}", 2 + number, {100 + n: (n, "x") for n in range(10)})
    feed.create("d.large", 50)
    for begin in range(0, 400, 100):
        feed.puts("d.large", 50, {100 + begin + n: (begin + n, "x") for n in range(100)})
    feed.checkpoint(600)
    return MemoryReplica(feed)


def small(replica: MemoryReplica) -> int:
    """The most bytes that a small table has."""
    return max(path.stat().st_size for path in replica.feed.folder.glob("d/t*/*/CDC*.json"))


@pytest.mark.parametrize("together", [False, True], ids=["a call a table", "one call"])
def test_all_tables_together_are_within_the_limit(replica: MemoryReplica, together: bool) -> None:
    limit, gauge = 3 * small(replica), Gauge(together)
    result = app.once(replica.settings(memory_limit=str(limit)), Recorder(), gauge)
    assert result.exit_code == 0
    assert all(sum(sizes) <= limit or len(sizes) == 1 for sizes in gauge.seen), gauge.seen
    assert max(map(sum, gauge.seen)) > limit, "what cannot be divided goes, alone"
    assert len(replica.tables["d.large"]) == 400
    assert all(len(replica.tables[f"d.t{n}"]) == 10 for n in range(TABLES))
    assert any(len(sizes) > 1 for sizes in gauge.seen) or together, "the limit is used"


def test_a_table_is_read_in_parts_of_the_limit(replica: MemoryReplica) -> None:
    one = max(path.stat().st_size for path in replica.feed.folder.glob("d/large/*/CDC*.json"))
    gauge = Gauge()
    assert app.once(replica.settings(memory_limit=str(one)), Recorder(), gauge).exit_code == 0
    assert max(size for sizes in gauge.seen for size in sizes) <= 2 * one, "at most one file more"
    assert len(replica.tables["d.large"]) == 400


def test_without_a_limit_they_go_together(replica: MemoryReplica) -> None:
    gauge = Gauge()
    assert app.once(replica.settings(), Recorder(), gauge).exit_code == 0
    assert max(map(len, gauge.seen)) == 8
