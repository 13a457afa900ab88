"""Byte ranges of data files -> blocks of whole lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from consumer.codec.faults import Place
from consumer.model.load import FileSlice
from consumer.ports import RangeReader

TAIL_BYTES = 64 << 10
"""Read beyond the end of a slice with its last block: the slice's last line mostly ends there."""
MAX_LINE_BYTES = 1 << 30
MAX_READ_BYTES = 256 << 20
"""With these two a block stays below the 2 GiB that Arrow's JSON reader takes at once."""


class LineEnds:
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
        """How much earlier than a line's first byte one must read to see that a line begins there."""

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        """Where the first line at or behind `at` begins, -1 if that is not in `buffer`.

        `whole`: the file ends with `buffer`; its end counts as a beginning when a line ends there.
        """
        if self._by_newline:
            return buffer.find(b"\n", max(at - 1, 0)) + 1 or -1
        borders = self._border.finditer(buffer, max(at - self.lookback, 0))
        begins = next((border.end() for border in borders if border.end() >= at), -1)
        if begins < 0 and whole and len(buffer) >= at and buffer.endswith(b"}" + self._terminator):
            return len(buffer)
        return begins

    def last(self, buffer: bytes) -> int:
        """Where the last line begins, 0 if none is seen to begin behind the first byte."""
        if self._by_newline:
            return buffer.rfind(b"\n") + 1
        border = buffer.rfind(self._mark)
        while border >= 0:
            if self._border.match(buffer, border):
                return border + self.lookback
            border = buffer.rfind(self._mark, 0, border + len(self._mark) - 1)
        return 0

    def as_newlines(self, lines: bytes) -> bytes:
        """Whole lines, each ended by a newline."""
        if self._by_newline:
            return lines
        return self._border.sub(b"}\n", lines.removesuffix(self._terminator)) + b"\n"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each ended by a newline. The first of them begins at `offset` of the file."""

    text: bytes
    offset: int


class SliceLines:
    """The lines that begin inside a slice, in blocks of about `block_bytes`."""

    def __init__(self, reader: RangeReader, piece: FileSlice, ends: LineEnds, place: Place, block_bytes: int) -> None:
        self._reader, self._piece, self._ends, self._place = reader, piece, ends, place
        self._block_bytes = block_bytes

    def blocks(self) -> Iterator[Block]:
        """Raises CorruptFile when the file has become shorter or its last line has no terminator."""
        piece, ends = self._piece, self._ends
        stop = piece.offset + piece.length
        base = max(0, piece.offset - ends.lookback)
        begun = piece.offset == 0
        held, fruitless = b"", 0
        while (position := base + len(held)) < piece.size:
            length = min(self._block_bytes << fruitless, max(stop - position, 0) + (TAIL_BYTES << fruitless))
            held += self._read(position, min(length, piece.size - position, MAX_READ_BYTES))
            fruitless += 1
            whole = base + len(held) == piece.size
            if not begun:
                begin = ends.first(held, piece.offset - base, whole)
                if begin < 0:
                    continue
                held, base, begun = held[begin:], base + begin, True
            if base >= stop:
                return
            end = ends.first(held, stop - base, whole) if base + len(held) >= stop else -1
            cut = end if end >= 0 else ends.last(held)
            if cut > 0:
                yield Block(ends.as_newlines(held[:cut]), base)
                held, base, fruitless = held[cut:], base + cut, 0
            elif len(held) > MAX_LINE_BYTES:
                raise self._place.corrupt(f"a line is longer than {MAX_LINE_BYTES} bytes", self.line_at(base))
            if end >= 0:
                return
        if begun and held:
            message = "the file's last line does not end with the terminator: it is cut off"
            raise self._place.corrupt(message, self.line_at(base))

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line of the file that begins at `offset`. Reads the file up to there."""
        if not offset:
            return 1
        before = replace(self._piece, offset=0, length=offset)
        lines = SliceLines(self._reader, before, self._ends, self._place, self._block_bytes)
        return 1 + sum(block.text.count(b"\n") for block in lines.blocks())

    def _read(self, position: int, length: int) -> bytes:
        chunk = self._reader.read(self._piece.path, position, length)
        if len(chunk) < length:
            found = position + len(chunk)
            raise self._place.corrupt(f"the file ends at byte {found}, but had {self._piece.size} bytes when listed")
        return chunk
