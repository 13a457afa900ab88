"""Finds the line of a row that the target has refused. It reads the files again, in bounded memory, however long that
takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from consumer.codec.decoder import decoded, decoder_for
from consumer.codec.packs import packs
from consumer.codec.registry import protocol_of
from consumer.errors import RowRefused
from consumer.fold.identity import identities
from consumer.model.load import FileSlice, LoadTask
from consumer.ports import RangeReader

_WHOLE_BYTES = 256 << 20
"""Files that can only be read as a whole are looked through up to this size."""
_Time = tuple[int, int, int]
"""What orders the changes of a row: ts, series, rank."""


def find_row(refused: RowRefused, task: LoadTask, reader: RangeReader) -> tuple[str, int | None] | None:
    """The file, and the number of the line in it, of the newest change that `refused` is about. None where no file of
    the load has it; no line where files cannot be read from their middle. Raises what decoding raises."""
    search = _Search(refused, task, reader)
    divisible = protocol_of(task.dialect).splittable(task.dialect)
    if not divisible and any(piece.length > _WHOLE_BYTES for piece in task.slices):
        return None
    found = search.newest([piece] for piece in search.newest(packs(task.slices, task)))
    if not found:
        return None
    path = found[0].path
    while divisible and found and found[0].length > 1:
        found = search.newest([half] for half in _halves(found[0]))
    return path, decoder_for(reader, found[0], task).line_at(found[0].offset) if divisible and found else None


class _Search:
    def __init__(self, refused: RowRefused, task: LoadTask, reader: RangeReader) -> None:
        self._refused, self._task, self._reader = refused, task, reader

    def newest(self, groups: Iterable[Sequence[FileSlice]]) -> Sequence[FileSlice]:
        """The first of the groups of slices in which the newest change stands, () where none has one."""
        newest: _Time | None = None
        found: Sequence[FileSlice] = ()
        for group in groups:
            for changes in decoded(self._reader, group, self._task, []):
                time = self._time(changes)
                if time is not None and (newest is None or time > newest):
                    newest, found = time, group
        return found

    def _time(self, changes: pa.Table) -> _Time | None:
        """That of the newest of `changes`."""
        rows = np.flatnonzero(changes.column("put").to_numpy() == self._refused.put)
        rows = rows[identities(changes, self._task.target.key)[rows] == self._refused.row]
        times = (changes.column(name).to_numpy()[rows].tolist() for name in ("ts", "series", "rank"))
        return max(zip(*times, strict=True), default=None)


def _halves(piece: FileSlice) -> list[FileSlice]:
    middle = piece.length // 2
    rest = replace(piece, offset=piece.offset + middle, length=piece.length - middle, position=piece.position + middle)
    return [replace(piece, length=middle), rest]
