"""Cuts byte ranges of data files into blocks of whole lines, and reads as much of a file's two ends as is needed to
find something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from consumer.codec.errors import BEGUN, FileCoordinates
from consumer.model.files import DataFile
from consumer.model.load import FileSlice
from consumer.model.times import tso_to_ms
from consumer.ports import RangeReader

TAIL_BYTES = 64 << 10
"""Bytes read beyond the end of a slice with its last block: the slice's last line mostly ends there."""
MAX_LINE_BYTES = 1 << 30
MAX_READ_BYTES = 256 << 20
"""With these two a block stays below the 2 GiB that Arrow's JSON reader takes at once."""

_AGAIN = 5
"""The beginning of a line that is at most 2**-5 of a block is read again with the rest: joining them would copy the
block."""

_READER = ThreadPoolExecutor(4, "read-ahead")


class LineEnds(Protocol):
    """Finds where the lines of a file end. Each line is one row, whatever bytes it holds."""

    lookback: int
    """How many bytes before a line's first byte must be read to see that a line begins there."""

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        """Returns where the first line at or after `at` begins, -1 if that is not in `buffer`.

        `whole`: the file ends with `buffer`. Its end counts as a beginning if a line ends there.
        """

    def last(self, buffer: bytes) -> int:
        """Returns where the last line begins, 0 if no line is seen to begin after the first byte."""

    def as_read(self, lines: bytes) -> bytes:
        """Returns whole lines in the form that the decoder takes."""

    def count(self, lines: bytes) -> int:
        """Returns how many lines there are, as the decoder counts them."""

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        """Returns lines in the decoder's form one by one, and how many bytes each has in the file."""

    def moment(self, begun: bytes) -> int:
        """Returns when the row of a cut-off line was committed, in milliseconds; 0 if the part does not show it."""
        return 0

    def parts(self, line: bytes) -> list[bytes]:
        """Returns the lines that a line that is no row probably consists of. At the ends of a damaged line no beginning
        may be seen."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, as `LineEnds.as_read` returns them. The first of them begins at `offset` of the file."""

    text: bytes
    offset: int


class SliceLines:
    """The lines that begin inside a slice, in blocks of about `block_bytes`.

    `header` is the length of a first line that is no row.
    """

    def __init__(
        self,
        reader: RangeReader,
        piece: FileSlice,
        ends: LineEnds,
        place: FileCoordinates,
        block_bytes: int,
        header: int = 0,
    ) -> None:
        self._reader, self._piece, self._ends, self._place = reader, piece, ends, place
        self._block_bytes, self._header = block_bytes, header
        self._ahead: tuple[int, int, Future[bytes]] | None = None

    def blocks(self) -> Iterator[Block]:
        """Yields the blocks. Raises CorruptFile if the file has become shorter or its last line has no terminator."""
        piece, ends = self._piece, self._ends
        stop = piece.offset + piece.length
        begun = piece.offset <= self._header
        base = self._header if begun else max(self._header, piece.offset - ends.lookback)
        held, fruitless = b"", 0
        while (position := base + len(held)) < piece.size:
            held += self._read(position, self._length(position, fruitless))
            fruitless += 1
            at_file_end = base + len(held) == piece.size
            if not begun:
                begin = ends.first(held, piece.offset - base, at_file_end)
                if begin < 0:
                    continue
                held, base, begun = held[begin:], base + begin, True
            if base >= stop:
                return
            end = ends.first(held, stop - base, at_file_end) if base + len(held) >= stop else -1
            cut = end if end >= 0 else ends.last(held)
            if cut > 0:
                read_again = len(held) - cut <= self._block_bytes >> _AGAIN
                if end < 0:
                    self._read_ahead(base + (cut if read_again else len(held)))
                yield Block(ends.as_read(held[:cut]), base)
                held, base, fruitless = b"" if read_again else held[cut:], base + cut, 0
            elif len(held) > MAX_LINE_BYTES:
                raise self._place.corrupt(f"a line is longer than {MAX_LINE_BYTES} bytes", self.line_at(base))
            if end >= 0:
                return
        if begun and held:
            message = "the file's last line does not end with the terminator: it is cut off"
            later = ends.moment(held) > tso_to_ms(piece.exact.end)
            raise self._place.corrupt(message, self.line_at(base), BEGUN if later else "")

    def line_at(self, offset: int) -> int:
        """Returns the number, from 1, of the line of the file that begins at `offset`. Reads the file up to there."""
        first = 2 if self._header else 1
        if offset <= self._header:
            return first
        before = replace(self._piece, offset=0, length=offset)
        lines = SliceLines(self._reader, before, self._ends, self._place, self._block_bytes, self._header)
        return first + sum(self._ends.count(block.text) for block in lines.blocks())

    def _length(self, position: int, fruitless: int) -> int:
        """Returns how much to read at `position`, after `fruitless` reads in which no line ended."""
        remaining = max(self._piece.offset + self._piece.length - position, 0)
        wanted = min(self._block_bytes << fruitless, remaining + (TAIL_BYTES << fruitless))
        return min(wanted, self._piece.size - position, MAX_READ_BYTES)

    def _read_ahead(self, position: int) -> None:
        """Starts reading what the next block needs while this one is decoded."""
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
            end = position + len(chunk)
            raise self._place.corrupt(f"the file ends at byte {end}, but had {self._piece.size} bytes when listed")
        return chunk


END_SIZE = 64 * 1024
"""Files up to this size are read at once. Of longer ones this much is read at each end, and more if a row is longer."""

_Result = TypeVar("_Result")
Find = Callable[[bytes, bool], _Result | None]
"""Searches a part of a file, with a flag whether that is the whole file. None: more of the file is needed."""


class FileEnds:
    """Reads a file's ends. Raises the errors of `reader`."""

    def __init__(self, reader: RangeReader, file: DataFile) -> None:
        self._reader, self._file = reader, file
        self.whole = reader.read(file, 0, file.size) if file.size <= END_SIZE else None
        """The file's content if it is small."""

    def at_head(self, find: Find[_Result]) -> _Result | None:
        """Returns the result of `find` at the beginning, or None if the whole file, or the longest line, was not
        enough."""
        return self._grown(find, from_end=False)

    def at_tail(self, find: Find[_Result]) -> _Result | None:
        """Returns the result of `find` at the end, or None if the whole file, or the longest line, was not enough."""
        return self._grown(find, from_end=True)

    def _grown(self, find: Find[_Result], *, from_end: bool) -> _Result | None:
        if self.whole is not None:
            return find(self.whole, True)
        size, length = self._file.size, END_SIZE
        while length < min(size, MAX_LINE_BYTES):
            part = self._reader.read(self._file, size - length if from_end else 0, length)
            if (result := find(part, False)) is not None:
                return result
            length *= 4
        return find(self._reader.read(self._file, 0, size), True) if size <= MAX_LINE_BYTES else None
