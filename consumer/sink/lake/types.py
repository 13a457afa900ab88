"""The columns of a lake: their types in Spark, and values between them, the files and DuckDB.

A column is known by the type that DuckDB would give it (`sink.columnar.table`): what statements mean for rows is said
there once, as expressions of DuckDB, which executors evaluate for a lake too."""

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
"""Families of numbers and times that can be held as texts."""


def quoted(name: str) -> str:
    """`name` as an identifier in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """`text` in Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def bound(value: object) -> str:
    """A least or greatest value of a column in Spark's SQL; "" where that is not surely what Spark compares."""
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
    """The type of a new column. KeyError for a type that TiCDC does not write."""
    return _named(typed_type(column))


def _named(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):  # what its values are called differs in files
        kind = pa.list_(kind.value_type)
    return f"DECIMAL({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _NAMES[kind]


def columns_of(rows: pa.Table) -> str:
    """Those of `rows` as in a CREATE TABLE."""
    return ", ".join(f"{quoted(field.name)} {_named(field.type)}" for field in rows.schema)


def nullable(column: Column) -> bool:
    """Whether the lake's column takes NULL, which it has for days that no calendar has."""
    return column.nullable or (column.family in DAYS and not column.is_pk)


def declared(column: Column) -> str:
    """A column as in a CREATE TABLE."""
    return f"{quoted(column.name)} {spark_type(column)}{'' if nullable(column) else ' NOT NULL'}"


def to_lake(column: Column, values: pa.ChunkedArray, in_key: bool) -> tuple[pa.ChunkedArray, int]:
    """Values of the files in the lake's type, and how many of them became NULL: days that no calendar has. Raises
    RowRefused for what it cannot hold, and for such a day in a key (`in_key`)."""
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
    """Rows of the lake, ``columns`` in their order, as DuckDB is to see them: a TIMESTAMP as its time in UTC."""
    found = []
    for column, values in zip(columns, batch.columns, strict=True):
        utc = column.family is Family.TIMESTAMP and pa.types.is_timestamp(values.type)
        found.append(pc.cast(values, pa.timestamp("us")) if utc else values)
    return pa.table(found, names=[f"v{position}" for position in range(len(found))])


def as_duck(column: Column, value: str) -> str:
    """The lake's `value` of a column, as an expression of DuckDB of the type that it would have there."""
    return f"CAST({value} AS {duckdb_type(column)})"


def from_duck(column: Column, value: str) -> str:
    """An expression of the type that DuckDB would give the column, in the lake's type. Of a column of days it may be a
    text: NULL where that is no day."""
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
