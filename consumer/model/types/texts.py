"""Computes what TiDB converts texts, bytes, labels and JSON to. Numbers have no exponent in a text, and no trailing
zeros.

Each function raises NoValue.
"""

from __future__ import annotations

from decimal import Decimal

from consumer.model.columns import Column, Family
from consumer.model.json_texts import json_of
from consumer.model.types.numbers import as_single, double_of, limits, shortest
from consumer.model.types.values import NoValue, shown

SIZES = {
    "TINYTEXT": (1 << 8) - 1, "TEXT": (1 << 16) - 1, "MEDIUMTEXT": (1 << 24) - 1, "LONGTEXT": (1 << 32) - 1,
    "TINYBLOB": (1 << 8) - 1, "BLOB": (1 << 16) - 1, "MEDIUMBLOB": (1 << 24) - 1, "LONGBLOB": (1 << 32) - 1,
}  # fmt: skip
"""The sizes in bytes of types that have a fixed size."""
_MOST_BYTES = 4
"""The most bytes of a character."""
_DIGITS_OF_SECONDS = 6
"""The digits of seconds in JSON."""


def most_bytes(column: Column) -> int | None:
    """Returns how many bytes a value of the column can have, None if that is not its limit."""
    return SIZES.get(column.type, column.length if column.family is Family.BINARY else None)


def most_characters(column: Column) -> int | None:
    """Returns how many characters a value of the column can have, None if that is not its limit."""
    return column.length if column.family is Family.TEXT and column.type not in SIZES else None


def holds_all(new: Column, old: Column) -> bool:
    """Returns whether each value of `old` as a text, or as bytes, fits `new`."""
    characters, size = most_characters(new), most_bytes(new)
    longest = _longest(old)
    if longest is None:
        return characters is None and size is None
    if characters is not None:
        return longest <= characters
    wide = _MOST_BYTES if old.family is Family.TEXT and most_characters(old) is not None else 1
    return size is None or longest * wide <= size


def _longest(column: Column) -> int | None:
    """Returns the most characters of a value, or bytes if these are its limit; None if nothing is."""
    match column.family:
        case Family.INTEGER:
            return max(len(str(limit)) for limit in limits(column))
        case Family.DECIMAL:
            digits, scale = column.digits
            return digits + (not column.unsigned) + bool(scale) + (digits == scale)
        case Family.DATE:
            return len("2006-01-02")
        case Family.DATETIME | Family.TIME:
            whole = "2006-01-02 15:04:05" if column.family is Family.DATETIME else "-838:59:59"
            return len(whole) + (1 + column.scale if column.scale else 0)
        case Family.TEXT | Family.BINARY:
            characters = most_characters(column)
            return most_bytes(column) if characters is None else characters
        case _:
            return None


def to_text(old: Column, new: Column, value: str | bytes) -> str:
    """Returns a text. CHAR loses blanks at its end. A text that is still too long is cut by some sessions, and refused
    by others."""
    result = as_text(old, value)
    characters, size = most_characters(new), most_bytes(new)
    if (characters is not None and len(result) > characters) or (size is not None and len(result.encode()) > size):
        raise NoValue(f"{shown(result)} is longer than {type_text(new)}")
    return result.rstrip(" ") if new.type == "CHAR" else result


def to_binary(old: Column, new: Column, value: str | bytes) -> bytes:
    """Returns bytes. BINARY is filled with zero bytes."""
    result = value if isinstance(value, bytes) else as_text(old, value).encode()
    size = most_bytes(new)
    if size is not None and len(result) > size:
        raise NoValue(f"{shown(value)} is longer than {type_text(new)}")
    return result.ljust(size or 0, b"\0") if new.type == "BINARY" else result


def as_text(old: Column, value: str | bytes) -> str:
    """Returns a value of `old` as a text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise NoValue(f"{shown(value)} is no text") from error
    match old.family:
        case Family.YEAR | Family.BIT:
            return str(int(value))
        case Family.DECIMAL:
            return format(Decimal(value), "f")
        case Family.FLOAT:
            return _plain(shortest(as_single(value)))
        case Family.DOUBLE:
            return _plain(repr(float(value)))
        case Family.ENUM | Family.SET:
            return label(old, value)
        case _:
            return value


def _plain(digits: str) -> str:
    """Returns the digits without an exponent, and without a fraction of zeros."""
    digits_without_exponent = format(Decimal(digits), "f")
    return (
        digits_without_exponent.rstrip("0").rstrip(".") if "." in digits_without_exponent else digits_without_exponent
    )


def to_json(old: Column, new: Column, value: str) -> str:
    match old.family:
        case Family.FLOAT | Family.DOUBLE | Family.DECIMAL:
            return json_of(repr(double_of(old, value)))
        case Family.DATE:
            return f'"{value}"'
        case Family.DATETIME | Family.TIME:
            seconds, _, fraction = value.partition(".")
            return f'"{seconds}.{fraction.ljust(_DIGITS_OF_SECONDS, "0")}"'
        case Family.YEAR:
            return str(int(value))
        case Family.TEXT:
            try:
                return json_of(value)
            except ValueError as error:
                raise NoValue(f"{shown(value)} is no JSON") from error
        case _:
            return value


def to_enum(old: Column, new: Column, value: str) -> str:
    if old.family is Family.ENUM and value == "0":
        return value  # the error value, which is no label
    return number(new, as_text(old, value))


def to_set(old: Column, new: Column, value: str) -> str:
    return number(new, as_text(old, value))


def number(column: Column, text: str) -> str:
    """Returns the number of a label of ENUM, or of those of a SET. Raises NoValue."""
    names = [text] if column.family is Family.ENUM else [name for name in text.split(",") if name]
    if lost := [name for name in names if name not in column.elements]:
        raise NoValue(f"{shown(lost[0])} is no label of {column.type}({', '.join(map(repr, column.elements))})")
    if column.family is Family.ENUM:
        return str(column.elements.index(text) + 1)
    return str(sum(1 << column.elements.index(name) for name in set(names)))


def label(column: Column, number: str) -> str:
    """Returns the label of a value of ENUM, or those of a SET."""
    if column.family is Family.ENUM:
        return "" if number == "0" else column.elements[int(number) - 1]
    return ",".join(name for bit, name in enumerate(column.elements) if int(number) >> bit & 1)


def type_text(column: Column) -> str:
    """Returns the column's type for a message."""
    sized = column.length is not None and column.type not in SIZES
    return f"{column.type}({column.length})" if sized else column.type
