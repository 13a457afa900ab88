"""[[consumer.event-filters]]: changes and statements are dropped as TiCDC's own filters drop them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.e2e.test_row_filters import once, settings, storage_of
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.shop_changes import Change, Row, changes_of, rows_at

T = TableName("d", "t")


def is_eu(row: Row | None) -> bool:
    return row is not None and (row[1] or "").rstrip(" ") == "eu"


def above_5(row: Row) -> bool:
    return (row[2] or 0) > 5


RULES: dict[str, tuple[dict[str, Any], Callable[[Change], bool]]] = {
    "no deletes": ({"ignore-event": ["delete"]}, lambda c: c.kind == "D"),
    "no updates, no inserts of eu": (
        {"ignore-event": ["update"], "ignore-insert-value-expr": "region = 'eu'"},
        lambda c: c.kind == "U" or (c.kind == "I" and is_eu(c.row)),
    ),
    "new values of updates": (
        {"ignore-update-new-value-expr": "amount > 5"},
        lambda c: c.kind == "U" and above_5(c.row),
    ),
    "old values of updates": (
        {"ignore-update-old-value-expr": "region = 'eu'", "ignore-update-new-value-expr": "amount > 5"},
        lambda c: c.kind == "U" and (is_eu(c.old) or above_5(c.row)),
    ),
    "deletes of eu": ({"ignore-delete-value-expr": "region = 'eu'"}, lambda c: c.kind == "D" and is_eu(c.row)),
    "all": ({"ignore-event": ["all dml"]}, lambda c: True),
}
NEEDS_UPDATES = {"new values of updates", "old values of updates"}


def after(changes: Sequence[Change]) -> list[Row]:
    """What changes make of an empty table: each is applied as the whole row, whatever is there."""
    there: dict[int, Row] = {}
    for change in changes:
        if change.kind == "D":
            there.pop(change.row[0], None)
        else:
            there[change.row[0]] = change.row
    return sorted(there.values(), key=repr)


def filters(**rule: Any) -> list[dict[str, Any]]:
    return [{"matcher": ["d.*"], **{key.replace("_", "-"): value for key, value in rule.items()}}]


@pytest.mark.parametrize("protocol", ["canal-json", "csv", "csv with old values"])
@pytest.mark.parametrize("name", RULES)
def test_what_is_dropped_leaves_no_trace(feed: Feed, fresh_mariadb: MariaDb, name: str, protocol: str) -> None:
    rule, dropped = RULES[name]
    changes = changes_of(len(name))
    events = filters(collation="utf8mb4_bin", **rule)
    own = settings(fresh_mariadb.url(), event_filters=events, **storage_of(feed, changes, protocol))
    feed.checkpoint(70)
    refused = protocol != "canal-json" and name in NEEDS_UPDATES
    if refused and not (protocol == "csv" and name == "new values of updates"):
        result = app.once(own, Recorder(), InlineLoader())
        assert result.exit_code == 3
        assert "an event filter asks for the values of UPDATEs" in result.tables[T].error
        assert fresh_mariadb.execute("SELECT * FROM d.t") == []
        return
    for checkpoint in (70, 200):
        once(feed, checkpoint, own)
        kept = [change for change in changes if change.ts <= checkpoint and not dropped(change)]
        there = fresh_mariadb.execute("SELECT id, region, amount, note FROM d.t")
        assert sorted(there, key=repr) == after(kept)
    assert after(changes) == rows_at(changes, 200)
    found = app.verify(own, Recorder(), loader=InlineLoader())
    assert [table.state for table in found.tables] == ["equal"]


def test_a_table_without_a_key_is_refused(feed: Feed, fresh_mariadb: MariaDb) -> None:
    events = filters(ignore_event=["insert"])
    changes = changes_of(3, copies=True)
    own = settings(fresh_mariadb.url(), event_filters=events, **storage_of(feed, changes, "canal-json", key=False))
    feed.checkpoint(200)
    result = app.once(own, Recorder(), InlineLoader())
    assert (result.exit_code, "it has no key" in result.tables[T].error) == (3, True)
    assert fresh_mariadb.execute("SELECT * FROM d.t") == []


@pytest.mark.parametrize("column", ["v", "id"])
def test_a_delete_with_its_key_alone_cannot_be_judged_by_other_columns(feed: Feed, column: str) -> None:
    replica = MemoryReplica(feed)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "5"), 11: (2, "6")})
    line = Change(20, "D", (1, None, None, "")).canal("d", "t")
    only_key = b'"data": [{"id": "1"}]'
    found = line[: line.index(b'"sqlType"')] + b'"sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "old": null, '
    feed.file("d.t", 2, found + only_key + b', "_tidb": {"commitTs": 20}}\r\n')
    result = replica.once(30, event_filters=filters(ignore_delete_value_expr=f"{column} IN (1, 5)"))
    if column == "id":
        assert (result.exit_code, replica.tables) == (0, {"d.t": {1: "5", 2: "6"}})
        return
    assert (result.exit_code, states(result)["d.t"]) == (3, "stopped")
    assert "asks for column v of DELETEs" in result.tables[T].error
    assert replica.once(30, event_filters=filters(ignore_delete_value_expr="id = 1")).exit_code == 0


WIDER = (ID, VALUE, Column("w", "INT"))


@pytest.mark.parametrize(
    "rule",
    [{"ignore_event": ["add column"]}, {"ignore_sql": ["add column `w`"]}, {"ignore_event": ["alter table"]}],
    ids=["event", "sql", "alter table"],
)
def test_rows_with_a_column_whose_statement_was_ignored_stop(feed: Feed, fresh_mariadb: MariaDb, rule: Any) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "5")})
    feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT", WIDER)
    line = b'{"database":"d","table":"t","isDdl":false,"type":"INSERT","es":0,'
    types = b'"mysqlType":{"id":"int","v":"int","w":"int"},'
    feed.file("d.t", 20, line + types + b'"data":[{"id":"2","v":"6","w":"7"}],"old":null,"_tidb":{"commitTs":21}}\r\n')
    feed.checkpoint(30)
    own = settings(
        fresh_mariadb.url(), event_filters=filters(**rule), upstream_uri=f"file://{feed.folder}?protocol=canal-json"
    )
    planned = app.plan(own, Recorder())
    assert [step.policy for step in planned.steps if step.to_ts == 20 and step.kind == "ddl"] == ["ignore"]
    result = app.once(own, Recorder(), InlineLoader())
    assert (result.exit_code, result.tables[T].state) == (3, "stopped")
    assert "w" in result.tables[T].error
    assert fresh_mariadb.execute("SELECT * FROM d.t") == [(1, 5)]


@pytest.mark.parametrize(
    ("rule", "left"),
    [({"ignore_event": ["truncate table"]}, {1: "5"}), ({"ignore_sql": ["^drop"]}, {})],
    ids=["truncate", "drop"],
)
def test_statements_that_are_ignored_do_nothing(feed: Feed, rule: Any, left: object) -> None:
    replica = MemoryReplica(feed)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "5")})
    feed.truncate("d.t", 20)
    assert replica.once(30, event_filters=filters(**rule)).exit_code == 0
    assert replica.tables == {"d.t": left}


@pytest.mark.parametrize("rule", [{"ignore_event": ["all ddl"]}, {"ignore_sql": ["RENAME"]}], ids=["all", "sql"])
def test_a_statement_that_must_not_be_ignored_stops_its_table(feed: Feed, rule: Any) -> None:
    replica = MemoryReplica(feed)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "5")})
    assert replica.once(20).exit_code == 0
    feed.rename("d.t", "d.u", 30)
    result = replica.once(40, event_filters=filters(**rule))
    assert result.exit_code == 5
    assert replica.tables == {"d.t": {1: "5"}}
    hint = result.tables[TableName("d", "u")].hint
    assert "event-filters" in hint
