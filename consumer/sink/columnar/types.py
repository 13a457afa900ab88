"""Which DuckDB type holds a column of upstream. Written down for users in docs/duckdb.md."""

from __future__ import annotations

from consumer.model.columns import Column, Family
from consumer.sink.columnar.table import Held

_MAX_DIGITS = 38
"""DuckDB's widest DECIMAL; MySQL's has 65 digits."""
_INTEGERS = {"TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "MEDIUMINT": "INTEGER", "INT": "INTEGER", "BIGINT": "BIGINT"}
_OTHERS = {
    Family.FLOAT: "FLOAT",
    Family.DOUBLE: "DOUBLE",
    Family.BIT: "UBIGINT",
    Family.YEAR: "USMALLINT",
    Family.BINARY: "BLOB",
    Family.DATE: "DATE",
    Family.DATETIME: "TIMESTAMP",
    Family.TIMESTAMP: "TIMESTAMP",
    Family.JSON: "JSON",
    Family.VECTOR: "FLOAT[]",
}

TEXT = "VARCHAR"
WIDENING = frozenset({Family.DATE, Family.DATETIME, Family.TIMESTAMP, Family.JSON})
"""Families whose column becomes VARCHAR when a value arrives that their DuckDB type cannot hold."""


def duckdb_type(column: Column) -> str:
    """The DuckDB type of a new column. KeyError for a type that TiCDC does not write."""
    if column.family is Family.INTEGER:
        return ("U" if column.unsigned else "") + _INTEGERS[column.type]
    if column.family is Family.DECIMAL:
        digits, scale = column.digits
        return f"DECIMAL({digits},{scale})" if digits <= _MAX_DIGITS else TEXT
    return _OTHERS.get(column.family, TEXT)


def held_as(type_now: str) -> Held:
    """How a column of that DuckDB type holds its values."""
    if type_now in ("DATE", "TIMESTAMP"):
        return Held.TIME
    return Held.TEXT if type_now == TEXT else Held.OWN


def widened(column: Column, type_now: str) -> bool:
    """Whether `column`, of DuckDB type `type_now`, was made VARCHAR for a value that its own type cannot hold."""
    return type_now == TEXT and duckdb_type(column) != TEXT


def text_of(column: Column, expression: str) -> str:
    """The SQL expression that writes a DATE or TIMESTAMP `expression` as upstream does, with its fraction digits."""
    match column.family:
        case Family.DATE:
            return f"strftime({expression}, '%Y-%m-%d')"
        case Family.DATETIME | Family.TIMESTAMP:
            whole = "%Y-%m-%d %H:%M:%S"
            if not column.scale:
                return f"strftime({expression}, '{whole}')"
            return f"left(strftime({expression}, '{whole}.%f'), {20 + column.scale})"
        case _:
            return f"CAST({expression} AS VARCHAR)"
