"""The one table of conversions: what becomes of a column's values when upstream gives the column another type.

These are TiDB's rules, as far as its values do not depend on the sql_mode or the time zone of the session that ran the
statement, which no file shows. If they do, there is no value (`NoValue`), and whatever executes the statement stops
with that reason.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from consumer.model.columns import Column, Family
from consumer.model.types import numbers, texts, times
from consumer.model.types.values import NoValue


class Way(enum.Enum):
    """How a column's values become those of another type."""

    KEPT = enum.auto()
    """Each value is one of the new type as it is written."""
    SAME = enum.auto()
    """Each value that fits means the same: at most it gets other trailing zeros, or its label has another number."""
    COMPUTED = enum.auto()
    """Some values become others."""
    UNKNOWN = enum.auto()
    """Only for NULL it is known what becomes of it."""


Value = str | bytes
"""A value as change tables have it: bytes for binary types, else a text."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a statement does to the values of a column that was `old` and is `new` after it."""

    old: Column
    new: Column

    @property
    def way(self) -> Way:
        return _way(self.old, self.new)

    @property
    def stay_apart(self) -> bool:
        """Whether values that were different stay different."""
        alike = self.new.family in _FLOATS or self.new.type in ("CHAR", "BINARY")
        return self.way is Way.KEPT or (self.way is Way.SAME and not alike)

    @property
    def refuses_null(self) -> bool:
        """Whether upstream refused the statement if the column had a NULL."""
        return self.old.nullable and not self.new.nullable

    @property
    def by_clock(self) -> bool:
        """Whether the clock of the session that ran the statement decided: its time zone, or its day for a TIME."""
        old, new = self.old.family, self.new.family
        return (old is not new and Family.TIMESTAMP in (old, new)) or (old is Family.TIME and new in _WITH_A_DAY)

    @property
    def by_mode(self) -> bool:
        """Whether the session's sql_mode decided what becomes of days that no month has, if it accepted them."""
        return self.old.family in _READ_AS_DAYS and self.new.family in (Family.DATE, Family.DATETIME)

    @property
    def unknown(self) -> str:
        """Why it is not known what became of any value; "" if it is known of some."""
        if self.way is not Way.UNKNOWN:
            return ""
        old, new = self.old, self.new
        if self.by_clock:
            return (
                f"upstream made {new.type} of {old.type} by the clock and the time zone of the session that ran the"
                " statement, which no file shows"
            )
        if _is_untold(old, new):
            return f"no statement shows the labels of {old.type if old.labelled else new.type}"
        return f"what upstream makes of {old.type} as {new.type} is not known"

    def value(self, old: Value) -> Value:
        """Returns what TiDB makes of the value. Raises NoValue."""
        return self.maker()(old)

    def maker(self) -> Callable[[Value], Value]:
        """Returns a function that does what `value` does, for many values."""
        match self.way:
            case Way.KEPT:
                return lambda old: old
            case Way.UNKNOWN:
                return self._refuse
            case _:
                return partial(_RULES[self.new.family].make, self.old, self.new)

    def _refuse(self, old: Value) -> Value:
        raise NoValue(self.unknown)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The function that makes values of a family, and the families of its input: those whose values mean the same then,
    and others."""

    make: Callable[[Column, Column, Any], Value]
    same: tuple[Family, ...]
    others: tuple[Family, ...]


_LABELLED = (Family.ENUM, Family.SET)
_TIMES = (Family.DATE, Family.DATETIME, Family.TIME)
_WITH_A_DAY = (Family.DATE, Family.DATETIME, Family.YEAR)
_READ_AS_DAYS = (Family.TEXT, Family.BINARY, Family.INTEGER, Family.JSON)
_WHOLE = (Family.INTEGER, Family.BIT, Family.YEAR)
_FLOATS = (Family.FLOAT, Family.DOUBLE)
_RULES: Mapping[Family, _Rule] = {
    Family.INTEGER: _Rule(
        numbers.to_integer, _WHOLE, (Family.DECIMAL, *_FLOATS, Family.TEXT, *_LABELLED, *_TIMES)
    ),
    Family.BIT: _Rule(numbers.to_integer, (Family.INTEGER, Family.BIT), (Family.DECIMAL, *_FLOATS, *_LABELLED)),
    Family.YEAR: _Rule(
        numbers.to_year,
        (Family.YEAR,),
        (Family.INTEGER, Family.BIT, Family.DECIMAL, Family.TEXT, *_LABELLED, Family.DATE, Family.DATETIME),
    ),
    Family.DECIMAL: _Rule(
        numbers.to_decimal, (*_WHOLE, Family.DECIMAL), (*_FLOATS, Family.TEXT, *_LABELLED, *_TIMES)
    ),
    Family.DOUBLE: _Rule(
        numbers.to_double,
        (Family.INTEGER, Family.YEAR, Family.DOUBLE),
        (Family.BIT, Family.DECIMAL, Family.FLOAT, Family.TEXT, *_LABELLED, *_TIMES),
    ),
    Family.FLOAT: _Rule(
        numbers.to_single, (Family.FLOAT,), (*_WHOLE, Family.DECIMAL, Family.DOUBLE, Family.TEXT, *_LABELLED, *_TIMES)
    ),
    Family.TEXT: _Rule(
        texts.to_text,
        (Family.INTEGER, Family.DECIMAL, Family.TEXT, Family.JSON, *_TIMES),
        (Family.BIT, Family.YEAR, *_FLOATS, Family.BINARY, *_LABELLED),
    ),
    Family.BINARY: _Rule(
        texts.to_binary,
        (Family.BINARY,),
        (*_WHOLE, Family.DECIMAL, *_FLOATS, Family.TEXT, *_LABELLED, *_TIMES, Family.JSON),
    ),
    Family.ENUM: _Rule(texts.to_enum, (Family.ENUM,), (Family.SET, Family.TEXT)),
    Family.SET: _Rule(texts.to_set, (Family.SET,), (Family.ENUM, Family.TEXT)),
    Family.DATE: _Rule(times.to_date, (Family.DATE,), (Family.DATETIME, Family.TEXT)),
    Family.DATETIME: _Rule(times.to_datetime, (Family.DATETIME,), (Family.DATE, Family.TEXT)),
    Family.TIMESTAMP: _Rule(times.to_datetime, (Family.TIMESTAMP,), ()),
    Family.TIME: _Rule(times.to_time, (Family.TIME,), (Family.DATE, Family.DATETIME, Family.TEXT)),
    Family.JSON: _Rule(
        texts.to_json, (Family.JSON,), (Family.INTEGER, Family.YEAR, Family.DECIMAL, *_FLOATS, Family.TEXT, *_TIMES)
    ),
    Family.VECTOR: _Rule(texts.to_text, (), ()),
}  # fmt: skip
_UNROUNDED = {Family.FLOAT: 12, Family.DOUBLE: 22}
"""The ColumnPrecision of a FLOAT or DOUBLE that is not rounded to digits after its point."""


@lru_cache(4096)
def _way(old: Column, new: Column) -> Way:
    if _is_kept(old, new):
        return Way.KEPT
    rule = _RULES[new.family]
    if old.family not in (*rule.same, *rule.others) or _is_rounded(new) or _is_untold(old, new):
        return Way.UNKNOWN
    fewer_digits = old.family is new.family and (new.scale or 0) < (old.scale or 0)
    return Way.COMPUTED if fewer_digits or old.family in rule.others else Way.SAME


def _is_kept(old: Column, new: Column) -> bool:
    if old.kind == new.kind:
        return not (old.labelled and not old.elements and old.default != new.default)
    match old.family, new.family:
        case (Family.INTEGER | Family.BIT | Family.YEAR, Family.INTEGER | Family.BIT):
            (low, high), (least, most) = numbers.limits(old), numbers.limits(new)
            return least <= low and high <= most
        case (Family.INTEGER | Family.BIT | Family.YEAR, Family.DECIMAL):
            low, high = numbers.limits(old)
            digits, scale = new.digits
            return not scale and high < 10**digits and -low < 10**digits and (low >= 0 or not new.unsigned)
        case (Family.DECIMAL, Family.DECIMAL):
            (digits, scale), (more, other) = old.digits, new.digits
            return scale == other and digits <= more and old.unsigned >= new.unsigned
        case (Family.FLOAT, Family.FLOAT) | (Family.DOUBLE, Family.DOUBLE):
            return not _is_rounded(new) and old.unsigned >= new.unsigned
        case (Family.TEXT, Family.TEXT) if new.type == "CHAR" != old.type:
            return False
        case (Family.INTEGER | Family.DECIMAL | Family.DATE | Family.DATETIME | Family.TIME | Family.TEXT, Family.TEXT):
            return texts.holds_all(new, old)
        case (Family.BINARY, Family.BINARY):
            return new.type != "BINARY" and texts.holds_all(new, old)
        case (Family.ENUM, Family.ENUM) | (Family.SET, Family.SET):
            return bool(old.elements) and new.elements[: len(old.elements)] == old.elements
        case _:
            return False


def _is_untold(old: Column, new: Column) -> bool:
    """Returns whether the result depends on labels that no statement declares."""
    by_label = new.labelled or new.family in (Family.TEXT, Family.BINARY)
    return (new.labelled and not new.elements) or (by_label and old.labelled and not old.elements)


def _is_rounded(column: Column) -> bool:
    usual = _UNROUNDED.get(column.family)
    return usual is not None and (column.scale is not None or column.length not in (None, usual))
