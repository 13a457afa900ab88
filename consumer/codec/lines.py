"""Byte ranges of data files -> blocks of whole lines; and as much of the two ends as it takes to find something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from consumer.codec.errors import BEGUN, Place
from consumer.model.files import DataFile
from consumer.model.load import FileSlice
from consumer.model.times import tso_to_ms
from consumer.ports import RangeReader

TAIL_BYTES = 64 << 10
"""Read beyond the end of a slice with its last block: the slice's last line mostly ends there."""
MAX_LINE_BYTES = 1 << 30
MAX_READ_BYTES = 256 << 20
"""With these two a block stays below the 2 GiB that Arrow's JSON reader takes at once."""

_AGAIN = 5
"""The begin of a line that is at most 2**-5 of a block is read again with the rest: joining them copies the block."""

_READER = ThreadPoolExecutor(4, "read-ahead")


class LineEnds(Protocol):
    """Where the lines of a file end: each is one row, whatever bytes it holds."""

    lookback: int
    """How much earlier than a line's first byte one must read to see that a line begins there."""

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        """Where the first line at or behind `at` begins, -1 if that is not in `buffer`.

        `whole`: the file ends with `buffer`; its end counts as a beginning when a line ends there.
        """

    def last(self, buffer: bytes) -> int:
        """Where the last line begins, 0 if none is seen to begin behind the first byte."""

    def as_read(self, lines: bytes) -> bytes:
        """Whole lines as the decoder wants them."""

    def count(self, lines: bytes) -> int:
        """How many lines there are, as the decoder reads them."""

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        """Lines that were read one by one, and how many bytes each is long in the file."""

    def moment(self, begun: bytes) -> int:
        """When the row of a line that is cut off was committed, in milliseconds; 0: what is there does not tell."""
        return 0

    def parts(self, line: bytes) -> list[bytes]:
        """Of one that is no row: the lines that it is probably made of. At the ends of a damaged one nothing may be
        seen to begin."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, as `LineEnds.as_read` gives them. The first of them begins at `offset` of the file."""

    text: bytes
    offset: int


class SliceLines:
    """The lines that begin inside a slice, in blocks of about `block_bytes`.

    `header` is the length of a first line that is none of them.
    """

    def __init__(
        self, reader: RangeReader, piece: FileSlice, ends: LineEnds, place: Place, block_bytes: int, header: int = 0
    ) -> None:
        self._reader, self._piece, self._ends, self._place = reader, piece, ends, place
        self._block_bytes, self._header = block_bytes, header
        self._ahead: tuple[int, int, Future[bytes]] | None = None

    def blocks(self) -> Iterator[Block]:
        """Raises CorruptFile when the file has become shorter or its last line has no terminator."""
        piece, ends = self._piece, self._ends
        stop = piece.offset + piece.length
        begun = piece.offset <= self._header
        base = self._header if begun else max(self._header, piece.offset - ends.lookback)
        held, fruitless = b"", 0
        while (position := base + len(held)) < piece.size:
            held += self._read(position, self._length(position, fruitless))
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
                again = len(held) - cut <= self._block_bytes >> _AGAIN
                if end < 0:
                    self._read_ahead(base + (cut if again else len(held)))
                yield Block(ends.as_read(held[:cut]), base)
                held, base, fruitless = b"" if again else held[cut:], base + cut, 0
            elif len(held) > MAX_LINE_BYTES:
                raise self._place.corrupt(f"a line is longer than {MAX_LINE_BYTES} bytes", self.line_at(base))
            if end >= 0:
                return
        if begun and held:
            message = "the file's last line does not end with the terminator: it is cut off"
            later = ends.moment(held) > tso_to_ms(piece.exact.end)
            raise self._place.corrupt(message, self.line_at(base), BEGUN if later else "")

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line of the file that begins at `offset`. Reads the file up to there."""
        first = 2 if self._header else 1
        if offset <= self._header:
            return first
        before = replace(self._piece, offset=0, length=offset)
        lines = SliceLines(self._reader, before, self._ends, self._place, self._block_bytes, self._header)
        return first + sum(self._ends.count(block.text) for block in lines.blocks())

    def _length(self, position: int, fruitless: int) -> int:
        """How much to read at `position`, after `fruitless` reads that ended no line."""
        left = max(self._piece.offset + self._piece.length - position, 0)
        wanted = min(self._block_bytes << fruitless, left + (TAIL_BYTES << fruitless))
        return min(wanted, self._piece.size - position, MAX_READ_BYTES)

    def _read_ahead(self, position: int) -> None:
        """Read what the next block needs while this one is decoded."""
        if position < self._piece.size:
            length = self._length(position, 0)
            self._ahead = position, length, _READER.submit(self._reader.read, self._piece, position, length)

    def _read(self, position: int, length: int) -> bytes:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (position, length):
            chunk = ahead[2].result()
        else:
            chunk = self._reader.read(self._piece, position, length)
        if len(chunk) < length:
            found = position + len(chunk)
            raise self._place.corrupt(f"the file ends at byte {found}, but had {self._piece.size} bytes when listed")
        return chunk


END_SIZE = 64 * 1024
"""Files up to this size are read at once; of longer ones this much at each end, and more if a row is longer."""

_Found = TypeVar("_Found")
Find = Callable[[bytes, bool], _Found | None]
"""Looks at a part of a file, and is told whether that is the whole file; None: more of the file is needed."""


class FileEnds:
    """Reads a file's ends. Raises what `reader` raises."""

    def __init__(self, reader: RangeReader, file: DataFile) -> None:
        self._reader, self._file = reader, file
        self.whole = reader.read(file, 0, file.size) if file.size <= END_SIZE else None
        """The file's content, where it is small."""

    def at_head(self, find: Find[_Found]) -> _Found | None:
        """What `find` finds at the beginning, None when the whole file, or as much as a line can be, was not enough."""
        return self._grown(find, from_end=False)

    def at_tail(self, find: Find[_Found]) -> _Found | None:
        """What `find` finds at the end, None when the whole file, or as much as a line can be, was not enough."""
        return self._grown(find, from_end=True)

    def _grown(self, find: Find[_Found], *, from_end: bool) -> _Found | None:
        if self.whole is not None:
            return find(self.whole, True)
        size, length = self._file.size, END_SIZE
        while length < min(size, MAX_LINE_BYTES):
            part = self._reader.read(self._file, size - length if from_end else 0, length)
            if (found := find(part, False)) is not None:
                return found
            length *= 4
        return find(self._reader.read(self._file, 0, size), True) if size <= MAX_LINE_BYTES else None
