"""Change tables: what a codec returns and the folds take.

A row is one change of one row of the upstream. Its columns:

    ts      commit-ts, or ``es << 18`` if the file has no commit-ts
    put     true: the row is this; false: the row is deleted (with a key, only the key's columns need values)
    series  0 for rows with a commit-ts, else the number of the file's series
    rank    0 for rows with a commit-ts, else the position in the series, which is above 0, and below 0 for the old
            key of an UPDATE
    c0..cN  the values, one column for each of ``LoadTarget.columns``: by position, so no column name can collide
    update  whether the change is an UPDATE, or one of its two halves; only for a target that wants `events`
    slice   the task's slice that it stands in; only in changes that a loader returns
    of, at  where its line stands: its slice's series, and its position there (see `Origin`); only for a target that
            wants `befores`
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from consumer.model.columns import Column, Family
from consumer.model.load import FileSlice, LoadTarget

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

TS = "ts"
PUT = "put"
SERIES = "series"
RANK = "rank"
UPDATE = "update"
SLICE = "slice"
OF, AT = "of", "at"
META = 4
"""How many columns stand before the first value column."""


def change_schema(target: LoadTarget) -> pa.Schema:
    """Returns the schema of the target's change tables."""
    meta = [(TS, pa.int64()), (PUT, pa.bool_()), (SERIES, pa.int32()), (RANK, pa.int64())]
    events = [(UPDATE, pa.bool_())] if target.events else []
    origins = [(OF, pa.int32()), (AT, pa.int64())] if target.befores else []
    values = ((f"c{n}", arrow_type(column)) for n, column in enumerate(target.columns))
    return pa.schema([*meta, *values, *events, *origins])


def value_schema(target: LoadTarget) -> pa.Schema:
    """Returns the schema of the values alone."""
    return pa.schema(list(change_schema(target))[META : META + len(target.columns)])


def are_puts(changes: pa.Table) -> pa.ChunkedArray:
    """Returns which rows of a change table, or of the net changes of a table with no key, must exist."""
    return changes.column(PUT) if PUT in changes.column_names else pc.greater(changes.column("n"), 0)


def added_and_removed(changes: pa.Table) -> tuple[int, int]:
    """Returns how many copies the net changes of a table with no key add, and how many they remove."""
    copies = changes.column("n")
    added, removed = (copies.filter(wanted(copies, 0)) for wanted in (pc.greater, pc.less))
    return int(pc.sum(added, min_count=0).as_py()), -int(pc.sum(removed, min_count=0).as_py())


@dataclass(frozen=True, slots=True)
class Origin:
    """Where each row of a block comes from: its series, and its position in that series, counted from 0."""

    series: Ints
    places: Ints

    @staticmethod
    def of(piece: FileSlice, ordinal: int, count: int) -> Origin:
        """Returns the origin of `count` rows of a slice, from its row number `ordinal` on."""
        return Origin(np.full(count, piece.series), np.arange(count) + piece.position + ordinal)

    def columns(self, rows: Ints) -> list[pa.Array]:
        """Returns ``of`` and ``at`` of `rows` of the block."""
        return [pa.array(self.series[rows].astype(np.int32)), pa.array(self.places[rows])]


def arrow_type(column: Column) -> pa.DataType:
    """Returns ``large_binary`` for binary columns, else ``large_string``: the text exactly as canal-JSON has it. The
    small types end at 2 GiB of a column, and one task can hold more.

    ENUM, SET, BIT and YEAR are decimal numbers, dates and JSON are text. Raises KeyError for a type that TiCDC does not
    write.
    """
    return pa.large_binary() if column.family is Family.BINARY else pa.large_string()
