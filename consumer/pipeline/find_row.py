"""Finds the lines of rows that the target has refused. The loader returns their changes; the line of the newest change
is found by halving its slice."""

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
"""The size in bytes up to which a file is searched that can only be read as a whole."""
_KEPT_BYTES = 128 << 20
_Time = tuple[int, int, int]
"""Orders the changes of a row: (ts, series, rank)."""
Name = tuple[int, bool]
"""The id of a row, and whether it was to be written (True) or removed: see `errors.RowRefused`."""


@dataclass(frozen=True, slots=True)
class RowLine:
    """A line of a file: its number, offset and bytes. They are None, -1 and b"" if the file cannot be read from its
    middle."""

    path: str
    line: int | None = None
    offset: int = -1
    raw: bytes = b""


def find_rows(names: Collection[Name], task: LoadTask, loader: Loader, reader: RangeReader) -> dict[Name, RowLine]:
    """Returns for each row the line of its newest change in the load's files. A row that is in none of them is missing
    in the result. Raises what decoding raises."""
    if task.mode_load is not None:
        return {}  # the target got other rows than the files have
    divisible = protocol_of(task.dialect).splittable(task.dialect)
    if not divisible and any(piece.length > _WHOLE_BYTES for piece in task.slices):
        return {}
    search = _Search(task, loader, _CachingReader(reader))
    lines: dict[Name, RowLine] = {}
    for piece, of_piece in search.newest(task.slices, names):
        lines |= search.lines(piece, of_piece) if divisible else dict.fromkeys(of_piece, RowLine(piece.path))
    return lines


@dataclass(frozen=True, slots=True)
class _Search:
    task: LoadTask
    loader: Loader
    reader: RangeReader

    def newest(self, pieces: Sequence[FileSlice], names: Collection[Name]) -> Iterator[tuple[FileSlice, list[Name]]]:
        """Yields the slices that hold the newest changes of rows, each with those rows."""
        newest: dict[Name, tuple[_Time, int]] = {}
        asked = replace(self.task, slices=tuple(pieces))
        for changes in self.loader.read(EveryChange(asked, self.reader, {row for row, _ in names})):
            rows, puts = identities(changes, asked.source.key).tolist(), are_puts(changes).to_pylist()
            times = zip(*(changes.column(name).to_pylist() for name in ("ts", "series", "rank")), strict=True)
            for name, time, number in zip(
                zip(rows, puts, strict=True), times, changes.column(SLICE).to_pylist(), strict=True
            ):
                if name in names and (name not in newest or (time, -number) > (newest[name][0], -newest[name][1])):
                    newest[name] = time, number
        for number in sorted({number for _, number in newest.values()}):
            yield pieces[number], [name for name, (_, last_number) in newest.items() if last_number == number]

    def lines(self, piece: FileSlice, names: Collection[Name]) -> dict[Name, RowLine]:
        """Returns the lines in a slice, found by halving it."""
        if piece.length == 1:
            decoder = decoder_for(self.reader, piece, self.task)
            line = RowLine(piece.path, decoder.line_at(piece.offset), piece.offset, decoder.first_line())
            return dict.fromkeys(names, line)
        lines: dict[Name, RowLine] = {}
        for half, of_half in self.newest(_halves(piece), names):
            lines |= self.lines(half, of_half)
        return lines


@dataclass(slots=True)
class _CachingReader:
    """A reader that keeps what it read last: the halves of a slice are read from it."""

    reader: RangeReader
    parts: list[tuple[str, int, bytes]] = field(default_factory=list)

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        for path, begin, content in self.parts:
            if path == file.path and begin <= offset and offset + length <= begin + len(content):
                return content[offset - begin : offset - begin + length]
        content_read = self.reader.read(file, offset, length)
        if sum(len(content) for *_, content in self.parts) + len(content_read) > _KEPT_BYTES:
            self.parts.clear()
        self.parts.append((file.path, offset, content_read))
        return content_read


def _halves(piece: FileSlice) -> list[FileSlice]:
    middle = piece.length // 2
    rest = replace(piece, offset=piece.offset + middle, length=piece.length - middle, position=piece.position + middle)
    return [replace(piece, length=middle), rest]
