"""Every type at its limits: written as the files carry it, read back by DuckDB."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from consumer.errors import RowRefused
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica

BIG = "9" * 35 + "." + "9" * 30
FLOAT_MAX = "340282350000000000000000000000000000000"
DOUBLE_MAX = "17976931348623157" + "0" * 292
DOUBLE_MIN = "0." + "0" * 323 + "5"
EVERY_BYTE = bytes(range(256))

CASES: list[tuple[Column, str, list[tuple[str | bytes, Any]]]] = [
    (Column("v", "TINYINT"), "TINYINT", [("-128", -128), ("127", 127)]),
    (Column("v", "TINYINT", unsigned=True), "UTINYINT", [("0", 0), ("255", 255)]),
    (Column("v", "SMALLINT"), "SMALLINT", [("-32768", -32768), ("32767", 32767)]),
    (Column("v", "SMALLINT", unsigned=True), "USMALLINT", [("65535", 65535)]),
    (Column("v", "MEDIUMINT"), "INTEGER", [("-8388608", -8388608), ("8388607", 8388607)]),
    (Column("v", "MEDIUMINT", unsigned=True), "UINTEGER", [("16777215", 16777215)]),
    (Column("v", "INT"), "INTEGER", [("-2147483648", -2147483648), ("2147483647", 2147483647)]),
    (Column("v", "INT", unsigned=True), "UINTEGER", [("4294967295", 4294967295)]),
    (Column("v", "BIGINT"), "BIGINT", [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    (Column("v", "BIGINT", unsigned=True), "UBIGINT", [("18446744073709551615", 2**64 - 1)]),
    (
        Column("v", "DECIMAL", length=38, scale=10),
        "DECIMAL(38,10)",
        [("9999999999999999999999999999.9999999999", Decimal("9999999999999999999999999999.9999999999"))],
    ),
    (Column("v", "DECIMAL"), "DECIMAL(10,0)", [("-9999999999", Decimal("-9999999999"))]),
    (Column("v", "DECIMAL", length=5, scale=2), "DECIMAL(5,2)", [("-0.10", Decimal("-0.10")), ("0.00", Decimal(0))]),
    (Column("v", "DECIMAL", length=65, scale=30), "VARCHAR", [(BIG, BIG), (f"-{BIG}", f"-{BIG}")]),
    (
        Column("v", "FLOAT"),
        "FLOAT",
        [("16777216", 16777216.0), ("0.1", 0.10000000149011612), (FLOAT_MAX, 2.0**128 - 2.0**104)],
    ),
    (Column("v", "DOUBLE"), "DOUBLE", [(DOUBLE_MAX, 1.7976931348623157e308), (DOUBLE_MIN, 5e-324), ("0.1", 0.1)]),
    (Column("v", "BIT", unsigned=True, length=64), "UBIGINT", [("18446744073709551615", 2**64 - 1), ("0", 0)]),
    (Column("v", "YEAR", unsigned=True), "USMALLINT", [("0", 0), ("1901", 1901), ("2155", 2155)]),
    (Column("v", "CHAR", length=5), "VARCHAR", [("", ""), ("ab", "ab"), ("0000", "0000")]),
    (Column("v", "VARCHAR", length=9), "VARCHAR", [("a\0b  ", "a\0b  "), ("数据😀", "数据😀"), ("NULL", "NULL")]),
    (Column("v", "LONGTEXT"), "VARCHAR", [("x" * 100_000, "x" * 100_000), ("\r\n\t\\'\"", "\r\n\t\\'\"")]),
    (Column("v", "BINARY", length=4), "BLOB", [(b"\0\xff\0\0", b"\0\xff\0\0")]),
    (Column("v", "LONGBLOB"), "BLOB", [(EVERY_BYTE, EVERY_BYTE), (b"", b"")]),
    (Column("v", "ENUM", elements=("b", "a,c", "")), "VARCHAR", [("1", "b"), ("2", "a,c"), ("3", ""), ("0", "")]),
    (Column("v", "ENUM"), "VARCHAR", [("0", "0"), ("2", "2")]),
    (Column("v", "SET", elements=("x", "y", "z")), "VARCHAR", [("0", ""), ("5", "x,z"), ("7", "x,y,z")]),
    (
        Column("v", "SET", elements=tuple(f"e{bit}" for bit in range(64))),
        "VARCHAR",
        [(str(1 << 63), "e63"), (str((1 << 63) + 1), "e0,e63")],
    ),
    (Column("v", "SET"), "VARCHAR", [("5", "5")]),
    (Column("v", "DATE"), "DATE", [("1000-01-01", date(1000, 1, 1)), ("9999-12-31", date(9999, 12, 31))]),
    (
        Column("v", "DATETIME", scale=6),
        "TIMESTAMP",
        [
            ("0001-01-01 00:00:00.000001", datetime(1, 1, 1, 0, 0, 0, 1)),
            ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ],
    ),
    (Column("v", "TIMESTAMP"), "TIMESTAMP", [("1970-01-01 00:00:01", datetime(1970, 1, 1, 0, 0, 1))]),
    (
        Column("v", "TIME", scale=6),
        "VARCHAR",
        [("-838:59:59.000000", "-838:59:59.000000"), ("-00:00:00.000001", "-00:00:00.000001")],
    ),
    (Column("v", "JSON"), "JSON", [('{"a": [1, null, "<é>"]}', '{"a": [1, null, "<é>"]}'), ("null", "null")]),
    (Column("v", "VECTOR"), "FLOAT[]", [("[1,2.5,-3]", [1.0, 2.5, -3.0]), ("[]", [])]),
]


@pytest.mark.parametrize(
    ("column", "fine", "zero", "shown"),
    [
        (Column("v", "DATE"), "2024-02-29", "0000-00-00", "2024-02-29"),
        (Column("v", "DATE"), "2024-02-29", "2024-00-00", "2024-02-29"),
        (Column("v", "DATE"), "0999-02-28", "0000-01-01", "0999-02-28"),
        (Column("v", "DATETIME"), "2024-01-01 10:00:00", "2023-02-31 00:00:00", "2024-01-01 10:00:00"),
        (
            Column("v", "TIMESTAMP", scale=3),
            "2024-01-01 10:00:00.500",
            "0000-00-00 00:00:00.000",
            "2024-01-01 10:00:00.500",
        ),
        (
            Column("v", "DATETIME", scale=6),
            "0001-01-01 10:00:00.000000",
            "0000-00-00 00:00:00.000000",
            "0001-01-01 10:00:00.000000",
        ),
    ],
)
def test_a_value_that_is_no_date_makes_the_column_text(
    replica: Replica, column: Column, fine: str, zero: str, shown: str
) -> None:
    replica.put((ID, column), [("1", fine), ("2", None)])
    replica.put((ID, column), [("3", zero), ("4", fine)])
    assert replica.types()["v"] == "VARCHAR"
    replica.put((ID, column), [("5", fine), ("4", zero)])
    assert replica.rows() == [(1, shown), (2, None), (3, zero), (4, zero), (5, shown)]
    (audited,) = replica.query("SELECT statement FROM storage_consumer.audit WHERE step = 'widen'")
    assert audited == ("now VARCHAR, for values that their type cannot hold: v",)


def test_a_target_prepared_before_the_column_became_text_still_fits(replica: Replica) -> None:
    columns = (ID, Column("v", "DATETIME", scale=3))
    early = replica.target(columns)
    replica.put(columns, [("1", "0000-00-00 00:00:00.000")])
    put = {"put": [True], "c0": ["2"], "c1": ["2024-01-01 00:00:00.250"]}
    replica.write(early, pa.table(put))
    assert replica.rows() == [(1, "0000-00-00 00:00:00.000"), (2, "2024-01-01 00:00:00.250")]


def test_a_date_key_is_found_after_its_column_became_text(replica: Replica) -> None:
    columns = (Column("d", "DATE", nullable=False, is_pk=True), Column("v", "INT"))
    replica.put(columns, [("2024-01-01", "1"), ("2024-01-02", "2")])
    replica.put(columns, [("0000-00-00", "3"), ("2024-01-02", "4")])
    assert replica.rows() == [("0000-00-00", 3), ("2024-01-01", 1), ("2024-01-02", 4)]


def test_text_that_duckdb_takes_for_no_json_is_kept(replica: Replica) -> None:
    columns = (ID, Column("v", "JSON"))
    replica.put(columns, [("1", json.dumps({"a": 1}))])
    replica.put(columns, [("2", "not json")])
    assert replica.types()["v"] == "VARCHAR"
    assert replica.rows() == [(1, '{"a": 1}'), (2, "not json")]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Column("v", "TINYINT"), "128"),
        (Column("v", "INT"), "one"),
        (Column("v", "DECIMAL", length=3, scale=1), "1000.0"),
        (Column("v", "ENUM", elements=("a",)), "2"),
        (Column("v", "SET", elements=("a",)), "2"),
    ],
)
def test_a_number_that_its_type_cannot_hold_is_refused(replica: Replica, column: Column, value: str) -> None:
    with pytest.raises(RowRefused, match=r"column v ") as caught:
        replica.put((ID, column), [("1", value)])
    assert caught.value.table == str(TABLE)


@pytest.mark.parametrize(
    ("column", "odd", "other"),
    [
        (Column("v", "DATE"), "2024-02-31", "yesterday"),
        (Column("v", "DATE"), "0000-00-00", "infinity"),
        (Column("v", "DATE"), "2024-00-00", "2024-01-01 "),
        (Column("v", "DATETIME", scale=3), "2024-00-00 00:00:00.000", "epoch"),
        (Column("v", "TIMESTAMP"), "0000-00-00 00:00:00", "noon"),
        (Column("v", "TIME", scale=1), "-838:59:59.0", "noon"),
        (Column("v", "DECIMAL", length=65, scale=1), "-" + "9" * 64 + ".9", "1e5"),
    ],
)
def test_so_is_a_text_that_upstream_writes_for_none(replica: Replica, column: Column, odd: str, other: str) -> None:
    """The column is text from the first one on, or ever was."""
    with pytest.raises(RowRefused, match=r"column v ") as caught:
        replica.put((ID, column), [("1", other)])
    assert other in caught.value.message
    replica.put((ID, column), [("1", odd), ("2", None)])
    with pytest.raises(RowRefused, match=r"column v "):
        replica.put((ID, column), [("3", odd), ("4", other)])
    assert replica.rows() == [(1, odd), (2, None)]


@pytest.mark.parametrize(("type_", "fits", "twin"), [("ENUM", ("1", "2"), "0"), ("SET", ("0", "1", "3"), "2")])
def test_two_keys_that_would_be_one_text_are_refused(
    replica: Replica, type_: str, fits: tuple[str, ...], twin: str
) -> None:
    key = Column("v", type_, nullable=False, is_pk=True, elements=("a", ""))
    replica.put((key,), [(number,) for number in fits])
    with pytest.raises(RowRefused, match="two keys would be one"):
        replica.put((key,), [(twin,)])
    other = TableName("db", "not_in_key")
    replica.put((ID, Column("v", type_, elements=("a", ""))), [("1", twin)], other)
    assert replica.rows(other) == [(1, "")]


def test_keys_of_every_kind_are_found_again(replica: Replica) -> None:
    """Each row is put twice and then deleted by its key alone."""
    for column, _, values in CASES:
        if column.type in ("JSON", "VECTOR"):
            continue
        key = Column("v", column.type, column.unsigned, column.length, column.scale, False, True, None, column.elements)
        target = replica.target((key, Column("n", "INT")), TableName("keys", repr(column)))
        given = [value for value, _ in values[:2]]
        c0 = pa.array(given, Replica._arrow_type(column))
        for number in ("1", "2"):
            replica.write(target, pa.table({"put": [True] * len(given), "c0": c0, "c1": [number] * len(given)}))
        assert {row[1] for row in replica.rows(target.table)} == {2}
        replica.write(
            target, pa.table({"put": [False] * len(given), "c0": c0, "c1": pa.array([None] * len(given), pa.string())})
        )
        assert replica.rows(target.table) == []


def test_paths_with_wildcards_are_taken_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "a[b]*c"
    folder.mkdir()
    replica = Replica(folder)
    replica.put((ID,), [("1",)])
    assert replica.rows() == [(1,)]
    replica.sink.close()
