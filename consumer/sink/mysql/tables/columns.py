"""Columns of upstream on a server: how they are declared, and whether one of the target holds every value as it is.

Strict mode refuses what is out of range, and notes what is cut off; what is named here a server changes without a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from consumer.model.columns import Column, Family, mislabelled
from consumer.model.names import literal
from consumer.sink.mysql.tables.describe import labels
from consumer.sink.mysql.target import TargetColumn

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_LONG_TEXTS = frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext"})
_BLOBS = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SAME: dict[Family, frozenset[str]] = {
    Family.INTEGER: _INTEGERS | {"decimal"} | _LONG_TEXTS,
    Family.DECIMAL: frozenset({"decimal"}) | _LONG_TEXTS,
    Family.FLOAT: frozenset({"float", "double"}),
    Family.DOUBLE: frozenset({"double"}),
    Family.YEAR: frozenset({"year"}) | _INTEGERS | _LONG_TEXTS,
    Family.DATE: frozenset({"date", "datetime"}) | _LONG_TEXTS,
    Family.DATETIME: frozenset({"datetime"}) | _LONG_TEXTS,
    Family.TIMESTAMP: frozenset({"timestamp"}),
    Family.TIME: frozenset({"time"}) | _LONG_TEXTS,
    Family.TEXT: _LONG_TEXTS,
    Family.BINARY: _BLOBS,
    Family.JSON: frozenset({"json"}) | _LONG_TEXTS,
}
"""The types that hold a family's values unchanged; families that are not named are the writer's to check."""

_UNROUNDED: dict[Family, int] = {Family.FLOAT: 12, Family.DOUBLE: 22}
"""ColumnPrecision of a FLOAT or DOUBLE that upstream rounds to no digits; (M,0) has its own M, and no ColumnScale."""
_LENGTH_TYPES = {"CHAR", "VARCHAR", "BINARY", "VARBINARY", "BIT"}


def misfit(column: Column, target: TargetColumn, added: bool = False) -> str:
    """What the target's column would change, "" for nothing. `added`: it is one that a mode adds, which readers put in
    order."""
    allowed = _SAME.get(column.family)
    if allowed is None:
        return ""
    if column.type in ("CHAR", "BINARY") and target.data_type == column.type.lower():
        longer = column.type == "BINARY" and column.length is not None and _numbers(target)[:1] != [column.length]
        return "its values would be padded with zero bytes" if longer else ""
    if target.data_type not in allowed:
        return "its values would be changed"
    if added and column.family is not Family.TEXT and target.data_type in _LONG_TEXTS:
        return "its values would be in the order of texts"
    if target.data_type in ("datetime", "timestamp", "time") and (_numbers(target) or [0])[0] < (column.scale or 0):
        return "its fractions of seconds would be rounded"
    if target.data_type in ("decimal", "float", "double") and _is_cut(column, target):
        return "its digits behind the point would be rounded"
    return ""


def wrong_label(upstream: Sequence[str], target: TargetColumn) -> str:
    """Which number is one label upstream and another one in the target, "" for none: the target may have more."""
    there = labels(target.type) if target.data_type in ("enum", "set") else ()
    # MySQL and MariaDB show characters outside the basic plane as '?'.
    shown = [re.sub("[^\u0000-\uffff]", "?", label) for label in upstream]
    return mislabelled(upstream, there) if there and mislabelled(shown, there) else ""


def _is_cut(column: Column, target: TargetColumn) -> bool:
    digits = _numbers(target)[1:]
    if not digits:
        return target.data_type == "decimal" and bool(column.scale)
    if column.family in _UNROUNDED and column.scale is None and column.length in (None, _UNROUNDED[column.family]):
        return True
    return (column.scale or 0) > digits[0]


def _numbers(target: TargetColumn) -> list[int]:
    """The numbers in ``decimal(10,2)``, ``datetime(3)``, ``binary(8)``."""
    found = re.match(r"\w+\(([\d,]+)\)", target.type)
    return [int(number) for number in found[1].split(",")] if found else []


def column_type(column: Column) -> str:
    """Its type, as far as a schema file tells it."""
    text = "VARCHAR" if column.type == "VAR_STRING" else column.type
    if column.type == "DECIMAL" or (column.family in (Family.FLOAT, Family.DOUBLE) and column.scale):
        text += f"({column.length}, {column.scale or 0})"
    elif text in _LENGTH_TYPES and column.length is not None:
        text += f"({column.length})"
    elif column.family in (Family.DATETIME, Family.TIMESTAMP, Family.TIME) and column.scale:
        text += f"({column.scale})"
    elif column.labelled:
        text += f"({', '.join(map(literal, column.elements))})"
    if column.unsigned and column.family in (Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.DOUBLE):
        text += " UNSIGNED"
    return text
