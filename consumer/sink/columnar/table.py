"""A table of typed columns, and what a writer must know of it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from consumer.model.columns import Column, Family
from consumer.model.names import TableName, same_name


class Held(enum.Enum):
    """The form in which a table holds a column: as text, whatever its family is; as a date or time; as its family's own
    type."""

    TEXT = enum.auto()
    TIME = enum.auto()
    OWN = enum.auto()


@dataclass(frozen=True, slots=True)
class ColumnarTarget:
    """A target table, as LoadTarget.settings. `held` has one entry for each of LoadTarget.columns."""

    held: tuple[Held, ...]


def handle_key(columns: Sequence[Column], unique_keys: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Returns the positions of the primary key, or else of the first NOT NULL unique key whose columns all exist, or
    else none."""
    primary = tuple(position for position, column in enumerate(columns) if column.is_pk)
    positions = {same_name(column.name): position for position, column in enumerate(columns)}
    complete = (key for key in unique_keys if all(same_name(name) in positions for name in key))
    return primary or tuple(sorted(positions[same_name(name)] for name in next(complete, ())))


@dataclass(frozen=True, slots=True)
class Upstream:
    """A table's columns upstream, without the hidden ones. `virtual` are the names of columns that have no values in
    rows, and so no column in the replica. If an ENUM or SET has `elements`, its values are kept as labels."""

    columns: tuple[Column, ...]
    virtual: frozenset[str] = frozenset()

    @property
    def stored(self) -> tuple[Column, ...]:
        """Returns the columns of the replica."""
        return tuple(column for column in self.columns if column.name not in self.virtual)

    def as_dict(self) -> dict[str, Any]:
        """Returns the value in JSON's types."""
        return {"columns": [asdict(column) for column in self.columns], "virtual": sorted(self.virtual)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Upstream:
        """Restores a value from `as_dict`."""
        columns = (Column(**{**column, "elements": tuple(column["elements"])}) for column in body["columns"])
        return cls(tuple(columns), frozenset(body["virtual"]))


@dataclass(frozen=True)
class ReplicaTable:
    """A table of the target: its name and columns in the target's spelling, with their DuckDB types, in order.

    `upstream` is None for a table that somebody else created. `generated` are columns that the target computes,
    `required` those that are NOT NULL and have no default, `collated` those that treat different texts as equal.
    """

    name: TableName
    types: Mapping[str, str]
    upstream: Upstream | None
    generated: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    collated: frozenset[str] = frozenset()

    def spelled(self, column: str) -> str | None:
        """Returns the table's own spelling of a column name."""
        return self._spellings.get(same_name(column))

    @cached_property
    def _spellings(self) -> Mapping[str, str]:
        return {same_name(name): name for name in self.types}


_MAX_DIGITS = 38
"""The digits of DuckDB's widest DECIMAL; MySQL's has 65."""
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
    """Returns the DuckDB type of a new column. Raises KeyError for a type that TiCDC does not write."""
    if column.family is Family.INTEGER:
        return ("U" if column.unsigned else "") + _INTEGERS[column.type]
    if column.family is Family.DECIMAL:
        digits, scale = column.digits
        return f"DECIMAL({digits},{scale})" if digits <= _MAX_DIGITS else TEXT
    return _OTHERS.get(column.family, TEXT)


def held_as(type_now: str) -> Held:
    """Returns how a column of that DuckDB type holds its values."""
    if type_now in ("DATE", "TIMESTAMP"):
        return Held.TIME
    return Held.TEXT if type_now == TEXT else Held.OWN


def widened(column: Column, type_now: str) -> bool:
    """Returns whether `column`, of DuckDB type `type_now`, became VARCHAR for a value that its own type cannot hold."""
    return type_now == TEXT and duckdb_type(column) != TEXT


def text_expression(column: Column, expression: str) -> str:
    """Returns the SQL expression that writes an `expression` of the column's own type as upstream does: a time with its
    digits, a DECIMAL with a digit before its point."""
    match column.family:
        case Family.DATE:
            return f"strftime({expression}, '%Y-%m-%d')"
        case Family.DATETIME | Family.TIMESTAMP:
            format_text = "%Y-%m-%d %H:%M:%S"
            if not column.scale:
                return f"strftime({expression}, '{format_text}')"
            return f"left(strftime({expression}, '{format_text}.%f'), {20 + column.scale})"
        case Family.DECIMAL if column.digits[0] == column.digits[1]:
            return f"regexp_replace(CAST({expression} AS VARCHAR), '^(-?)[.]', '\\10.')"
        case _:
            return f"CAST({expression} AS VARCHAR)"


_WHOLE_TYPES = frozenset(
    sign + kind for sign in ("", "U") for kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)
_WIDER: dict[Family, frozenset[str]] = {
    Family.INTEGER: _WHOLE_TYPES,
    Family.BIT: _WHOLE_TYPES,
    Family.YEAR: _WHOLE_TYPES,
    Family.FLOAT: frozenset({"DOUBLE"}),
    Family.DATE: frozenset({"TIMESTAMP"}),
}
"""Types other than a family's usual one that hold its values unchanged."""


def column_misfit(column: Column, type_now: str, added: bool = False) -> str:
    """Returns what a table's column of the DuckDB type `type_now` would change, "" for nothing. `added` says that a
    table mode adds it, and that readers and the program itself sort by it."""
    if type_now == duckdb_type(column):
        return ""
    if type_now == TEXT:
        if added:
            return "its values would be in the order of texts"
        return "its values would be changed" if column.family is Family.BINARY else ""
    if type_now in _WIDER.get(column.family, ()) or _digits_fit(column, type_now) or _labels_fit(column, type_now):
        return ""
    return "its values would be changed"


def _digits_fit(column: Column, type_now: str) -> bool:
    if column.family not in (Family.INTEGER, Family.DECIMAL) or duckdb_type(column) == TEXT:
        return False
    scale = column.digits[1] if column.family is Family.DECIMAL else 0
    match = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", type_now)
    return scale <= int(match[1]) if match else not scale and type_now in _WHOLE_TYPES


def _labels_fit(column: Column, type_now: str) -> bool:
    """Returns whether the labels fit. A label that an ENUM of the table lacks is refused. Without labels only the rows'
    numbers are known."""
    return column.family is Family.ENUM and bool(column.elements) and type_now.startswith("ENUM(")


def merge_misfit(columns: Sequence[Column], table: ReplicaTable) -> str | None:
    """Returns why rows with `columns` cannot be in `table`, None if they can. The table may lack some of the columns.
    Its own types count, because somebody can have changed them by hand."""
    if table.upstream is None:
        return f"{table.name} was made by hand, so what its columns mean is not known"
    table_columns = {same_name(column.name): column for column in table.upstream.columns}
    for column in columns:
        spelled, other = table.spelled(column.name), table_columns.get(same_name(column.name))
        if spelled is None:
            continue
        type_there = table.types[spelled]
        if type_there != duckdb_type(column) and not widened(column, type_there):
            return f"its column {column.name} would be {duckdb_type(column)}, and there it is {type_there}"
        if other is None:
            return f"nothing shows what the column {column.name} there means"
        if other.family is not column.family or other.elements != column.elements:
            return f"its column {column.name} would be {_type_text(column)}, and there it is {_type_text(other)}"
    return _other_key(columns, table.upstream)


def _other_key(columns: Sequence[Column], table_columns: Upstream) -> str | None:
    keys = [{same_name(column.name) for column in each if column.is_pk} for each in (columns, table_columns.columns)]
    if keys[0] == keys[1]:
        return None
    key_text, others = (", ".join(sorted(key)) or "none" for key in keys)
    return f"its key would be {key_text}, and there it is {others}"


def _type_text(column: Column) -> str:
    return f"{column.type}{column.elements or ''}"


def visible_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(column for column in columns if not column.hidden)


def quote_name(name: str) -> str:
    """Returns `name` as an identifier in a statement."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Returns `text` as a string in a statement."""
    return "'" + text.replace("'", "''") + "'"
