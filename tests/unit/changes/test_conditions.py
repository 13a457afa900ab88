"""Expressions over change tables: what they are TRUE of, what is refused at once, and what stops at a value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from consumer.changes.conditions import compile_condition
from consumer.codec.change_table import Flags
from consumer.config.clocks import clock_of
from consumer.errors import CannotBeExact
from consumer.model.columns import Column

COLUMNS = (
    Column("A", "INT"),
    Column("s", "VARCHAR", length=20),
    Column("t", "TIMESTAMP", scale=0),
    Column("j", "JSON"),
    Column("e", "ENUM", elements=("x", "y")),
    Column("untold", "ENUM"),
    Column("d", "DATETIME", scale=0),
)
ROWS: list[list[str | None]] = [
    ["1", None, "3"],
    ["a ", "A", None],
    ["2024-06-30 22:00:00", "2024-06-30 21:59:59", None],
    ["{}", None, "null"],
    ["1", "2", "0"],
    ["1", "2", None],
    ["2024-07-01 00:00:00", "2024-06-30 00:00:00", None],
]


def holds(text: str, collation: str = "", zone: str = "UTC") -> list[bool]:
    table = pa.table([pa.array(v, pa.large_string()) for v in ROWS], names=[f"c{n}" for n in range(len(ROWS))])
    found: Flags = compile_condition(text, COLUMNS, collation, clock_of(zone)).holds(table)
    return found.tolist()


@pytest.mark.parametrize(
    ("text", "collation", "expected"),
    [
        ("a = 1", "", [True, False, False]),
        ("`A` <> 1", "", [False, False, True]),
        ("NOT a = 1", "", [False, False, True]),
        ("a = NULL", "", [False, False, False]),
        ("a <=> NULL", "", [False, True, False]),
        ("a IN (1, NULL)", "", [True, False, False]),
        ("a NOT IN (1, NULL)", "", [False, False, False]),
        ("s = 'a'", "utf8mb4_bin", [True, False, False]),
        ("s = 'a'", "utf8mb4_0900_bin", [False, False, False]),
        ("s = 'a'", "utf8mb4_general_ci", [True, True, False]),
        ("s COLLATE utf8mb4_general_ci = 'A' AND s <> 'A'", "utf8mb4_bin", [True, False, False]),
        ("s LIKE 'a'", "utf8mb4_bin", [False, False, False]),
        ("j IS NOT NULL", "", [True, False, True]),
        ("e = 'x' OR e = ''", "utf8mb4_bin", [True, False, True]),
        ("TRUE", "", [True, True, True]),
        ("1 = 2 OR NULL", "", [False, False, False]),
    ],
)
def test_rows_of_which_it_is_true(text: str, collation: str, expected: list[bool]) -> None:
    assert holds(text, collation) == expected


def test_a_timestamp_is_compared_by_the_changefeeds_clock() -> None:
    """The rows have UTC: 22:00 there is midnight of July 1st in Berlin."""
    assert holds("t >= '2024-07-01'", zone="Europe/Berlin") == [True, False, False]
    assert holds("t >= '2024-07-01'") == [False, False, False]
    assert holds("d >= '2024-07-01'", zone="Europe/Berlin") == [True, False, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("b = 1", "the rows have no column b"),
        ("a = '1'", "an exact number is not compared with a text; write both in the same way"),
        ("s = 1", "a text is not compared with an exact number"),
        (
            "s = 'a'",
            "nothing says by which collation column s is compared; write it after the text, as 'a' COLLATE utf8mb4_",
        ),
        ("s COLLATE utf8mb4_bin = 'a' COLLATE utf8mb4_general_ci", "it compares texts by two collations"),
        ("s COLLATE latin1_swedish_ci = 'a'", "the collation latin1_swedish_ci cannot be followed exactly"),
        ("j = 'x'", "column j is of a type that only IS NULL can ask about"),
        ("untold = 'x'", "column untold is of a type that only IS NULL can ask about"),
        ("e < 'y' COLLATE utf8mb4_bin", "labels of an ENUM are compared with = and <> only"),
        ("t = '2024-02-30'", "there is no time '2024-02-30'"),
        ("t = '2024-2-3'", "is not a date or time in the form 2024-12-31"),
        ("t = d", "a TIMESTAMP is compared with times by the changefeed's clock, so not with a DATETIME"),
        ("t = 20240101", "a date or time is compared with a text such as"),
        ("a / 2 > 1", "/ of exact numbers rounds"),
        ("a DIV 1.5 = 1", "DIV and % are for whole numbers here"),
        ("s + 1 = 2", "'s' is a text, and not a number to compute with"),
        ("s AND a", "a text is no condition"),
        ("s LIKE s COLLATE utf8mb4_bin", "LIKE compares a text with a pattern that is written there"),
        ("s COLLATE utf8mb4_bin LIKE 'a|' ESCAPE '|'", "ends with its escape character"),
        ("COALESCE(a, s) = 1", "COALESCE and IFNULL take values of one type"),
        ("CAST(a AS CHAR) = '1'", "is not supported here"),
        ("a & 1 = 1", "is not supported here"),
        ("a IN ()", "IN needs a value at least"),
        ("a = a < 1", "write parentheses"),
        ("a < 1 <=> a < 2", "write parentheses"),
        ("a = a BETWEEN 0 AND 1 < 1", "write parentheses"),
        ("a BETWEEN 0 AND 1 IN (1)", "write parentheses"),
        ("a NOT BETWEEN 0 AND 1 NOT IN (1)", "write parentheses"),
    ],
)
def test_what_cannot_be_exact_is_refused_before_any_row(text: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        compile_condition(text, COLUMNS)
    assert why in str(refused.value)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("column", "value", "text", "why"),
    [
        (Column("x", "VARCHAR"), "été-secret", "x = 'a'", "other characters than ASCII's"),
        (Column("x", "BIGINT"), "9223372036854775807", "x + 1 > 0", "a number is too large"),
        (Column("x", "INT", unsigned=True), "3", "x - 5 < 0", "an unsigned number falls below 0"),
    ],
)
def test_a_value_that_cannot_be_judged_stops_the_table_and_is_not_shown(
    column: Column, value: str, text: str, why: str
) -> None:
    condition = compile_condition(text, (column,), "utf8mb4_general_ci")
    with pytest.raises(CannotBeExact) as refused:
        condition.holds(pa.table({"c0": pa.array([value], pa.large_string())}))
    assert why in str(refused.value)
    assert value not in str(refused.value)
