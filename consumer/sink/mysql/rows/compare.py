"""One table of a server, read to be compared: by ranges of its key, each in a consistent snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql
from pymysql.cursors import SSCursor

from consumer.model.columns import Family
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.rows import normal_form
from consumer.sink.mysql.rows.columns import columns_of
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
    exact = f"{name} IN ({places}) AND {bytes_of(name)} IN ({places})"
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
