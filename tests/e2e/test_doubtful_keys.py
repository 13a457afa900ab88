"""Unique keys of the target that nobody can prove to be as fine as upstream's: no row goes in silence, and tables whose
keys are proven do not pay for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.results import RunResult
from consumer.sink.mysql.rows import write
from tests.servers import SqlServer
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

E = Column("e", "VARCHAR", length=20)
CI, BIN = "COLLATE utf8mb4_general_ci", "COLLATE utf8mb4_bin"
Row = tuple[int, str]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path)


class _Keyed(Replica):
    """`buckets`: tables go through both halves of the keyed shape, as large ones do."""

    def __init__(self, feed: Feed, server: SqlServer, buckets: int = 0) -> None:
        super().__init__(feed, server.url())
        self._buckets = buckets

    def once(self, checkpoint: int | None = None, **flags: object) -> RunResult:
        self.feed.checkpoint(checkpoint or 0)
        return app.once(self.settings(**flags), Recorder(), InlineLoader(self._buckets))


def line(kind: str, ts: int, row: Row) -> bytes:
    return row_line(kind, {"id": str(row[0]), "e": row[1]}, commit_ts=ts, pkNames=["id"]) + b"\r\n"


def put(feed: Feed, ts: int, *rows: Row) -> None:
    feed.file("d.t", 2, b"".join(line("INSERT", ts, row) for row in rows))


def restored(feed: Feed, server: SqlServer, body: str, *rows: Row) -> None:
    """A table that is older than the changefeed, and was brought into the target by hand."""
    feed.describe("d.t", 2, (ID, E))
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.t ({body}) DEFAULT CHARSET utf8mb4 {BIN}")
    for number, text in rows:
        server.execute(f"INSERT INTO d.t (id, e) VALUES ({number}, '{text}')")


def told(feed: Feed, body: str) -> None:
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, f"CREATE TABLE `t` ({body}) CHARSET utf8mb4 {BIN}", (ID, E))


def rows(server: SqlServer) -> Sequence[object]:
    return sorted(server.execute("SELECT id, e FROM d.t"))


def stopped(result: RunResult) -> str:
    assert result.exit_code == 3
    [error] = [table.error for table in result.tables.values() if table.error]
    return str(error)


TWINS = [
    (f"`id` INT PRIMARY KEY, `e` VARCHAR(20) {CI}, UNIQUE KEY `u` (`e`(3))", "ABCx", "abcy"),
    (f"`id` INT PRIMARY KEY, `e` VARCHAR(20) {BIN}, UNIQUE KEY `u` (`e`(3))", "abcx", "abcy"),
    (f"`id` INT PRIMARY KEY, `e` VARCHAR(20), g VARCHAR(9) {CI} AS (`e`) VIRTUAL, UNIQUE KEY `u` (g)", "a", "A"),
    (f"`id` INT PRIMARY KEY, `e` VARCHAR(20), g VARCHAR(9) {CI} AS (`e`) STORED, UNIQUE KEY `u` (g)", "a", "A"),
    (f"`id` INT PRIMARY KEY, `e` VARCHAR(20) {CI}, UNIQUE KEY `u` (`e`)", "a", "A"),
    ("`id` INT PRIMARY KEY, `e` VARCHAR(20), UNIQUE KEY `u` (`e`)", "same", "same"),
]


@pytest.mark.parametrize("buckets", [0, 3])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("body", "first", "second"), TWINS)
def test_twins_stop_a_restored_table(
    body: str, first: str, second: str, together: bool, buckets: int, feed: Feed, server: SqlServer
) -> None:
    restored(feed, server, body, (7, "other"))
    replica = _Keyed(feed, server, buckets)
    put(feed, 10, (1, first), *([(2, second)] if together else []))
    result = replica.once(20)
    if not together:
        assert result.exit_code == 0
        put(feed, 30, (2, second))
        result = replica.once(40)
    assert "unique key `u`" in stopped(result)
    assert rows(server) == [*([] if together else [(1, first)]), (7, "other")]
    server.execute("ALTER TABLE d.t DROP INDEX u")
    assert replica.once(40).exit_code == 0
    assert rows(server) == [(1, first), (2, second), (7, "other")]


@pytest.mark.parametrize("more", [", UNIQUE KEY u (v)", ", own INT DEFAULT 5"])
@pytest.mark.parametrize("name", ["s", "k", "stage"])
def test_a_table_that_is_called_like_something_in_a_statement(
    name: str, more: str, feed: Feed, server: SqlServer
) -> None:
    feed.describe(f"d.{name}", 2)
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT{more})")
    server.execute(f"INSERT INTO d.{name} (id, v) VALUES (1, 10), (2, 20)")
    feed.puts(f"d.{name}", 2, {10: (1, "11"), 11: (3, "30")})
    result = _Keyed(feed, server).once(20)
    assert result.exit_code == 0, stopped(result)
    assert sorted(server.execute(f"SELECT id, v FROM d.{name}")) == [(1, 11), (2, 20), (3, 30)]


def test_twins_of_an_expression(feed: Feed, fresh_mysql: SqlServer) -> None:
    restored(feed, fresh_mysql, "id INT PRIMARY KEY, e VARCHAR(20), UNIQUE KEY u ((LOWER(e)))")
    put(feed, 10, (1, "a"), (2, "A"))
    assert "unique key `u`" in stopped(_Keyed(feed, fresh_mysql).once(20))
    assert rows(fresh_mysql) == []


@pytest.mark.parametrize("body", [f"`id` INT PRIMARY KEY, `e` VARCHAR(20) {CI}, UNIQUE KEY `u` (`e`(3))"])
def test_twins_in_a_prefix_key_that_upstream_has_too(body: str, feed: Feed, server: SqlServer) -> None:
    told(feed, body)
    put(feed, 10, (1, "ABCx"), (2, "abcy"))
    assert "unique key `u`" in stopped(_Keyed(feed, server).once(20))
    assert rows(server) == []


@pytest.mark.parametrize("buckets", [0, 4])
@pytest.mark.parametrize("seed", range(3))
def test_values_that_move_between_rows_of_a_restored_table(
    seed: int, buckets: int, feed: Feed, server: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By parts of the load the rows meet, and by all of it they do not."""
    monkeypatch.setattr("consumer.pipeline.version_consumer.AT_ONCE_BYTES", 0)
    rnd = random.Random(seed)
    state = {number: f"v{number}" for number in range(20)}
    restored(feed, server, "id INT PRIMARY KEY, e VARCHAR(20), UNIQUE KEY u (e)", *state.items())
    replica = _Keyed(feed, server, buckets)
    for ts in range(10, 60, 10):
        names, gone = list(state.values()), rnd.sample(sorted(state), 3)
        rnd.shuffle(names)
        new = dict(zip(state, names, strict=True))
        changed = {number: text for number, text in new.items() if number not in gone and text != state[number]}
        kept = {number: text for number, text in new.items() if number not in gone}
        feed.file(
            "d.t", 2,
            b"".join(line("DELETE", ts, (number, state[number])) for number in gone)
            + b"".join(line("INSERT", ts, row) for row in changed.items()),
        )  # fmt: skip
        state = kept
        assert replica.once(ts + 5).exit_code == 0
        assert rows(server) == sorted(state.items())


@pytest.mark.parametrize("buckets", [0, 5])
@pytest.mark.parametrize("key", ["secondary", "primary"])
@pytest.mark.parametrize("order", [("a ", "a"), ("a", "a ")])
@pytest.mark.parametrize("together", [True, False])
def test_texts_that_differ_in_blanks_only(
    together: bool, order: tuple[str, str], key: str, buckets: int, feed: Feed, server: SqlServer
) -> None:
    """A TiDB without its new collations tells them apart in every key."""
    if key == "secondary":
        told(feed, "`id` INT PRIMARY KEY,`e` VARCHAR(20),UNIQUE KEY `u` (`e`)")
    else:
        feed.database("d", 1)
        columns = (Column("id", "INT"), Column("e", "VARCHAR", length=20, nullable=False, is_pk=True))
        create = f"CREATE TABLE `t` (`id` INT,`e` VARCHAR(20) PRIMARY KEY) CHARSET utf8mb4 {BIN}"
        feed.statement("d.t", 2, Action.CREATE_TABLE, create, columns)
    replica = _Keyed(feed, server, buckets)
    first, second = ((number, text) for number, text in enumerate(order, 1))
    others = [(number, f"o{number}") for number in range(10, 30)]
    put(feed, 10, first, *others, *([second] if together else []))
    result = replica.once(20)
    if not together:
        assert result.exit_code == 0
        put(feed, 30, second, (31, "more"))
        result = replica.once(40)
    error = stopped(result)
    assert "unique key" in error
    assert "coarsely" in error
    if not together:  # of the second load another bucket can have been written
        assert [row for row in rows(server) if row != (31, "more")] == sorted([first, *others])


def test_a_text_that_ends_in_a_blank_and_has_no_twin(feed: Feed, server: SqlServer) -> None:
    """It may move to another row, and may lose its blanks; the table goes with it when it is renamed."""
    told(feed, "`id` INT PRIMARY KEY,`e` VARCHAR(20),UNIQUE KEY `u` (`e`)")
    replica = _Keyed(feed, server, 3)
    put(feed, 10, (1, "a "), (2, "b"))
    assert replica.once(20).exit_code == 0
    feed.file("d.t", 2, line("DELETE", 30, (1, "a ")) + line("INSERT", 31, (3, "a ")) + line("INSERT", 31, (2, "b ")))
    assert replica.once(40).exit_code == 0
    put(feed, 50, (2, "b"))
    assert replica.once(60).exit_code == 0
    assert rows(server) == [(2, "b"), (3, "a ")]
    feed.statement("d.n", 70, Action.RENAME_TABLE, "RENAME TABLE `d`.`t` TO `d`.`n`", (ID, E))
    feed.file("d.n", 70, line("INSERT", 80, (4, "a")).replace(b'"t"', b'"n"'))
    assert "unique key `u`" in stopped(replica.once(90))
    assert sorted(server.execute("SELECT id, e FROM d.n")) == [(2, "b"), (3, "a ")]


DROP, ADD = "ALTER TABLE `d`.`t` DROP INDEX `u`", "ALTER TABLE `d`.`t` ADD UNIQUE KEY `u`(`e`)"


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_blank_that_came_while_its_column_was_no_key(by_hand: bool, feed: Feed, server: SqlServer) -> None:
    told(feed, "`id` INT PRIMARY KEY,`e` VARCHAR(20),UNIQUE KEY `u` (`e`)")
    replica = _Keyed(feed, server)
    put(feed, 10, (1, "x"), (5, "y"))
    assert replica.once(20).exit_code == 0
    for ts, action, text, row in ((30, Action.DROP_INDEX, DROP, (1, "a ")), (50, Action.ADD_INDEX, ADD, (2, "a"))):
        if by_hand:
            server.execute(text)
        else:
            feed.statement("d.t", ts, action, text, (ID, E))
        feed.file("d.t", 2 if by_hand else ts, line("INSERT", ts + 5, row))
        result = replica.once(ts + 10)
        assert result.exit_code == (0 if action is Action.DROP_INDEX else 3)
    assert "unique key `u`" in stopped(result)
    assert rows(server) == [(1, "a "), (5, "y")]


def test_a_blank_in_a_column_that_takes_the_name_of_a_key_s(feed: Feed, server: SqlServer) -> None:
    feed.database("d", 1)
    e, f = E, replace(E, name="f")
    body = "`id` INT PRIMARY KEY,`f` VARCHAR(20),`e` VARCHAR(20),UNIQUE KEY `u` (`e`)"
    feed.statement("d.t", 2, Action.CREATE_TABLE, f"CREATE TABLE `t` ({body}) CHARSET utf8mb4 {BIN}", (ID, f, e))
    feed.file("d.t", 2, row_line("INSERT", {"id": "1", "f": "a ", "e": "x"}, commit_ts=10) + b"\r\n")
    replica = _Keyed(feed, server)
    assert replica.once(20).exit_code == 0
    feed.statement("d.t", 30, Action.DROP_INDEX, DROP, (ID, f, e))
    feed.statement("d.t", 31, Action.DROP_COLUMN, "ALTER TABLE `d`.`t` DROP COLUMN `e`", (ID, f))
    change = "ALTER TABLE `d`.`t` CHANGE COLUMN `f` `e` VARCHAR(20)"
    feed.statement("d.t", 32, Action.MODIFY_COLUMN, change, (ID, e))
    feed.statement("d.t", 33, Action.ADD_INDEX, ADD, (ID, e))
    feed.file("d.t", 33, line("INSERT", 35, (2, "a")))
    assert "unique key `u`" in stopped(replica.once(40))
    assert rows(server) == [(1, "a ")]


def test_a_blank_that_was_in_the_table_before(feed: Feed, server: SqlServer) -> None:
    feed.describe("d.t", 2, (Column("id", "INT"), Column("e", "VARCHAR", length=20, nullable=False, is_pk=True)))
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT, e VARCHAR(20) PRIMARY KEY) CHARSET utf8mb4 {BIN}")
    server.execute("INSERT INTO d.t VALUES (1, 'a ')")
    put(feed, 10, (2, "a"))
    assert "unique key `PRIMARY`" in stopped(_Keyed(feed, server).once(20))
    assert rows(server) == [(1, "a ")]


PROVEN = [
    "`id` INT PRIMARY KEY,`e` VARCHAR(20)",
    "`id` INT PRIMARY KEY,`e` VARCHAR(20),UNIQUE KEY `u` (`e`)",
    f"`id` INT PRIMARY KEY,`e` VARCHAR(20) {CI},UNIQUE KEY `u` (`e`,`id`)",
]


@pytest.mark.parametrize("buckets", [0, 3])
@pytest.mark.parametrize("body", PROVEN)
def test_proven_keys_pay_nothing(
    body: str, buckets: int, feed: Feed, server: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("rows of a proven table are not staged")

    monkeypatch.setattr(write, "make_stage", refuse)
    told(feed, body)
    replica = _Keyed(feed, server, buckets)
    put(feed, 10, *((number, f"v{number}") for number in range(20)))
    assert replica.once(20).exit_code == 0
    put(feed, 30, *((number, f"v{(number + 1) % 20}") for number in range(20)))
    assert replica.once(40).exit_code == 0
    assert rows(server) == sorted((number, f"v{(number + 1) % 20}") for number in range(20))
