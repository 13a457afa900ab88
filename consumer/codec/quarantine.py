"""Quarantines lines that cannot be decoded. A refused block is halved until its bad lines are alone; blocks without bad
lines never come here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from consumer.codec.change_table import Flags, Origin
from consumer.codec.lines import Block
from consumer.codec.rows import BlockRows, ChangesOf, RowFile, rows_in_window
from consumer.errors import RowsVary, TableError
from consumer.model.bad_rows import BadRow, Quarantine, too_many_error
from consumer.model.load import FileSlice, FileStat
from consumer.model.times import MAX_TSO

MOST_BYTES = 64 << 20
"""The most bytes of bad lines in one slice: they are held in memory."""
_FIRST = 1 << 40
"""The number from which errors count the lines of a block: an error with a smaller number, or none, is not about a
line."""
_YEAR = (366 * 86_400_000) << 18


def first_line(_offset: int) -> int:
    """A `LineAt` that reads nothing."""
    return _FIRST


def blames_line(error: TableError) -> bool:
    """Returns whether one line is to blame for an error of a block that was read with `first_line`."""
    return error.line is not None and error.line >= _FIRST


@dataclass(frozen=True, slots=True)
class _Line:
    """A line. `text` is in the form that the file's `RowFile.rows` takes; `number` counts from 0 in the block."""

    text: bytes
    offset: int
    number: int


@dataclass(frozen=True, slots=True)
class _Bad:
    line: _Line
    error: TableError


@dataclass(frozen=True, slots=True)
class _Good:
    lines: Sequence[_Line]
    rows: BlockRows


class BlockQuarantine:
    """Reads those blocks of one slice that are refused as a whole. `line_at` is costly, and called once; `changes`
    makes the changes of some rows of a block."""

    def __init__(
        self,
        quarantined: Quarantine,
        piece: FileSlice,
        file: RowFile,
        line_at: Callable[[int], int],
        changes: ChangesOf,
    ) -> None:
        self._quarantined, self._piece, self._file = quarantined, piece, file
        self._line_at, self._changes = line_at, changes
        self._line = 0
        """The number of the next block's first line, 0 as long as nobody needs it."""
        self._latest: int | None = None
        """The time of the last good row so far."""
        self._bad_rows: list[BadRow] = []
        self._bytes = 0

    def passed(self, block: Block, rows: BlockRows | None) -> None:
        """Notes that a block was read."""
        if rows is not None and rows.exact is not None:
            self._latest = int(rows.ts[-1])
        if self._line:
            self._line += self._file.ends.count(block.text)

    def takes(self, error: TableError) -> bool:
        """Returns whether a line that `error` is about is bad; else the whole load must be planned in another way."""
        return blames_line(error) and (
            not isinstance(error, RowsVary) or (self._quarantined.uneven and bool(error.absent))
        )

    def placed(self, error: TableError, block: Block) -> TableError:
        """Returns `error` of the block with its line in the file."""
        if error.line is not None and blames_line(error):
            error.line = self._first_line(block) + error.line - _FIRST
        return error

    def around(self, block: Block, ordinal: int) -> Iterator[tuple[pa.Table | None, FileStat]]:
        """Yields the changes of a refused block without its bad lines, with their statistics, in file order. The first
        row is number `ordinal` of the slice. Raises TooManyBadRows, and errors that no line is to blame for."""
        parts = list(self._read(block, self._lines(block)))
        for number, part in enumerate(parts):
            if isinstance(part, _Bad):
                stat = self._undecoded(block, part, parts[number + 1 :])
                ordinal += stat.rows
                yield None, stat
                continue
            self._latest = None if part.rows.exact is None else int(part.rows.ts[-1])
            count = len(part.rows.ts)
            inside, (stat,) = rows_in_window([self._piece], part.rows, np.array([count]))
            origin = Origin.of(self._piece, ordinal, count)
            tables: list[pa.Table] = []
            bad = list(self._refused(block, part, inside, origin, tables))
            ordinal += count
            yield pa.concat_tables(tables) if tables else None, replace(stat, quarantined=tuple(bad))
        if self._line:
            self._line += self._file.ends.count(block.text)

    def _lines(self, block: Block) -> list[_Line]:
        lines, offset, number = [], block.offset, 0
        for text, length in self._file.ends.split(block.text):
            lines.append(_Line(text, offset, number))
            offset, number = offset + length, number + len(self._file.ends.parts(text))
        return lines

    def _parts(self, line: _Line) -> list[_Line]:
        texts = self._file.ends.parts(line.text)
        offsets = accumulate(map(len, texts), initial=line.offset)
        return [
            _Line(text, start, line.number + n) for n, (text, start) in enumerate(zip(texts, offsets, strict=False))
        ]

    def _read(self, block: Block, lines: Sequence[_Line]) -> Iterator[_Good | _Bad]:
        """Yields what can be parsed of some lines, and the lines that cannot."""
        text = b"".join(line.text for line in lines)
        try:
            rows = self._file.rows(Block(text, lines[0].offset), first_line, blame=len(lines) == 1)
        except TableError as error:
            if not self.takes(error):
                raise self._moved(error, block, lines) from error
            if len(lines) == 1:
                lines = self._parts(lines[0])
            if len(lines) == 1:
                yield _Bad(lines[0], error)
                return
            middle = len(lines) // 2
            yield from self._read(block, lines[:middle])
            yield from self._read(block, lines[middle:])
            return
        if rows is not None:
            yield _Good(lines, rows)

    def _refused(
        self, block: Block, part: _Good, which: Flags, origin: Origin, tables: list[pa.Table]
    ) -> Iterator[BadRow]:
        """Yields the rows among `which` with invalid values. The changes of the others are added to `tables`."""
        try:
            changes = self._changes(part.rows, which, origin)
        except TableError as error:
            if not self.takes(error):
                raise self._moved(error, block, part.lines) from error
            chosen = np.flatnonzero(which)
            if len(chosen) == 1:
                line = part.lines[(error.line or _FIRST) - _FIRST]
                exact = part.rows.exact is not None and bool(part.rows.exact[chosen[0]])
                ts = int(part.rows.ts[chosen[0]]) if exact else 0
                yield self._quarantine(block, line, error, ts)
                return
            for half in np.array_split(chosen, 2):
                flags = np.zeros_like(which)
                flags[half] = True
                yield from self._refused(block, part, flags, origin, tables)
            return
        if changes.num_rows:
            tables.append(changes)

    def _undecoded(self, block: Block, bad: _Bad, after: Sequence[_Good | _Bad]) -> FileStat:
        """Returns the statistic of a line that is no row. It counts as inside the window unless it surely is not: times
        rise within a file, so the times of its neighbours bound its own."""
        empty = FileStat(self._piece.path, 1, 0, 0)
        following = (part.rows for part in after if isinstance(part, _Good))
        least, (most, passed) = (
            self._latest or 0,
            next(map(self._begin, following), (MAX_TSO, False)),
        )
        time = self._file.time(bad.line.text)
        if time is not None and time.ts and least <= time.ts <= min(most, max(self._upto, least) + _YEAR):
            window = self._piece.exact if time.exact else self._piece.coarse
            # A time alone does not prove that the row was applied already: the damage can be in its digits.
            if time.ts <= window.after and (passed or self._latest is not None):
                return replace(empty, dropped=1)
            if time.ts > window.end:
                return replace(empty, next_ts=time.ts, first_ts=time.ts)
            quarantined = self._quarantine(block, bad.line, bad.error, time.ts if time.exact else 0)
            if time.ts <= window.after:
                return replace(empty, quarantined=(quarantined,))
            coarse = 0 if time.exact else time.ts
            return replace(
                empty, first_ts=time.ts, last_ts=time.ts, coarse_quarantined=coarse, quarantined=(quarantined,)
            )
        if passed:
            return replace(empty, dropped=1)
        if least > self._upto:
            return replace(empty, next_ts=least)
        return replace(empty, quarantined=(self._quarantine(block, bad.line, bad.error, 0),))

    def _begin(self, rows: BlockRows) -> tuple[int, bool]:
        """Returns the time of the first of some rows, and whether it is below the window."""
        if rows.exact is None:
            return MAX_TSO, False
        window = self._piece.exact if rows.exact[0] else self._piece.coarse
        return int(rows.ts[0]), bool(rows.ts[0] <= window.after)

    @property
    def _upto(self) -> int:
        return max(self._piece.exact.end, self._piece.coarse.end)

    def _quarantine(self, block: Block, line: _Line, error: TableError, commit_ts: int) -> BadRow:
        number = self._first_line(block) + line.number
        path = self._piece.path
        name = hashlib.blake2b(f"{path}\n{number}\n".encode() + line.text, digest_size=16).hexdigest()
        if self._quarantined.only_ids is not None and name not in self._quarantined.only_ids:
            error.line = number
            raise error
        row = BadRow(name, error.message, path, number, line.offset, commit_ts=commit_ts, raw=line.text)
        self._bad_rows.append(row)
        self._bytes += len(line.text)
        if len(self._bad_rows) > self._quarantined.most or self._bytes > MOST_BYTES:
            raise too_many_error(self._quarantined.most, row)
        return row

    def _first_line(self, block: Block) -> int:
        if not self._line:
            self._line = self._line_at(block.offset)
        return self._line

    def _moved(self, error: TableError, block: Block, lines: Sequence[_Line]) -> TableError:
        """Returns `error`, whose line counts from the first of `lines`, as an error of the whole block."""
        if error.line is not None and blames_line(error):
            error.line = _FIRST + lines[error.line - _FIRST].number
        return self.placed(error, block)
