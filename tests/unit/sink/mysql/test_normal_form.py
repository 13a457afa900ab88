"""Which texts of a server and of the files are one value: every pair is told apart unless a column cannot."""

from __future__ import annotations

import pyarrow as pa
import pytest

from consumer.model.columns import Column
from consumer.model.load import LoadTarget, TableLoad
from consumer.model.names import TableName
from consumer.sink.mysql.rows.normal_form import expected, expressions, held
from consumer.sink.mysql.target import MySqlTarget, Server, TargetColumn


def target(column: Column, data_type: str, column_type: str = "") -> LoadTarget:
    there = TargetColumn(column.name, data_type, column_type or data_type, "", True, False, None, "", "")
    settings = MySqlTarget(Server("mysql", local_infile=True), TableName("d", "t"), (there,))
    return LoadTarget(TableLoad(TableName("d", "t")), (column,), (column.name,), (), settings=settings)


def same(column: Column, data_type: str, told: str, found: str) -> bool:
    own = target(column, data_type)
    ours = expected(own, pa.table({"c0": pa.array([told], pa.large_string())}))
    theirs = held(own, [pa.array([found])])
    assert ours.schema == theirs.schema
    return bool(ours.equals(theirs))


@pytest.mark.parametrize(
    ("column", "data_type", "told", "found", "equal"),
    [
        (Column("c", "INT"), "int", "5", "5", True),
        (Column("c", "INT"), "decimal", "1", "1.40", False),
        (Column("c", "INT"), "decimal", "1", "1.00", True),
        (Column("c", "INT"), "bigint", "100", "10", False),
        (Column("c", "DECIMAL", length=10, scale=2), "decimal", "1.10", "1.1000", True),
        (Column("c", "DECIMAL", length=10, scale=2), "decimal", "-0.00", "0.00", True),
        (Column("c", "DECIMAL", length=10, scale=2), "decimal", "1.10", "1.01", False),
        (Column("c", "DECIMAL", length=10, scale=2), "decimal", "1.10", "00000001.10", True),  # ZEROFILL
        (Column("c", "DECIMAL", length=10, scale=2), "decimal", "0.10", "00000000.10", True),
        (Column("c", "DECIMAL", length=10, scale=2), "decimal", "10.00", "00000100.00", False),
        (Column("c", "FLOAT"), "float", "0.1", "0.10000000149011612", True),
        (Column("c", "FLOAT"), "float", "16777216", "16777218", False),
        (Column("c", "FLOAT"), "double", "0.1", "0.1", False),
        (Column("c", "DOUBLE"), "double", "1e+06", "1000000", True),
        (Column("c", "DOUBLE"), "double", "0.1", "0.10000000000000002", False),
        (Column("c", "DATE"), "datetime", "2024-01-01", "2024-01-01 00:00:00", True),
        (Column("c", "DATE"), "datetime", "2024-01-01", "2024-01-01 10:00:00", False),
        (Column("c", "DATETIME"), "datetime", "2024-01-01 00:00:00", "2024-01-01 00:00:00.000000", True),
        (Column("c", "DATETIME"), "datetime", "2024-01-01 00:00:00", "2024-01-01 00:00:00.000001", False),
        (Column("c", "VARCHAR", length=9), "varchar", "a", "a ", False),
        (Column("c", "VARCHAR", length=9), "varchar", "1.0", "1", False),
        (Column("c", "VARCHAR", length=9), "varchar", "a", "A", False),
        (Column("c", "YEAR"), "year", "0", "0", True),
        (Column("c", "ENUM"), "enum", "1", "2", False),
        (Column("c", "JSON"), "json", '{"b":1,"a":[1.5,null]}', '{"a": [1.5, null], "b": 1}', True),
        (Column("c", "JSON"), "json", '{"a":1}', '{"a":"1"}', False),
        (Column("c", "JSON"), "json", '{"a":true}', '{"a":1}', False),
        (Column("c", "JSON"), "json", "[1,2]", "[2,1]", False),
        (Column("c", "JSON"), "json", "18446744073709551616", "1.8446744073709552e19", True),
        (Column("c", "JSON"), "json", "18446744073709551615", "18446744073709551614", False),
        (Column("c", "VECTOR"), "vector", "[1,2.5]", "[1.00000e+00,2.50000e+00]", True),
        (Column("c", "VECTOR"), "vector", "[1,2.5]", "0000803f00002040", True),
        (Column("c", "VECTOR"), "vector", "[1,2.5]", "0000803f00002041", False),
        (Column("c", "VECTOR"), "vector", "[0]", "00000000", True),
        (Column("c", "VECTOR"), "vector", "[1,2.5]", "[1,2.25]", False),
    ],
)
def test_two_texts_are_one_value_or_two(column: Column, data_type: str, told: str, found: str, equal: bool) -> None:
    assert same(column, data_type, told, found) is equal


@pytest.mark.parametrize(
    ("data_type", "column_type", "chosen"),
    [
        ("float", "float", "`c` + 0e0"),
        ("double", "double(20,5)", "`c`"),  # MariaDB keeps -0.00000999999999995449 for -0.00001, and shows the latter
        ("int", "int(5) zerofill", "`c` + 0"),
    ],
)
def test_numbers_are_asked_for_with_all_their_digits(data_type: str, column_type: str, chosen: str) -> None:
    assert expressions(target(Column("c", "DOUBLE"), data_type, column_type)) == [chosen]
