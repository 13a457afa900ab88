"""Reads canal-JSON, one row change in a line, as rows."""

from __future__ import annotations

import re

import numpy as np

from consumer.codec.canal_json.alike import AlikeLines
from consumer.codec.canal_json.changes import ChangeBuilder
from consumer.codec.canal_json.errors import RowLines
from consumer.codec.canal_json.rows import RowParser
from consumer.codec.change_table import Ints
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import Block, LineEnds
from consumer.codec.rows import BlockRows, LineAt, Time
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.model.times import ms_to_tso

_ES = re.compile(rb'\A\{"id":\d+,"database":"(?:[^"\\]|\\.)*","table":"(?:[^"\\]|\\.)*",[^{}]*?"es":(\d+),')
"""In front of the values, which can have the same text."""


class JsonEnds(LineEnds):
    """Where lines end. CR and LF are never raw inside JSON, so a blank terminator that ends with LF is found by its LF.

    Any other terminator may also occur in a text. Between lines it stands after ``}`` and before ``{"`` and the first
    letter of a member's name; in a text, that quote would be the closing one, and no name can follow it.
    """

    def __init__(self, terminator: bytes) -> None:
        self._terminator = terminator
        self._by_newline = terminator.endswith(b"\n") and not terminator.strip(b" \t\r\n")
        self._mark = b"}" + terminator + b'{"'
        self._border = re.compile(re.escape(b"}" + terminator) + rb'(?=\{"[^\s,:}\]])')
        self.lookback = 1 if self._by_newline else 1 + len(terminator)

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        if self._by_newline:
            return buffer.find(b"\n", max(at - 1, 0)) + 1 or -1
        borders = self._border.finditer(buffer, max(at - self.lookback, 0))
        begins = next((border.end() for border in borders if border.end() >= at), -1)
        if begins < 0 and whole and len(buffer) >= at and buffer.endswith(b"}" + self._terminator):
            return len(buffer)
        return begins

    def last(self, buffer: bytes) -> int:
        if self._by_newline:
            return buffer.rfind(b"\n") + 1
        border = buffer.rfind(self._mark)
        while border >= 0:
            if self._border.match(buffer, border):
                return border + self.lookback
            border = buffer.rfind(self._mark, 0, border + len(self._mark) - 1)
        return 0

    def moment(self, begun: bytes) -> int:
        match = _ES.search(begun)
        return 0 if match is None else int(match[1])

    def as_read(self, lines: bytes) -> bytes:
        """Returns the lines, each ended by a newline."""
        if self._by_newline:
            return lines
        return self._border.sub(b"}\n", lines.removesuffix(self._terminator)) + b"\n"

    def count(self, lines: bytes) -> int:
        return lines.count(b"\n")

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        grown = 0 if self._by_newline else len(self._terminator) - 1
        return [(line + b"\n", len(line) + 1 + grown) for line in lines.split(b"\n")[:-1]]

    def parts(self, line: bytes) -> list[bytes]:
        return [line]


_COMMIT_TS, _ES = re.compile(rb'"_tidb": ?\{"commitTs": ?([0-9]{1,19})[,}]'), re.compile(rb'"es": ?([0-9]{1,13}),')


class JsonFile:
    """A `codec.rows.RowFile` of canal-JSON."""

    header = b""

    def __init__(self, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout) -> None:
        self.place = FileCoordinates.of(piece, target)
        self.ends = JsonEnds(dialect.terminator)
        self._parser = RowParser(target)
        self._alike = AlikeLines(target, self._parser)
        self._builder = ChangeBuilder(target, self.place, dialect.clock, layout)

    def rows(self, block: Block, line_at: LineAt, blame: bool = True) -> BlockRows | None:
        lines = RowLines(block, line_at, self.place)
        try:
            rows = self._alike.parse(block.text)
        except ValueError as error:
            fault = lines.fault(self._parser) if blame else self.place.corrupt("", line_at(block.offset))
            raise fault from error
        if not rows.count:
            return None

        def counts(sizes: Ints) -> Ints:
            newlines = np.frombuffer(block.text, np.uint8) == ord("\n")
            line_counts: Ints = np.add.reduceat(newlines, np.cumsum(sizes) - sizes, dtype=np.int64)
            if rows.count != line_counts.sum():
                raise ValueError("blank lines")
            return line_counts

        builder = self._builder
        return BlockRows(
            rows.ts,
            rows.exact,
            counts,
            lambda inside, origin: builder.changes(rows, inside, origin, lines),
            lambda: (rows.update, rows.delete),
            lambda which, needed: builder.images(rows, which, needed, lines),
            lambda which: builder.old_images(rows, which, lines),
        )

    def time(self, line: bytes) -> Time | None:
        exact, coarse = _COMMIT_TS.findall(line), _ES.search(line)
        if exact:
            return Time(int(exact[-1]), True)
        return None if coarse is None else Time(ms_to_tso(int(coarse[1])), False)
