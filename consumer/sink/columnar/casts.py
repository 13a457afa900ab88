"""What rows that are there become when their column changes, and what they get for a new one. As SQL expressions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from consumer.ddl.declared import Definition, NotExact, backfill_text
from consumer.model.columns import Column, Family
from consumer.model.json_texts import tidb_json
from consumer.sink.columnar.table import TEXT, duckdb_type, literal, text_of, widened

if TYPE_CHECKING:
    import pyarrow as pa

JSON_FORM = "tidb_json"
"""`json_forms`, as a function of SQL that who executes the expressions brings along."""
_WHOLE = frozenset({Family.INTEGER, Family.BIT, Family.YEAR})
_TIMES = frozenset({Family.DATETIME, Family.TIMESTAMP})
_YEAR_ONE = 62135596800000000
"""Microseconds from the year 1 to 1970: added, no time is negative, and whole-number division rounds down."""


@dataclass(frozen=True, slots=True)
class NewValue:
    """A value of the new column: its DuckDB type, and the expression."""

    type: str
    sql: str


def converted(old: Column, new: Column, type_now: str, expression: str, zone: tzinfo) -> NewValue:
    """`expression`, the value of column `old` (of DuckDB type `type_now`), as a value of `new`; what leaves TIMESTAMP
    leaves UTC for `zone`. Raises NotExact."""
    if widened(old, type_now):
        if old.family is not new.family and old.family is Family.TIMESTAMP and str(zone) != "UTC":
            raise NotExact(f"column {old.name} holds values that are no {old.type}")
        if new.family is Family.TEXT or (new.family is old.family and new.scale == old.scale):
            return NewValue(TEXT, expression)
        raise NotExact(f"column {old.name} holds values that are no {old.type}")
    kind = duckdb_type(new)
    same = old.family is new.family
    value = _same_family(old, new, expression) if same else _other_family(old, new, expression, zone)
    return NewValue(kind, value if kind == type_now and value == expression else f"CAST({value} AS {kind})")


def backfill(column: Column, definition: Definition, version: int, zone: tzinfo) -> NewValue:
    """What the rows that are there get for the new `column`: its default, or as MySQL does the zero of its type.

    `version` says when CURRENT_TIMESTAMP was, `zone` where. Raises NotExact.
    """
    text = backfill_text(column, definition, version, zone)
    kind = duckdb_type(column)
    if text is None:
        return NewValue(kind, f"CAST(NULL AS {kind})")
    if column.family is Family.BINARY:
        return NewValue(kind, f"CAST({literal(_blob(text))} AS BLOB)")
    if column.family in _TIMES or column.family is Family.DATE:
        kind = kind if _is_time(text) else TEXT
    return NewValue(kind, f"CAST({literal(text)} AS {kind})")


def _same_family(old: Column, new: Column, value: str) -> str:
    match old.family:
        case Family.TEXT:
            return f"rtrim({value}, ' ')" if new.type == "CHAR" != old.type else value
        case Family.BINARY if new.type == "BINARY" and (old.type, old.length) != (new.type, new.length):
            raise NotExact("the padding of BINARY")
        case Family.ENUM | Family.SET:
            return _relabelled(old, new, value)
        case Family.DATETIME | Family.TIMESTAMP:
            return _rounded(old.scale or 0, new.scale or 0, value)
        case Family.TIME:
            return _longer(old.scale or 0, new.scale or 0, value)
        case Family.DECIMAL if duckdb_type(new) == TEXT:
            scale = new.digits[1]
            return (
                value
                if duckdb_type(old) == TEXT and old.digits[1] == scale
                else f"CAST({value} AS DECIMAL(38,{scale}))"
            )
        case _:
            return value


def _other_family(old: Column, new: Column, value: str, zone: tzinfo) -> str:
    match old.family, new.family:
        case (Family.DECIMAL, Family.TEXT):
            digits, scale = old.digits
            # DuckDB writes a DECIMAL(p,p) without the 0 before its point.
            return f"CAST({value} AS DECIMAL({digits + 1},{scale}))" if digits == scale else value
        case (Family.INTEGER | Family.TIME | Family.JSON | Family.DATE, Family.TEXT):
            return value
        case (Family.DATETIME, Family.TEXT):
            return text_of(old, value)
        case (Family.TIMESTAMP, Family.TEXT):
            return text_of(old, _local(value, zone))
        case (Family.TIMESTAMP, Family.DATETIME):
            return _rounded(old.scale or 0, new.scale or 0, _local(value, zone))
        case (Family.YEAR, Family.TEXT):
            return f"lpad(CAST({value} AS VARCHAR), 4, '0')"
        case (Family.ENUM | Family.SET, Family.TEXT) if old.elements:
            return value
        case (Family.TEXT, Family.BINARY) if new.type != "BINARY":
            return f"encode({value})"
        case (Family.BINARY, Family.TEXT) if old.type != "BINARY":
            return f"decode({value})"
        case (Family.INTEGER | Family.BIT | Family.YEAR, Family.DECIMAL) if duckdb_type(new) == TEXT:
            zeros = "0" * new.digits[1]
            return f"CAST({value} AS VARCHAR) || {literal('.' + zeros)}" if zeros else value
        case (Family.TEXT | Family.DOUBLE, Family.DECIMAL) if duckdb_type(new) == TEXT:
            return f"CAST(CAST({value} AS VARCHAR) AS DECIMAL(38,{new.digits[1]}))"
        case (Family.INTEGER | Family.BIT | Family.YEAR, Family.INTEGER | Family.BIT | Family.DECIMAL | Family.DOUBLE):
            return value
        case (Family.DECIMAL | Family.DOUBLE, Family.INTEGER):
            return value
        case (Family.DECIMAL | Family.TEXT, Family.DOUBLE) | (Family.DOUBLE, Family.DECIMAL):
            return f"CAST({value} AS VARCHAR)"  # by its shortest text, which a number's own cast does not go by
        case (Family.TEXT, Family.INTEGER | Family.DECIMAL) | (Family.FLOAT, Family.DOUBLE):
            return value
        case (Family.TEXT, Family.JSON):
            return f"{JSON_FORM}({value})"
        case (Family.DATE, Family.DATETIME):
            return value
        case (Family.DATETIME, Family.DATE) if not old.scale:
            return value
        case _:
            raise NotExact(f"{old.type} to {new.type}")


def _local(value: str, zone: tzinfo) -> str:
    """A TIMESTAMP, which is kept in UTC, as the clock of `zone` shows it."""
    if str(zone) == "UTC":
        return value
    if isinstance(zone, ZoneInfo):
        return f"timezone({literal(zone.key)}, timezone('UTC', {value}))"
    return f"({value} + to_seconds({round((zone.utcoffset(None) or timedelta()).total_seconds())}))"


def _relabelled(old: Column, new: Column, value: str) -> str:
    if not (old.elements and new.elements):
        return value
    kept = [label for label in new.elements if label in old.elements]
    if kept != list(old.elements) and (old.family is Family.SET or len(kept) < len(old.elements)):
        raise NotExact("labels that are gone or moved")
    return value


def _rounded(before: int, after: int, value: str) -> str:
    """A time with fewer digits of its seconds: rounded half up."""
    if after >= before:
        return value
    step = 10 ** (6 - after)
    steps = f"(epoch_us({value}) + {_YEAR_ONE} + {step // 2}) // {step}"
    return f"make_timestamp(CAST({steps} * {step} - {_YEAR_ONE} AS BIGINT))"


def _longer(before: int, after: int, value: str) -> str:
    if after < before:
        raise NotExact("fewer digits of a TIME")
    if after == before:
        return value
    return f"{value} || '{'.' if not before else ''}{'0' * (after - before)}'"


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _blob(text: str) -> str:
    """A BLOB literal: every byte as \\xHH."""
    return "".join(f"\\x{byte:02X}" for byte in text.encode())


def json_forms(texts: pa.ChunkedArray) -> pa.Array:
    """Texts of JSON as TiDB writes them. There is no kernel for it: one call for each distinct text."""
    import pyarrow as pa  # an idle round does not need it

    coded = texts.combine_chunks().dictionary_encode()
    return pa.array(map(tidb_json, coded.dictionary.to_pylist()), pa.string()).take(coded.indices)
