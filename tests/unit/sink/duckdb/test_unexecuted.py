"""Columns beside statements that were not executed, and defaults that only upstream can compute."""

from __future__ import annotations

from datetime import date

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.times import ms_to_tso
from tests.unit.sink.duckdb.replica import ID, Replica, V

NOON = ms_to_tso(1_704_110_400_123)  # 2024-01-01 12:00:00.123 UTC


def test_a_column_that_a_statement_was_not_executed_for_stays_as_it_is(filled: Replica) -> None:
    """ADD COLUMN w, then DROP COLUMN v were not executed: later statements do neither for them."""
    w, x = Column("w", "INT", default="8"), Column("x", "INT", default="9")
    filled.apply(Action.SET_DEFAULT_VALUE, "ALTER TABLE `t` ALTER COLUMN `w` SET DEFAULT 8", (ID, V, w))
    filled.apply(Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `i`(`id`)", (ID, w))
    assert filled.rows() == [(1, 10), (2, None)]
    filled.apply(Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `x` INT DEFAULT 9", (ID, w, x))
    assert filled.rows() == [(1, 10, 9), (2, None, 9)]
    filled.apply(Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `x`", (ID, w))
    assert list(filled.types()) == ["id", "v"]


@pytest.mark.parametrize(
    ("action", "query", "column"),
    [
        (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `V` INT DEFAULT 7", Column("V", "INT", default="7")),
        (Action.MODIFY_COLUMN, "ALTER TABLE `t` RENAME COLUMN `w` TO `v`", Column("v", "INT")),
    ],
)
def test_a_column_that_stayed_keeps_its_name(filled: Replica, action: Action, query: str, column: Column) -> None:
    filled.apply(Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT", (ID, V, Column("w", "INT")))
    before = filled.rows()
    columns = (ID, column) if action is Action.MODIFY_COLUMN else (ID, Column("w", "INT"), column)
    outcome = filled.execute(action, query, columns)
    assert "has a column v already" in str(outcome.error)
    assert "by hand" in getattr(outcome.error, "hint", "")
    assert filled.rows() == before


@pytest.mark.parametrize(
    ("column", "default", "wanted"),
    [
        (Column("n", "DATE", default="CURRENT_DATE"), "(CURRENT_DATE)", date(2024, 1, 1)),
        (Column("n", "DATE", default="curdate()"), "(CURDATE())", date(2024, 1, 1)),
        (Column("n", "VARCHAR", default="CURRENT_DATE"), "_UTF8MB4'CURRENT_DATE'", "CURRENT_DATE"),
        (Column("n", "VARCHAR", default="a"), "(_UTF8MB4'a')", "a"),
        (Column("n", "VARCHAR", default="uuid()"), "(UUID())", None),
        (Column("n", "VARCHAR", default="CURRENT_DATE"), "(CURRENT_DATE)", None),
    ],
)
def test_a_computed_default_is_the_present_time_or_refused(
    filled: Replica, column: Column, default: str, wanted: object
) -> None:
    query = f"ALTER TABLE `t` ADD COLUMN `n` {column.type} DEFAULT {default}"
    outcome = filled.execute(Action.ADD_COLUMN, query, (ID, V, column), version=NOON)
    assert (outcome.error is None) is (wanted is not None)
    assert filled.rows() == ([(1, 10), (2, None)] if wanted is None else [(1, 10, wanted), (2, None, wanted)])
