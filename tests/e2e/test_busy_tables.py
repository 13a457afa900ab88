"""A table of the target that somebody else holds: it waits, and nothing else does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from consumer import app
from consumer.errors import TargetBusy
from consumer.model.actions import Action
from consumer.model.events import Event, Retrying, StepFinished
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.servers import SqlServer
from tests.support.feed import Feed, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

_LOCKED = "SELECT * FROM d.t"


@pytest.fixture
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(getattr(request, "param", "fresh_mariadb"))
    return found


@pytest.fixture
def replica(server: SqlServer, tmp_path: Path) -> Replica:
    """d.t and d.u, with one row each."""
    feed = Feed(tmp_path / "storage")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.create("d.u", 3)
    feed.puts("d.t", 2, {10: (1, "1")})
    feed.puts("d.u", 3, {11: (1, "1")})
    replica = Replica(feed, server.url())
    assert replica.once(15, tz="UTC", max_wait="1s").exit_code == 0
    return replica


@pytest.fixture
def other(server: SqlServer) -> Iterator[pymysql.Connection]:
    """Somebody's forgotten transaction."""
    found = server.connect(autocommit=False)
    yield found
    found.close()


def test_a_statement_that_waits_for_a_lock(server: SqlServer, replica: Replica, other: pymysql.Connection) -> None:
    other.cursor().execute(_LOCKED)
    replica.feed.statement("d.t", 20, Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `i`(`v`)")
    replica.feed.puts("d.t", 20, {22: (2, "2")})
    replica.feed.puts("d.u", 3, {21: (2, "2")})
    for _ in range(2):
        result = replica.once(25, tz="UTC", max_wait="1s")
        assert (result.exit_code, states(result)) == (4, {"d.t": "waits", "d.u": "ok"})
        assert "Lock wait timeout" in result.tables[TableName("d", "t")].error
        _blocked(result, 1.0)
        assert server.execute("SELECT id FROM d.u ORDER BY id") == [(1,), (2,)]
        assert server.execute("SELECT id FROM d.t") == [(1,)]
    other.rollback()
    result = replica.once(25, tz="UTC", max_wait="1s")
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok", "d.u": "ok"})
    assert server.execute("SELECT id FROM d.t FORCE INDEX (i) ORDER BY id") == [(1,), (2,)]


def test_a_load_that_waits_for_a_lock(server: SqlServer, replica: Replica, other: pymysql.Connection) -> None:
    other.cursor().execute(_LOCKED + " WHERE id = 1 FOR UPDATE")
    replica.feed.puts("d.t", 2, {30: (1, "7")})
    replica.feed.puts("d.u", 3, {31: (3, "3")})
    result = replica.once(35, tz="UTC", max_wait="1s")
    assert (result.exit_code, states(result)) == (4, {"d.t": "waits", "d.u": "ok"})
    _blocked(result, 1.0)
    assert server.execute("SELECT id FROM d.u ORDER BY id") == [(1,), (3,)]
    other.rollback()
    result = replica.once(35, tz="UTC", max_wait="1s")
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok", "d.u": "ok"})
    assert server.execute("SELECT v FROM d.t") == [(7,)]


def test_a_lock_that_is_let_go_in_time_is_no_error(
    server: SqlServer, replica: Replica, other: pymysql.Connection
) -> None:
    other.cursor().execute(_LOCKED + " WHERE id = 1 FOR UPDATE")
    replica.feed.puts("d.t", 2, {30: (1, "7")})

    def let_go() -> None:
        until = time.monotonic() + 60
        while not any("load d.t" in told for told in replica.seen.retries) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2.5)
        other.rollback()

    threading.Thread(target=let_go).start()
    result = replica.once(35, tz="UTC", max_wait="90s")
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok", "d.u": "ok"})
    assert any("load d.t" in told for told in replica.seen.retries)
    _blocked(result, 2.5)
    assert server.execute("SELECT v FROM d.t") == [(7,)]


class Timed(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.at: dict[tuple[str, str], float] = {}
        self.told = 0.0

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, StepFinished):
            self.at[event.row.step, str(event.row.table)] = time.monotonic()
        if isinstance(event, Retrying):
            self.told = self.told or time.monotonic()


LOCKS = {
    "a row": ("SELECT * FROM d.t WHERE id = 1 FOR UPDATE", "row", ""),
    "a row, to be seen with its table": ("SELECT * FROM d.t WHERE id = 1 FOR UPDATE", "table", ""),
    "a table": ("LOCK TABLES d.t READ", "row", ""),
    "a table, to be seen as a whole": ("LOCK TABLES d.t READ", "table", ""),
    "a table that is changed": ("LOCK TABLES d.t READ", "row", "ALTER TABLE `t` ADD INDEX `i`(`v`)"),
    "a table that is read": (_LOCKED, "row", "ALTER TABLE `t` ADD INDEX `i`(`v`)"),
    "a table that is kept from readers": ("LOCK TABLES d.t WRITE", "row", "ALTER TABLE `t` ADD INDEX `i`(`v`)"),
}
"""What somebody does, the level of consistency, and upstream's statement that comes first."""


@pytest.mark.parametrize("server", ["fresh_mariadb", "fresh_mysql"], indirect=True)
@pytest.mark.parametrize(("lock", "level", "statement"), LOCKS.values(), ids=list(LOCKS))
def test_max_wait_is_all_that_a_lock_takes(
    server: SqlServer, replica: Replica, other: pymysql.Connection, lock: str, level: str, statement: str
) -> None:
    other.cursor().execute(lock)
    if statement:
        replica.feed.statement("d.t", 20, Action.ADD_INDEX, statement)
    replica.feed.puts("d.t", 20 if statement else 2, {30: (1, "7")})
    replica.feed.puts("d.u", 3, {31: (3, "3")})
    replica.feed.checkpoint(35)
    seen, began = Timed(), time.monotonic()
    result = app.once(replica.settings(consistency=level, max_wait="3s"), seen, InlineLoader())
    assert 3 <= time.monotonic() - began < 8
    assert (result.exit_code, states(result)) == (4, {"d.t": "waits", "d.u": "ok"})
    assert "d.t" in seen.retries[0]
    assert "Lock wait timeout" in seen.retries[0]
    assert seen.told - began < 2.9
    assert seen.at["load", "d.u"] - began < 2.9
    other.rollback()
    other.cursor().execute("UNLOCK TABLES")
    assert replica.once(consistency=level).exit_code == 0
    assert server.execute("SELECT v FROM d.t") == [(7,)]


def test_max_wait_is_all_that_a_lock_on_the_server_takes(
    server: SqlServer, replica: Replica, other: pymysql.Connection
) -> None:
    replica.feed.puts("d.t", 2, {30: (1, "7")})
    replica.feed.checkpoint(35)
    other.cursor().execute("FLUSH TABLES WITH READ LOCK")
    began = time.monotonic()
    with pytest.raises(TargetBusy, match="Lock wait timeout"):
        replica.once(max_wait="4s")
    assert time.monotonic() - began < 8  # a try of the usual length takes 10
    other.cursor().execute("UNLOCK TABLES")
    assert replica.once().exit_code == 0
    assert server.execute("SELECT v FROM d.t WHERE id = 1") == [(7,)]


def test_a_resync_waits_no_longer_for_a_lock(server: SqlServer, replica: Replica, other: pymysql.Connection) -> None:
    other.cursor().execute(_LOCKED)
    seen, began = Recorder(), time.monotonic()
    with pytest.raises(TargetBusy, match="Lock wait timeout"):
        app.resync(replica.settings(max_wait="2s"), seen, TableName("d", "t"), InlineLoader())
    assert 2 <= time.monotonic() - began < 6
    assert "empty d.t" in seen.retries[0]
    other.rollback()
    assert replica.once().exit_code == 0
    assert server.execute("SELECT id FROM d.t") == [(1,)]


@pytest.mark.parametrize("level", ["row", "table"])
def test_a_target_that_is_slow_to_answer_shows_its_time(
    server: SqlServer, replica: Replica, other: pymysql.Connection, level: str
) -> None:
    other.cursor().execute(_LOCKED + " WHERE id = 1 FOR UPDATE")
    replica.feed.puts("d.t", 2, {30: (1, "7")})
    threading.Timer(1.5, other.rollback).start()
    result = replica.once(35, tz="UTC", consistency=level)
    assert result.exit_code == 0
    _blocked(result, 1.0)
    assert replica.once(36, tz="UTC", consistency=level).target_seconds < 0.5


def _blocked(result: RunResult, seconds: float) -> None:
    """d.t waited for the target for that long at least, d.u and others did not."""
    waited = {str(name): table.target_seconds for name, table in result.tables.items()}
    assert seconds <= waited.pop("d.t") <= result.target_seconds <= result.seconds + 0.5
    assert max(waited.values(), default=0.0) < 0.9


def test_rows_go_on_beside_a_slow_statement(server: SqlServer, replica: Replica, other: pymysql.Connection) -> None:
    other.cursor().execute(_LOCKED)
    replica.feed.statement("d.t", 20, Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `i`(`v`)")
    replica.feed.puts("d.u", 3, {21: (2, "2")})
    replica.feed.statement("d.u", 30, Action.ADD_INDEX, "ALTER TABLE `u` ADD INDEX `i`(`v`)")
    replica.feed.puts("d.u", 30, {31: (3, "3")})
    replica.feed.checkpoint(35)
    seen = Timed()
    threading.Timer(4, other.rollback).start()
    result = app.once(replica.settings(tz="UTC", max_wait="30s"), seen, InlineLoader())
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok", "d.u": "ok"})
    assert server.execute("SELECT id FROM d.u ORDER BY id") == [(1,), (2,), (3,)]
    assert seen.at["load", "d.u"] < seen.at["ddl", "d.t"]
    assert seen.at["ddl", "d.u"] < seen.at["ddl", "d.t"]
