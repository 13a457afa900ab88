"""SQL and CSV as Dumpling writes them: what a file's head says, and its rows as lines of cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from consumer.codec.csv.cells import outside_quotes
from consumer.codec.dumpling.cells import CellForm, NotCells
from consumer.codec.lines import Block, LineEnds
from consumer.ddl.tokens import TokenKind, tokenize
from consumer.model.export import DumplingFormat
from consumer.model.load import FileSlice
from consumer.model.names import same_name
from consumer.ports import RangeReader

_HEAD_BYTES = 4 << 20
"""More than the names of 4096 columns can take."""
_NO_ROW = "it has no row, and Dumpling writes no such file: it is cut off"


class Ends(LineEnds):
    """`alone`: each terminator ends a row; else values can hold it, and only the end of the file is one for certain."""

    def __init__(self, terminator: bytes, alone: bool) -> None:
        self.terminator, self._alone = terminator, alone
        self.lookback = len(terminator)

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        if self._alone:
            found = buffer.find(self.terminator, max(at - self.lookback, 0))
            return found + self.lookback if found >= 0 else -1
        return len(buffer) if whole and len(buffer) >= at and buffer.endswith(self.terminator) else -1

    def last(self, buffer: bytes) -> int:
        found = buffer.rfind(self.terminator) if self._alone else -1
        return found + self.lookback if found >= 0 else 0

    def as_read(self, lines: bytes) -> bytes:
        return lines

    def count(self, lines: bytes) -> int:
        return lines.count(self.terminator)

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        ended = (line + self.terminator for line in lines.split(self.terminator)[:-1])
        return [(line, len(line)) for line in ended]

    def parts(self, line: bytes) -> list[bytes]:
        return [line]


class Form(Protocol):
    """Of one file. `names` are the columns of its lines; `header` is a first line that is none."""

    ends: Ends
    cells: CellForm
    names: Sequence[str]
    header: bytes

    def lines(self, block: Block) -> bytes:
        """Nothing but cells, each line ended by a line feed. Raises NotCells."""

    def line_of(self, block: Block, row: int) -> int:
        """How many lines of the block stand before one of its rows."""


class SqlForm:
    """``INSERT INTO `t` [(columns)] VALUES``, then a row a line in parentheses, with a comma or a semicolon behind."""

    _INSERT = re.compile(rb"^(INSERT INTO `.*? VALUES\n)(?=\()", re.DOTALL | re.MULTILINE)
    _ROW = re.compile(rb"^\(", re.MULTILINE)
    header = b""

    def __init__(self, reader: RangeReader, piece: FileSlice, form: DumplingFormat, names: Sequence[str]) -> None:
        self.ends = Ends(b"\n", form.escapes)
        self.cells = CellForm(b",", b"'", b"NULL", form.escapes, hexadecimal=True)
        found = self._INSERT.search(reader.read(piece, 0, min(piece.size, _HEAD_BYTES)))
        if found is None:
            raise NotCells(_NO_ROW)
        self._insert, self._begin = found[1], found.start()
        own = [t.name for t in tokenize(self._insert.decode(errors="replace")) if t.kind is TokenKind.QUOTED][1:]
        self.names, self._size = own or names, piece.size

    def lines(self, block: Block) -> bytes:
        text = block.text[max(self._begin - block.offset, 0) :]
        if block.offset + len(block.text) == self._size and text and not text.endswith(b");\n"):
            raise NotCells("the file is cut off: its last statement does not end")
        return self._by_breaks(text) if self.cells.escapes else self._by_quotes(text)

    def _by_breaks(self, text: bytes) -> bytes:
        rows = text.replace(self._insert, b"").replace(b");\n", b"),\n")
        if not rows:
            return rows
        lines = rows[1:-3].replace(b"),\n(", b"\n") + b"\n"
        if not (rows.startswith(b"(") and rows.endswith(b"),\n") and lines.count(b"\n") == rows.count(b"\n")):
            raise NotCells("these are no rows in parentheses")
        return lines

    def _by_quotes(self, text: bytes) -> bytes:
        data = np.frombuffer(text, np.uint8)
        if not data.size:
            return text
        breaks, quotes = outside_quotes(data, ord("'"), [0x0A])
        starts = np.concatenate([[0], breaks[:-1] + 1])
        rows = data[starts] == ord("(")
        if quotes % 2 or not np.all(data[breaks[rows] - 2] == ord(")")):
            raise NotCells("these are no rows in parentheses")
        kept = np.repeat(rows, breaks - starts + 1)
        kept[starts[rows]] = kept[breaks[rows] - 1] = kept[breaks[rows] - 2] = False
        return bytes(data[kept])

    def line_of(self, block: Block, row: int) -> int:
        starts = [found.start() for found, _ in zip(self._ROW.finditer(block.text), range(row + 1), strict=False)]
        return block.text.count(b"\n", 0, starts[-1]) if starts else 0


class CsvForm:
    """A row a line, behind one with the names of the columns."""

    def __init__(self, reader: RangeReader, piece: FileSlice, form: DumplingFormat, names: Sequence[str]) -> None:
        self.ends = Ends(form.terminator, form.escapes)
        self.cells = CellForm(form.separator, form.quote, form.null, form.escapes, hexadecimal=False)
        self.names, self.header = names, b""
        if not piece.size:
            raise NotCells(_NO_ROW)
        if not form.header and piece.offset:
            return
        line, ended, _ = reader.read(piece, 0, min(piece.size, _HEAD_BYTES)).partition(form.terminator)
        found = _names_in(line, form) if ended else []
        if form.header and not found:
            raise NotCells(f"expected a header line with the names of the columns, found {line[:60]!r}")
        if form.header:
            self.names, self.header = found, line + ended
            if piece.size == len(self.header):
                raise NotCells(_NO_ROW)
        elif list(map(same_name, found)) == list(map(same_name, names)):
            raise NotCells("its first line holds the names of the columns, and it is read as a row")

    def lines(self, block: Block) -> bytes:
        if not self.cells.escapes or self.ends.terminator == b"\n":
            return block.text
        return block.text.replace(self.ends.terminator, b"\n")

    def line_of(self, block: Block, row: int) -> int:
        return row


def _names_in(line: bytes, form: DumplingFormat) -> list[str]:
    """Those that a line of nothing but texts has."""
    if not (line.startswith(form.quote) and line.endswith(form.quote)):
        return []
    quote = re.escape(form.quote)
    unquoted = re.compile(rb"\\(.)" if form.escapes else quote + b"(" + quote + b")")
    found = line[1:-1].split(form.quote + form.separator + form.quote)
    return [unquoted.sub(rb"\1", name).decode(errors="replace") for name in found]
