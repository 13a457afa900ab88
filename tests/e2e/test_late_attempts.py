"""An attempt of a load that Spark has given up, or runs twice, and that comes late: after newer rows, a statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.errors import LeaseHeld
from consumer.model.actions import Action
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.target import Writer
from tests.servers import MariaDb
from tests.support.feed import Feed, MemoryReplica, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

RowsOf = Callable[[], list[tuple[int, int]]]
_ROWS = "SELECT id, v FROM d.t"
_Attempt = tuple[Sequence[LoadTask], Writer, RangeReader]


class Zombies(InlineLoader):
    """With each load, everything that was ever loaded is loaded again as it was then."""

    def __init__(self) -> None:
        super().__init__()
        self._earlier: list[_Attempt] = []
        self.late: list[BaseException | None] = []

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        outcomes = super().load(tasks, writer, reader, moved)
        for attempt in self._earlier:
            self.late += [outcome.error for outcome in super().load(*attempt)]
        self._earlier.append((tasks, writer, reader))
        return outcomes


@pytest.fixture(params=["memory", "duckdb", "mariadb"])
def replica(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Replica, RowsOf]:
    feed = Feed(tmp_path / "storage")
    feed.folder.mkdir()
    if request.param == "memory":
        memory = MemoryReplica(feed)
        return memory, lambda: [(key, int(value or 0)) for key, value in memory.tables["d.t"].items()]
    if request.param == "duckdb":
        path = tmp_path / "replica.duckdb"
        return Replica(feed, f"duckdb:///{path}"), lambda: duckdb.connect(str(path)).execute(_ROWS).fetchall()
    server: MariaDb = request.getfixturevalue("fresh_mariadb")
    return Replica(feed, server.url()), lambda: server.execute(_ROWS)


def test_a_late_attempt_changes_nothing(replica: tuple[Replica, RowsOf]) -> None:
    target, rows = replica
    feed = target.feed
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    feed.statement("d.t", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT = 'x'")
    feed.puts("d.t", 15, {20: (1, "2")})
    feed.truncate("d.t", 25)
    feed.puts("d.t", 25, {30: (2, "3")})
    feed.checkpoint(35)
    loader = Zombies()
    result = app.once(target.settings(tz="UTC"), Recorder(), loader)
    assert states(result) == {"d.t": "ok"}
    assert [type(error) for error in loader.late] == [LeaseHeld] * 3
    assert result.exit_code == 0
    assert rows() == [(2, 3)]
