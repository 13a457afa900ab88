"""JSON values as text in which two are equal where their members are."""

from __future__ import annotations

import json


def json_form(text: str) -> str:
    """Members in one order, no blanks; whole numbers beyond 64 bits are doubles, as servers have them."""
    try:
        return json.dumps(json.loads(text, parse_int=_whole), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _whole(digits: str) -> int | float:
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else float(number)
