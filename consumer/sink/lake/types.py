"""The columns of a lake: their types in Spark, and conversions of values between Spark, the files and DuckDB.

A column has the type that DuckDB would give it (`sink.columnar.table`). So the effect of statements on rows is defined
once, as expressions of DuckDB, which executors evaluate for a lake, too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.typed import typed_type, typed_values
from consumer.errors import CannotBeExact, RowRefused
from consumer.model.columns import Column, Family
from consumer.sink.columnar.table import TEXT, duckdb_type

_NAMES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.binary(): "BINARY",
    pa.string(): "STRING",
    pa.list_(pa.float32()): "ARRAY<FLOAT>",
}
DAYS = frozenset({Family.DATE, Family.DATETIME, Family.TIMESTAMP})
_WRITTEN = frozenset({Family.DECIMAL, Family.TIME})
"""Families of numbers and times that can be held as text."""


def spark_name(name: str) -> str:
    """Returns `name` as an identifier in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def spark_literal(text: str) -> str:
    """Returns `text` as a string in Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def bound_literal(value: object) -> str:
    """Returns a least or greatest value of a column in Spark's SQL; "" if Spark may compare it differently."""
    if type(value) is int:
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, datetime):
        return f"TIMESTAMP{'' if value.tzinfo else '_NTZ'}'{value.isoformat(' ')}'"
    return f"DATE'{value.isoformat()}'" if isinstance(value, date) else ""


def spark_type(column: Column) -> str:
    """Returns the type of a new column. Raises KeyError for a type that TiCDC does not write."""
    return _named(typed_type(column))


def _named(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):  # the field name of its values differs in files
        kind = pa.list_(kind.value_type)
    return f"DECIMAL({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _NAMES[kind]


def column_definitions(rows: pa.Table) -> str:
    """Returns the columns of `rows` as in a CREATE TABLE."""
    return ", ".join(f"{spark_name(field.name)} {_named(field.type)}" for field in rows.schema)


def nullable(column: Column) -> bool:
    """Returns whether the lake's column accepts NULL. It stands for days that no calendar has."""
    return column.nullable or (column.family in DAYS and not column.is_pk)


def column_definition(column: Column) -> str:
    """Returns a column as in a CREATE TABLE."""
    return f"{spark_name(column.name)} {spark_type(column)}{'' if nullable(column) else ' NOT NULL'}"


def to_lake(column: Column, values: pa.ChunkedArray, in_key: bool) -> tuple[pa.ChunkedArray, int]:
    """Returns the files' values in the lake's type, and how many of them became NULL: days that no calendar has. Raises
    RowRefused for values that it cannot hold, and for such a day in a key (`in_key`)."""
    try:
        typed, lost = typed_values(column, values)
    except CannotBeExact as error:
        raise RowRefused(error.message) from error
    if lost and in_key:
        raise RowRefused(
            f"column {column.name} ({column.type}) is of the key, and a value of it is no day of a calendar"
        )
    return typed, lost


def duck_columns(batch: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Returns rows of the lake, ``columns`` in their order, in the form for DuckDB: a TIMESTAMP as its time in UTC."""
    converted = []
    for column, values in zip(columns, batch.columns, strict=True):
        utc = column.family is Family.TIMESTAMP and pa.types.is_timestamp(values.type)
        converted.append(pc.cast(values, pa.timestamp("us")) if utc else values)
    return pa.table(converted, names=[f"v{position}" for position in range(len(converted))])


def to_duckdb(column: Column, value: str) -> str:
    """Returns an expression of DuckDB for the lake's `value` of a column, in the column's DuckDB type."""
    return f"CAST({value} AS {duckdb_type(column)})"


def from_duckdb(column: Column, value: str) -> str:
    """Converts an expression of the column's DuckDB type to the lake's type. For a column of days it may be text: NULL
    if it is no day."""
    kind = typed_type(column)
    if column.family in DAYS:
        return f"TRY_CAST({value} AS {duckdb_type(column)})"
    if pa.types.is_decimal(kind):
        return f"CAST({value} AS DECIMAL({kind.precision},{kind.scale}))"
    if pa.types.is_string(kind):
        return f"CAST({value} AS {TEXT})"
    named = {"BINARY": "BLOB", "ARRAY<FLOAT>": "FLOAT[]"}
    return f"CAST({value} AS {named.get(_NAMES[kind], _NAMES[kind])})"


def lake_schema(columns: Collection[Column]) -> pa.Schema:
    return pa.schema([pa.field(f"v{position}", typed_type(column)) for position, column in enumerate(columns)])
