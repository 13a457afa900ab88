"""Cutting rows into pieces of bounded rows and bytes, without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows [start, stop), and their text where they have been rendered."""

    start: int
    stop: int
    text: bytes = b""


def pieces(rows: pa.Table, max_rows: int, max_bytes: int) -> Iterator[pa.Table]:
    """`rows` in slices of at most `max_rows` rows and about `max_bytes` bytes of values, one row at least."""
    if 0 < rows.num_rows <= max_rows and rows.nbytes <= max_bytes:
        yield rows
        return
    sizes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if not pa.types.is_primitive(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    for start, stop in _cuts(np.concatenate(([0], np.cumsum(sizes))), max_rows, max_bytes):
        yield rows.slice(start, stop - start)


def joined(rows: pa.Array, separator: bytes, max_rows: int, max_bytes: int) -> Iterator[Piece]:
    """`rows`, binary values that each end with `separator`, in runs without the last separator.

    A run of several rows has at most `max_bytes` bytes.
    """
    if not len(rows):
        return
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = memoryview(rows.buffers()[2])
    for start, stop in _cuts(offsets, max_rows, max_bytes):
        yield Piece(start, stop, bytes(data[offsets[start] : offsets[stop] - len(separator)]))


def _cuts(ends: npt.NDArray[np.int64], max_rows: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of rows; row i spans bytes [ends[i], ends[i + 1])."""
    start, count = 0, len(ends) - 1
    while start < count:
        fit = int(np.searchsorted(ends, ends[start] + max_bytes, side="right")) - 1
        stop = min(max(fit, start + 1), start + max_rows, count)
        yield start, stop
        start = stop
