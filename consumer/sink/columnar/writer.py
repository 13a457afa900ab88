"""Converts values of canal-JSON to Arrow columns of their own types, without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from consumer.changes.identity import identities
from consumer.codec.change_table import added_and_removed
from consumer.codec.labels import label_error, label_texts
from consumer.errors import RowRefused
from consumer.model.columns import Column, Family
from consumer.model.load import LoadTarget, Receipt
from consumer.model.steps import Window
from consumer.sink.columnar.table import ColumnarTarget, Held
from consumer.sink.refused import refused_changes
from consumer.sink.staging import save

_INTEGERS = {
    "TINYINT": (pa.int8(), pa.uint8()),
    "SMALLINT": (pa.int16(), pa.uint16()),
    "MEDIUMINT": (pa.int32(), pa.uint32()),
    "INT": (pa.int32(), pa.uint32()),
    "BIGINT": (pa.int64(), pa.uint64()),
}
_NUMBERS = {
    Family.FLOAT: pa.float32(),
    Family.DOUBLE: pa.float64(),
    Family.BIT: pa.uint64(),
    Family.YEAR: pa.uint16(),
}
_SHOWN = 50
_TIMES = {Family.DATE: pa.date32(), Family.DATETIME: pa.timestamp("us"), Family.TIMESTAMP: pa.timestamp("us")}

_DAY, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}:\d{2}(\.\d{1,6})?"
_WRITTEN = {
    Family.DATE: f"^{_DAY}$",
    Family.DATETIME: f"^{_DAY} {_CLOCK}$",
    Family.TIMESTAMP: f"^{_DAY} {_CLOCK}$",
    Family.TIME: rf"^-?\d?{_CLOCK}$",
    Family.DECIMAL: r"^-?\d+(\.\d+)?$",
}
"""The form of values that are held as text: upstream has days that no calendar has, but no words."""


def to_arrow(column: Column, values: pa.ChunkedArray, held: Held, in_key: bool = False) -> pa.ChunkedArray:
    """Returns `values` (string; binary for the binary types) for a column of a table that holds them as `held`.

    Dates and times are returned unchanged, as text, if one of them is no date: the zero date, '2024-00-00'. JSON and
    VECTOR stay text. Raises RowRefused for a number that its type cannot hold, for a text that is no date, time or
    number at all, for an element that is not declared, and in a key (`in_key`) for one that is written like another.
    """
    if column.labelled and column.elements:
        return label_texts(column, values, in_key)
    if held is Held.TEXT or column.family in (Family.BINARY, Family.JSON, Family.VECTOR):
        return _as_text(column, values)
    if column.family in _TIMES:
        return _times(column, values)
    try:
        return pc.cast(values, _number_type(column))
    except pa.ArrowInvalid as error:
        raise label_error(column, str(error)) from error


def _number_type(column: Column) -> pa.DataType:
    if column.family is Family.INTEGER:
        return _INTEGERS[column.type][column.unsigned]
    if column.family is Family.DECIMAL:
        return pa.decimal128(*column.digits)
    return _NUMBERS[column.family]


def _times(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pc.any(pc.starts_with(values, "0000")).as_py():  # Arrow has a year 0, MySQL only displays one
        return _as_text(column, values)
    try:
        return pc.cast(values, _TIMES[column.family])
    except pa.ArrowInvalid:
        return _as_text(column, values)


def _as_text(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.family in _WRITTEN:
        other = values.filter(pc.invert(pc.match_substring_regex(values, _WRITTEN[column.family])))
        if len(other):
            raise label_error(column, repr(other[0].as_py()[:_SHOWN]))
    return values


SHARED = "use --master local[*], or put the DuckDB file on a file system that all workers share"


@dataclass(frozen=True, slots=True)
class ParquetWriter:
    """`folder` belongs to one load. Once it is gone, nothing can be staged in it."""

    folder: str

    @contextmanager
    def session(self, patience: float = 0.0) -> Iterator[ParquetSession]:
        yield ParquetSession(self.folder)


class ParquetSession:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def write(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        """Stages puts and deletes by key. The same changes again give the same file again, so they count once.

        Raises RowRefused, LeaseHeld once this writer is locked out, TargetUnavailable if the disk cannot take the file.
        """
        put = changes.column("put")
        puts = int(pc.sum(pc.cast(put, pa.int64()), min_count=0).as_py())
        staged = self._stage(target, changes, {"put": put})
        return Receipt(puts, changes.num_rows - puts, staged)

    def write_packed(self, parts: Sequence[tuple[LoadTarget, pa.Table]]) -> Sequence[Receipt | None]:
        """Each table has files of its own."""
        return [None] * len(parts)

    def write_multiset(self, target: LoadTarget, changes: pa.Table, window: Window) -> Receipt:
        """Stages the net copies of rows of a table with no key. The driver checks whether `window` is already
        applied."""
        return Receipt(*added_and_removed(changes), self._stage(target, changes, {"n": changes.column("n")}))

    def write_copies(self, target: LoadTarget, rows: pa.Table) -> Receipt:
        """Stages how many copies of rows must exist."""
        copies = rows.column("n")
        return Receipt(0, 0, self._stage(target, rows, {"copies": copies}))

    def _stage(self, target: LoadTarget, changes: pa.Table, columns: dict[str, pa.ChunkedArray]) -> str:
        assert isinstance(target.settings, ColumnarTarget)
        for position, (column, held) in enumerate(zip(target.columns, target.settings.held, strict=True)):
            values = changes.column(f"c{position}")
            convert = partial(to_arrow, column, held=held, in_key=position in target.key)
            try:
                typed = convert(values)
            except RowRefused as error:
                raise refused_changes(convert, values, target, changes) from error
            as_text = held is Held.TIME and typed is values
            columns[f"{'t' if as_text else 'c'}{position}"] = typed
        columns["row"] = pa.chunked_array([identities(changes, target.key)])
        return self._save(target, pa.table(columns))

    def _save(self, target: LoadTarget, table: pa.Table, statistics: Sequence[str] = ()) -> str:
        """`statistics` are the columns for which the file has bounds."""
        sink = pa.BufferOutputStream()
        pq.write_table(
            table, sink, compression="snappy", use_dictionary=False, write_statistics=list(statistics) or False
        )
        return save(self._folder, target.table, sink.getvalue(), ".parquet", SHARED)
