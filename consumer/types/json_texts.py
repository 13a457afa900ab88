"""JSON values as text in which two are equal where their members are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal


def json_form(text: str) -> str:
    """Members in one order, no blanks; whole numbers beyond 64 bits are doubles, as servers have them. A text that says
    more than that (a member twice, digits that no double has) stays as it is."""
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
    """Of a member that is there twice, servers disagree which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is there twice")
    return found
