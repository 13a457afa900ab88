"""Whether a column that somebody else made holds every value of upstream's as it is.

What is out of range is refused as the row is written. What is named here would be rounded, cut or converted without a
word.
"""

from __future__ import annotations

import re

from consumer.model.columns import Column, Family
from consumer.sink.columnar.types import TEXT, duckdb_type

_INTEGERS = frozenset(
    sign + kind for sign in ("", "U") for kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)
_WIDER: dict[Family, frozenset[str]] = {
    Family.INTEGER: _INTEGERS,
    Family.BIT: _INTEGERS,
    Family.YEAR: _INTEGERS,
    Family.FLOAT: frozenset({"DOUBLE"}),
    Family.DATE: frozenset({"TIMESTAMP"}),
}
"""Other types than the usual one of a family that hold its values unchanged."""


def misfit(column: Column, type_now: str, added: bool = False) -> str:
    """What a table's column of the DuckDB type `type_now` would change, "" for nothing. `added`: it is one that a form
    adds, which readers and the program itself put in order."""
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
    there = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", type_now)
    return scale <= int(there[1]) if there else not scale and type_now in _INTEGERS


def _labels_fit(column: Column, type_now: str) -> bool:
    """A label that an ENUM of the table lacks is refused; without labels the rows' numbers are all that is known."""
    return column.family is Family.ENUM and bool(column.elements) and type_now.startswith("ENUM(")
