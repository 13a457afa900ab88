"""A storage whose transactions touch several tables, and the states that upstream was in: one after each of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from consumer.model.actions import Action
from consumer.sink.mysql.server.wire import Connection
from tests.servers import SqlServer
from tests.support.build import ID, VALUE
from tests.support.feed import Feed

State = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
"""The tables that have rows, in order, each with its rows in order."""
_GONE = (1146, 1049, 1412)
"""There is no such table, or no such database, or it became another one since the snapshot."""


def two_accounts(folder: Path) -> Feed:
    """A storage with two tables of a bank, d.a and d.b, with 50 each."""
    feed = Feed(folder)
    feed.database("d", 5)
    for table in ("d.a", "d.b"):
        feed.create(table, 10)
        feed.puts(table, 10, {20: (1, "50")})
    return feed


def both(server: SqlServer) -> list[int]:
    """What the two accounts hold on `server`."""
    rows = "SELECT 'a', id, v FROM d.a UNION ALL SELECT 'b', id, v FROM d.b"
    return [int(v) for _, _, v in server.execute(f"{rows} ORDER BY 1, 2")]


class Upstream:
    """Its tables d.t0, d.t1 .. have the columns id and v. `states` are all that it was in, the last one at `now`."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.feed = Feed(folder)
        self.tables: dict[str, dict[int, int]] = {}
        self.now = 10
        self.checkpointed = self.now
        self.states: list[State] = [()]
        self._versions: dict[str, int] = {}
        self._lines: dict[str, list[bytes]] = {}
        self._made = 0
        self.feed.database("d", self.now)

    def create(self) -> None:
        name, self._made = f"t{self._made}", self._made + 1
        self.now += 2
        self.feed.create(f"d.{name}", self.now)
        self._begin(name)
        self.tables[name] = {}
        self._seen()

    def move(self) -> None:
        """One transaction that writes rows of some tables, and removes some."""
        self.now += self.random.choice((1, 1, 2, 7))
        for name in self.random.sample(sorted(self.tables), min(len(self.tables), self.random.randint(1, 3))):
            for key in self.random.sample(range(6), self.random.randint(1, 3)):
                held = self.tables[name].get(key)
                if held is not None and self.random.random() < 0.3:
                    del self.tables[name][key]
                    self._lines[name].append(self.feed._line(f"d.{name}", self.now, key, str(held), "DELETE"))
                else:
                    self.tables[name][key] = value = self.random.randint(0, 1 << 30)
                    self._lines[name].append(self.feed._line(f"d.{name}", self.now, key, str(value)))
        self._seen()

    def change(self) -> None:
        """A statement that readers see."""
        name = self.random.choice(sorted(self.tables))
        self.flush(name)
        self.now += 2
        match self.random.randrange(4):
            case 0:
                self.feed.truncate(f"d.{name}", self.now)
                self.tables[name] = {}
            case 1:
                self.feed.drop(f"d.{name}", self.now)
                del self.tables[name], self._versions[name], self._lines[name]
                self._seen()
                return
            case 2:
                new, self._made = f"t{self._made}", self._made + 1
                self.feed.rename(f"d.{name}", f"d.{new}", self.now)
                self.tables[new] = self.tables.pop(name)
                del self._versions[name], self._lines[name]
                name = new
            case _:
                text = f"ALTER TABLE `{name}` ADD INDEX `i{self.now}` (`v`)"
                self.feed.statement(f"d.{name}", self.now, Action.ADD_INDEX, text, (ID, VALUE))
        self._begin(name)
        self._seen()

    def flush(self, name: str) -> None:
        """Write the file of a table."""
        if lines := self._lines[name]:
            self.feed.file(f"d.{name}", self._versions[name], b"".join(lines))
            self._lines[name] = []

    def flush_some(self) -> None:
        for name in self.tables:
            if self.random.random() < 0.4:
                self.flush(name)

    def checkpoint(self) -> None:
        """Of a moment up to which all is written; rows above it are there too."""
        for name in self.tables:
            self.flush(name)
        self.checkpointed = self.random.randint(self.checkpointed, self.now)
        self.feed.checkpoint(self.checkpointed)

    def _begin(self, name: str) -> None:
        self._versions[name], self._lines[name] = self.now, []

    def _seen(self) -> None:
        rows = ((name, tuple(sorted(rows.items()))) for name, rows in sorted(self.tables.items()) if rows)
        self.states.append(tuple(rows))


def held(connection: pymysql.Connection) -> State | None:
    """What a reader sees who reads all tables in one transaction; None where a statement changed them meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            names = _names(cursor)
            found = []
            for name in names:
                cursor.execute(f"SELECT id, v FROM d.`{name}` ORDER BY id")
                if rows := cursor.fetchall():
                    found.append((name, tuple((int(key), int(value)) for key, value in rows)))
            return tuple(found) if names == _names(cursor) else None
        except pymysql.MySQLError as error:
            if error.args[0] in _GONE:
                return None
            raise
        finally:
            connection.rollback()


def _names(cursor: pymysql.cursors.Cursor) -> list[str]:
    cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'd' ORDER BY table_name")
    return [str(name) for (name,) in cursor.fetchall()]


@contextmanager
def every_state(server: SqlServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[State]]:
    """Fills with what a reader sees after each transaction and statement that this process commits."""
    reader, states = server.connect(), list[State]()

    def look() -> None:
        if (state := held(reader)) is not None and (not states or states[-1] != state):
            states.append(state)

    def committed(connection: Connection) -> None:
        pymysql.Connection.commit(connection)
        look()

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "commit", committed)
        yield states
        look()
    reader.close()
