"""Turns rows of CSV into the rows of a change table, with the canonical values of their columns, as canal-JSON has
them."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import Flags, Ints, Origin, arrow_type, change_schema, value_schema
from consumer.codec.csv.errors import RecordLookup
from consumer.codec.csv.options import BARE, RowForm, is_quoted
from consumer.codec.csv.rows import CsvRows, RowLayout
from consumer.codec.rows import first_null, first_refused, required_columns
from consumer.codec.values import base64_to_binary, check_numbers, hex_to_binary, values_from_text
from consumer.errors import CorruptFile
from consumer.model.columns import Column, Family
from consumer.model.hints import ACCEPT_LOSS, FROM_A_NEW_PREFIX, WITH_A_COPY
from consumer.model.load import LoadTarget

_UNPROTECTED = (
    f"set `quote`, or a `null` that no text can be (as \\N is), in the changefeed's [sink.csv], {FROM_A_NEW_PREFIX}"
)


class CsvChangeBuilder:
    """Turns a block's rows into changes of one target."""

    def __init__(self, target: LoadTarget, form: RowForm) -> None:
        self._target, self._form = target, form
        self._schema = change_schema(target)
        self._has_whole_deletes = not target.key or (target.events and not target.bare_deletes)

    def changes(
        self, rows: CsvRows, inside: Flags, origin: Origin, layout: RowLayout, records: RecordLookup
    ) -> pa.Table:
        """Returns the changes of the rows `inside`, in file order.

        Raises CorruptFile, SchemaDrift, CannotBeExact.
        """
        kept = np.flatnonzero(inside)
        if not kept.size:
            return self._schema.empty_table()
        self._check_columns(rows, kept, layout, records)
        columns = self._columns(rows, kept, layout, records)
        whole = ~rows.delete[kept] | self._has_whole_deletes
        if (null := first_null(columns, required_columns(self._target, layout.columns.values()), whole)) is not None:
            raise records.place.null(null[0], records.number(int(kept[null[1]])))
        events = [pa.array(rows.update[kept])] if self._target.events else []
        origins = origin.columns(kept) if self._target.befores else []
        return pa.Table.from_arrays([*self._meta(rows, kept, origin), *columns, *events, *origins], schema=self._schema)

    def images(
        self, rows: CsvRows, which: Flags, needed: Sequence[int], layout: RowLayout, records: RecordLookup
    ) -> pa.Table:
        """Returns the rows `which` themselves; for DELETEs the deleted rows. Raises CorruptFile, and CannotBeExact if
        one of them does not have the columns at `needed`."""
        kept = np.flatnonzero(which)
        for position in needed:
            name = self._target.columns[position].name
            lacking = rows.short[kept] & (position not in self._target.key) if name in layout.names else kept >= 0
            if np.any(lacking):
                raise records.place.not_told(name, records.number(int(kept[np.argmax(lacking)])))
        columns = list(
            self._columns(rows, kept, layout, records) if kept.size else value_schema(self._target).empty_table()
        )
        not_null = required_columns(self._target, layout.columns.values())
        needed_not_null = {position: name for position, name in not_null.items() if position in needed}
        if (null := first_null(columns, needed_not_null, np.full(len(kept), True))) is not None:
            raise records.place.null(null[0], records.number(int(kept[null[1]])))
        return pa.Table.from_arrays(columns, schema=value_schema(self._target))

    def old_images(self, rows: CsvRows, which: Flags) -> pa.Table:
        """No line has both rows of an UPDATE: rules that need the old one are refused before."""
        raise NotImplementedError

    def _columns(self, rows: CsvRows, kept: Ints, layout: RowLayout, records: RecordLookup) -> list[pa.Array]:
        return [
            self._column(column, position in self._target.key, rows, kept, layout, records)
            if column.name in layout.names
            else pa.nulls(len(kept), arrow_type(column))
            for position, column in enumerate(self._target.columns)
        ]

    def _check_columns(self, rows: CsvRows, kept: Ints, layout: RowLayout, records: RecordLookup) -> None:
        """Raises an error unless every row that must be complete has all columns of the target, and no barred
        column."""
        complete_rows = kept if self._has_whole_deletes else kept[~rows.delete[kept]]
        if self._target.events and not self._target.bare_deletes and np.any(rows.short[kept]):
            missing_names = [c.name for n, c in enumerate(self._target.columns) if n not in self._target.key]
            raise records.place.delete_lacking(missing_names, records.number(int(kept[np.argmax(rows.short[kept])])))
        lacking = [n for n, column in enumerate(self._target.columns) if column.name not in layout.names]
        names = [self._target.columns[n].name for n in lacking]
        if lacking and (not self._target.key or set(lacking) & set(self._target.key)):
            raise records.place.key_lacking(names, records.number(int(kept[0])))
        if lacking and complete_rows.size:
            raise records.place.lacking(names, records.number(int(complete_rows[0])))
        carried = [name for name in self._target.barred if name in layout.names]
        if carried and complete_rows.size:
            raise records.place.carrying(carried[0], records.number(int(complete_rows[0])))

    def _meta(self, rows: CsvRows, kept: Ints, origin: Origin) -> list[pa.Array]:
        """Returns ts, put, series, rank. Ranks count from 1."""
        timeless = self._form.commit_ts is None
        series, rank = (origin.series[kept], origin.places[kept] + 1) if timeless else (kept * 0, kept * 0)
        return [
            pa.array(rows.ts[kept]),
            pa.array(~rows.delete[kept]),
            pa.array(series.astype(np.int32)),
            pa.array(rank),
        ]

    def _column(
        self, column: Column, in_key: bool, rows: CsvRows, kept: Ints, layout: RowLayout, records: RecordLookup
    ) -> pa.Array:
        cells = rows.cells
        positions = cells.first[kept] + (self._form.values + layout.names.index(column.name))
        absent = np.zeros(len(kept), np.bool_)
        if np.any(rows.short[kept]):
            short = np.flatnonzero(rows.short[kept])
            absent[short] = not in_key
            in_short = layout.key.index(column.name) if in_key else 0
            positions[short] = cells.first[kept[short]] + self._form.values + in_short
        written = layout.columns[column.name]
        null = cells.null[positions]
        if np.any(null & ~absent):
            null = self._nulls(written, null & ~absent, kept, records)
            if in_key and np.any(null):
                raise records.place.key_null(column.name, records.number(int(kept[np.argmax(null)])))
        null = null | absent
        values = cells.take(positions, null)
        if self._form.quote:
            self._check_quotes(written, cells.quoted[positions], values, kept, records)
        if written.family is Family.SET and "" in (column.elements or written.elements):
            self._check_empty_sets(written, values, kept, records)
        convert = partial(canonical, written=written, target=column, form=self._form)
        try:
            return convert(values)
        except CorruptFile:
            wrong, error = first_refused(convert, values)
            message = f"column {column.name}: {error.message}"
            raise records.place.corrupt(message, records.number(int(kept[wrong])), error.hint) from error

    def _nulls(self, column: Column, null: Flags, kept: Ints, records: RecordLookup) -> Flags:
        """Returns which of the cells that are written as NULL are NULL."""
        if not may_be_text(column, self._form):
            return null
        if not column.nullable:
            return np.zeros_like(null)
        raise records.place.inexact(
            f"column {column.name} may be NULL here or the text {self._form.null.decode()!r}, which look the same",
            _UNPROTECTED,
            records.number(int(kept[np.argmax(null)])),
        )

    def _check_empty_sets(self, column: Column, values: pa.BinaryArray, kept: Ints, records: RecordLookup) -> None:
        """Raises CannotBeExact for an empty text of a SET with the label '': no label and this label are written the
        same."""
        empty = pc.equal(pc.binary_length(values), 0).fill_null(False).to_numpy(zero_copy_only=False)
        if np.any(empty):
            raise records.place.inexact(
                f"column {column.name} holds no label here or its label '', which look the same",
                f"take the label '' out of the SET upstream; {WITH_A_COPY}",
                records.number(int(kept[np.argmax(empty)])),
            )

    def _check_quotes(
        self, column: Column, quoted: Flags, values: pa.BinaryArray, kept: Ints, records: RecordLookup
    ) -> None:
        """Raises an error if rows have other columns: texts are quoted, numbers and NULL are not."""
        wrong = (quoted != is_quoted(column)) & values.is_valid().to_numpy(zero_copy_only=False)
        if np.any(wrong):
            first_wrong = int(np.argmax(wrong))
            raise records.wrong_quotes(int(kept[first_wrong]), column, values[first_wrong].as_py(), self._form)


_NUMBERS = (
    "check that `null` and the rest of [sink.csv], and `terminator`, are the changefeed's; if they are, the file is "
    "damaged, or has other columns than its schema file: restore it, or remove it and continue without its rows: "
    + ACCEPT_LOSS
)
_TEXTUAL = frozenset({Family.TEXT, Family.BINARY, Family.ENUM, Family.SET, Family.JSON})


def canonical(values: pa.BinaryArray, written: Column, target: Column, form: RowForm) -> pa.Array:
    """Returns the values of the column `written` in the file, in the type of `target`. Nulls stay null. Raises
    CorruptFile."""
    if written.family is Family.BINARY:
        decoded = hex_to_binary(values) if form.hexadecimal else base64_to_binary(values)
        return decoded.cast(arrow_type(target))
    if written.family in BARE:
        check_numbers(values, _NUMBERS, fraction=written.family in (Family.FLOAT, Family.DOUBLE))
    return values_from_text(values, written, target.elements, form.clock).cast(arrow_type(target))


def may_be_text(column: Column, form: RowForm) -> bool:
    """Returns whether a cell of this column that is written just as NULL is may be a value instead."""
    text = form.text_as_null
    if text is None or column.family not in _TEXTUAL:
        return False
    match column.family:
        case Family.TEXT:
            return True
        case Family.BINARY:
            return _is_encoded(text, form)
        case Family.ENUM:
            return text.decode() in column.elements
        case Family.SET:
            return not text or set(text.decode().split(",")) <= set(column.elements)
        case _:
            return text == b"null"


def _is_encoded(text: bytes, form: RowForm) -> bool:
    try:
        (binascii.unhexlify if form.hexadecimal else binascii.a2b_base64)(text)
    except binascii.Error:
        return False
    return True
