"""Reads TiCDC's CSV files as rows."""

from __future__ import annotations

import numpy as np

from consumer.codec.change_table import Ints
from consumer.codec.csv.cells import CellReader, CsvCells, InvalidCsv, RecordEnds
from consumer.codec.csv.changes import CsvChangeBuilder
from consumer.codec.csv.errors import CsvCoordinates, RecordLookup
from consumer.codec.csv.options import RowForm, is_splittable
from consumer.codec.csv.rows import RowLayout, read_rows
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import Block
from consumer.codec.rows import BlockRows, LineAt, Time
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.ports import RangeReader

_HEADER_BYTES = 64 << 10
_MAX_HEADER_BYTES = 16 << 20


class Header:
    """A file's first line if it is a header. `line` is all of it; `names` are its columns."""

    def __init__(self, reader: RangeReader, piece: FileSlice, form: RowForm, place: FileCoordinates) -> None:
        """Raises CorruptFile if the first line is no such header."""
        meta = form.delimiter.join([*form.header, b""])
        length = min(piece.size, _HEADER_BYTES)
        head = reader.read(piece, 0, length)
        if not head.startswith(meta):
            expected, actual = (text[: len(meta)].decode(errors="replace") for text in (meta, head))
            raise place.corrupt(f"expected a header line, {expected!r}.., for output-field-header, found {actual!r}", 1)
        while (end := head.find(form.terminator, len(meta))) < 0:
            if length == min(piece.size, _MAX_HEADER_BYTES):
                raise place.corrupt("the header line does not end", 1)
            length = min(piece.size, _MAX_HEADER_BYTES, length * 8)
            head = reader.read(piece, 0, length)
        self.line = head[: end + len(form.terminator)]
        try:
            self.names = [name.decode() for name in head[len(meta) : end].split(form.delimiter)]
        except UnicodeDecodeError as error:
            raise place.corrupt("the header line is not UTF-8", 1) from error


class CsvFile:
    """A `codec.rows.RowFile` of CSV."""

    def __init__(
        self, reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout
    ) -> None:
        """Reads the header, if there is one. Raises CannotBeExact, CorruptFile, StorageUnavailable."""
        self.place = CsvCoordinates.of(piece, target)
        self._form = form = self._form_of(dialect)
        if not target.key:
            if form.commit_ts is None:
                raise self.place.timeless()
            if form.is_update is None:
                raise self.place.oldless()
        self._target, self._columns = target, layout
        self._header = Header(reader, piece, form, self.place) if form.header else None
        self.header = self._header.line if self._header else b""
        self.ends = RecordEnds(form, is_splittable(dialect))
        self._cells = CellReader(form)
        self._builder = CsvChangeBuilder(target, form)

    def rows(self, block: Block, line_at: LineAt, blame: bool = True) -> BlockRows | None:
        records = RecordLookup(block, self.ends, line_at, self.place)
        try:
            cells = self._cells.read(block.text)
        except InvalidCsv as error:
            if not blame:
                raise self.place.corrupt("", line_at(block.offset)) from error
            raise records.fault(self._cells, self._form) from error
        if not cells.records:
            return None
        layout = self._layout(cells)
        rows = read_rows(cells, self._form, layout, records)
        return BlockRows(
            rows.ts,
            None if self._form.commit_ts is None else np.ones(cells.records, np.bool_),
            lambda sizes: _counts(cells, sizes),
            lambda inside, origin: self._builder.changes(rows, inside, origin, layout, records),
            lambda: (rows.update, rows.delete),
            lambda which, needed: self._builder.images(rows, which, needed, layout, records),
            lambda which: self._builder.old_images(rows, which),
        )

    def time(self, line: bytes) -> Time | None:
        position = self._form.commit_ts
        cells = [] if position is None else line.split(self._form.delimiter)
        digits = cells[position] if position is not None and len(cells) > position else b""
        return Time(int(digits), True) if digits.isdigit() and len(digits) < 20 else None

    def _form_of(self, dialect: Dialect) -> RowForm:
        try:
            return RowForm.of(dialect)
        except ValueError as error:
            raise self.place.inexact(
                f"these settings do not define where rows end: {error}",
                "change them in the changefeed's [sink.csv], write to a new prefix and load the tables again",
            ) from error

    def _layout(self, cells: CsvCells) -> RowLayout:
        if self._header is None:
            return RowLayout.of(self._columns, self._target, np.diff(cells.first) - self._form.values)
        count = int(cells.first[1]) - self._form.values
        layout = RowLayout.named(self._header.names, self._columns, self._target, count)
        strange = layout.strange(self._target)
        if strange:
            names = ", ".join(map(repr, strange))
            raise self.place.corrupt(f"the header line names {names}, which the schema file does not list once", 1)
        return layout


def _counts(cells: CsvCells, sizes: Ints) -> Ints:
    begins = np.cumsum(sizes) - sizes
    if not np.all(np.isin(begins, cells.begins)):
        raise ValueError("a record goes over the end of its file")
    return np.diff(np.append(np.searchsorted(cells.begins, begins), cells.records))
