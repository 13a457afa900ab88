"""A column as the schema file describes it, and the labels of an ENUM or SET."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass


class Family(enum.StrEnum):
    """How a type's values are represented."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    BIT = "bit"
    YEAR = "year"
    TEXT = "text"
    BINARY = "binary"
    ENUM = "enum"
    SET = "set"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    JSON = "json"
    VECTOR = "vector"


_FAMILIES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"), Family.INTEGER),
    **dict.fromkeys(("CHAR", "VARCHAR", "VAR_STRING", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"), Family.TEXT),
    **dict.fromkeys(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), Family.BINARY),
    **{family.upper(): family for family in Family if family not in (Family.INTEGER, Family.TEXT, Family.BINARY)},
}


@dataclass(frozen=True, slots=True)
class Column:
    """One member of ``TableColumns``. `type` is upper case, without its UNSIGNED suffix.

    `length` is ColumnPrecision, `scale` ColumnScale; `default` is as in the file (None: no default); `elements` are the
    labels of an ENUM or SET if the file or the target knows them.
    """

    name: str
    type: str
    unsigned: bool = False
    length: int | None = None
    scale: int | None = None
    nullable: bool = True
    is_pk: bool = False
    default: str | None = None
    elements: tuple[str, ...] = ()

    @property
    def family(self) -> Family:
        """The family of the type. Raises KeyError for a type that TiCDC does not write."""
        return _FAMILIES[self.type]

    @property
    def labelled(self) -> bool:
        """Whether its values are elements."""
        return self.family in (Family.ENUM, Family.SET)

    @property
    def digits(self) -> tuple[int, int]:
        """The total number of a DECIMAL's digits, and the number after the point."""
        return (10 if self.length is None else self.length), self.scale or 0

    @property
    def kind(self) -> tuple[object, ...]:
        """What determines which values it can hold, and how they are stored. The width of a whole number is only for
        display."""
        name = "VARCHAR" if self.type == "VAR_STRING" else self.type
        sized = self.family not in (Family.INTEGER, Family.YEAR)
        return name, self.unsigned, self.length if sized else None, self.scale or 0, self.elements

    @property
    def hidden(self) -> bool:
        """Whether it is a column of an expression or multi-valued index: listed in schema files, never in rows."""
        return self.name.startswith(("_V$_",))


def known_type(name: str) -> bool:
    """Returns whether `name` (upper case, no UNSIGNED) is a type that TiCDC writes."""
    return name in _FAMILIES


_TYPE = re.compile(r"\s*(?:enum|set)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)


def labels_of(type_: str) -> tuple[str, ...]:
    """Returns the labels in a full type: ``enum('a','it''s')`` -> ``('a', "it's")``; none for another type, or for one
    without its labels."""
    match = _TYPE.match(type_)
    return tuple(_ESCAPED.sub(lambda e: e[1] or "'", text) for text in _LABEL.findall(match[1])) if match else ()


def mislabelled(upstream: Sequence[str], target_labels: Sequence[str]) -> str:
    """Returns which number is one of the labels `upstream` and another one in `target_labels`, "" for none. There may
    be more. Blanks at the end of a label do not count."""
    for number, label in enumerate(upstream, 1):
        other = target_labels[number - 1] if number <= len(target_labels) else None
        if other is None or other.rstrip(" ") != label.rstrip(" "):
            shown = "no label" if other is None else repr(other)
            return f"label {number} is {label!r} upstream and {shown} in the target"
    return ""
