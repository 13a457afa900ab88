"""What each byte of CSV text is: quoted, escaped, doubled. In a few bytes of memory for each byte, whatever they are.

A position takes eight: positions are gathered a stretch at a time, and only those of what separates cells are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from consumer.codec.batches import Flags, Ints

Bytes = npt.NDArray[np.uint8]

T = TypeVar("T", bound=np.generic)

STRETCH = 1 << 20
_BACKSLASH = 0x5C


def equal_to_any(data: Bytes, values: Sequence[int]) -> Flags:
    """Which bytes are one of `values`."""
    found: Flags = data == values[0]
    for value in values[1:]:
        found |= data == value
    return found


def outside_quotes(data: Bytes, quote: int, marks: Sequence[int]) -> tuple[Ints, int]:
    """The places of `marks` with an even number of quotes before them, and how many quotes there are in all."""
    found: list[Ints] = []
    quotes = 0
    for begin, part in _stretches(data):
        special = np.flatnonzero(equal_to_any(part, [quote, *marks]))
        is_quote = part[special] == quote
        # Only whether it is odd counts, and that outlives the overflow.
        inside = np.bitwise_and(np.cumsum(is_quote, dtype=np.uint8), 1).view(np.bool_)
        if quotes % 2:
            np.logical_not(inside, out=inside)
        found.append(begin + special[~(is_quote | inside)])
        quotes += int(np.count_nonzero(is_quote))
    return np.concatenate(found), quotes


def not_escaped(data: Bytes, marks: Sequence[int], escaping: Flags) -> Ints:
    """The places of `marks` that have no escaping byte right before them."""
    free = np.ones(data.size, np.bool_)
    np.logical_not(escaping[:-1], out=free[1:])
    found = [begin + np.flatnonzero(part) for begin, part in _stretches(free & equal_to_any(data, marks))]
    return np.concatenate(found)


def escaping_bytes(data: Bytes) -> Flags:
    """The backslashes that escape the byte behind them: the first, third, .. of each run."""
    escaping: Flags = data == _BACKSLASH
    begin = 0
    while begin < data.size:
        part = escaping[begin : begin + STRETCH]
        places = np.flatnonzero(part)
        order = np.arange(len(places))
        begins = np.diff(places, prepend=-2) != 1
        within = order - np.maximum.accumulate(np.where(begins, order, 0))
        part[places[within % 2 == 1]] = False
        begin += len(part)
        if part[-1]:  # the next stretch begins behind what this one escapes
            escaping[begin : begin + 1] = False
            begin += 1
    return escaping


def second_of_doubled(data: Bytes, quote: int, own: Flags) -> Flags | None:
    """The second quote of each doubled one; those that are `own` are passed over. None where one is not doubled."""
    second = np.zeros(data.size, np.bool_)
    open_at = -1
    for begin, part in _stretches(data):
        places = begin + np.flatnonzero((part == quote) & ~own[begin : begin + len(part)])
        if open_at >= 0:
            places = np.concatenate([[open_at], places])
        open_at = int(places[-1]) if len(places) % 2 else -1
        pairs = places[: len(places) - len(places) % 2]
        if not np.array_equal(pairs[0::2] + 1, pairs[1::2]):
            return None
        second[pairs[1::2]] = True
    return second if open_at < 0 else None


def count_before(flags: Flags, places: Ints) -> Ints:
    """How many of `flags` are set before each of the rising `places`."""
    counts = np.empty(len(places), np.int64)
    before = done = 0
    for begin, part in _stretches(flags):
        here = np.flatnonzero(part)
        end = int(np.searchsorted(places, begin + len(part), side="left"))
        counts[done:end] = before + np.searchsorted(here, places[done:end] - begin)
        before, done = before + len(here), end
    counts[done:] = before
    return counts


def _stretches(whole: npt.NDArray[T]) -> Iterator[tuple[int, npt.NDArray[T]]]:
    """``(where it begins, stretch)``."""
    return ((begin, whole[begin : begin + STRETCH]) for begin in range(0, len(whole), STRETCH))
