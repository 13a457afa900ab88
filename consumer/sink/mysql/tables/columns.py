"""Columns of upstream on a server: how they are declared, and whether a target column holds every value unchanged.

In strict mode a server refuses values that are out of range, and reports values that it cuts off. This module names
what a server changes silently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from consumer.model.columns import Column, Family, mislabelled
from consumer.model.names import literal
from consumer.sink.mysql.tables.describe import labels_of_type
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
"""The types that hold a family's values unchanged. The writer checks the families that are not listed."""

_UNROUNDED: dict[Family, int] = {Family.FLOAT: 12, Family.DOUBLE: 22}
"""ColumnPrecision of a FLOAT or DOUBLE that upstream does not round. (M,0) has its own M, and no ColumnScale."""
_LENGTH_TYPES = {"CHAR", "VARCHAR", "BINARY", "VARBINARY", "BIT"}


def misfit(column: Column, target: TargetColumn, added: bool = False) -> str:
    """Returns what the target's column would change, "" for nothing. `added` says that a table mode adds the column,
    and that readers sort by it."""
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
        return "its digits after the point would be rounded"
    return ""


def wrong_label(upstream: Sequence[str], target: TargetColumn) -> str:
    """Returns which number is one label upstream and another one in the target, "" for none. The target may have more
    labels."""
    target_labels = labels_of_type(target.type) if target.data_type in ("enum", "set") else ()
    # MySQL and MariaDB show characters outside the basic plane as '?'.
    shown = [re.sub("[^\u0000-\uffff]", "?", label) for label in upstream]
    return mislabelled(upstream, target_labels) if target_labels and mislabelled(shown, target_labels) else ""


def _is_cut(column: Column, target: TargetColumn) -> bool:
    digits = _numbers(target)[1:]
    if not digits:
        return target.data_type == "decimal" and bool(column.scale)
    if column.family in _UNROUNDED and column.scale is None and column.length in (None, _UNROUNDED[column.family]):
        return True
    return (column.scale or 0) > digits[0]


def _numbers(target: TargetColumn) -> list[int]:
    """Returns the numbers in ``decimal(10,2)``, ``datetime(3)``, ``binary(8)``."""
    match = re.match(r"\w+\(([\d,]+)\)", target.type)
    return [int(number) for number in match[1].split(",")] if match else []


def column_type(column: Column) -> str:
    """Returns the column's type, as far as a schema file contains it."""
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
