"""TiCDC's CSV -> change tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from consumer.codec.batches import Origin
from consumer.codec.csv.bytes import Flags
from consumer.codec.csv.cells import CellReader, Cells, NotCells
from consumer.codec.csv.changes import CsvChangeBuilder
from consumer.codec.csv.faults import CsvPlace, Records
from consumer.codec.csv.form import RowForm, splittable
from consumer.codec.csv.lines import Header, RecordEnds
from consumer.codec.csv.rows import RowLayout, Rows, read_rows
from consumer.codec.lines import SliceLines
from consumer.codec.sight import with_sight
from consumer.model.load import Dialect, FileSlice, FileStat, Layout, LoadTarget
from consumer.model.names import MAX_TSO
from consumer.ports import RangeReader


class CsvSliceDecoder:
    """Decodes the rows of one slice that lie inside its window, holding about `block_bytes` of the file at a time.

    Rows without commit-ts are all inside: what is read is decided by file. A file that is not `splittable` must be one
    slice.
    """

    def __init__(
        self,
        reader: RangeReader,
        piece: FileSlice,
        target: LoadTarget,
        layout: Layout,
        dialect: Dialect,
        block_bytes: int = 8 << 20,
    ) -> None:
        self._reader, self._piece, self._target, self._columns = reader, piece, target, layout
        self._dialect, self._block_bytes = dialect, block_bytes
        self._place = CsvPlace(piece.path, str(target.table))
        self.stat = FileStat(piece.path, 0, 0, 0)
        """What has been read so far: complete once `batches` is exhausted."""

    def batches(self) -> Iterator[pa.Table]:
        """Change tables (see `codec.batches`) in file order, none of them empty.

        Raises CorruptFile, SchemaDrift, CannotBeExact, StorageUnavailable.
        """
        form = self._form()
        if not self._target.key:
            if self._dialect.timeless:
                raise self._place.timeless()
            if form.is_update is None:
                raise self._place.oldless()
        header = self._header(form)
        ends, lines = self._lines(form, header)
        cell_reader = CellReader(form)
        builder = CsvChangeBuilder(self._target, form)
        for block in lines.blocks():
            records = Records(block, ends, lines.line_at, self._place)
            try:
                cells = cell_reader.read(block.text)
            except NotCells as error:
                raise records.fault(cell_reader, form) from error
            if not cells.records:
                continue
            layout = self._layout(header, cells, form)
            rows = read_rows(cells, form, layout, records)
            inside = self._inside(rows)
            origin = Origin.of(self._piece, self.stat.rows, cells.records)
            changes = builder.changes(rows, inside, origin, layout, records)
            self._count(rows)
            if changes.num_rows:
                yield changes

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the record that begins at `offset`. Reads the file up to there."""
        form = self._form()
        _, lines = self._lines(form, self._header(form))
        return lines.line_at(offset)

    def _header(self, form: RowForm) -> Header | None:
        return Header(self._reader, self._piece, form, self._place) if form.header else None

    def _lines(self, form: RowForm, header: Header | None) -> tuple[RecordEnds, SliceLines]:
        ends = RecordEnds(form, splittable(self._dialect))
        size = header.size if header else 0
        return ends, SliceLines(self._reader, self._piece, ends, self._place, self._block_bytes, size)

    def _form(self) -> RowForm:
        try:
            return RowForm.of(self._dialect)
        except ValueError as error:
            raise self._place.inexact(
                f"rows cannot be told apart under these settings: {error}",
                "change them in the changefeed's [sink.csv], write to a new prefix and load the tables again",
            ) from error

    def _layout(self, header: Header | None, cells: Cells, form: RowForm) -> RowLayout:
        if header is None:
            return RowLayout.of(self._columns, self._target)
        count = int(cells.first[1]) - form.values
        layout = RowLayout.named(header.names, self._columns, self._target, count)
        strange = layout.strange(self._target)
        if strange:
            names = ", ".join(map(repr, strange))
            raise self._place.corrupt(f"the header line names {names}, which the schema file does not list once", 1)
        return layout

    def _inside(self, rows: Rows) -> Flags:
        if self._dialect.timeless:
            return np.ones(len(rows.ts), np.bool_)
        return (rows.ts > self._piece.exact.after) & (rows.ts <= self._piece.exact.upto)

    def _count(self, rows: Rows) -> None:
        stat = self.stat
        dropped, next_ts = stat.dropped, stat.next_ts
        if not self._dialect.timeless:
            dropped += int(np.count_nonzero(rows.ts <= self._piece.exact.after))
            late = rows.ts[rows.ts > self._piece.exact.upto]
            next_ts = min(int(late.min()), next_ts or MAX_TSO) if late.size else next_ts
        counted = FileStat(stat.path, stat.rows + len(rows.ts), dropped, next_ts)
        if not self._dialect.timeless:
            window = np.full_like(rows.ts, self._piece.exact.after), np.full_like(rows.ts, self._piece.exact.upto)
            counted = with_sight(counted, stat, rows.ts, window, self._piece.seen)
        self.stat = counted
