"""Reads the first and last commit-ts of a CSV file, with small reads at its two ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

from consumer.codec.csv.options import SETTINGS, CsvFormat, csv_options
from consumer.codec.errors import bad_end
from consumer.codec.lines import FileEnds
from consumer.errors import CorruptFile
from consumer.model.files import Bounds, DataFile
from consumer.model.load import Dialect
from consumer.ports import RangeReader

_OPERATIONS = (b"I", b"U", b"D")
_MAX_FIRST_CELLS = 4096
"""Bytes; more than two names of 64 characters can take."""
_MAX_HEADER = 4 << 20
"""Bytes; more than the names of 4096 columns can take."""


@dataclass(frozen=True, slots=True)
class _Head:
    """The first record's commit-ts, and the cells between operation and commit-ts, each with the delimiter after it:
    all records of a file share them."""

    names: bytes
    commit_ts: int


def read_csv_bounds(reader: RangeReader, file: DataFile, dialect: Dialect) -> Bounds:
    """Returns the bounds of a file whose rows have their commit-ts. Raises CorruptFile if they are not of this dialect,
    StorageUnavailable.

    The last record is found by the beginning of every record: terminator, operation, table and schema. No cell holds
    that: inside quotes a quote is doubled, and without quotes a delimiter is escaped.
    """
    csv = csv_options(dialect)
    ends = FileEnds(reader, file)
    head = ends.at_head(lambda content, _: _head(content, file, csv, dialect.terminator))
    if head is None:
        raise _no_row(file)
    last = ends.at_tail(lambda content, whole: _last(content, head, whole, csv, dialect.terminator))
    if last is None:
        raise _corrupt(file, "its last row does not begin as its first one does")
    return Bounds(head.commit_ts, last, exact=True)


def read_csv_first_ts(reader: RangeReader, file: DataFile, dialect: Dialect) -> int:
    """Returns the commit-ts of the first row. Raises CorruptFile, StorageUnavailable."""
    csv = csv_options(dialect)
    head = FileEnds(reader, file).at_head(lambda content, _: _head(content, file, csv, dialect.terminator))
    if head is None:
        raise _no_row(file)
    return head.commit_ts


def _head(content: bytes, file: DataFile, csv: CsvFormat, terminator: bytes) -> _Head | None:
    start = 0
    if csv.output_field_header:
        end = content.find(terminator)
        if end < 0 and len(content) > _MAX_HEADER:
            raise _no_row(file)
        start = end + len(terminator) if end >= 0 else len(content)
    match = _first_cells(csv, terminator).match(content, start)
    if match is None and len(content) - start > _MAX_FIRST_CELLS:
        raise _no_row(file)
    return _Head(match["names"], int(match["ts"])) if match else None


def _first_cells(csv: CsvFormat, terminator: bytes) -> re.Pattern[bytes]:
    quote, delimiter = re.escape(csv.quote.encode()), re.escape(csv.delimiter.encode())
    if quote:
        cell = b"%b(?:[^%b]|%b)*+%b" % (quote, quote, quote * 2, quote)
    else:
        cell = rb"(?:\\.|(?!%b)[^\\\r\n])*+" % delimiter  # a delimiter and a line break in a cell are escaped
    return re.compile(
        b"%b[IUD]%b%b(?P<names>%b%b%b%b)(?P<ts>[0-9]{1,19})(?=%b|%b)"
        % (quote, quote, delimiter, cell, delimiter, cell, delimiter, delimiter, re.escape(terminator)),
        re.DOTALL,
    )


def _last(content: bytes, head: _Head, whole: bool, csv: CsvFormat, terminator: bytes) -> int | None:
    quote, delimiter = csv.quote.encode(), csv.delimiter.encode()
    marks = [terminator + quote + operation + quote + delimiter + head.names for operation in _OPERATIONS]
    start = max(content.rfind(mark) for mark in marks)
    if start < 0:
        return head.commit_ts if whole else None
    digits = re.compile(b"[0-9]{1,19}").match(content, start + len(marks[0]))
    return int(digits[0]) if digits else None


def _no_row(file: DataFile) -> CorruptFile:
    return _corrupt(file, "its first row does not begin with operation, table, schema and commit-ts")


def _corrupt(file: DataFile, reason: str) -> CorruptFile:
    return bad_end(file, "CSV file as the settings have it", reason, SETTINGS)
