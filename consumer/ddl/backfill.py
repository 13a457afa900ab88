"""What the rows that are there get for a new column."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from consumer.ddl.declared import Definition
from consumer.model.columns import Column, Family
from consumer.model.times import tso_to_ms

_NOW = re.compile(r"(current_timestamp|now|localtimestamp|localtime|current_date|curdate)(\(\d?\))?", re.IGNORECASE)
_TIMES = frozenset({Family.DATETIME, Family.TIMESTAMP})
_NUMERIC_ZERO = frozenset({Family.INTEGER, Family.BIT, Family.YEAR, Family.DECIMAL, Family.FLOAT, Family.DOUBLE})


class NotExact(Exception):
    """There is no value, or no expression, that gives what upstream has."""


def backfill_text(column: Column, definition: Definition, version: int, zone: tzinfo) -> str | None:
    """The default of `column` as canal-JSON writes values, but with labels, and texts for bytes; or as MySQL does the
    zero of its type. None is NULL. `version` says when CURRENT_TIMESTAMP was, `zone` where. Raises NotExact."""
    if column.default is None:
        return None if column.nullable else _zero(column)
    return _default(column, definition, column.default, version, zone)


def _zero(column: Column) -> str:
    """The value that MySQL gives the old rows of a NOT NULL column with no default."""
    if column.family in _NUMERIC_ZERO:
        return "0"
    fraction = f".{'0' * column.scale}" if column.scale else ""
    match column.family:
        case Family.TEXT | Family.SET:
            return ""
        case Family.BINARY:
            return "\0" * (column.length or 0) if column.type == "BINARY" else ""
        case Family.ENUM:
            return column.elements[0] if column.elements else "1"
        case Family.DATE:
            return "0000-00-00"
        case Family.DATETIME | Family.TIMESTAMP:
            return f"0000-00-00 00:00:00{fraction}"
        case Family.TIME:
            return f"00:00:00{fraction}"
        case Family.JSON:
            return "null"
        case _:
            raise NotExact(f"a NOT NULL {column.type} with no default")


def _default(column: Column, definition: Definition, text: str, version: int, zone: tzinfo) -> str:
    if definition.computed and not (_NOW.fullmatch(text) and column.family in (*_TIMES, Family.DATE, Family.TIME)):
        raise NotExact(f"the default {text}, which upstream computed")
    match column.family:
        case Family.BIT:
            return str(_bits(definition, text))
        case Family.BINARY:
            if "\ufffd" in text:
                raise NotExact("a default that is not text; the schema file does not keep it")
            return text.ljust(column.length or 0, "\0") if column.type == "BINARY" else text
        case Family.DATETIME | Family.TIMESTAMP | Family.DATE | Family.TIME:
            return _time(column, text, version, zone)
        case _ if column.labelled and not column.elements:
            raise NotExact("a default of labels that no statement in the storage declares")
        case _:
            return text


def _bits(definition: Definition, text: str) -> int:
    """The schema file has the bytes; those that are no UTF-8 it has lost, the statement has them."""
    if definition.bits is not None:
        return definition.bits
    if "\ufffd" in text:
        raise NotExact("a BIT default that the schema file does not keep")
    return int.from_bytes(text.encode(), "big")


def _time(column: Column, text: str, version: int, zone: tzinfo) -> str:
    if _NOW.fullmatch(text):
        # The version has milliseconds; upstream's statement had microseconds, which the files do not keep.
        kept_in = UTC if column.family is Family.TIMESTAMP else zone
        text = _written(datetime.fromtimestamp(tso_to_ms(version) / 1000, kept_in))
    if column.family is Family.DATE:
        return text[:10]
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction[: column.scale].ljust(column.scale, '0')}" if column.scale else whole


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
