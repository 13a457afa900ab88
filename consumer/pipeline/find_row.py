"""Finds the lines of rows that the target has refused. It reads the files again, in bounded memory, however long that
takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from consumer.codec import protocol_of
from consumer.codec.change_table import are_puts
from consumer.codec.decoder import decoded, decoder_for, packs
from consumer.fold.identity import identities
from consumer.model.load import FileSlice, LoadTask
from consumer.ports import RangeReader, Stored

_WHOLE_BYTES = 256 << 20
"""Files that can only be read as a whole are looked through up to this size."""
_KEPT_BYTES = 128 << 20
_Time = tuple[int, int, int]
"""What orders the changes of a row: ts, series, rank."""
Name = tuple[int, bool]
"""Which row, and whether it was to be written or removed: see `errors.RowRefused`."""


@dataclass(frozen=True, slots=True)
class Found:
    """A line of a file: its number and its bytes. None, -1 and b"" where files cannot be read from their middle."""

    path: str
    line: int | None = None
    offset: int = -1
    raw: bytes = b""


def find_rows(names: Collection[Name], task: LoadTask, reader: RangeReader) -> dict[Name, Found]:
    """Of each row the newest change in the load's files; a row that is in none of them is left out. Raises what
    decoding raises."""
    if task.forming is not None:
        return {}  # what the target was given is not what the files have
    divisible = protocol_of(task.dialect).splittable(task.dialect)
    if not divisible and any(piece.length > _WHOLE_BYTES for piece in task.slices):
        return {}
    search = _Search(task, _Kept(reader))
    found: dict[Name, Found] = {}
    for pack, of_pack in search.newest(packs(task.slices, task), names):
        for (piece,), of_piece in search.newest(([piece] for piece in pack), of_pack):
            if divisible:
                found |= search.lines(piece, of_piece)
            else:
                found |= dict.fromkeys(of_piece, Found(piece.path))
    return found


class _Search:
    def __init__(self, task: LoadTask, reader: RangeReader) -> None:
        self._task, self._reader = task, reader

    def newest(
        self, groups: Iterable[Sequence[FileSlice]], names: Collection[Name]
    ) -> Iterator[tuple[Sequence[FileSlice], list[Name]]]:
        """The groups of slices in which the newest changes of rows stand, each with those rows."""
        newest: dict[Name, tuple[_Time, int]] = {}
        looked: list[Sequence[FileSlice]] = []
        for number, group in enumerate(groups):
            looked.append(group)
            for changes in decoded(self._reader, group, self._task, []):
                for name, time in self._times(changes, names):
                    if name not in newest or time > newest[name][0]:
                        newest[name] = time, number
        for number in sorted({number for _, number in newest.values()}):
            yield looked[number], [name for name, (_, where) in newest.items() if where == number]

    def lines(self, piece: FileSlice, names: Collection[Name]) -> dict[Name, Found]:
        """The lines in a slice, found by halving it."""
        if piece.length == 1:
            decoder = decoder_for(self._reader, piece, self._task)
            line = Found(piece.path, decoder.line_at(piece.offset), piece.offset, decoder.first_line())
            return dict.fromkeys(names, line)
        found: dict[Name, Found] = {}
        for (half,), of_half in self.newest(([half] for half in _halves(piece)), names):
            found |= self.lines(half, of_half)
        return found

    def _times(self, changes: pa.Table, names: Collection[Name]) -> Iterator[tuple[Name, _Time]]:
        rows, puts = identities(changes, self._task.target.key), are_puts(changes).to_numpy()
        columns = [changes.column(name).to_numpy() for name in ("ts", "series", "rank")]
        for n in np.flatnonzero(np.isin(rows, np.array([row for row, _ in names], np.uint64))).tolist():
            if (name := (int(rows[n]), bool(puts[n]))) in names:
                ts, series, rank = (int(column[n]) for column in columns)
                yield name, (ts, series, rank)


@dataclass(slots=True)
class _Kept:
    """A reader that keeps what it read last: halves of a slice are read out of it."""

    reader: RangeReader
    parts: list[tuple[str, int, bytes]] = field(default_factory=list)

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        for path, begin, content in self.parts:
            if path == file.path and begin <= offset and offset + length <= begin + len(content):
                return content[offset - begin : offset - begin + length]
        found = self.reader.read(file, offset, length)
        if sum(len(content) for *_, content in self.parts) + len(found) > _KEPT_BYTES:
            self.parts.clear()
        self.parts.append((file.path, offset, found))
        return found


def _halves(piece: FileSlice) -> list[FileSlice]:
    middle = piece.length // 2
    rest = replace(piece, offset=piece.offset + middle, length=piece.length - middle, position=piece.position + middle)
    return [replace(piece, length=middle), rest]
