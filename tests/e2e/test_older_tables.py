"""A table that is older than the changefeed, or that somebody dropped in the target, is never made from new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import InspectSettings
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "t")
DROPPED = "the target has no table d.t: it was dropped there, not upstream"
MISSING = "the target has no table d.t: it is older than the changefeed, or it was dropped there"
Run = Callable[[str], object]
"""Execute a statement in the target."""


@pytest.fixture(params=["memory", "duckdb", "mariadb"])
def target(request: pytest.FixtureRequest, feed: Feed, tmp_path: Path) -> Iterator[Replica]:
    match request.param:
        case "memory":
            yield MemoryReplica(feed)
        case "duckdb":
            yield Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb")
        case _:
            server: MariaDb = request.getfixturevalue("fresh_mariadb")
            yield Replica(feed, server.url())


def foretold(target: Replica) -> dict[TableName, str]:
    """The tables that `plan` says will stop, and why."""
    return {table.table: table.error for table in app.plan(target.settings(), Recorder()).stopped}


def test_rows_of_an_older_table_stop_it(feed: Feed, target: Replica) -> None:
    feed.describe("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.create("d.u", 12)
    feed.puts("d.u", 12, {13: (1, "1")})
    feed.checkpoint(20)
    assert foretold(target) == {T: MISSING}
    for checkpoint in (20, 30):
        result = target.once(checkpoint)
        assert result.exit_code == 3
        assert states(result) == {"d.t": "stopped", "d.u": "ok"}
        assert result.tables[T].error == MISSING
        assert "CREATE TABLE" in result.tables[T].hint


@pytest.mark.parametrize("statement", ["ALTER TABLE `t` ADD COLUMN `w` INT", "TRUNCATE TABLE `t`"])
def test_a_statement_about_an_older_table_stops_it(statement: str, feed: Feed, target: Replica) -> None:
    action = Action.TRUNCATE_TABLE if statement.startswith("TRUNCATE") else Action.ADD_COLUMN
    feed.statement("d.t", 10, action, statement)
    feed.checkpoint(20)
    steps = app.plan(target.settings(), Recorder()).steps
    assert any(step.target is not None and "the target has no" in step.target.error for step in steps)
    assert target.once(20).tables[T].state == "stopped"


def test_a_table_that_was_dropped_by_hand_is_not_made_of_later_rows(feed: Feed, tmp_path: Path) -> None:
    target = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb")
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    assert target.once(20).exit_code == 0
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as connection:
        connection.execute("DROP TABLE d.t")
    feed.puts("d.t", 10, {21: (2, "2")})
    feed.checkpoint(30)
    assert foretold(target) == {T: DROPPED}
    result = target.once(30)
    assert (result.exit_code, result.tables[T].error) == (3, DROPPED)
    again = app.resync(target.settings(), Recorder(), T, InlineLoader())
    assert again.exit_code == 0
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as connection:
        assert connection.execute("SELECT * FROM d.t ORDER BY id").fetchall() == [(1, 1), (2, 2)]


def test_a_table_that_a_view_took_the_place_of_in_the_same_round_was_not_dropped_by_hand(
    feed: Feed, target: Replica
) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    assert target.once(20).exit_code == 0
    feed.create("d.u", 21)
    feed.drop("d.t", 22)
    feed.statement("d.t", 23, Action.CREATE_VIEW, "CREATE VIEW `t` AS SELECT `id` FROM `u`")
    assert states(target.once(30)) == {"d.t": "ok", "d.u": "ok"}


def test_a_checkpoint_from_before_a_table_went_does_not_make_it_a_dropped_one(feed: Feed, target: Replica) -> None:
    for table in ("d.t", "d.u", "d.w"):
        feed.create(table, 10)
        feed.puts(table, 10, {11: (1, "1")})
    assert target.once(20).exit_code == 0
    feed.drop("d.t", 22)
    feed.rename("d.w", "d.x", 23)
    assert target.once(24).exit_code == 0
    feed.statement("d.t", 25, Action.CREATE_VIEW, "CREATE VIEW `t` AS SELECT `id` FROM `u`")
    assert target.once(30).exit_code == 0
    for checkpoint in (21, 30):
        assert target.once(checkpoint).exit_code == 0


def test_inspect_names_the_tables_that_no_statement_makes(feed: Feed) -> None:
    feed.describe("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.rename("d.old", "d.new", 12)
    feed.create("d.u", 13)
    feed.describe("d.gone", 14)
    feed.drop("d.gone", 15)
    feed.checkpoint(20)
    settings = load({"upstream_uri": f"file://{feed.folder}"}, {}, kind=InspectSettings).settings
    found = [text for text in app.inspect(settings, Recorder()).findings if "older than the changefeed" in text]
    assert len(found) == 1
    assert "(2): d.new, d.t;" in found[0]
    assert "d.new, d.t;" in found[0]


@pytest.mark.parametrize("columns", [(ID, VALUE), (ID, Column("w", "INT"))])
@pytest.mark.parametrize(
    ("name", "action", "query"),
    [
        ("e.n", Action.RENAME_TABLE, "RENAME TABLE `t` TO `e`.`n`"),
        ("e.n", Action.CREATE_TABLE, "CREATE TABLE `e`.`n` LIKE `t`"),
    ],
)
def test_an_idle_older_table_can_be_what_a_name_without_a_database_means(
    columns: tuple[Column, ...], name: str, action: Action, query: str, feed: Feed, tmp_path: Path
) -> None:
    """The storage tells of d.t alone; i.t of the target is another one that can be meant if it has such columns."""
    target = MemoryReplica(feed)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    target.holds("i.t", columns=columns)
    feed.statement(name, 20, action, query)
    feed.checkpoint(30)
    meant = "it names `t` without a database, and does not tell which one is meant, d.t or i.t: " + query
    stops = columns == (ID, VALUE)
    assert any(meant in error for error in foretold(target).values()) is stops
    result = target.once()
    assert (result.exit_code == 0) is not stops
    assert ("e.n" in target.tables) is not stops
    assert result.tables[TableName("e", "n")].error.endswith(meant if stops else "")


@pytest.mark.parametrize(
    ("there", "columns", "flags", "other"),
    [
        ("r.i_t", (ID, VALUE), {"routes": ("i.* -> r.i_*",)}, "i.t"),
        ("i.u", (ID, VALUE), {"routes": ("i.t -> i.u",)}, "i.t"),
        ("i.t", (ID, Column("w", "INT")), {"columns": [{"tables": ["i.*"], "rename": {"v": "w"}}]}, "i.t"),
        (None, (), {"tables": ("*.*", "!i.*")}, "one that the table rules leave out"),
    ],
)
def test_it_can_be_so_under_the_name_and_with_the_columns_that_rules_give_it(
    there: str | None, columns: tuple[Column, ...], flags: dict[str, object], other: str, feed: Feed
) -> None:
    target = MemoryReplica(feed)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    if there is not None:
        target.holds(there, columns=columns)
    feed.statement("e.n", 20, Action.RENAME_TABLE, "RENAME TABLE `t` TO `e`.`n`")
    result = target.once(30, **flags)
    assert result.exit_code != 0
    assert f"which one is meant, d.t or {other}: " in result.tables[TableName("e", "n")].error
    assert target.tables["d.t"] == {1: "1"}


@pytest.mark.parametrize("query", ["ALTER TABLE `t` RENAME AS `e`.`n`", "CREATE TABLE `e`.`n` LIKE `t`"])
def test_a_table_of_the_target_that_a_route_fills_is_no_other_table_of_the_name_that_it_has_there(
    query: str, feed: Feed
) -> None:
    target = MemoryReplica(feed)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    assert target.once(15, routes=("d.* -> r.*",)).exit_code == 0
    copied = "LIKE" in query
    feed.statement("e.n", 20, Action.CREATE_TABLE if copied else Action.RENAME_TABLE, query)
    assert target.once(30, routes=("d.* -> r.*",)).exit_code == 0
    assert target.tables == ({"e.n": {}, "r.t": {1: "1"}} if copied else {"e.n": {1: "1"}})


def test_a_server_tells_what_the_column_of_a_first_statement_was(feed: Feed, fresh_mariadb: MariaDb) -> None:
    _first_statement(feed)
    made = "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9))"
    fresh_mariadb.execute("CREATE DATABASE d", made, "INSERT INTO d.t VALUES (1, '2.5')")
    target = Replica(feed, fresh_mariadb.url())
    assert app.once(target.settings(start_ts="5"), Recorder(), InlineLoader()).exit_code == 0
    assert fresh_mariadb.execute("SELECT v FROM d.t") == [(3,)]


def test_nothing_tells_what_the_column_of_a_first_statement_was(feed: Feed, tmp_path: Path) -> None:
    _first_statement(feed)
    made = "CREATE SCHEMA d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR); INSERT INTO d.t VALUES (1, '2.5')"
    with duckdb.connect(tmp_path / "r.duckdb") as connection:
        connection.execute(made)
    target = Replica(feed, f"duckdb:///{tmp_path}/r.duckdb")
    result = app.once(target.settings(start_ts="5"), Recorder(), InlineLoader())
    assert result.exit_code == 5
    assert "no file shows what column v was before" in str(result.tables[T].error)
    with duckdb.connect(tmp_path / "r.duckdb") as connection:
        assert connection.execute("SELECT v FROM d.t").fetchall() == [("2.5",)]


def _first_statement(feed: Feed) -> None:
    query = "ALTER TABLE `t` MODIFY COLUMN `v` INT"
    feed.statement("d.t", 1000, Action.MODIFY_COLUMN, query, (ID, Column("v", "INT")))
    feed.checkpoint(5000)
