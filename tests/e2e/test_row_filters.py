"""[[consumer.rows]]: the target has the rows of SELECT .. WHERE over upstream's, at every checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import MariaDb
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.shop_changes import COLUMNS, CREATE, KEYLESS, Change, Row, changes_of, rows_at

T = TableName("d", "t")
WHERE = "region = 'eu' AND amount > 3 OR amount IS NULL"
ROWS = [{"tables": ["d.t"], "where": WHERE, "collation": "utf8mb4_bin"}]
LINES: dict[str, tuple[str, dict[str, Any], Callable[[Change], bytes]]] = {
    "canal-json": ("json", {}, lambda change: change.canal("d", "t")),
    "csv": ("csv", {"csv_include_commit_ts": True}, lambda change: change.csv("d", "t", old_values=False)),
    "csv with old values": (
        "csv",
        {"csv_include_commit_ts": True, "csv_output_old_value": True},
        lambda change: change.csv("d", "t", old_values=True),
    ),
}


def chosen(row: Row) -> bool:
    """As MySQL has it: NULL is unknown, and blanks at the end do not count."""
    return row[2] is None or ((row[1] or "").rstrip(" ") == "eu" and row[2] > 3)


def storage_of(feed: Feed, changes: Sequence[Change], protocol: str, key: bool = True) -> dict[str, Any]:
    """Files of twenty changes each, two of which are sent again after the next one. Returns the settings."""
    query = CREATE.format("t", " PRIMARY KEY" if key else "")
    feed.statement("d.t", 2, Action.CREATE_TABLE, query, COLUMNS if key else KEYLESS)
    extension, flags, line = LINES[protocol]
    parts = [changes[begin : begin + 20] for begin in range(0, len(changes), 20)]
    for part in [*parts[:3], *parts[1:]]:
        feed.file("d.t", 2, b"".join(map(line, part)), extension=extension)
    return {"upstream_uri": f"file://{feed.folder}?protocol={protocol.partition(' ')[0]}", "tz": "UTC", **flags}


def settings(url: str, **flags: Any) -> Settings:
    return load({"downstream_uri": url, **flags}, {}).settings


def once(feed: Feed, checkpoint: int, found: Settings) -> Recorder:
    feed.checkpoint(checkpoint)
    observer = Recorder()
    result = app.once(found, observer, InlineLoader())
    assert result.exit_code == 0, observer.stopped
    return observer


@pytest.mark.parametrize("protocol", LINES)
@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
def test_the_rows_that_fit_at_every_checkpoint(
    feed: Feed, database: tuple[str, Callable[[str], list[tuple[Any, ...]]]], protocol: str, key: bool
) -> None:
    if not key and protocol == "csv":
        pytest.skip("tables without a key need old values")
    url, ask = database
    changes = changes_of(len(protocol), copies=not key)
    own = settings(url, rows=ROWS, **storage_of(feed, changes, protocol, key))
    for checkpoint in (25, 26, 60, 200):
        once(feed, checkpoint, own)
        there = ask("SELECT id, region, amount, note FROM d.t")
        assert sorted(there, key=repr) == [row for row in rows_at(changes, checkpoint) if chosen(row)]
    found = app.verify(own, Recorder(), loader=InlineLoader())
    assert [(table.state, table.error) for table in found.tables] == [("equal", None)]


def test_what_differs_is_found_and_made_right(feed: Feed, fresh_mariadb: MariaDb) -> None:
    changes = changes_of(7)
    own = settings(fresh_mariadb.url(), rows=ROWS, **storage_of(feed, changes, "canal-json"))
    once(feed, 200, own)
    expected = [row for row in rows_at(changes, 200) if chosen(row)]
    out = next(row for row in rows_at(changes, 200) if not chosen(row))
    fresh_mariadb.execute(
        f"INSERT INTO d.t VALUES ({out[0]}, 'us', 1, 'x')", f"DELETE FROM d.t WHERE id = {expected[0][0]}"
    )
    from consumer.model.check import Repairing

    found = app.verify(own, Recorder(), loader=InlineLoader(), repairing=Repairing(write=True))
    assert [table.state for table in found.tables] == ["equal"]
    assert found.tables[0].repaired is not None
    assert sorted(fresh_mariadb.execute("SELECT id, region, amount, note FROM d.t"), key=repr) == expected


def test_a_table_loaded_again_has_the_same_rows(feed: Feed, fresh_mariadb: MariaDb) -> None:
    changes = changes_of(8)
    own = settings(fresh_mariadb.url(), rows=ROWS, **storage_of(feed, changes, "canal-json"))
    once(feed, 100, own)
    app.resync(own, Recorder(), T, InlineLoader())
    once(feed, 200, own)
    there = fresh_mariadb.execute("SELECT id, region, amount, note FROM d.t")
    assert sorted(there, key=repr) == [row for row in rows_at(changes, 200) if chosen(row)]


@pytest.fixture
def filtered(feed: Feed) -> MemoryReplica:
    """d.t has the rows with v > 5, and d.u all."""
    for version, table in ((2, "d.t"), (3, "d.u")):
        feed.create(table, version)
        feed.puts(table, version, {10 + version: (1, "5"), 20 + version: (2, "6")})
    replica = MemoryReplica(feed)
    result = replica.once(30, rows=V_ABOVE_5)
    assert (result.exit_code, replica.tables) == (0, {"d.t": {2: "6"}, "d.u": {1: "5", 2: "6"}})
    return replica


V_ABOVE_5 = [{"tables": ["d.t"], "where": "v > 5"}]


@pytest.mark.parametrize("rows", [[], [{"tables": ["d.t"], "where": "v > 6"}], [{"tables": ["d.*"], "where": "v > 5"}]])
def test_other_rules_for_a_table_that_has_begun_are_refused(filtered: MemoryReplica, rows: list[object]) -> None:
    for run in (lambda: filtered.once(40, rows=rows), lambda: app.plan(filtered.settings(rows=rows), Recorder())):
        with pytest.raises(BadConfig, match=r"the filters of d\.[tu] are not those"):
            run()
    assert filtered.once(40, rows=[*V_ABOVE_5, {"tables": ["d.new"], "where": "v < 5"}]).exit_code == 0


def test_a_new_table_can_have_rules_of_its_own(filtered: MemoryReplica) -> None:
    filtered.feed.create("d.new", 35)
    filtered.feed.puts("d.new", 35, {36: (1, "4"), 37: (2, "6")})
    rows = [*V_ABOVE_5, {"tables": ["d.new"], "where": "v < 5"}]
    assert filtered.once(40, rows=rows).exit_code == 0
    assert filtered.tables["d.new"] == {1: "4"}


def test_plan_says_what_the_rules_do(filtered: MemoryReplica) -> None:
    filtered.feed.puts("d.t", 2, {35: (3, "7")})
    filtered.feed.checkpoint(40)
    assert "d.t: only rows with v > 5" in app.plan(filtered.settings(rows=V_ABOVE_5), Recorder()).notes


WIDER = (Column("id", "INT", nullable=False, is_pk=True), Column("v", "VARCHAR", length=20))


def test_statements_that_would_change_which_rows_fit_stop(filtered: MemoryReplica) -> None:
    filtered.feed.statement("d.t", 35, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` VARCHAR(20)", WIDER)
    result = filtered.once(40, rows=V_ABOVE_5)
    assert (result.exit_code, states(result)["d.t"]) == (5, "stopped")
    assert "it changes column v, by which the row filter has chosen rows" in result.tables[T].error
    assert filtered.once(40, rows=V_ABOVE_5, tables=("*.*", "!d.t")).exit_code == 0


def test_a_statement_about_an_older_table_stops_if_it_names_the_column(feed: Feed) -> None:
    replica = MemoryReplica(feed)
    replica.holds("d.t", (1, "6"))
    feed.statement("d.t", 35, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` VARCHAR(20)", WIDER)
    result = replica.once(40, rows=V_ABOVE_5, start_ts="30")
    assert (result.exit_code, states(result)["d.t"]) == (5, "stopped")


def test_tables_that_a_start_began_with_have_rows(feed: Feed) -> None:
    replica = MemoryReplica(feed)
    for version, table in ((35, "d.t"), (36, "d.u")):
        replica.holds(table, (1, "1"))
        feed.describe(table, version)
    feed.puts("d.u", 36, {37: (2, "7")})
    assert replica.once(40, start_ts="30").exit_code == 0
    feed.puts("d.t", 35, {45: (3, "1")})
    with pytest.raises(BadConfig, match=r"the filters of d\.t are not those"):
        replica.once(50, rows=V_ABOVE_5, start_ts="30")
    assert replica.once(50, start_ts="30").exit_code == 0


def test_a_column_that_comes_before_the_first_row_can_be_asked_for(feed: Feed) -> None:
    replica = MemoryReplica(feed)
    feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY)", (WIDER[0],))
    feed.statement("d.t", 3, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `v` INT", (WIDER[0], Column("v", "INT")))
    feed.puts("d.t", 3, {10: (1, "5"), 11: (2, "6")})
    assert (replica.once(20, rows=V_ABOVE_5).exit_code, replica.tables) == (0, {"d.t": {2: "6"}})


@pytest.mark.parametrize(("old", "new"), [("d.t", "d.w"), ("d.u", "d.t")])
def test_a_rename_between_tables_with_other_rules_stops(filtered: MemoryReplica, old: str, new: str) -> None:
    if new == "d.t":
        filtered.feed.drop("d.t", 33)
    filtered.feed.rename(old, new, 35)
    result = filtered.once(40, rows=V_ABOVE_5)
    assert result.exit_code == 5
    assert "it moves rows between tables with different filters" in result.tables[TableName(*new.split("."))].error


def test_a_rename_between_tables_with_the_same_rules_goes_on(feed: Feed) -> None:
    replica, rows = MemoryReplica(feed), [{"tables": ["d.*"], "where": "v > 5"}]
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "5"), 11: (2, "6")})
    assert replica.once(20, rows=rows).exit_code == 0
    feed.rename("d.t", "d.w", 30)
    feed.puts("d.w", 30, {31: (2, "1"), 32: (1, "9")})
    assert replica.once(40, rows=rows).exit_code == 0
    assert replica.tables == {"d.w": {1: "9"}}


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("w > 5", "the rows have no column w"),
        ("v = 'x'", "an exact number is not compared with a text"),
    ],
)
def test_a_rule_that_does_not_fit_the_columns_stops_the_table(feed: Feed, where: str, why: str) -> None:
    replica = MemoryReplica(feed)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "5")})
    feed.checkpoint(20)
    rows = [{"tables": ["d.t"], "where": where}]
    assert {row.table for row in app.plan(replica.settings(rows=rows), Recorder()).stopped} <= {T}
    result = replica.once(20, rows=rows)
    assert (result.exit_code, states(result)["d.t"]) == (3, "stopped")
    assert why in result.tables[T].error
    assert replica.tables == {"d.t": {}}
    rows = [{"tables": ["d.t"], "where": "v > 4"}]
    assert (replica.once(20, rows=rows).exit_code, replica.tables) == (0, {"d.t": {1: "5"}})


@pytest.mark.parametrize(
    ("where", "why", "better"),
    [
        ("region = 'eu'", "has a text with other characters than ASCII's", "region COLLATE utf8mb4_bin = 'eu'"),
        ("amount * 9223372036854775807 > 5", "cannot be computed of a row: a number is too large", "amount > 0"),
    ],
)
def test_a_value_that_cannot_be_judged_stops_the_table(
    feed: Feed, fresh_mariadb: MariaDb, where: str, why: str, better: str
) -> None:
    changes = [Change(10, "I", (1, "eu", 2, "")), Change(11, "I", (2, "\u0130", 5, ""))]
    flags = storage_of(feed, changes, "canal-json")
    feed.checkpoint(20)
    for condition, code in ((where, 3), (better, 0)):
        rows = [{"tables": ["d.t"], "where": condition, "collation": "utf8mb4_general_ci"}]
        result = app.once(settings(fresh_mariadb.url(), rows=rows, **flags), Recorder(), InlineLoader())
        assert result.exit_code == code, result.tables[T].error
        assert code == 0 or why in result.tables[T].error
    assert (1, "eu", 2, "") in fresh_mariadb.execute("SELECT id, region, amount, note FROM d.t")


def test_a_table_with_a_form_has_no_filters(feed: Feed, fresh_mariadb: MariaDb) -> None:
    flags = storage_of(feed, changes_of(4), "canal-json")
    feed.checkpoint(200)
    for forms, code in (("d.t = append", 3), ("d.t = mirror", 0)):
        own = settings(fresh_mariadb.url(), rows=ROWS, table_modes=forms, **flags)
        result = app.once(own, Recorder(), InlineLoader())
        assert result.exit_code == code, result.tables[T].error
        assert code == 0 or "has the table mode append, and filters or masks" in result.tables[T].error
        fresh_mariadb.drop_all()
