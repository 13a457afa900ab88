"""Whether a column of another server has upstream's type: else its values may be more than upstream's can be, and would
become equal to one where they are brought to it."""

from __future__ import annotations

import re

from consumer.errors import SchemaDrift
from consumer.model.columns import Column, Family, known_type
from consumer.model.load import LoadTarget
from consumer.sink.mysql.rows.values import mysql_target

_IN_TEXT = (Family.JSON, Family.VECTOR)
"""Where a server has no such type, or none that takes what rows carry."""
_FRACTIONS = (Family.DECIMAL, Family.DATETIME, Family.TIMESTAMP, Family.TIME)


def check_alike(target: LoadTarget) -> None:
    """Raises SchemaDrift for a column of another kind of type, or with more digits behind the point. Lengths, character
    sets and collations may be others: values are compared byte by byte."""
    settings = mysql_target(target)
    for column, data_type, column_type in zip(target.columns, settings.data_types, settings.column_types, strict=True):
        in_text = column.family in _IN_TEXT and data_type == "longtext"
        if _kind(data_type) != column.family and not in_text:
            raise _unlike(target, column, column_type)
        if column.family in _FRACTIONS and _digits(column.family, column_type) > (column.scale or 0):
            raise _unlike(target, column, column_type)


def _kind(data_type: str) -> Family | None:
    name = data_type.upper()
    return Column("", name).family if known_type(name) else None


def _digits(family: Family, column_type: str) -> int:
    numbers = re.findall(r"\d+", column_type)
    behind = numbers[1:] if family is Family.DECIMAL else numbers[:1]
    return int(behind[0]) if behind else 0


def _unlike(target: LoadTarget, column: Column, column_type: str) -> SchemaDrift:
    return SchemaDrift(
        f"column {column.name} is {column.type} upstream and {column_type} in the target", table=str(target.table)
    )
