"""Where the records of a CSV file begin, and its header line."""

from __future__ import annotations

import re

from consumer.codec.csv.form import OPERATIONS, RowForm
from consumer.codec.errors import Place
from consumer.codec.lines import LineEnds
from consumer.model.load import FileSlice
from consumer.ports import RangeReader

_HEADER_BYTES = 64 << 10
_MAX_HEADER_BYTES = 16 << 20


class RecordEnds(LineEnds):
    """Where records end, which may hold line breaks: a record is seen to begin behind a terminator by its first cell.

    Where that is no proof (see `form.splittable`), a quoted record is not looked for: a file is then one block.
    """

    def __init__(self, form: RowForm, provable: bool) -> None:
        self._terminator, self._quote = form.terminator, form.quote
        operation = re.escape(form.quote) + b"[" + OPERATIONS + b"]" + re.escape(form.quote + form.delimiter)
        self._begin = re.compile(re.escape(form.terminator) + b"(?=" + operation + b")")
        self._mark = form.terminator + form.quote
        self._looks = provable or not form.quote
        self.lookback = len(form.terminator)

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        if self._looks:
            begins = self._begin.finditer(buffer, max(at - self.lookback, 0))
            found = next((begin.end() for begin in begins if begin.end() >= at), -1)
            if found >= 0:
                return found
        return len(buffer) if whole and len(buffer) >= at and buffer.endswith(self._terminator) else -1

    def last(self, buffer: bytes) -> int:
        mark = buffer.rfind(self._mark) if self._looks else -1
        while mark >= 0:
            if self._begin.match(buffer, mark):
                return mark + self.lookback
            mark = buffer.rfind(self._mark, 0, mark + len(self._mark) - 1)
        return 0

    def as_read(self, lines: bytes) -> bytes:
        return lines

    def count(self, lines: bytes) -> int:
        return sum(len(self.parts(record)) for record, _ in self.split(lines)) if lines else 0

    def records(self, lines: bytes) -> list[bytes]:
        """Records one by one, without their terminators."""
        return self._begin.split(lines.removesuffix(self._terminator))

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        ended = (record + self._terminator for record in self.records(lines))
        return [(record, len(record)) for record in ended]

    def parts(self, line: bytes) -> list[bytes]:
        """Cut behind each terminator outside of quotes."""
        parts, begin, at = [], 0, line.find(self._terminator)
        while at >= 0:
            end = at + len(self._terminator)
            if not self._quote or line.count(self._quote, begin, at) % 2 == 0:
                parts.append(line[begin:end])
                begin = end
            at = line.find(self._terminator, end)
        return [*parts, line[begin:]] if begin < len(line) else parts


class Header:
    """A file's first line where it is a header. `size` is its length in bytes; `names` are its columns."""

    def __init__(self, reader: RangeReader, piece: FileSlice, form: RowForm, place: Place) -> None:
        """Raises CorruptFile where the first line is no such header."""
        meta = form.delimiter.join([*form.header, b""])
        length = min(piece.size, _HEADER_BYTES)
        head = reader.read(piece, 0, length)
        if not head.startswith(meta):
            expected, found = (text[: len(meta)].decode(errors="replace") for text in (meta, head))
            raise place.corrupt(f"expected a header line, {expected!r}.., for output-field-header, found {found!r}", 1)
        while (end := head.find(form.terminator, len(meta))) < 0:
            if length == min(piece.size, _MAX_HEADER_BYTES):
                raise place.corrupt("the header line does not end", 1)
            length = min(piece.size, _MAX_HEADER_BYTES, length * 8)
            head = reader.read(piece, 0, length)
        self.size = end + len(form.terminator)
        try:
            self.names = [name.decode() for name in head[len(meta) : end].split(form.delimiter)]
        except UnicodeDecodeError as error:
            raise place.corrupt("the header line is not UTF-8", 1) from error
