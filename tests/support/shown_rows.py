"""Rows as texts, the same whatever library has read them. Only Python is needed: readers of any release import it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Rows = list[str]


def row_texts(rows: Iterable[Mapping[str, Any]]) -> Rows:
    return sorted(json.dumps({name: _shown(value) for name, value in row.items()}, sort_keys=True) for row in rows)


def read_all(read: Callable[[str], Iterable[Mapping[str, Any]]], places: Mapping[str, str]) -> dict[str, Rows | str]:
    """By table, the rows that `read` gives of its place, or the error that it raises."""
    found: dict[str, Rows | str] = {}
    for name, place in places.items():
        try:
            found[name] = row_texts(read(place))
        except BaseException as error:  # some libraries panic
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            found[name] = f"{type(error).__name__}: {lines[0] if lines else ''}"
    return found


def _shown(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return f"{value:.6g}"
        case decimal.Decimal():
            return f"{value.normalize():f}"
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case dt.datetime():
            plain = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return plain.isoformat()
        case list() | tuple():
            return [_shown(one) for one in value]
        case _:
            return str(value)
