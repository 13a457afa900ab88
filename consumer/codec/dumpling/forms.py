"""SQL and CSV as Dumpling writes them: what a file's head shows, and its rows as lines of cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from consumer.codec.csv.cells import outside_quotes
from consumer.codec.dumpling.cells import CellForm, InvalidLine
from consumer.codec.lines import Block, LineEnds
from consumer.ddl.tokens import TokenKind, tokenize
from consumer.model.export import DumplingFormat
from consumer.model.load import FileSlice
from consumer.model.names import same_name
from consumer.ports import RangeReader

_HEAD_BYTES = 4 << 20
"""Bytes; more than the names of 4096 columns can take."""
_NO_ROW = "it has no row, and Dumpling writes no such file: it is cut off"


class ExportLineEnds(LineEnds):
    """Where lines end. `alone`: each terminator ends a row; else values can hold it, and only the end of the file is
    certain."""

    def __init__(self, terminator: bytes, alone: bool) -> None:
        self.terminator, self._alone = terminator, alone
        self.lookback = len(terminator)

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        if self._alone:
            position = buffer.find(self.terminator, max(at - self.lookback, 0))
            return position + self.lookback if position >= 0 else -1
        return len(buffer) if whole and len(buffer) >= at and buffer.endswith(self.terminator) else -1

    def last(self, buffer: bytes) -> int:
        position = buffer.rfind(self.terminator) if self._alone else -1
        return position + self.lookback if position >= 0 else 0

    def as_read(self, lines: bytes) -> bytes:
        return lines

    def count(self, lines: bytes) -> int:
        return lines.count(self.terminator)

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        ended = (line + self.terminator for line in lines.split(self.terminator)[:-1])
        return [(line, len(line)) for line in ended]

    def parts(self, line: bytes) -> list[bytes]:
        return [line]


class ExportForm(Protocol):
    """The form of one file. `names` are the columns of its lines; `header` is a first line that is no row."""

    ends: ExportLineEnds
    cells: CellForm
    names: Sequence[str]
    header: bytes

    def lines(self, block: Block) -> bytes:
        """Returns nothing but cells, with each line ended by a line feed. Raises InvalidLine."""

    def line_of(self, block: Block, row: int) -> int:
        """Returns how many lines of the block stand before one of its rows."""


class SqlForm:
    """``INSERT INTO `t` [(columns)] VALUES``, then one row in parentheses on each line, followed by a comma or a
    semicolon."""

    _INSERT = re.compile(rb"^(INSERT INTO `.*? VALUES\n)(?=\()", re.DOTALL | re.MULTILINE)
    _ROW = re.compile(rb"^\(", re.MULTILINE)
    header = b""

    def __init__(self, reader: RangeReader, piece: FileSlice, form: DumplingFormat, names: Sequence[str]) -> None:
        self.ends = ExportLineEnds(b"\n", form.escapes)
        self.cells = CellForm(b",", b"'", b"NULL", form.escapes, hexadecimal=True)
        match = self._INSERT.search(reader.read(piece, 0, min(piece.size, _HEAD_BYTES)))
        if match is None:
            raise InvalidLine(_NO_ROW)
        self._insert, self._begin = match[1], match.start()
        named = [t.name for t in tokenize(self._insert.decode(errors="replace")) if t.kind is TokenKind.QUOTED][1:]
        self.names, self._size = named or names, piece.size

    def lines(self, block: Block) -> bytes:
        text = block.text[max(self._begin - block.offset, 0) :]
        if block.offset + len(block.text) == self._size and text and not text.endswith(b");\n"):
            raise InvalidLine("the file is cut off: its last statement does not end")
        return self._by_breaks(text) if self.cells.escapes else self._by_quotes(text)

    def _by_breaks(self, text: bytes) -> bytes:
        rows = text.replace(self._insert, b"").replace(b");\n", b"),\n")
        if not rows:
            return rows
        lines = rows[1:-3].replace(b"),\n(", b"\n") + b"\n"
        if not (rows.startswith(b"(") and rows.endswith(b"),\n") and lines.count(b"\n") == rows.count(b"\n")):
            raise InvalidLine("these are no rows in parentheses")
        return lines

    def _by_quotes(self, text: bytes) -> bytes:
        data = np.frombuffer(text, np.uint8)
        if not data.size:
            return text
        breaks, quotes = outside_quotes(data, ord("'"), [0x0A])
        starts = np.concatenate([[0], breaks[:-1] + 1])
        rows = data[starts] == ord("(")
        if quotes % 2 or not np.all(data[breaks[rows] - 2] == ord(")")):
            raise InvalidLine("these are no rows in parentheses")
        kept = np.repeat(rows, breaks - starts + 1)
        kept[starts[rows]] = kept[breaks[rows] - 1] = kept[breaks[rows] - 2] = False
        return bytes(data[kept])

    def line_of(self, block: Block, row: int) -> int:
        starts = [match.start() for match, _ in zip(self._ROW.finditer(block.text), range(row + 1), strict=False)]
        return block.text.count(b"\n", 0, starts[-1]) if starts else 0


class CsvForm:
    """One row on each line, after a line with the names of the columns."""

    def __init__(self, reader: RangeReader, piece: FileSlice, form: DumplingFormat, names: Sequence[str]) -> None:
        self.ends = ExportLineEnds(form.terminator, form.escapes)
        self.cells = CellForm(form.separator, form.quote, form.null, form.escapes, hexadecimal=False)
        self.names, self.header = names, b""
        if not piece.size:
            raise InvalidLine(_NO_ROW)
        if not form.header and piece.offset:
            return
        line, ended, _ = reader.read(piece, 0, min(piece.size, _HEAD_BYTES)).partition(form.terminator)
        header_names = _names_in(line, form) if ended else []
        if form.header and not header_names:
            raise InvalidLine(f"expected a header line with the names of the columns, found {line[:60]!r}")
        if form.header:
            self.names, self.header = header_names, line + ended
            if piece.size == len(self.header):
                raise InvalidLine(_NO_ROW)
        elif list(map(same_name, header_names)) == list(map(same_name, names)):
            raise InvalidLine("its first line holds the names of the columns, and it is read as a row")

    def lines(self, block: Block) -> bytes:
        if not self.cells.escapes or self.ends.terminator == b"\n":
            return block.text
        return block.text.replace(self.ends.terminator, b"\n")

    def line_of(self, block: Block, row: int) -> int:
        return row


def _names_in(line: bytes, form: DumplingFormat) -> list[str]:
    """Returns the names of a line of nothing but texts."""
    if not (line.startswith(form.quote) and line.endswith(form.quote)):
        return []
    quote = re.escape(form.quote)
    unquoted = re.compile(rb"\\(.)" if form.escapes else quote + b"(" + quote + b")")
    names = line[1:-1].split(form.quote + form.separator + form.quote)
    return [unquoted.sub(rb"\1", name).decode(errors="replace") for name in names]
