"""A run that dies when a table with no key has its rows, and nobody has recorded the files that they came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import VALUE
from tests.support.crashes import Crash, CrashingLoader, Fuse
from tests.support.feed import Feed, Replica, states
from tests.support.observers import Recorder

COLUMNS = (Column("id", "INT"), VALUE)


@pytest.fixture(params=["fresh_mariadb", "fresh_mysql", "fresh_tidb"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def replica(server: SqlServer, tmp_path: Path) -> Replica:
    """d.k, whose first rows are written, in two files of two folders."""
    feed = Feed(tmp_path / "storage")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.statement("d.k", 10, Action.CREATE_TABLE, "CREATE TABLE `k` (`id` INT,`v` INT)", COLUMNS)
    rows(feed, 11, "2024-01-01")
    rows(feed, 13, "2024-01-02")
    feed.statement("d.k", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `k` COMMENT 'x'", COLUMNS)
    feed.checkpoint(15)
    replica = Replica(feed, server.url())
    with pytest.raises(Crash):
        app.once(replica.settings(), Recorder(), CrashingLoader(Fuse(1)))
    assert server.execute("SELECT COUNT(*) FROM d.k") == [(4,)]
    return replica


def rows(feed: Feed, ts: int, date: str) -> Path:
    """Two rows that are alike."""
    line = feed._line("d.k", ts, 1, str(ts)).replace(b'"pkNames": ["id"]', b'"pkNames": null')
    return feed.file("d.k", 10, 2 * line, date=date)


def kept(server: SqlServer) -> list[tuple[object, ...]]:
    return server.execute("SELECT id, v, COUNT(*) FROM d.k GROUP BY id, v ORDER BY v")


def test_a_statement_at_the_place_that_the_writer_reached_goes_first(server: SqlServer, replica: Replica) -> None:
    assert replica.once(20).exit_code == 0
    rows(replica.feed, 21, "2024-01-02")
    assert replica.once(30).exit_code == 0
    assert server.execute("SELECT id, v, COUNT(*) FROM d.k GROUP BY id, v ORDER BY v") == [
        (1, ts, 2) for ts in (11, 13, 21)
    ]


def test_the_table_stops_in_the_next_round(server: SqlServer, replica: Replica) -> None:
    broken = rows(replica.feed, 16, "2024-01-02")
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-20])
    for checkpoint in (20, 25):
        assert states(replica.once(checkpoint)) == {"d.k": "stopped"}
    broken.write_bytes(whole)
    assert replica.once(30).exit_code == 0
    assert server.execute("SELECT id, v, COUNT(*) FROM d.k GROUP BY id, v ORDER BY v") == [
        (1, ts, 2) for ts in (11, 13, 16)
    ]


def test_rows_that_come_late_are_noticed_all_the_same(replica: Replica) -> None:
    assert replica.once(20).exit_code == 0
    rows(replica.feed, 18, "2024-01-02")
    result = replica.once(30)
    assert states(result) == {"d.k": "stopped"}
    assert "commit-ts 18" in next(iter(result.tables.values())).error


def test_the_rows_that_a_writer_has_written_are_not_missed_in_the_trash(server: SqlServer, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.statement("d.k", 10, Action.CREATE_TABLE, "CREATE TABLE `k` (`id` INT,`v` INT)", COLUMNS)
    rows(feed, 11, "2024-01-01")
    feed.statement("d.k", 15, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `k`", COLUMNS)
    feed.checkpoint(15)
    replica = Replica(feed, server.url())
    kept_in_trash = {"ddl": {"rules": [{"action": "rename", "kinds": ["truncate-table"]}]}}
    with pytest.raises(Crash):
        app.once(replica.settings(**kept_in_trash), Recorder(), CrashingLoader(Fuse(1)))
    assert replica.once(20, **kept_in_trash).exit_code == 0
    found = server.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'd'")
    assert sorted(found) == [("__trash_15_k",), ("k",)]
    assert server.execute("SELECT COUNT(*) FROM d.__trash_15_k") == [(2,)]


def test_rows_that_are_sent_again_below_a_new_column_stop_nothing(server: SqlServer, tmp_path: Path) -> None:
    """`metadata` has gone back, and the changefeed writes into the older folder."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.statement("d.k", 10, Action.CREATE_TABLE, "CREATE TABLE `k` (`id` INT,`v` INT)", COLUMNS)
    rows(feed, 11, "2024-01-01")
    wider = (*COLUMNS, Column("w", "INT"))
    feed.statement("d.k", 20, Action.ADD_COLUMN, "ALTER TABLE `k` ADD COLUMN `w` INT", wider)
    replica = Replica(feed, server.url())
    assert replica.once(20).exit_code == 0
    rows(feed, 11, "2024-01-01")
    for checkpoint in (15, 25):
        assert states(replica.once(checkpoint)) == {"d.k": "ok"}
    assert kept(server) == [(1, 11, 2)]
