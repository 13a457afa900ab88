"""Which value of a column, or which row, a conversion refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from consumer.errors import CorruptFile, TableError

Values = TypeVar("Values", pa.Array, pa.ChunkedArray, pa.Table)


def first_refused(convert: Callable[[Values], object], values: Values) -> tuple[int, TableError]:
    """Where the first value stands that `convert` refuses, and its error; there must be one."""
    low, high = 0, len(values)
    refusal = _refusal(convert, values)
    while high - low > 1:
        middle = (low + high) // 2
        found = _refusal(convert, values.slice(low, middle - low))
        low, high = (low, middle) if found else (middle, high)
        refusal = found or refusal
    return low, _refusal(convert, values.slice(low, 1)) or refusal or CorruptFile("a value is not right")


def every_refused(
    convert: Callable[[Values], object], values: Values, start: int = 0
) -> Iterator[tuple[int, TableError]]:
    """Where each value stands that `convert` refuses, counted from `start`, and its error."""
    refusal = _refusal(convert, values)
    if refusal is None:
        return
    if len(values) == 1:
        yield start, refusal
        return
    middle = len(values) // 2
    yield from every_refused(convert, values.slice(0, middle), start)
    yield from every_refused(convert, values.slice(middle), start + middle)


def _refusal(convert: Callable[[Values], object], values: Values) -> TableError | None:
    try:
        convert(values)
    except TableError as error:
        return error
    return None
