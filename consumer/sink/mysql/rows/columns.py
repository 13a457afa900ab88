"""Rows as a server sends them -> Arrow columns, all rows of a column at once. pymysql takes them apart value by value.

A row is its values one after the other, each behind its length: a byte below 251, or 252 to 254 and the length in two,
three or eight bytes. 251 is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.codec.change_table import Ints

_NULL = 251
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}
_WORD = 8


def columns_of(rows: Sequence[bytes], texts: Sequence[bool]) -> list[pa.Array]:
    """The columns of `rows`: large_string where `texts` says so, else large_binary. Raises pymysql's InternalError for
    rows that are no such."""
    data = b"".join([*rows, bytes(1 + _WORD)])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(lengths)
    at = ends - lengths
    found = []
    for is_text in texts:
        begins, at, null = _next(data, at)
        if np.any(at > ends):
            raise pymysql.err.InternalError("the server sent a row that ends within a value")
        found.append(_column(data, begins, at, null, is_text))
    if not np.array_equal(at, ends):
        raise pymysql.err.InternalError("the server sent a row with more values than columns")
    return found


def _next(data: bytes, at: Ints) -> tuple[Ints, Ints, np.ndarray]:
    """Where the values at `at` begin and end, and which are NULL. What lies behind all rows reads as empty texts."""
    at = np.minimum(at, len(data) - _WORD - 1)
    first = np.frombuffer(data, np.uint8)[at]
    begins, lengths = at + 1, first.astype(np.int64)
    null = first == _NULL
    lengths[null] = 0
    for mark, size in _LENGTH_BYTES.items():
        longer = np.flatnonzero(first == mark)
        if longer.size:
            words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))
            mask = np.uint64((1 << (8 * size)) - 1)
            lengths[longer] = np.minimum(words[begins[longer]] & mask, np.uint64(len(data))).astype(np.int64)
            begins[longer] += size
    return begins, begins + lengths, null


def _column(data: bytes, begins: Ints, ends: Ints, null: np.ndarray, is_text: bool) -> pa.Array:
    offsets = np.stack([begins, ends], axis=1).reshape(-1)
    both = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), max(len(offsets) - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    values = both.take(pa.array(np.arange(0, len(offsets), 2)))  # between two of them lies what is no value
    if null.any():
        values = pc.if_else(pa.array(null), pa.scalar(None, values.type), values)
    return values.cast(pa.large_string()) if is_text else values
