"""What ports.Sink promises of statements, asked of every implementation."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from consumer.errors import ConsumerError
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import (
    DdlId,
    DdlState,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.model.steps import TableBefore, Window
from consumer.target import Sink
from tests.contract.acts import (
    ID,
    LOG,
    LOG_COLUMNS,
    NAME,
    SHOP,
    apply,
    changes,
    create_item,
    create_log,
    ddl,
    load,
    prepared,
)
from tests.contract.targets import Target


def test_statements_between_rows(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))))
    added = (ID, NAME, Column("n", "INT", length=11, default="7", nullable=False))
    apply(sink, ddl(Action.ADD_COLUMN, SHOP, 21, "ALTER TABLE `item` ADD COLUMN `n` INT NOT NULL DEFAULT 7", added))
    load(sink, prepared(sink, SHOP, added), changes((True, ("2", "b", "9"))), window=Window(21, 30))
    assert target.rows(SHOP) == [("1", "a", "7"), ("2", "b", "9")]

    renamed = TableName("shop", "goods")
    query = "RENAME TABLE `shop`.`item` TO `shop`.`goods`"
    apply(sink, ddl(Action.RENAME_TABLE, renamed, 31, query, added, old_name=SHOP))
    assert target.rows(renamed) == [("1", "a", "7"), ("2", "b", "9")]
    assert sink.progress().tables[SHOP] == TableProgress(31, State.DROPPED)

    apply(sink, ddl(Action.TRUNCATE_TABLE, renamed, 32, "TRUNCATE TABLE `goods`", added))
    assert target.rows(renamed) == []
    load(sink, prepared(sink, renamed, added), changes((True, ("2", "b", "1"))), window=Window(32, 40))
    assert target.rows(renamed) == [("2", "b", "1")]

    columns = (ID, Column("n", "INT", length=11, default="7", nullable=False), Column("title", "VARCHAR", length=50))
    moved = "ALTER TABLE `goods` CHANGE COLUMN `name` `title` VARCHAR(50) AFTER `n`"
    apply(sink, ddl(Action.MODIFY_COLUMN, renamed, 41, moved, columns))
    assert target.rows(renamed) == [("2", "1", "b")]
    apply(sink, ddl(Action.DROP_COLUMN, renamed, 42, "ALTER TABLE `goods` DROP COLUMN `n`", (ID, columns[2])))
    assert target.rows(renamed) == [("2", "b")]
    upper = (ID, replace(columns[2], name="TITLE"))
    respelled = "ALTER TABLE `goods` RENAME COLUMN `title` TO `TITLE`"
    apply(sink, ddl(Action.MODIFY_COLUMN, renamed, 43, respelled, upper))
    load(sink, prepared(sink, renamed, upper), changes((True, ("3", "c"))), window=Window(43, 45))
    assert target.rows(renamed) == [("2", "b"), ("3", "c")]

    apply(sink, ddl(Action.DROP_TABLE, renamed, 50, "DROP TABLE `shop`.`goods`", upper))
    assert sink.has_rows([renamed]) == []
    apply(sink, ddl(Action.DROP_SCHEMA, TableName("shop", ""), 51, "DROP DATABASE `shop`"))
    assert sink.progress().ddls[DdlId("shop", "", 51, 7)].state is DdlState.DONE


def test_values_that_become_json_and_come_back_are_as_tidb_writes_them(target: Target, sink: Sink) -> None:
    """A text becomes the value that it means, whose text is TiDB's: what upstream's rows have from then on."""
    create_item(sink)
    given = ['{"b":1,"aa":2}', '{"a":1,"a":2}', '[1e2,1.50,"\\u00e9"]', " 7", None]
    load(sink, prepared(sink), changes(*((True, (str(key), text)) for key, text in enumerate(given))))
    as_json = (ID, Column("name", "JSON"))
    drop = ddl(Action.DROP_INDEX, SHOP, 25, "ALTER TABLE `item` DROP INDEX `u`", (ID, NAME))
    step = ddl(Action.MODIFY_COLUMN, SHOP, 30, "ALTER TABLE `item` MODIFY COLUMN `name` JSON", as_json)
    apply(sink, drop, replace(step, table_before=TableBefore(columns=(ID, NAME))))
    values = [None if text is None else json.loads(text) for _, text in target.rows(SHOP)]
    assert values == [{"aa": 2, "b": 1}, {"a": 2}, [100, 1.5, "\u00e9"], 7, None]

    back = (ID, Column("note", "VARCHAR", length=50))
    changed = "ALTER TABLE `item` CHANGE COLUMN `name` `note` VARCHAR(50)"
    step = ddl(Action.MODIFY_COLUMN, SHOP, 40, changed, back)
    apply(sink, replace(step, table_before=TableBefore(columns=as_json)))
    texts = ['{"aa": 2, "b": 1}', '{"a": 2}', '[100.0, 1.5, "\u00e9"]', "7", None]
    assert target.rows(SHOP) == [(str(key), text) for key, text in enumerate(texts)]


REREAD = {
    "a text as a number": (
        ["2.5", "-2.5", "1e3", " 7 ", "12", None],
        Column("name", "INT"),
        ["3", "-3", "1000", "7", "12"],
    ),
    "a text as a date": (["2024-1-5", "20240105", None], Column("name", "DATE"), ["2024-01-05"] * 2),
    "a shorter text": (["abc", None], Column("name", "VARCHAR", length=3), ["abc"]),
}
"""Texts, and what upstream made of them."""
NOT_TOLD = {
    "a text that is no number": ("7x", Column("name", "INT")),
    "a text that is too long": ("abcd", Column("name", "VARCHAR", length=3)),
    "only blanks too many": ("abc ", Column("name", "VARCHAR", length=3)),
    "a number out of range": ("300", Column("name", "TINYINT")),
    "a time of some zone": ("2024-01-05 00:00:00", Column("name", "TIMESTAMP")),
}
"""What upstream made of these hangs on its session."""


@pytest.mark.parametrize("what", REREAD)
def test_values_become_what_upstream_made_of_them(what: str, target: Target, sink: Sink) -> None:
    given, column, wanted = REREAD[what]
    _retype(sink, given, column)
    assert [found for _, found in target.rows(SHOP)] == [*wanted, None]


@pytest.mark.parametrize("what", NOT_TOLD)
def test_values_of_which_nobody_can_tell_are_refused(what: str, target: Target, sink: Sink) -> None:
    given, column = NOT_TOLD[what]
    error = _retype(sink, [given], column, refused=True)
    assert error is not None
    assert error.exit_code == 5
    assert "skip-ddl --table shop.item" in error.hint
    assert target.rows(SHOP) == [("0", given)]


def _retype(sink: Sink, texts: list[str | None], column: Column, refused: bool = False) -> ConsumerError | None:
    """Give a column of these texts another type."""
    create_item(sink)
    apply(sink, ddl(Action.DROP_INDEX, SHOP, 3, "ALTER TABLE `item` DROP INDEX `u`", (ID, NAME)))
    load(sink, prepared(sink), changes(*((True, (str(key), text)) for key, text in enumerate(texts))))
    size = f"({column.length})" if column.length else ""
    query = f"ALTER TABLE `item` MODIFY COLUMN `name` {column.type}{size}"
    step = replace(
        ddl(Action.MODIFY_COLUMN, SHOP, 30, query, (ID, column)), table_before=TableBefore(columns=(ID, NAME))
    )
    (outcome,) = sink.apply_ddls([step], {})
    assert (outcome.error is not None) == refused
    return outcome.error


def test_behind_a_refused_statement_none_of_its_table_runs(target: Target, sink: Sink) -> None:
    """Where a call can have several of one table."""
    if sink.statements:
        pytest.skip("each call has one statement of a table")
    create_item(sink)
    create = ddl(Action.CREATE_TABLE, LOG, 21, "CREATE TABLE `log` (`a` INT,`b` VARCHAR(50))", LOG_COLUMNS)
    added = (ID, NAME, Column("n", "INT", length=11))
    good = ddl(Action.ADD_COLUMN, SHOP, 21, "ALTER TABLE `item` ADD COLUMN `n` INT", added)
    bad = ddl(Action.CREATE_TABLE, SHOP, 22, "CREATE TABLE `item` (`id` INT PRIMARY KEY)", (ID,))
    behind = ddl(Action.DROP_COLUMN, SHOP, 23, "ALTER TABLE `item` DROP COLUMN `name`", (ID, added[2]))
    elsewhere = TableName("other", "item")
    merged = ddl(Action.MODIFY_TABLE_COMMENT, elsewhere, 24, "ALTER TABLE `item` COMMENT 'x'", added)
    merged = replace(merged, touches=(SHOP,), routed=replace(merged.file, root="shop/item", database="shop"))
    outcomes = sink.apply_ddls([good, bad, behind, create, merged], {})
    assert [outcome.error is None for outcome in outcomes] == [True, False, False, True, True]
    assert sink.progress().tables[SHOP] == TableProgress(21)
    assert {ddl.version for ddl in sink.progress().ddls if ddl.table} == {2, 21, 24}
    load(sink, prepared(sink, SHOP, added), changes((True, ("1", "a", "5"))), window=Window(21, 30))
    assert target.rows(SHOP) == [("1", "a", "5")]


def test_statements_of_one_table_follow_one_another_in_one_call(target: Target, sink: Sink) -> None:
    if sink.statements:
        pytest.skip("each call has one statement of a table")
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))))
    n, m = (Column(name, "INT", length=11, default="7") for name in "nm")
    steps = [
        ddl(Action.ADD_COLUMN, SHOP, 21, "ALTER TABLE `item` ADD COLUMN `n` INT DEFAULT 7 FIRST", (n, ID, NAME)),
        ddl(Action.MODIFY_COLUMN, SHOP, 22, "ALTER TABLE `item` CHANGE `n` `m` INT DEFAULT 7", (m, ID, NAME)),
        ddl(Action.DROP_COLUMN, SHOP, 23, "ALTER TABLE `item` DROP COLUMN `name`", (m, ID)),
        ddl(Action.ADD_COLUMN, SHOP, 24, "ALTER TABLE `item` ADD COLUMN `name` VARCHAR(50)", (m, ID, NAME)),
    ]
    assert [outcome.error for outcome in sink.apply_ddls(steps, {})] == [None] * 4
    assert target.rows(SHOP) == [("7", "1", None)]
    assert sink.progress().tables[SHOP] == TableProgress(24)


def test_a_statement_is_recorded_with_its_progress(sink: Sink) -> None:
    create_item(sink)
    found = sink.progress()
    assert found.ddls[DdlId("shop", "item", 2, 7)].state is DdlState.DONE
    assert found.table(SHOP) == TableProgress(2)


REFUSED = {
    "create": ddl(Action.CREATE_TABLE, SHOP, 25, "CREATE TABLE `item` (`id` INT PRIMARY KEY)", (ID,)),
    "type of a later TiCDC": ddl(250, SHOP, 25, "ALTER TABLE `item` ADD SOMETHING NEW", (ID, NAME)),
    "rename": ddl(Action.RENAME_TABLE, SHOP, 25, "RENAME TABLE `log` TO `item`", LOG_COLUMNS, old_name=LOG),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_statement_tells_what_is_recorded_and_is_refused_again(kind: str, target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))))
    create_log(sink)
    step = REFUSED[kind]
    for _ in range(2):
        before = sink.progress()
        (refused,) = sink.apply_ddls([step], before.ddls)
        assert refused.error is not None
        assert refused.error.exit_code == 5
        assert refused.error.table == str(SHOP)
        assert sink.progress() == before.after(refused.recorded)
        record = sink.progress().ddls.get(step.id)
        assert record is None or record.state is DdlState.REFUSED
    assert target.rows(SHOP) == [("1", "a")]
    assert target.rows(LOG) == []


def test_an_executed_statement_tells_what_is_recorded(sink: Sink) -> None:
    before = sink.progress()
    create_item(sink)
    step = ddl(Action.TRUNCATE_TABLE, SHOP, 25, "TRUNCATE TABLE `item`", (ID, NAME))
    before = sink.progress()
    (outcome,) = sink.apply_ddls([step], before.ddls)
    assert sink.progress() == before.after(outcome.recorded)
    assert sink.progress() != before


def test_an_emptied_table_starts_again(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))))
    record = DdlId("shop", "item", 2, 7)
    change = ProgressChange(tables={SHOP: TableProgress(0)}, forget_ddls=(record,), rewind=True)
    sink.empty_table(SHOP, change)
    assert sink.has_rows([SHOP]) == []
    assert record not in sink.progress().ddls
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("2", "b"))))
    assert target.rows(SHOP) == [("2", "b")]
