"""Finds the lines of rows that the target has refused. The loader gives back their changes; the line of the newest
one is found by halving its slice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from consumer.changes.folding import EveryChange, decoder_for
from consumer.changes.identity import identities
from consumer.codec import protocol_of
from consumer.codec.change_table import SLICE, are_puts
from consumer.model.load import FileSlice, LoadTask
from consumer.ports import Loader, RangeReader, Stored

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


def find_rows(names: Collection[Name], task: LoadTask, loader: Loader, reader: RangeReader) -> dict[Name, Found]:
    """Of each row the newest change in the load's files; a row that is in none of them is left out. Raises what
    decoding raises."""
    if task.mode_load is not None:
        return {}  # what the target was given is not what the files have
    divisible = protocol_of(task.dialect).splittable(task.dialect)
    if not divisible and any(piece.length > _WHOLE_BYTES for piece in task.slices):
        return {}
    search = _Search(task, loader, _Kept(reader))
    found: dict[Name, Found] = {}
    for piece, of_piece in search.newest(task.slices, names):
        found |= search.lines(piece, of_piece) if divisible else dict.fromkeys(of_piece, Found(piece.path))
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    task: LoadTask
    loader: Loader
    reader: RangeReader

    def newest(self, pieces: Sequence[FileSlice], names: Collection[Name]) -> Iterator[tuple[FileSlice, list[Name]]]:
        """The slices in which the newest changes of rows stand, each with those rows."""
        newest: dict[Name, tuple[_Time, int]] = {}
        asked = replace(self.task, slices=tuple(pieces))
        for changes in self.loader.read(EveryChange(asked, self.reader, {row for row, _ in names})):
            rows, puts = identities(changes, asked.source.key).tolist(), are_puts(changes).to_pylist()
            times = zip(*(changes.column(name).to_pylist() for name in ("ts", "series", "rank")), strict=True)
            for name, time, at in zip(
                zip(rows, puts, strict=True), times, changes.column(SLICE).to_pylist(), strict=True
            ):
                if name in names and (name not in newest or (time, -at) > (newest[name][0], -newest[name][1])):
                    newest[name] = time, at
        for at in sorted({at for _, at in newest.values()}):
            yield pieces[at], [name for name, (_, where) in newest.items() if where == at]

    def lines(self, piece: FileSlice, names: Collection[Name]) -> dict[Name, Found]:
        """The lines in a slice, found by halving it."""
        if piece.length == 1:
            decoder = decoder_for(self.reader, piece, self.task)
            line = Found(piece.path, decoder.line_at(piece.offset), piece.offset, decoder.first_line())
            return dict.fromkeys(names, line)
        found: dict[Name, Found] = {}
        for half, of_half in self.newest(_halves(piece), names):
            found |= self.lines(half, of_half)
        return found


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
