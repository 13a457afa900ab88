"""Computes what TiDB converts numbers to: exact ones are rounded half away from zero, doubles to whole numbers half to
even.

All values are written as change tables have them (`codec.change_table`). Each function raises NoValue.
"""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

from consumer.model.columns import Column, Family
from consumer.model.types.times import as_number
from consumer.model.types.values import NoValue, shown

_BITS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_TEXT = re.compile(r" *[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})? *")
_YEAR_TEXT = re.compile(r"[0-9]{1,2}|[0-9]{4}")
_FLOATS = frozenset({Family.FLOAT, Family.DOUBLE})
_TIMES = frozenset({Family.DATE, Family.DATETIME, Family.TIME})
_FIRST_YEAR, _LAST_YEAR = 1901, 2155
_DIGITS = Context(prec=400)
_MOST_DIGITS = 65
_SURE, _PARSED = 1_500_000_000_000_000, 17
"""TiDB converts a DECIMAL to a double by divisions whose result can be off by a bit. It is not if the digits are a
number below the first of these; and a DECIMAL of more digits than the second is read by TiDB as a text."""


def limits(column: Column) -> tuple[int, int]:
    """Returns the least and the greatest value of whole numbers."""
    if column.family is Family.BIT:
        return 0, (1 << (column.length or 1)) - 1
    if column.family is Family.YEAR:
        return 0, _LAST_YEAR
    bits = _BITS[column.type]
    return (0, (1 << bits) - 1) if column.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def to_integer(old: Column, new: Column, text: str) -> str:
    """Returns a value of INTEGER or BIT."""
    return str(_within(_whole(old, text), *limits(new), new, text))


def to_year(old: Column, new: Column, text: str) -> str:
    """Returns a year. From one or two digits upstream makes a year of this century or the last one; a number 0
    stays."""
    if old.family in (Family.DATE, Family.DATETIME):
        return str(_within(int(text[:4]), _FIRST_YEAR, _LAST_YEAR, new, text))
    if old.family is Family.TEXT and not _YEAR_TEXT.fullmatch(text):
        raise NoValue(f"{shown(text)} is no year")
    number = _whole(old, text)
    if number == 0 and old.family is not Family.TEXT:
        return "0"
    if 0 <= number < 100:
        number += 2000 if number < 70 else 1900
    return str(_within(number, _FIRST_YEAR, _LAST_YEAR, new, text))


def to_decimal(old: Column, new: Column, text: str) -> str:
    digits, scale = new.digits
    misfit = f"{shown(text)} does not fit {new.type}({digits},{scale}){' UNSIGNED' if new.unsigned else ''}"
    number = _exact(old, text)
    if old.family is Family.TEXT and len(number.as_tuple().digits) > _MOST_DIGITS:
        raise NoValue(misfit)
    try:
        rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _DIGITS)
    except InvalidOperation as error:
        raise NoValue(misfit) from error
    if (new.unsigned and rounded < 0) or abs(rounded) >= Decimal(10) ** (digits - scale):
        raise NoValue(misfit)
    return format(rounded or abs(rounded), "f")


def to_double(old: Column, new: Column, text: str) -> str:
    return repr(_signed(double_of(old, text), new, text))


def to_single(old: Column, new: Column, text: str) -> str:
    try:
        return shortest(_signed(_single(double_of(old, text)), new, text))
    except OverflowError as error:
        raise NoValue(f"{shown(text)} does not fit {new.type}") from error


def shortest(number: float) -> str:
    """Returns the fewest digits that distinguish a number of 32 bits from all others."""
    return next(digits for n in range(1, 10) if _single(float(digits := f"{number:.{n}g}")) == number)


def as_single(text: str) -> float:
    """Returns a value of FLOAT."""
    return _single(float(text))


def double_of(old: Column, text: str) -> float:
    """Returns a value of `old` as a double."""
    match old.family:
        case Family.FLOAT:
            return as_single(text)
        case Family.DOUBLE:
            return float(text)
        case Family.DECIMAL:
            return _of_decimal(text)
        case Family.TEXT:
            number = float(_exact(old, text))
            if number - number != 0:
                raise NoValue(f"{shown(text)} is out of the range of DOUBLE")
            return number
        case _:
            return float(_whole(old, text))


def _exact(old: Column, text: str) -> Decimal:
    """Returns the number that a value of `old` is. For a double these are its shortest digits."""
    if old.family in _TIMES:
        return as_number(old, text)
    if old.family in _FLOATS:
        return Decimal(repr(double_of(old, text)))
    if old.family is Family.TEXT and not _TEXT.fullmatch(text):
        raise NoValue(f"{shown(text)} is no number")
    return Decimal(text.strip(" "))


def _whole(old: Column, text: str) -> int:
    """Returns a value of `old` as a whole number."""
    if old.family in _FLOATS:
        return int(Decimal(double_of(old, text)).to_integral_value(ROUND_HALF_EVEN, _DIGITS))
    try:
        return int(_exact(old, text).quantize(Decimal(1), ROUND_HALF_UP, _DIGITS))
    except InvalidOperation as error:
        raise NoValue(f"{shown(text)} is out of the range of whole numbers") from error


def _of_decimal(text: str) -> float:
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    fraction = text.partition(".")[2].strip("0")
    if fraction and int(digits or "0") > _SURE and len(digits) <= _PARSED:
        raise NoValue(f"{shown(text)} has as many digits as a double: upstream's last one is not known")
    return float(text)


def _single(number: float) -> float:
    single_number: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return single_number


def _signed(number: float, new: Column, text: str) -> float:
    if new.unsigned and number < 0:
        raise NoValue(f"{shown(text)} is out of the range of {new.type} UNSIGNED")
    return number


def _within(number: int, low: int, high: int, new: Column, text: str) -> int:
    if low <= number <= high:
        return number
    raise NoValue(f"{shown(text)} is out of the range of {new.type}{' UNSIGNED' if new.unsigned else ''}")
