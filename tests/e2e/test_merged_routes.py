"""Tables that a route merges: whose rows are whose, what each statement does, and what is refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.app import parts
from consumer.errors import BadConfig, CannotBeExact
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.sink import sink_for
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.canal_json import row_line
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.every_target import Duck
from tests.support.feed import CREATE, Feed, MemoryReplica, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

MS = 1 << 18
ROUTE = "s*.t -> shop.t merge _source"
NOTE = Column("note", "VARCHAR", length=20, default="n")
NOTED = (ID, VALUE, NOTE)
S1, S2 = TableName("s1", "t"), TableName("s2", "t")


def line(table: str, ts: int, kind: str, key: int, value: str | None, **more: str | None) -> bytes:
    """A change at `ts` milliseconds."""
    database, _, name = table.partition(".")
    data = {"id": str(key), "v": value, **more}
    old = [{**data, "v": "0"}] if kind == "UPDATE" else None
    text = row_line(kind, data, commit_ts=ts * MS, old=old)
    return text.replace(b'"database":"d","table":"t"', f'"database":"{database}","table":"{name}"'.encode()) + b"\r\n"


class Merged(Replica):
    routes = (ROUTE,)

    def __init__(self, feed: Feed, url: str, query: Callable[[str], list[tuple[Any, ...]]]) -> None:
        super().__init__(feed, url)
        self.query = query

    def rows(self, columns: str = "_source, id, v", table: str = "shop.t") -> list[tuple[str, ...]]:
        return sorted(tuple(map(str, row)) for row in self.query(f"SELECT {columns} FROM {table}"))

    def alter(self, table: str, ts: int, clause: str, columns: tuple[Column, ...], action: Action) -> None:
        self.feed.statement(table, ts * MS, action, f"ALTER TABLE `t` {clause}", columns)

    def noted(self, table: str, ts: int) -> None:
        self.alter(table, ts, "ADD COLUMN `note` VARCHAR(20) DEFAULT 'n'", NOTED, Action.ADD_COLUMN)


Make = Callable[[], Merged]


@pytest.fixture(params=["duckdb", "mariadb", "mysql", "tidb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A replica of a feed with s1.t, which has the rows 1 and 2, and s2.t, which has 1 and 3, made again each time."""
    numbers = itertools.count()

    def made() -> Merged:
        folder = tmp_path / str(next(numbers))
        feed = Feed(folder / "cdc")
        for number, (table, keys) in enumerate((("s1.t", (1, 2)), ("s2.t", (1, 3))), 1):
            feed.database(table[:2], number * MS)
            feed.create(table, (2 + number) * MS)
            feed.file(table, (2 + number) * MS, b"".join(line(table, 10, "INSERT", key, str(key)) for key in keys))
        if request.param == "duckdb":
            return Merged(feed, f"duckdb:///{folder}/r.duckdb", Duck(folder / "r.duckdb"))
        server: MariaDb = request.getfixturevalue(f"fresh_{request.param}")
        server.drop_all()
        return Merged(feed, server.url(), server.execute)

    return made


FIRST = [("s1.t", "1", "1"), ("s1.t", "2", "2"), ("s2.t", "1", "1"), ("s2.t", "3", "3")]


def test_rows_of_one_key_are_one_for_each_table(make: Make) -> None:
    replica = make()
    result = replica.once(20 * MS)
    assert (result.exit_code, replica.rows()) == (0, FIRST)
    assert result.tables[S1].target_table == result.tables[S2].target_table == "shop.t"
    replica.feed.file("s2.t", 4 * MS, line("s2.t", 21, "UPDATE", 1, "9") + line("s2.t", 22, "DELETE", 3, "3"))
    assert replica.once(30 * MS).exit_code == 0
    assert replica.rows() == [*FIRST[:2], ("s2.t", "1", "9")]


def test_a_truncate_and_a_drop_are_about_the_rows_of_one_table(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    replica.feed.truncate("s1.t", 21 * MS)
    replica.feed.file("s1.t", 21 * MS, line("s1.t", 22, "INSERT", 7, "7"))
    replica.feed.drop("s2.t", 23 * MS)
    assert replica.once(30 * MS).exit_code == 0
    assert replica.rows() == [("s1.t", "7", "7")]
    replica.feed.create("s2.t", 31 * MS)
    replica.feed.file("s2.t", 31 * MS, line("s2.t", 32, "INSERT", 7, "8"))
    replica.feed.drop("s1.t", 33 * MS)
    assert replica.once(40 * MS).exit_code == 0
    assert replica.rows() == [("s2.t", "7", "8")]


def test_columns_come_and_go_for_each_table_at_its_time(make: Make) -> None:
    replica = make()
    replica.noted("s1.t", 11)
    replica.feed.file("s1.t", 11 * MS, line("s1.t", 12, "INSERT", 5, "5", note="x"))
    replica.feed.file("s2.t", 4 * MS, line("s2.t", 13, "UPDATE", 3, "4"))
    assert replica.once(20 * MS).exit_code == 0
    columns = "_source, id, v, note"
    first = [("s1.t", "1", "1", "n"), ("s1.t", "2", "2", "n"), ("s1.t", "5", "5", "x")]
    assert replica.rows(columns) == [*first, ("s2.t", "1", "1", "None"), ("s2.t", "3", "4", "None")]
    replica.noted("s2.t", 21)
    replica.feed.file("s2.t", 21 * MS, line("s2.t", 22, "INSERT", 8, "8", note=None))
    assert replica.once(30 * MS).exit_code == 0
    second = [("s2.t", "1", "1", "n"), ("s2.t", "3", "4", "n"), ("s2.t", "8", "8", "None")]
    assert replica.rows(columns) == [*first, *second]
    replica.alter("s1.t", 31, "DROP COLUMN `note`", (ID, VALUE), Action.DROP_COLUMN)
    replica.feed.file("s1.t", 31 * MS, line("s1.t", 32, "UPDATE", 1, "6"))
    assert replica.once(40 * MS).exit_code == 0
    gone = [("s1.t", "1", "6", "None"), ("s1.t", "2", "2", "None"), ("s1.t", "5", "5", "None")]
    assert replica.rows(columns) == [*gone, *second]
    number = Column("note", "BIGINT")
    replica.alter("s1.t", 41, "ADD COLUMN `note` BIGINT", (ID, VALUE, number), Action.ADD_COLUMN)
    replica.noted("s2.t", 42)
    result = replica.once(50 * MS)
    assert (result.exit_code, states(result)["s1.t"], states(result)["s2.t"]) == (5, "stopped", "ok")
    assert "s1.t cannot be merged into shop.t: its column note would be" in result.tables[S1].error


def test_a_column_that_is_added_where_it_was_there_keeps_its_values(make: Make) -> None:
    replica = make()
    clause = "ADD COLUMN IF NOT EXISTS `v` INT DEFAULT 9, ADD COLUMN `note` VARCHAR(20) DEFAULT 'n'"
    replica.alter("s1.t", 11, clause, NOTED, Action.MULTI_SCHEMA_CHANGE)
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows() == FIRST


def test_a_table_of_another_definition_stops_alone(make: Make) -> None:
    replica = make()
    feed = replica.feed
    wide = Column("v", "BIGINT")
    feed.statement(
        "s3.t", 5 * MS, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` BIGINT)", (ID, wide)
    )
    both = Column("v", "INT", nullable=False, is_pk=True)
    feed.statement(
        "s4.t", 6 * MS, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT,`v` INT,PRIMARY KEY(id,v))", (ID, both)
    )
    plain = Column("id", "INT")
    feed.statement("s5.t", 7 * MS, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT,`v` INT)", (plain, VALUE))
    result = replica.once(20 * MS)
    assert (result.exit_code, replica.rows()) == (5, FIRST)
    assert states(result) | {"s1": "", "s2": ""} == {
        "s1": "", "s2": "", "s1.t": "ok", "s2.t": "ok", "s3.t": "stopped", "s4.t": "stopped", "s5.t": "stopped",
    }  # fmt: skip
    errors = {str(name): table.error for name, table in result.tables.items()}
    assert "s3.t cannot be merged into shop.t: its column v would be" in errors["s3.t"]
    assert "s4.t cannot be merged into shop.t: its key would be _source, id, v" in errors["s4.t"]
    assert "it has no key" in errors["s5.t"]
    assert "leave s3.t out of the route" in result.tables[TableName("s3", "t")].hint


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("rename", "it moves s1.t, of which the rows are in shop.t of the target with those of others"),
        ("modify", "it changes the type of column v"),
        ("change", "it renames column v"),
        ("partition", "which rows are in a partition is not known of a table with the mode merge"),
    ],
)
def test_statements_that_are_about_more_than_own_rows_are_refused(make: Make, statement: str, why: str) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    wide, other = Column("v", "BIGINT"), Column("w", "INT")
    match statement:
        case "rename":
            replica.feed.rename("s1.t", "s1.u", 21 * MS)
        case "modify":
            replica.alter("s1.t", 21, "MODIFY COLUMN `v` BIGINT", (ID, wide), Action.MODIFY_COLUMN)
        case "change":
            replica.alter("s1.t", 21, "CHANGE COLUMN `v` `w` INT", (ID, other), Action.MODIFY_COLUMN)
        case "partition":
            replica.alter("s1.t", 21, "TRUNCATE PARTITION `p`", (ID, VALUE), Action.TRUNCATE_PARTITION)
    replica.feed.file("s2.t", 4 * MS, line("s2.t", 22, "DELETE", 3, "3"))
    result = replica.once(30 * MS)
    assert (result.exit_code, states(result)["s2.t"]) == (5, "ok")
    assert replica.rows() == FIRST[:3]
    assert why in " ".join(table.error for table in result.tables.values())
    if statement == "rename":  # the table that was s1.t is gone: nothing of the merged one is
        replica.feed.drop("s1.u", 31 * MS)
        replica.once(40 * MS)
        assert replica.rows() == FIRST[:3]


def test_a_policy_that_keeps_dropped_tables_is_refused(make: Make) -> None:
    replica = make()
    rename = {"rules": [{"kinds": ["drop-table", "truncate-table"], "action": "rename"}]}
    replica.feed.drop("s1.t", 12 * MS)
    replica.feed.truncate("s2.t", 12 * MS)
    result = replica.once(20 * MS, ddl=rename)
    assert (result.exit_code, replica.rows()) == (5, FIRST)
    assert "s1.t is a part of shop.t in the target" in result.tables[S1].error
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows() == []


def test_other_tables_do_not_show_or_copy_a_merged_one(make: Make) -> None:
    replica = make()
    feed = replica.feed
    feed.statement("s1.copy", 11 * MS, Action.CREATE_TABLE, "CREATE TABLE `copy` LIKE `t`")
    feed.statement("s1.seen", 12 * MS, Action.CREATE_VIEW, "CREATE VIEW `seen` AS SELECT * FROM `t`", ())
    result = replica.once(20 * MS)
    assert result.exit_code == 5
    assert "it names s1.t" in result.tables[TableName("s1", "copy")].error
    assert replica.rows() == FIRST


def test_a_database_is_not_dropped_while_its_tables_are_elsewhere(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    replica.feed.database("s1", 21 * MS, "DROP DATABASE `s1`", Action.DROP_SCHEMA)
    result = replica.once(30 * MS)
    assert (result.exit_code, replica.rows()) == (5, FIRST)
    assert "but in shop too" in " ".join(table.error for table in result.tables.values())


def test_a_run_that_dies_at_any_moment_loses_and_doubles_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    real = sink_for
    # The servers have one sink, so two of them have every second moment each, and a TiDB, which is slow, some.
    steps = {"duckdb": (0, 1), "mariadb": (0, 2), "mysql": (1, 2), "tidb": (0, 12)}
    first, step = steps[request.node.callspec.params["make"]]
    for moment in itertools.count(first, step):
        replica, fuse = make(), Fuse(moment)
        feed = replica.feed
        replica.noted("s1.t", 11)
        feed.file("s1.t", 11 * MS, line("s1.t", 12, "INSERT", 5, "5", note="x") + line("s1.t", 13, "DELETE", 2, "2"))
        feed.truncate("s2.t", 14 * MS)
        feed.file("s2.t", 14 * MS, line("s2.t", 15, "INSERT", 5, "6"))
        replica.noted("s2.t", 16)
        feed.file("s2.t", 16 * MS, line("s2.t", 17, "INSERT", 6, "6", note="y"))
        feed.database("s3", 5 * MS)
        feed.create("s3.t", 6 * MS)
        feed.file("s3.t", 6 * MS, line("s3.t", 7, "INSERT", 1, "1"))
        feed.drop("s3.t", 18 * MS)
        feed.checkpoint(20 * MS)
        with monkeypatch.context() as patch:
            patch.setattr(
                parts, "sink_for", lambda *given, fuse=fuse, **named: CrashingSink(real(*given, **named), fuse)
            )
            try:
                app.once(replica.settings(), Recorder(), CrashingLoader(fuse))
                died = False
            except Crash:
                died = True
        again = replica.once(30 * MS)
        assert again.exit_code == 0, (moment, [table.error for table in again.tables.values()])
        own = [("s1.t", "1", "1", "n"), ("s1.t", "5", "5", "x")]
        assert replica.rows("_source, id, v, note") == [*own, ("s2.t", "5", "6", "n"), ("s2.t", "6", "6", "y")], moment
        if not died:
            break
    assert moment > 12


def test_a_route_that_merged_tables_stays(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    for route in ("s*.t -> shop.t_of_*", "s*.t -> shop.t merge origin", "s*.t -> other.t merge _source"):
        replica.routes = (route,)
        with pytest.raises(BadConfig, match=r"the target"):
            replica.once(30 * MS)
    replica.routes = (ROUTE, "s*.u -> shop.u merge _source")
    assert replica.once(30 * MS).exit_code == 0
    assert replica.rows() == FIRST


def test_a_mirror_does_not_become_a_merged_table(make: Make) -> None:
    replica = make()
    replica.routes = ("s1.t -> shop.t",)
    assert replica.once(20 * MS, tables=("s1.*",)).exit_code == 0
    replica.routes = (ROUTE,)
    with pytest.raises(
        BadConfig, match=r"s1.t is a mirror in the target, and the settings say of the table mode merge"
    ):
        replica.once(30 * MS)


def test_resync_says_what_it_does_not_do(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    with pytest.raises(CannotBeExact, match="which would be emptied"):
        app.resync(replica.settings(), Recorder(), S1, InlineLoader())
    assert replica.rows() == FIRST


def test_a_table_of_which_the_create_is_not_there_is_not_merged(make: Make) -> None:
    replica = make()
    replica.feed.describe("s3.t", 5 * MS)
    replica.feed.file("s3.t", 5 * MS, line("s3.t", 9, "INSERT", 1, "1"))
    result = replica.once(20 * MS)
    assert (states(result)["s3.t"], replica.rows()) == ("stopped", FIRST)
    assert "its CREATE TABLE is not in the storage" in result.tables[TableName("s3", "t")].error
    with pytest.raises(BadConfig, match="a route merges it with others, and which rows of it the target has"):
        replica.settings(start_ts="5")


def test_a_table_that_comes_later_is_merged_from_its_beginning(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS, tables=("s1.*",)).exit_code == 0
    assert replica.rows() == FIRST[:2]
    assert replica.once(30 * MS).exit_code == 0
    assert replica.rows() == FIRST


def test_rows_of_a_table_that_ended_while_it_was_left_out_are_not_taken_for_others(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    replica.feed.drop("s2.t", 21 * MS)
    replica.feed.create("s2.t", 22 * MS)
    assert replica.once(30 * MS, tables=("s1.*",)).exit_code == 0
    assert replica.rows() == FIRST
    replica.feed.drop("s2.t", 31 * MS)
    replica.feed.create("s2.t", 32 * MS)
    replica.feed.file("s2.t", 32 * MS, line("s2.t", 33, "INSERT", 9, "9"))
    assert replica.once(40 * MS).exit_code == 0
    assert replica.rows() == [*FIRST[:2], ("s2.t", "9", "9")]


def test_a_plain_table_of_that_name_and_merged_ones_both_stop(make: Make) -> None:
    replica = make()
    replica.routes = ("s1.t -> shop.t merge _source", "s2.t -> shop.t merge _source")
    replica.feed.database("shop", 2 * MS)
    replica.feed.statement("shop.t", 5 * MS, Action.CREATE_TABLE, CREATE.format("t"))
    result = replica.once(20 * MS)
    assert (result.exit_code, states(result)["shop.t"], states(result)["s1.t"]) == (5, "stopped", "stopped")
    assert "the routes call it shop.t in the target, and s1.t too" in result.tables[TableName("shop", "t")].error


def test_rows_of_a_table_that_went_under_a_name_that_is_left_out_are_not_emptied_with_those_of_others(
    make: Make,
) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    replica.feed.rename("s2.t", "s2.u", 21 * MS)
    replica.feed.drop("s2.u", 22 * MS)
    replica.feed.create("s2.t", 23 * MS)
    assert replica.once(30 * MS, tables=("s1.*",)).exit_code == 0
    with pytest.raises(BadConfig, match=r"s2\.t was left out when upstream took it away"):
        replica.once(40 * MS, tables=("s1.*", "s2.t"))
    assert replica.rows() == FIRST
    assert replica.once(50 * MS, tables=("s1.*",)).exit_code == 0


def test_rows_that_an_ignored_drop_left_are_not_taken_for_those_of_a_new_table(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    ignore = {"rules": [{"kinds": ["drop-table"], "action": "ignore"}]}
    replica.feed.drop("s1.t", 21 * MS)
    assert replica.once(22 * MS, ddl=ignore).exit_code == 0
    replica.feed.create("s1.t", 23 * MS)
    replica.feed.file("s1.t", 23 * MS, line("s1.t", 24, "INSERT", 8, "8"))
    result = replica.once(30 * MS)
    assert (result.exit_code, states(result)["s2.t"], replica.rows()) == (5, "ok", FIRST)
    hint = result.tables[S1].hint
    assert "delete them by hand and run again: " in hint
    replica.query(hint.partition("run again: ")[2])
    assert replica.once(30 * MS).exit_code == 0
    assert replica.rows() == [("s1.t", "8", "8"), *FIRST[2:]]


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("how", ["drop", "drop database"])
def test_rows_that_an_ignored_drop_left_stay_where_a_new_table_stops(how: str, told: bool, make: Make) -> None:
    """`told`: its CREATE TABLE is in the storage; else an event filter of the changefeed left it out."""
    replica = make()
    replica.feed.end("s1.t", 21 * MS, how)
    replica.feed.database("s1", 22 * MS)
    ignore = {"rules": [{"kinds": ["drop-table", "drop-database"], "action": "ignore"}]}
    assert replica.once(25 * MS, ddl=ignore).exit_code == 0
    (replica.feed.create if told else replica.feed.describe)("s1.t", 33 * MS)
    replica.feed.file("s1.t", 33 * MS, line("s1.t", 34, "INSERT", 1, "8"))
    for _ in range(2):
        result = replica.once(40 * MS, ddl=ignore)
        assert (states(result)["s1.t"], replica.rows()) == ("stopped", FIRST)
    settings = replica.settings(ddl=ignore)
    app.verify(settings, Recorder(), loader=InlineLoader(), repairing=Repairing(write=True))
    assert replica.rows() == FIRST


def test_a_table_that_does_not_fit_can_be_left_out(make: Make) -> None:
    replica = make()
    number = Column("v", "BIGINT")
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` BIGINT)"
    replica.feed.statement("s3.t", 5 * MS, Action.CREATE_TABLE, query, (ID, number))
    replica.feed.file("s3.t", 5 * MS, line("s3.t", 9, "INSERT", 1, "1"))
    replica.feed.database("s3", 4 * MS)
    assert replica.once(12 * MS).exit_code == 5
    assert replica.once(20 * MS, tables=("s*.*", "!s3.*")).exit_code == 0
    replica.routes = ("s3.t -> shop.wide", ROUTE)
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows() == FIRST
    assert replica.rows("id, v", "shop.wide") == [("1", "1")]


def test_a_column_that_all_have_otherwise_by_now_is_changed_by_hand(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    wide = (ID, Column("v", "BIGINT"))
    for table, ts in (("s1.t", 21), ("s2.t", 22)):
        replica.alter(table, ts, "MODIFY COLUMN `v` BIGINT", wide, Action.MODIFY_COLUMN)
        replica.feed.file(table, ts * MS, line(table, 25, "INSERT", 9, "9000000000"))
    result = replica.once(30 * MS)
    assert result.exit_code == 5
    if "duckdb" in replica._downstream:
        replica.query("ALTER TABLE shop.t ALTER v TYPE BIGINT")
    else:
        replica.query("ALTER TABLE shop.t MODIFY v BIGINT")
    for table, ts in ((S1, 21), (S2, 22)):
        assert f"skip-ddl --table {table} --version {ts * MS}" in result.tables[table].hint
        app.skip_ddl(replica.settings(), Recorder(), table, ts * MS, "by hand")
    again = replica.once(30 * MS)
    assert again.exit_code == 0, [table.error for table in again.tables.values()]
    assert replica.rows() == sorted([*FIRST, ("s1.t", "9", "9000000000"), ("s2.t", "9", "9000000000")])


def test_a_rename_can_be_done_by_hand(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    replica.feed.rename("s1.t", "s3.t", 21 * MS)
    replica.feed.file("s3.t", 21 * MS, line("s3.t", 22, "INSERT", 9, "9"))
    result = replica.once(30 * MS)
    assert result.exit_code == 5
    s3 = TableName("s3", "t")
    assert f"skip-ddl --table s3.t --version {21 * MS}" in result.tables[s3].hint
    replica.query("UPDATE shop.t SET _source = 's3.t' WHERE _source = 's1.t'")
    app.skip_ddl(replica.settings(), Recorder(), s3, 21 * MS, "by hand")
    again = replica.once(30 * MS)
    assert again.exit_code == 0, [table.error for table in again.tables.values()]
    assert replica.rows() == sorted([*FIRST[2:], ("s3.t", "1", "1"), ("s3.t", "2", "2"), ("s3.t", "9", "9")])


def test_what_began_from_a_snapshot_is_not_merged_later(make: Make) -> None:
    replica = make()
    replica.routes = ()
    replica.feed.database("d", 12 * MS)
    replica.feed.create("d.own", 13 * MS)
    assert replica.once(15 * MS, tables=("d.*",), start_ts=str(11 * MS)).exit_code == 0
    replica.routes = (ROUTE,)
    replica.feed.database("s3", 16 * MS)
    replica.feed.create("s3.t", 16 * MS)
    replica.feed.file("s3.t", 16 * MS, line("s3.t", 17, "INSERT", 9, "9"))
    with pytest.raises(BadConfig, match="this consumer began with --start-ts, and a route merges s3") as caught:
        replica.once(20 * MS, tables=("s3.*", "d.*"))
    assert "fill the target from the storage under another --name" in caught.value.hint
    assert replica.once(20 * MS, tables=("s*.*",), name="other").exit_code == 0
    assert replica.rows() == [*FIRST, ("s3.t", "9", "9")]


def test_columns_that_all_bring_at_once_come_once(make: Make) -> None:
    replica = make()
    for number, table in enumerate(("s1.t", "s2.t")):
        replica.noted(table, 11 + number)
        replica.feed.file(table, (11 + number) * MS, line(table, 15, "INSERT", 7, "7", note="x"))
    assert replica.once(20 * MS).exit_code == 0
    wanted = [(*row, "n") for row in FIRST] + [(table, "7", "7", "x") for table in ("s1.t", "s2.t")]
    assert replica.rows("_source, id, v, note") == sorted(wanted)


def test_dates_that_are_no_days_in_one_of_the_tables(make: Make) -> None:
    """DuckDB keeps them as text, in all rows."""
    replica = make()
    day = (ID, VALUE, Column("day", "DATE"), Column("moment", "DATETIME", scale=3))
    clause = "ADD COLUMN `day` DATE, ADD COLUMN `moment` DATETIME(3)"
    for table, ts, value in (("s1.t", 11, "2024-01-02"), ("s2.t", 12, "0000-00-00")):
        replica.alter(table, ts, clause, day, Action.MULTI_SCHEMA_CHANGE)
        changes = line(table, 15, "INSERT", 7, "7", day=value, moment=f"{value} 00:00:00.500")
        replica.feed.file(table, ts * MS, changes)
    assert replica.once(20 * MS).exit_code == 0
    later = line("s1.t", 21, "INSERT", 8, "8", day="2024-01-03", moment="2024-01-03 00:00:00.500")
    replica.feed.file("s1.t", 11 * MS, later)
    assert replica.once(30 * MS).exit_code == 0
    found = [(*row[:3], row[3][:21]) for row in replica.rows("_source, id, day, moment") if row[1] in "78"]
    if "duckdb" in replica._downstream:
        assert {row[3] for row in replica.rows("_source, id, day, moment") if row[1] in "78"} == {
            "2024-01-02 00:00:00.500", "2024-01-03 00:00:00.500", "0000-00-00 00:00:00.500",
        }  # fmt: skip
    assert [row[:3] for row in found] == [
        ("s1.t", "7", "2024-01-02"), ("s1.t", "8", "2024-01-03"), ("s2.t", "7", "0000-00-00"),
    ]  # fmt: skip


def test_an_added_column_is_not_ignored(make: Make) -> None:
    replica = make()
    replica.noted("s1.t", 11)
    replica.noted("s2.t", 12)
    ignore = {"rules": [{"tables": ["s2.*"], "kinds": ["add-column"], "action": "ignore"}]}
    result = replica.once(20 * MS, ddl=ignore)
    assert (result.exit_code, states(result)["s1.t"], states(result)["s2.t"]) == (5, "ok", "stopped")
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows("_source, id, v, note") == [(*row, "n") for row in FIRST]


def test_a_table_that_is_there_by_hand_is_not_touched(make: Make) -> None:
    replica = make()
    replica.query("CREATE SCHEMA shop")
    replica.query("CREATE TABLE shop.t (id INT PRIMARY KEY, w INT)")
    replica.query("INSERT INTO shop.t VALUES (1, 7)")
    result = replica.once(20 * MS)
    assert (result.exit_code, set(states(result).values())) == (5, {"stopped"})
    assert "s1.t cannot be merged into shop.t: " in result.tables[S1].error
    assert replica.rows("*") == [("1", "7")]


def test_values_of_new_columns_of_many_types(make: Make) -> None:
    replica = make()
    columns = (
        ID, VALUE,
        Column("day", "DATE", nullable=False),
        Column("moment", "TIMESTAMP", scale=3, default="2024-01-02 03:04:05.678"),
        Column("text", "TEXT", nullable=False),
        Column("bits", "BIT", length=8, default="A"),
        Column("kind", "ENUM", default="b'", elements=("a", "b'")),
        Column("price", "DECIMAL", length=10, scale=2, nullable=False, default="1.50"),
        Column("year_", "YEAR", nullable=False),
        Column("raw", "VARBINARY", length=4, default="x"),
    )  # fmt: skip
    clause = (
        "ADD COLUMN `day` DATE NOT NULL, ADD COLUMN `moment` TIMESTAMP(3) DEFAULT '2024-01-02 03:04:05.678',"
        " ADD COLUMN `text` TEXT NOT NULL, ADD COLUMN `bits` BIT(8) DEFAULT b'1000001',"
        " ADD COLUMN `kind` ENUM('a','b''') DEFAULT 'b''', ADD COLUMN `price` DECIMAL(10,2) NOT NULL DEFAULT 1.5,"
        " ADD COLUMN `year_` YEAR NOT NULL, ADD COLUMN `raw` VARBINARY(4) DEFAULT 'x'"
    )
    replica.alter("s2.t", 11, clause, columns, Action.MULTI_SCHEMA_CHANGE)
    replica.alter("s1.t", 12, clause, columns, Action.MULTI_SCHEMA_CHANGE)
    result = replica.once(20 * MS, tz="UTC")
    duck = "duckdb" in replica._downstream
    if duck:  # it has no such day
        assert "the rows cannot be converted exactly" in result.tables[S2].error
        return
    assert result.exit_code == 0, [table.error for table in result.tables.values()]
    found = replica.query("SELECT CAST(day AS CHAR), moment, text, bits + 0, kind, price, year_ + 0, raw FROM shop.t")
    assert len(found) == 4
    assert {tuple(map(str, row)) for row in found} == {
        ("0000-00-00", "2024-01-02 03:04:05.678000", "", "65", "b'", "1.50", "0", "b'x'")
    }


def test_odd_names(make: Make) -> None:
    replica = make()
    replica.routes = tuple(f'`{name}`.* -> shop.t merge `from "where"\'`' for name in ("s'", "s\\'"))
    for number, database in enumerate(("s'", "s\\'")):
        replica.feed.database(database, (12 + 3 * number) * MS)
        replica.feed.create(f"{database}.Ä", (13 + 3 * number) * MS)
        data = {"id": "1", "v": str(number)}
        text = row_line("INSERT", data, commit_ts=(14 + 3 * number) * MS, database=database, table="Ä")
        replica.feed.file(f"{database}.Ä", (13 + 3 * number) * MS, text + b"\r\n")
    tables = tuple(f"`{database}`.*" for database in ("s'", "s\\'"))
    result = replica.once(20 * MS, tables=tables)
    assert result.exit_code == 0, [table.error for table in result.tables.values()]
    assert sorted(v for (v,) in replica.query("SELECT v FROM shop.t")) == [0, 1]
    replica.feed.truncate("s\\'.Ä", 21 * MS)
    assert replica.once(30 * MS, tables=tables).exit_code == 0
    assert replica.query("SELECT v FROM shop.t") == [(0,)]


def test_a_statement_that_broke_off_in_between_is_done_whole(
    fresh_mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consumer.sink.mysql.statements import table_modes as merged

    feed = Feed(tmp_path / "cdc")
    replica = Merged(feed, fresh_mariadb.url(), fresh_mariadb.execute)
    for number, table in enumerate(("s1.t", "s2.t"), 1):
        feed.create(table, number * MS)
        feed.file(table, number * MS, line(table, 10, "INSERT", 1, "1"))
    assert replica.once(11 * MS).exit_code == 0
    replica.noted("s1.t", 12)
    feed.file("s1.t", 12 * MS, line("s1.t", 13, "INSERT", 2, "2", note="x"))
    real, calls = merged._check_columns, itertools.count()

    def dies(*given: Any, **named: Any) -> Any:
        if next(calls) == 1:  # the column is there, and no row has its value
            raise Crash
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(merged, "_check_columns", dies)
        with pytest.raises(Crash):
            replica.once(20 * MS)
    assert replica.rows("_source, note") == [("s1.t", "None"), ("s2.t", "None")]
    replica.noted("s2.t", 21)
    assert replica.once(30 * MS).exit_code == 0
    wanted = [("s1.t", "1", "n"), ("s1.t", "2", "x"), ("s2.t", "1", "n")]
    assert replica.rows("_source, id, note") == wanted


def test_a_name_with_a_dot_is_refused(make: Make) -> None:
    replica = make()
    replica.routes = ("s1.* -> shop.t merge _source",)
    replica.feed.create("s1.a.b", 5 * MS)
    result = replica.once(20 * MS, tables=("s1.*",))
    assert (result.exit_code, replica.rows()) == (5, FIRST[:2])
    assert "its name has a dot" in result.tables[TableName("s1", "a.b")].error


def test_a_copied_definition_is_merged_too(make: Make) -> None:
    replica = make()
    replica.feed.database("s3", 5 * MS)
    replica.feed.statement("s3.t", 6 * MS, Action.CREATE_TABLE, "CREATE TABLE `s3`.`t` LIKE `s1`.`t`")
    replica.feed.file("s3.t", 6 * MS, line("s3.t", 9, "INSERT", 1, "1"))
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows() == [*FIRST, ("s3.t", "1", "1")]


def test_a_target_in_memory_does_the_same(tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.routes = (ROUTE,)
    feed = replica.feed
    for number, table in enumerate(("s1.t", "s2.t"), 1):
        feed.create(table, number * MS)
        feed.file(table, number * MS, line(table, 10, "INSERT", 1, str(number)))
    feed.statement(
        "s1.t", 11 * MS, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `note` VARCHAR(20) DEFAULT 'n'", NOTED
    )
    assert replica.once(20 * MS).exit_code == 0
    merged = replica.sink._store.tables[TableName("shop", "t")]
    first, second = sorted(merged.rows, key=lambda row: row["_source"])
    assert first == {"_source": "s1.t", "id": "1", "v": "1", "note": "n"}
    assert second == {"_source": "s2.t", "id": "1", "v": "2", "note": None}
    feed.drop("s1.t", 21 * MS)
    assert replica.once(30 * MS).exit_code == 0
    assert replica.sink._store.tables[TableName("shop", "t")].rows == [second]


def test_the_rights_of_the_docs_are_enough(fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "servers.md").read_text(encoding="utf-8")
    grants = [text for text in page.splitlines() if text.startswith("GRANT ")]
    assert len(grants) == 2
    fresh_mariadb.execute("CREATE USER replica IDENTIFIED BY 'password'", *grants)
    replica = Merged(Feed(tmp_path / "cdc"), fresh_mariadb.url("replica", "password"), fresh_mariadb.execute)
    for number, table in enumerate(("s1.t", "s2.t"), 1):
        replica.feed.create(table, number * MS)
        replica.feed.file(table, number * MS, line(table, 10, "INSERT", 1, str(number)))
        replica.noted(table, 10 + number)
    replica.feed.truncate("s2.t", 13 * MS)
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows("_source, id, v, note") == [("s1.t", "1", "1", "n")]


def test_a_merged_table_that_somebody_dropped_is_filled_anew(make: Make) -> None:
    replica = make()
    assert replica.once(20 * MS).exit_code == 0
    replica.query("DROP TABLE shop.t")
    replica.feed.file("s1.t", 3 * MS, line("s1.t", 21, "DELETE", 1, "1"))
    result = replica.once(30 * MS)
    assert (result.exit_code, set(states(result).values())) == (3, {"stopped"})
    hint = result.tables[S1].hint
    assert "or `forget` this consumer and fill an empty target from the storage" in hint
    app.forget(replica.settings(), Recorder(), sure=True)
    assert replica.once(30 * MS).exit_code == 0
    assert replica.rows() == FIRST[1:]
