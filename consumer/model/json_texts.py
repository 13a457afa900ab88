"""Writes JSON values as texts: in one form for comparing, and as TiDB writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal


def json_form(text: str) -> str:
    """Returns the text with members in one order and no blanks. Whole numbers beyond 64 bits become doubles, as servers
    have them. A text that this form cannot keep (a member twice, digits that no double has) stays as it is."""
    try:
        read = json.loads(text, parse_int=_whole, parse_float=_double, object_pairs_hook=_members)
        return json.dumps(read, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _whole(digits: str) -> int | float:
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else float(number)


def _double(digits: str) -> float:
    number = float(digits)
    if number - number != 0 or Decimal(repr(number)) != Decimal(digits):
        raise ValueError(f"{digits} is no double")
    return number


def _members(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Returns the members. Raises ValueError for a repeated one: servers disagree which of the two counts."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member is there twice")
    return members


def tidb_json(text: str) -> str:
    """Returns the text that TiDB gives to the JSON value of `text`: its members in the order of their names, the last
    of those with one name, numbers as 64 bits hold them. A text that is no JSON stays as it is."""
    try:
        return json_of(text)
    except ValueError:
        return text


def json_of(text: str) -> str:
    """Returns the same as `tidb_json`, but raises ValueError for a text that is no JSON."""
    try:
        return _written(json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_finite))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError(f"{digits} is no number of JSON")
    return number


def _written(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_quoted(name)}: {_written(value[name])}" for name in sorted(value)) + "}"
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case str():
            return _quoted(value)
        case float() if value == 0 or 1e-15 <= abs(value) < 1e15:
            digits = format(Decimal(repr(value)), "f")
            return digits if "." in digits else f"{digits}.0"
        case float():
            digits, _, power = format(Decimal(repr(value)).normalize(), "e").partition("e")
            return f"{digits}e{int(power)}"
        case _:
            return json.dumps(value)


_HALVES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_NOT_RAW = {0x2028: r"\u2028", 0x2029: r"\u2029", **_HALVES}
"""Two line ends, and lone halves of a character."""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_NOT_RAW)
