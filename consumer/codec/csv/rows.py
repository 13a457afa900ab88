"""Turns cells into rows: what each record does, when, and where its columns are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import Flags, Ints
from consumer.codec.csv.cells import CsvCells
from consumer.codec.csv.errors import RecordLookup
from consumer.codec.csv.options import OPERATIONS, RowForm
from consumer.model.columns import Column
from consumer.model.load import Layout, LoadTarget
from consumer.model.names import TableName, same_name

_DELETE, _UPDATE = ord("D"), ord("U")
_COMMIT_TS = "^[0-9]{1,19}$"


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of a file's rows: `names` in the order of the cells, and each column's description by its name.

    `key` are the names, in that order, of the cells of a DELETE that has only the key; () if there is no such row.
    `table` is the table of the rows.
    """

    table: TableName
    names: tuple[str, ...]
    key: tuple[str, ...]
    columns: dict[str, Column]

    @staticmethod
    def of(layout: Layout, target: LoadTarget, cells: Ints) -> RowLayout:
        """Returns the layout of rows of `cells` columns each. The columns that selectors leave out are missing if the
        number of cells shows it, and no row is complete."""
        names = [column.name for column in layout]
        selected = [name for name in names if name not in target.load.unselected]
        if len(selected) < len(names) and not np.any(cells == len(names)) and np.any(cells == len(selected)):
            names = selected
        return _layout(names, layout, target)

    @staticmethod
    def named(header: Sequence[str], layout: Layout, target: LoadTarget, cells: int) -> RowLayout:
        """Returns the layout by a header line, for rows of `cells` columns. Some releases name virtual columns there,
        which no row has."""
        names = {column.name for column in layout}
        stored = [name for name in header if name in names]
        return _layout(stored if cells == len(stored) else header, layout, target)

    def strange(self, target: LoadTarget) -> list[str]:
        """Returns names of the header that are no column's, or repeat one."""
        names = {
            *self.columns,
            *(name for name in self.names if same_name(name) in map(same_name, target.virtual)),
        }
        return [name for n, name in enumerate(self.names) if name not in names or name in self.names[:n]]


def _layout(names: Sequence[str], layout: Layout, target: LoadTarget) -> RowLayout:
    columns = {column.name: column for column in (*target.columns, *layout)}
    key = {target.columns[position].name for position in target.key}
    return RowLayout(target.table, tuple(names), tuple(name for name in names if name in key), columns)


@dataclass(frozen=True, slots=True)
class CsvRows:
    """One row for each record. `short` are the deletes that have only the key. `ts` is 0 if rows have no commit-ts.
    `update`: the row is the old or the new one of an UPDATE, as far as the record shows it."""

    cells: CsvCells
    delete: Flags
    update: Flags
    short: Flags
    ts: Ints


def read_rows(cells: CsvCells, form: RowForm, layout: RowLayout, records: RecordLookup) -> CsvRows:
    """Returns every record as a row. Raises CorruptFile, SchemaDrift."""
    operation = _operations(cells, form, records)
    delete = operation == _DELETE
    count = np.diff(cells.first)
    is_complete = count == form.values + len(layout.names)
    short = ~is_complete & delete & (count == form.values + len(layout.key)) & bool(layout.key)
    if not np.all(is_complete | short):
        wrong = int(np.argmin(is_complete | short))
        raise records.wrong_count(wrong, cells.record(wrong), layout.names, form)
    _check_source(cells, layout.table, form, records)
    update = operation == _UPDATE
    if form.is_update is not None:
        update |= _flags(cells, form, form.is_update, records)
    ts = (
        np.zeros(cells.records, np.int64)
        if form.commit_ts is None
        else _commit_ts(cells, form, form.commit_ts, records)
    )
    return CsvRows(cells, delete, update, short, ts)


def _operations(cells: CsvCells, form: RowForm, records: RecordLookup) -> Ints:
    """Returns the letter of each record's operation, as its code."""
    first = cells.take(cells.first[:-1])
    right = pc.equal(pc.binary_length(first), 1).to_numpy(zero_copy_only=False)
    if form.quote:
        right &= cells.quoted[cells.first[:-1]]
    if np.all(right):
        letters = np.frombuffer(first.buffers()[2], np.uint8)[: len(first)]
        right = np.isin(letters, list(OPERATIONS))
        if np.all(right):
            return letters.astype(np.int64)
    wrong = int(np.argmin(right))
    raise records.wrong_operation(wrong, cells.record(wrong), form)


def _check_source(cells: CsvCells, table: TableName, form: RowForm, records: RecordLookup) -> None:
    """Raises an error unless all rows are changes of `table`. Names that differ only in case are the same upstream."""
    for position, name in ((1, table.table), (2, table.database)):
        names = cells.take(cells.first[:-1] + position)
        different = pc.not_equal(names, name.encode())
        others = names.filter(different).unique().to_pylist()
        wrong = [other for other in others if same_name(other.decode(errors="replace")) != same_name(name)]
        if wrong:
            record = pc.index(names, wrong[0]).as_py()
            raise records.wrong_cell(record, position, f"the name of {table}", cells.record(record), form)


def _commit_ts(cells: CsvCells, form: RowForm, position: int, records: RecordLookup) -> Ints:
    where = cells.first[:-1] + position
    values = cells.take(where)
    if not np.any(cells.quoted[where]):
        try:
            ts: Ints = values.cast(pa.string()).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            pass
        else:
            if ts.min() >= 0:
                return ts
    right = pc.match_substring_regex(values, _COMMIT_TS).to_numpy(zero_copy_only=False) & ~cells.quoted[where]
    wrong = int(np.argmin(right))
    raise records.wrong_cell(wrong, position, "a commit-ts", cells.record(wrong), form)


def _flags(cells: CsvCells, form: RowForm, position: int, records: RecordLookup) -> Flags:
    where = cells.first[:-1] + position
    values = cells.take(where)
    right = pc.is_in(values, pa.array([b"true", b"false"])).to_numpy(zero_copy_only=False)
    right &= ~cells.quoted[where]
    if not np.all(right):
        wrong = int(np.argmin(right))
        raise records.wrong_cell(wrong, position, "the is-update flag, true or false,", cells.record(wrong), form)
    flags: Flags = pc.equal(values, b"true").to_numpy(zero_copy_only=False)
    return flags
