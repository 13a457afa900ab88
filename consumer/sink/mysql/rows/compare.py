"""Reads one table of a server for a comparison, by ranges of its key, each in a consistent snapshot. Rows in the
server's own bytes become Arrow columns, all rows of a column at once; pymysql would decode them value by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pymysql.cursors import SSCursor

from consumer.codec.change_table import Ints
from consumer.model.columns import Family
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.rows import normal_form
from consumer.sink.mysql.rows.values import bytes_of
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.server.errors import server_error
from consumer.sink.mysql.server.wire import fetch_packets, has_texts
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.target import table_of
from consumer.target import Only

RANGE_ROWS = 500_000
_BATCH_ROWS, _BATCH_BYTES, _FIRST_ROWS = 20_000, 32 << 20, 64
_DIVIDED = (Family.INTEGER, Family.TEXT, Family.BINARY)
"""Keys of these types divide the table into ranges, in the server's own order."""
SNAPSHOT = ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT")
_NULL = 251
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}
_WORD = 8


@dataclass(frozen=True, slots=True)
class MySqlComparer:
    """`bounds` are values of a key column at which a range ends and the next one begins. It is the first column that
    `only` does not select by."""

    settings: MySqlSettings
    target: LoadTarget
    bounds: tuple[Any, ...] = ()
    only: Only | None = None

    @property
    def ranges(self) -> int:
        return len(self.bounds) + 1

    def expected(self, rows: pa.Table) -> pa.Table:
        return normal_form.expected(self.target, rows)

    def held(self, number: int) -> Iterator[pa.Table]:
        where, values = self._where(number)
        chosen = ", ".join(normal_form.expressions(self.target))
        query = _literal(f"SELECT {chosen} FROM {table_of(self.target)}") + where
        connection = connect_to_server(self.settings, "dml")
        try:
            with SSCursor(connection) as cursor:
                for statement in SNAPSHOT:
                    cursor.execute(statement)
                cursor.execute(query, values)
                texts, wanted = has_texts(cursor), _FIRST_ROWS
                while rows := fetch_packets(cursor, wanted):
                    batch = normal_form.held(self.target, decode_columns(rows, texts))
                    wanted = _fitting(batch)
                    yield batch
        except pymysql.MySQLError as error:
            raise server_error(error, "start") from error
        finally:
            connection.close()

    def changes(self, rows: pa.Table) -> pa.Table:
        return normal_form.changes_from_normal_form(self.target, rows)

    def _where(self, number: int) -> tuple[str, list[Any]]:
        chosen, values = _chosen(self.target, self.only)
        if self.bounds:
            name = _literal(quote(self.target.names[_divided(self.target, self.only)[0]]))
            if number:
                chosen, values = [*chosen, f"{name} > %s"], [*values, self.bounds[number - 1]]
            if number < len(self.bounds):
                # Somebody may have made the column nullable by hand.
                within = f"{name} <= %s" if number else f"({name} <= %s OR {name} IS NULL)"
                chosen, values = [*chosen, within], [*values, self.bounds[number]]
        return f" WHERE {' AND '.join(chosen)}" if chosen else "", values


def _literal(sql: str) -> str:
    """Escapes percent signs, which names can contain, for a query with parameters."""
    return sql.replace("%", "%%")


def _fitting(batch: pa.Table) -> int:
    """Returns how many rows to fetch after `batch`, so that wide rows take no more memory than narrow ones."""
    by_bytes: int = batch.num_rows * _BATCH_BYTES // max(batch.nbytes, 1)
    return max(1, min(by_bytes, int(batch.num_rows) * 4, _BATCH_ROWS))


def _chosen(target: LoadTarget, only: Only | None) -> tuple[list[str], list[Any]]:
    """Returns conditions for the rows to read, and their values. Collations may treat texts with trailing blanks, or in
    another case, as equal, so bytes are compared. The texts themselves are there for an index."""
    if only is None:
        return [], []
    name, places = _literal(quote(target.names[only.position])), ", ".join(["%s"] * len(only.values))
    # With a single value TiDB would also use it as the column's own bytes.
    exact = f"{name} IN ({places}, NULL) AND {bytes_of(name)} IN ({places})"
    return [f"({exact} OR {name} IS NULL)"], [*only.values, *(value.encode() for value in only.values)]


def _divided(target: LoadTarget, only: Only | None) -> tuple[int, ...]:
    """Returns the position of the column by which the table is divided, () for none."""
    candidates = [position for position in target.key if only is None or position != only.position][:1]
    return tuple(position for position in candidates if target.columns[position].family in _DIVIDED)


def bounds_of(cursor: pymysql.cursors.Cursor, target: LoadTarget, only: Only | None = None) -> tuple[Any, ...]:
    """Returns values of that column in the server's order, with RANGE_ROWS rows or more between two."""
    if not (divided := _divided(target, only)):
        return ()
    name = _literal(quote(target.names[divided[0]]))
    table, (chosen, values) = _literal(table_of(target)), _chosen(target, only)
    bounds: list[Any] = []
    while True:
        conditions = [*chosen, f"{name} > %s"] if bounds else chosen
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        query = f"SELECT {name} FROM {table} {where}ORDER BY {name} LIMIT 1 OFFSET {RANGE_ROWS}"
        cursor.execute(query, [*values, *bounds[-1:]])
        row = cursor.fetchone()
        if row is None:
            return tuple(bounds)
        bounds.append(row[0])


def values_of(cursor: pymysql.cursors.Cursor, target: LoadTarget, position: int) -> list[str]:
    """Returns the different values of a text column, distinguished by their bytes."""
    cursor.execute(f"SELECT DISTINCT {bytes_of(quote(target.names[position]))} FROM {table_of(target)}")
    return [value.decode() for (value,) in cursor.fetchall() if value is not None]


def decode_columns(rows: Sequence[bytes], texts: Sequence[bool]) -> list[pa.Array]:
    """Returns the columns of `rows`: large_string where `texts` says so, else large_binary. Raises pymysql's
    InternalError for malformed rows."""
    data = b"".join([*rows, bytes(1 + _WORD)])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(lengths)
    offsets = ends - lengths
    columns = []
    for is_text in texts:
        begins, offsets, null = _next(data, offsets)
        if np.any(offsets > ends):
            raise pymysql.err.InternalError("the server sent a row that ends within a value")
        columns.append(_column(data, begins, offsets, null, is_text))
    if not np.array_equal(offsets, ends):
        raise pymysql.err.InternalError("the server sent a row with more values than columns")
    return columns


def _next(data: bytes, offsets: Ints) -> tuple[Ints, Ints, np.ndarray]:
    """Returns where the values at `offsets` begin and end, and which are NULL. Positions after all rows read as empty
    texts."""
    offsets = np.minimum(offsets, len(data) - _WORD - 1)
    first = np.frombuffer(data, np.uint8)[offsets]
    begins, lengths = offsets + 1, first.astype(np.int64)
    null = first == _NULL
    lengths[null] = 0
    for mark, size in _LENGTH_BYTES.items():
        longer = np.flatnonzero(first == mark)
        if longer.size:
            words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))
            mask = np.uint64((1 << (8 * size)) - 1)
            lengths[longer] = np.minimum(words[begins[longer]] & mask, np.uint64(len(data))).astype(np.int64)
            begins[longer] += size
    return begins, begins + lengths, null


def _column(data: bytes, begins: Ints, ends: Ints, null: np.ndarray, is_text: bool) -> pa.Array:
    offsets = np.stack([begins, ends], axis=1).reshape(-1)
    both = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), max(len(offsets) - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    values = both.take(pa.array(np.arange(0, len(offsets), 2)))  # between two values lie bytes that are no value
    if null.any():
        values = pc.if_else(pa.array(null), pa.scalar(None, values.type), values)
    return values.cast(pa.large_string()) if is_text else values
