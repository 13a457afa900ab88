"""One table of a server, read to be compared: by ranges of its key, each in a consistent snapshot. Rows as the server
sends them become Arrow columns, all rows of a column at once; pymysql takes them apart value by value.
"""

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
from consumer.sink.mysql.server.connection import connect
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.server.wire import fetch_packets, has_texts
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.target import table_of
from consumer.target import Only

RANGE_ROWS = 500_000
_BATCH_ROWS, _BATCH_BYTES, _FIRST_ROWS = 20_000, 32 << 20, 64
_DIVIDED = (Family.INTEGER, Family.TEXT, Family.BINARY)
"""Keys of these types cut the table into ranges, by the server's own order of them."""
SNAPSHOT = ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT")
_NULL = 251
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}
_WORD = 8


@dataclass(frozen=True, slots=True)
class MySqlComparer:
    """`bounds` are values of a column of the key at which a range ends and the next one begins: the first that `only`
    does not choose."""

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
        connection = connect(self.settings, "dml")
        try:
            with SSCursor(connection) as cursor:
                for statement in SNAPSHOT:
                    cursor.execute(statement)
                cursor.execute(query, values)
                texts, wanted = has_texts(cursor), _FIRST_ROWS
                while rows := fetch_packets(cursor, wanted):
                    batch = normal_form.held(self.target, columns_of(rows, texts))
                    wanted = _fitting(batch)
                    yield batch
        except pymysql.MySQLError as error:
            raise translate(error, "start") from error
        finally:
            connection.close()

    def changes(self, rows: pa.Table) -> pa.Table:
        return normal_form.changes(self.target, rows)

    def _where(self, number: int) -> tuple[str, list[Any]]:
        chosen, values = _chosen(self.target, self.only)
        if self.bounds:
            name = _literal(quote(self.target.names[_divided(self.target, self.only)[0]]))
            if number:
                chosen, values = [*chosen, f"{name} > %s"], [*values, self.bounds[number - 1]]
            if number < len(self.bounds):
                within = f"{name} <= %s" if number else f"({name} <= %s OR {name} IS NULL)"  # a hand made it of a key
                chosen, values = [*chosen, within], [*values, self.bounds[number]]
        return f" WHERE {' AND '.join(chosen)}" if chosen else "", values


def _literal(sql: str) -> str:
    """For a query with parameters: names can hold percent signs."""
    return sql.replace("%", "%%")


def _fitting(batch: pa.Table) -> int:
    """How many rows to fetch after `batch`, so that wide ones take no more memory than narrow ones."""
    by_bytes: int = batch.num_rows * _BATCH_BYTES // max(batch.nbytes, 1)
    return max(1, min(by_bytes, int(batch.num_rows) * 4, _BATCH_ROWS))


def _chosen(target: LoadTarget, only: Only | None) -> tuple[list[str], list[Any]]:
    """Conditions for the rows to read, and their values. Collations may take texts with blanks at their end, or in
    other cases, for the same; the texts as such are there for an index."""
    if only is None:
        return [], []
    name, places = _literal(quote(target.names[only.position])), ", ".join(["%s"] * len(only.values))
    # With one value alone a TiDB would take it for the column's own bytes, too.
    exact = f"{name} IN ({places}, NULL) AND {bytes_of(name)} IN ({places})"
    return [f"({exact} OR {name} IS NULL)"], [*only.values, *(value.encode() for value in only.values)]


def _divided(target: LoadTarget, only: Only | None) -> tuple[int, ...]:
    """The position of the column by which the table is cut, () for none."""
    left = [position for position in target.key if only is None or position != only.position][:1]
    return tuple(position for position in left if target.columns[position].family in _DIVIDED)


def bounds_of(cursor: pymysql.cursors.Cursor, target: LoadTarget, only: Only | None = None) -> tuple[Any, ...]:
    """Values of that column, as the server orders them, with RANGE_ROWS rows or more between two."""
    if not (divided := _divided(target, only)):
        return ()
    name = _literal(quote(target.names[divided[0]]))
    table, (chosen, values) = _literal(table_of(target)), _chosen(target, only)
    found: list[Any] = []
    while True:
        conditions = [*chosen, f"{name} > %s"] if found else chosen
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        query = f"SELECT {name} FROM {table} {where}ORDER BY {name} LIMIT 1 OFFSET {RANGE_ROWS}"
        cursor.execute(query, [*values, *found[-1:]])
        row = cursor.fetchone()
        if row is None:
            return tuple(found)
        found.append(row[0])


def values_of(cursor: pymysql.cursors.Cursor, target: LoadTarget, position: int) -> list[str]:
    """The different values of a column of texts, told apart by their bytes."""
    cursor.execute(f"SELECT DISTINCT {bytes_of(quote(target.names[position]))} FROM {table_of(target)}")
    return [value.decode() for (value,) in cursor.fetchall() if value is not None]


def columns_of(rows: Sequence[bytes], texts: Sequence[bool]) -> list[pa.Array]:
    """The columns of `rows`: large_string where `texts` says so, else large_binary. Raises pymysql's InternalError for
    rows that are no such."""
    data = b"".join([*rows, bytes(1 + _WORD)])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(lengths)
    at = ends - lengths
    found = []
    for is_text in texts:
        begins, at, null = _next(data, at)
        if np.any(at > ends):
            raise pymysql.err.InternalError("the server sent a row that ends within a value")
        found.append(_column(data, begins, at, null, is_text))
    if not np.array_equal(at, ends):
        raise pymysql.err.InternalError("the server sent a row with more values than columns")
    return found


def _next(data: bytes, at: Ints) -> tuple[Ints, Ints, np.ndarray]:
    """Where the values at `at` begin and end, and which are NULL. What lies behind all rows reads as empty texts."""
    at = np.minimum(at, len(data) - _WORD - 1)
    first = np.frombuffer(data, np.uint8)[at]
    begins, lengths = at + 1, first.astype(np.int64)
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
    values = both.take(pa.array(np.arange(0, len(offsets), 2)))  # between two of them lies what is no value
    if null.any():
        values = pc.if_else(pa.array(null), pa.scalar(None, values.type), values)
    return values.cast(pa.large_string()) if is_text else values
