"""Cuts bytes of CSV into records, and these into cells, without a loop over cells.

A byte can be a delimiter or begin a terminator if an even number of quotes stands before it, or, in escape mode, if an
even number of backslashes ends right before it. What each byte is (quoted, escaped, doubled) takes a few bytes of
memory each. A position takes eight, so positions are collected one stretch at a time, and only those between cells are
kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from consumer.codec.change_table import Flags, Ints
from consumer.codec.csv.options import OPERATIONS, RowForm
from consumer.codec.lines import LineEnds


class RecordEnds(LineEnds):
    """Where records end. They may hold line breaks, so the beginning of a record is recognised after a terminator by
    its first cell.

    If that is no proof (see `form.splittable`), quoted records are not searched: a file is then one block.
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
            begin_of_line = next((begin.end() for begin in begins if begin.end() >= at), -1)
            if begin_of_line >= 0:
                return begin_of_line
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
        """Returns the records one by one, without their terminators."""
        return self._begin.split(lines.removesuffix(self._terminator))

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        ended = (record + self._terminator for record in self.records(lines))
        return [(record, len(record)) for record in ended]

    def parts(self, line: bytes) -> list[bytes]:
        """Cuts after each terminator outside of quotes."""
        parts, begin, at = [], 0, line.find(self._terminator)
        while at >= 0:
            end = at + len(self._terminator)
            if not self._quote or line.count(self._quote, begin, at) % 2 == 0:
                parts.append(line[begin:end])
                begin = end
            at = line.find(self._terminator, end)
        return [*parts, line[begin:]] if begin < len(line) else parts


Bytes = npt.NDArray[np.uint8]

T = TypeVar("T", bound=np.generic)

STRETCH = 1 << 20
_BACKSLASH = 0x5C


def equal_to_any(data: Bytes, values: Sequence[int]) -> Flags:
    """Returns which bytes are one of `values`."""
    flags: Flags = data == values[0]
    for value in values[1:]:
        flags |= data == value
    return flags


def outside_quotes(data: Bytes, quote: int, marks: Sequence[int]) -> tuple[Ints, int]:
    """Returns the positions of `marks` with an even number of quotes before them, and how many quotes there are in
    all."""
    positions: list[Ints] = []
    quotes = 0
    for begin, part in _stretches(data):
        special = np.flatnonzero(equal_to_any(part, [quote, *marks]))
        is_quote = part[special] == quote
        # Only whether the count is odd matters, and the overflow keeps that.
        inside = np.bitwise_and(np.cumsum(is_quote, dtype=np.uint8), 1).view(np.bool_)
        if quotes % 2:
            np.logical_not(inside, out=inside)
        positions.append(begin + special[~(is_quote | inside)])
        quotes += int(np.count_nonzero(is_quote))
    return np.concatenate(positions), quotes


def not_escaped(data: Bytes, marks: Sequence[int], escaping: Flags) -> Ints:
    """Returns the positions of `marks` that have no escaping byte right before them."""
    free = np.ones(data.size, np.bool_)
    np.logical_not(escaping[:-1], out=free[1:])
    positions = [begin + np.flatnonzero(part) for begin, part in _stretches(free & equal_to_any(data, marks))]
    return np.concatenate(positions)


def escaping_bytes(data: Bytes) -> Flags:
    """Returns the backslashes that escape the next byte: the first, third, .. of each run."""
    escaping: Flags = data == _BACKSLASH
    begin = 0
    while begin < data.size:
        part = escaping[begin : begin + STRETCH]
        positions = np.flatnonzero(part)
        order = np.arange(len(positions))
        begins = np.diff(positions, prepend=-2) != 1
        within = order - np.maximum.accumulate(np.where(begins, order, 0))
        part[positions[within % 2 == 1]] = False
        begin += len(part)
        if part[-1]:  # the next stretch begins after the byte that this one escapes
            escaping[begin : begin + 1] = False
            begin += 1
    return escaping


def second_of_doubled(data: Bytes, quote: int, enclosing: Flags) -> Flags | None:
    """Returns the second quote of each doubled one, without regard to quotes that are `own`. Returns None if one is not
    doubled."""
    second = np.zeros(data.size, np.bool_)
    open_at = -1
    for begin, part in _stretches(data):
        positions = begin + np.flatnonzero((part == quote) & ~enclosing[begin : begin + len(part)])
        if open_at >= 0:
            positions = np.concatenate([[open_at], positions])
        open_at = int(positions[-1]) if len(positions) % 2 else -1
        pairs = positions[: len(positions) - len(positions) % 2]
        if not np.array_equal(pairs[0::2] + 1, pairs[1::2]):
            return None
        second[pairs[1::2]] = True
    return second if open_at < 0 else None


def count_before(flags: Flags, positions: Ints) -> Ints:
    """Returns how many of `flags` are set before each of the rising `places`."""
    counts = np.empty(len(positions), np.int64)
    before = done = 0
    for begin, part in _stretches(flags):
        set_positions = np.flatnonzero(part)
        end = int(np.searchsorted(positions, begin + len(part), side="left"))
        counts[done:end] = before + np.searchsorted(set_positions, positions[done:end] - begin)
        before, done = before + len(set_positions), end
    counts[done:] = before
    return counts


def _stretches(array: npt.NDArray[T]) -> Iterator[tuple[int, npt.NDArray[T]]]:
    """Yields ``(where it begins, stretch)``."""
    return ((begin, array[begin : begin + STRETCH]) for begin in range(0, len(array), STRETCH))


_MEANINGS = np.arange(256, dtype=np.uint8)
"""What each byte means after a backslash."""
_MEANINGS[[*b"rn"]] = [*b"\r\n"]
"""What each byte means behind a backslash."""


class InvalidCsv(ValueError):
    """Bytes that are not cells in this dialect. It does not name the record."""


@dataclass(frozen=True, slots=True)
class CsvCells:
    """The cells of some records, one record after the other.

    Cell n is ``values[2 * n]``, unquoted and unescaped; between two cells there is what separates them. `null`: the
    cell is written as NULL is. `first` has each record's first cell and, at its end, the number of cells. `begins` has
    where in the text each record begins.
    """

    values: pa.BinaryArray
    quoted: Flags
    null: Flags
    first: Ints
    begins: Ints

    @property
    def records(self) -> int:
        return len(self.first) - 1

    def take(self, cells: Ints, null: Flags | None = None) -> pa.BinaryArray:
        """Returns the values of `cells`, null where `null` is set."""
        return self.values.take(pa.array(2 * cells, mask=null))

    def record(self, number: int) -> list[bytes]:
        """Returns all cells of one record."""
        cells: list[bytes] = self.take(np.arange(self.first[number], self.first[number + 1])).to_pylist()
        return cells


_EMPTY_CELLS = CsvCells(
    pa.array([], pa.binary()),
    np.empty(0, np.bool_),
    np.empty(0, np.bool_),
    np.zeros(1, np.int64),
    np.empty(0, np.int64),
)


class CellReader:
    """Cuts records of one dialect into cells."""

    def __init__(self, form: RowForm) -> None:
        self._form = form
        self._shared = bool(set(form.delimiter) & set(form.terminator))
        self._marks = sorted({form.delimiter[0], form.terminator[0]})

    def read(self, text: bytes) -> CsvCells:
        """Returns the cells. `text` is whole records, each with its terminator; blank ones are skipped. Raises
        InvalidCsv."""
        data = np.frombuffer(text, np.uint8)
        if not data.size:
            return _EMPTY_CELLS
        cells = self._quoted(data) if self._form.quote else self._escaped(data)
        sizes = np.diff(np.append(cells.begins, data.size))
        rows = sizes > len(self._form.terminator)
        return cells if np.all(rows) else self.read(data[np.repeat(rows, sizes)].tobytes())

    def _quoted(self, data: Bytes) -> CsvCells:
        quote = self._form.quote[0]
        marks, quotes = outside_quotes(data, quote, self._marks)
        if quotes % 2:
            raise InvalidCsv("a quoted cell does not end")
        starts, ends, first = self._bounds(data, marks)
        begins = starts[first[:-1]]
        opened = (ends > starts) & (data[np.minimum(starts, data.size - 1)] == quote)
        quoted = opened & (ends - starts > 1) & (data[ends - 1] == quote)
        if not np.array_equal(opened, quoted):
            raise InvalidCsv("a cell continues after its closing quote")
        null = self._nulls(data, starts, ends, ~quoted)
        starts, ends = starts + quoted, ends - quoted
        if quotes > 2 * int(np.count_nonzero(quoted)):
            second = _second_of_doubled(data, quote, starts, ends, quoted)
            data, starts, ends = _without(data, second, starts, ends)
        return CsvCells(_values(data, starts, ends), quoted, null, first, begins)

    def _escaped(self, data: Bytes) -> CsvCells:
        escaping = escaping_bytes(data)
        starts, ends, first = self._bounds(data, not_escaped(data, self._marks, escaping))
        self._check_line_breaks(data, len(first) - 1)
        begins = starts[first[:-1]]
        quoted = np.zeros(len(starts), np.bool_)
        null = self._nulls(data, starts, ends, ~quoted)
        for offset in range(len(self._form.null)):  # the backslash of a null cell does not escape
            escaping[starts[null] + offset] = False
        if np.any(escaping):
            data = self._unescaped(data, escaping)
            data, starts, ends = _without(data, escaping, starts, ends)
        return CsvCells(_values(data, starts, ends), quoted, null, first, begins)

    def _check_line_breaks(self, data: Bytes, records: int) -> None:
        """Cells hold CR and LF escaped, so all raw ones belong to terminators. Raises InvalidCsv for others."""
        for byte in b"\r\n":
            if np.count_nonzero(data == byte) != records * self._form.terminator.count(byte):
                raise InvalidCsv("a line break stands inside a cell and is not escaped")

    def _unescaped(self, data: Bytes, escaping: Flags) -> Bytes:
        """Returns `data` with the meanings of the bytes after the `escaping` ones."""
        is_escaped = np.zeros(data.size, np.bool_)
        is_escaped[1:] = escaping[:-1]
        is_escapable = np.zeros(256, np.bool_)
        is_escapable[[*b"\\rn", *self._form.delimiter]] = True
        written = data[is_escaped]
        if not np.all(is_escapable[written]):
            raise InvalidCsv("a backslash stands before a character that is never escaped")
        changed = data.copy()
        changed[is_escaped] = _MEANINGS[written]
        return changed

    def _bounds(self, data: Bytes, marks: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns where cells start and end, and each record's first cell. `marks` may be delimiters or terminators."""
        delimiter, terminator = self._form.delimiter, self._form.terminator
        ends_cell = _matches(data, marks, delimiter)
        ends_record = _matches(data, marks, terminator)
        self._separate(marks, ends_record, terminator)
        if self._shared:
            ends_cell &= ~_covered(marks, marks[ends_record], len(delimiter), len(terminator))
        self._separate(marks, ends_cell, delimiter)
        kept = ends_cell | ends_record
        ends, last = marks[kept], ends_record[kept]
        after = ends + np.where(last, len(terminator), len(delimiter))
        if not (last.size and last[-1] and after[-1] == data.size):
            raise InvalidCsv("a record does not end with the terminator")
        starts = np.concatenate([[0], after[:-1]])
        return starts, ends, np.concatenate([[0], np.flatnonzero(last) + 1])

    def _separate(self, marks: Ints, is_match: Flags, pattern: bytes) -> None:
        """Removes from `found` the occurrences that overlap an earlier one."""
        matches = np.flatnonzero(is_match)
        positions = marks[matches]
        if not np.any(np.diff(positions) < len(pattern)):
            return
        kept = _apart(positions, len(pattern))
        if not self._form.quote and not np.array_equal(kept, _apart(-positions[::-1], len(pattern))[::-1]):
            raise InvalidCsv(f"{pattern!r} overlaps itself where a cell ends, so the content of the cell is ambiguous")
        is_match[matches[~kept]] = False

    def _nulls(self, data: Bytes, starts: Ints, ends: Ints, bare: Flags) -> Flags:
        null = self._form.null
        cells = np.flatnonzero(bare & (ends - starts == len(null)))
        flags = np.zeros(len(starts), np.bool_)
        flags[cells[_matches(data, starts[cells], null)]] = True
        return flags


def _matches(data: Bytes, positions: Ints, pattern: bytes) -> Flags:
    """Returns whether `pattern` stands at each of `places`."""
    is_match = positions <= data.size - len(pattern)
    last = data.size - 1
    for n, byte in enumerate(pattern):
        is_match &= data[np.minimum(positions + n, last)] == byte
    return is_match


def _apart(positions: Ints, width: int) -> Flags:
    """Returns which of the rising `places` are kept if each kept one takes the next `width` bytes."""
    kept = np.zeros(len(positions), np.bool_)
    free = -(1 << 62)
    for n, position in enumerate(positions.tolist()):
        if position >= free:
            kept[n] = True
            free = position + width
    return kept


def _covered(delimiters: Ints, terminators: Ints, delimiter: int, terminator: int) -> Flags:
    """Returns which of `delimiters` share a byte with one of `terminators`; the numbers are their lengths."""
    nearest = np.searchsorted(terminators, delimiters, side="right")
    padded = np.concatenate([[-terminator], terminators, [np.iinfo(np.int64).max]])
    return (delimiters < padded[nearest] + terminator) | (delimiters + delimiter > padded[nearest + 1])


def _second_of_doubled(data: Bytes, quote: int, starts: Ints, ends: Ints, quoted: Flags) -> Flags:
    """Returns the second quote of each doubled one. Cells go from `starts` to `ends`, between their enclosing
    quotes."""
    enclosing = np.zeros(data.size, np.bool_)
    enclosing[starts[quoted] - 1] = True
    enclosing[ends[quoted]] = True
    second = second_of_doubled(data, quote, enclosing)
    if second is None or np.any(count_before(second, starts[~quoted]) != count_before(second, ends[~quoted])):
        raise InvalidCsv("a quote stands inside a cell and is not doubled")
    return second


def _without(data: Bytes, dropped: Flags, starts: Ints, ends: Ints) -> tuple[Bytes, Ints, Ints]:
    """Returns `data` without the `dropped` bytes, and where its cells are then."""
    return data[~dropped], starts - count_before(dropped, starts), ends - count_before(dropped, ends)


def _values(data: Bytes, starts: Ints, ends: Ints) -> pa.BinaryArray:
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), max(len(offsets) - 1, 0), buffers)
