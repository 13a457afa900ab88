"""Reads a file of an export as the rows of change tables."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import Flags, Ints, Origin, arrow_type, change_schema, value_schema
from consumer.codec.dumpling.cells import InvalidLine
from consumer.codec.dumpling.forms import CsvForm, ExportForm, SqlForm
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import Block
from consumer.codec.rows import BlockRows, LineAt, Time, first_null, first_refused, required_columns
from consumer.codec.values import (
    base64_to_binary,
    big_endian_numbers,
    check_numbers,
    hex_to_binary,
    values_from_text,
)
from consumer.errors import CorruptFile
from consumer.model.columns import Column, Family
from consumer.model.export import PACKINGS, format_of
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.model.names import same_name
from consumer.ports import RangeReader

_OPTIONS = (
    "where Dumpling was called with other options than its defaults, give them as parameters of the export's URI"
    " (docs/load-export.md); if they are right, copy the file again from where Dumpling wrote it"
)
_NUMBERS = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.DOUBLE, Family.YEAR})
_FRACTIONS = frozenset({Family.DECIMAL, Family.FLOAT, Family.DOUBLE})


class ExportCoordinates(FileCoordinates):
    """Where a slice's rows come from."""

    __slots__ = ()

    def corrupt(self, message: str, line: int | None = None, hint: str = "") -> CorruptFile:
        return CorruptFile(message, hint=hint or _OPTIONS, **self.at(line))


class DumplingFile:
    """A `codec.rows.RowFile` of an export."""

    def __init__(
        self, reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout
    ) -> None:
        """Reads the head. Raises CorruptFile, StorageUnavailable."""
        self.place = ExportCoordinates(piece.path, str(target.table), target.computed)
        self._ts, self._target, self._dialect = piece.ts, target, dialect
        self._written = {same_name(column.name): column for column in layout}
        kind = SqlForm if is_sql(piece.path) else CsvForm
        try:
            self._form: ExportForm = kind(reader, piece, format_of(dialect), [column.name for column in layout])
        except InvalidLine as error:
            raise self.place.corrupt(str(error), 1) from error
        self.ends, self.header = self._form.ends, self._form.header
        self._names = {same_name(name): name for name in self._form.names}
        numbers = {key for key, column in self._written.items() if column.family in _NUMBERS}
        self._texts = {name for key, name in self._names.items() if key not in numbers}
        if strange := [name for key, name in self._names.items() if key not in self._written]:
            raise self.place.corrupt(f"it has the column {strange[0]!r}, which its CREATE TABLE does not have", 1)

    def rows(self, block: Block, line_at: LineAt, blame: bool = True) -> BlockRows | None:
        def line(row: int) -> int:
            return line_at(block.offset) + self._form.line_of(block, row)

        wanted = [self._names[key] for c in self._target.columns if (key := same_name(c.name)) in self._names]
        try:
            lines = self._form.lines(block)
            if not lines:
                return None
            cells = self._form.cells.read(lines, self._form.names, wanted or self._form.names[:1], self._texts)
        except InvalidLine as error:
            raise self.place.corrupt(str(error), line(error.row)) from error
        count = cells.num_rows
        never = np.zeros(count, np.bool_)
        return BlockRows(
            np.full(count, self._ts, np.int64),
            ~never,
            lambda sizes: np.array([count]),
            lambda inside, origin: self._changes(cells, inside, origin, line),
            lambda: (never, never),
            lambda which, needed: self._images(cells, which, line),
            lambda which: value_schema(self._target).empty_table(),
        )

    def time(self, line: bytes) -> Time | None:
        return Time(self._ts, exact=True)

    def _changes(self, cells: pa.Table, inside: Flags, origin: Origin, line: LineAt) -> pa.Table:
        schema, kept = change_schema(self._target), np.flatnonzero(inside)
        if not kept.size:
            return schema.empty_table()
        self._check_columns(line)
        zeros, puts = np.zeros(len(kept), np.int64), np.ones(len(kept), np.bool_)
        columns = self._columns(cells, kept, line)
        if (null := first_null(columns, required_columns(self._target, self._written.values()), puts)) is not None:
            raise self.place.null(null[0], line(int(kept[null[1]])))
        meta = [zeros + self._ts, puts, zeros.astype(np.int32), zeros]
        events = [~puts] if self._target.events else []
        return pa.Table.from_arrays([*map(pa.array, meta), *columns, *map(pa.array, events)], schema=schema)

    def _images(self, cells: pa.Table, which: Flags, line: LineAt) -> pa.Table:
        return pa.Table.from_arrays(
            self._columns(cells, np.flatnonzero(which), line), schema=value_schema(self._target)
        )

    def _check_columns(self, line: LineAt) -> None:
        """Raises an error unless the rows have all columns of the target, and no barred column."""
        lacking = [n for n, column in enumerate(self._target.columns) if same_name(column.name) not in self._names]
        names = [self._target.columns[n].name for n in lacking]
        if lacking and (not self._target.key or set(lacking) & set(self._target.key)):
            raise self.place.key_lacking(names, line(0))
        if lacking:
            raise self.place.lacking(names, line(0))
        if carried := [name for name in self._target.barred if same_name(name) in self._names]:
            raise self.place.carrying(carried[0], line(0))

    def _columns(self, cells: pa.Table, kept: Ints, line: LineAt) -> list[pa.Array]:
        has_all = len(kept) == cells.num_rows
        taken = cells if has_all else cells.take(pa.array(kept))
        return [
            self._column(taken, column, position in self._target.key, kept, line)
            for position, column in enumerate(self._target.columns)
        ]

    def _column(self, cells: pa.Table, column: Column, in_key: bool, kept: Ints, line: LineAt) -> pa.Array:
        name = self._names.get(same_name(column.name))
        if name is None:
            return pa.nulls(len(kept), arrow_type(column))
        values = cells.column(name).combine_chunks()
        if in_key and values.null_count:
            first = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            raise self.place.key_null(column.name, line(int(kept[first])))
        convert = partial(self._canonical, written=self._written[same_name(column.name)], target=column)
        try:
            return convert(values)
        except CorruptFile:
            wrong, error = first_refused(convert, values)
            message = f"column {column.name}: {error.message}"
            raise self.place.corrupt(message, line(int(kept[wrong])), error.hint) from error

    def _canonical(self, values: pa.Array, written: Column, target: Column) -> pa.Array:
        """Returns the values in the type of `target`, as canal-JSON has them. Raises CorruptFile."""
        if written.family in (Family.BINARY, Family.BIT):
            result = self._bytes(values)
            result = big_endian_numbers(result) if written.family is Family.BIT else result
        else:
            values = self._form.cells.text(values)
            if written.family in _NUMBERS:
                check_numbers(values, "", fraction=written.family in _FRACTIONS)
            result = values_from_text(values, written, target.elements, self._dialect.clock)
            if written.family is Family.YEAR or (written.family is Family.INTEGER and written.unsigned):
                result = pc.replace_substring_regex(result, r"^0+([0-9])", r"\1")  # for ZEROFILL
        return result.cast(arrow_type(target))

    def _bytes(self, values: pa.Array) -> pa.Array:
        if self._form.cells.hexadecimal:
            if pc.all(pc.and_(pc.starts_with(values, "x'"), pc.ends_with(values, "'"))).as_py() is False:
                raise CorruptFile("a binary value does not stand as x'..'")
            return hex_to_binary(pc.binary_slice(values, 2, -1))
        match format_of(self._dialect).binary:
            case "hex":
                return hex_to_binary(values)
            case "base64":
                return base64_to_binary(values)
            case _:
                return self._form.cells.text(values)


def is_sql(path: str) -> bool:
    """Returns whether a data file is one of SQL, by its name; else it is CSV."""
    return next((path.removesuffix(packing) for packing in PACKINGS if path.endswith(packing)), path).endswith(".sql")
