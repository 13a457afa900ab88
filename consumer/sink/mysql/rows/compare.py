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
from consumer.sink.mysql.rows.values import table_of
from consumer.sink.mysql.server.connection import connect
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.settings import MySqlSettings

RANGE_ROWS = 500_000
_BATCH_ROWS, _BATCH_BYTES, _FIRST_ROWS = 20_000, 32 << 20, 64
_DIVIDED = (Family.INTEGER, Family.TEXT, Family.BINARY)
"""Keys of these types cut the table into ranges, by the server's own order of them."""
SNAPSHOT = ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT")


@dataclass(frozen=True, slots=True)
class MySqlComparer:
    """`bounds` are values of the key's first column at which a range ends and the next one begins."""

    settings: MySqlSettings
    target: LoadTarget
    bounds: tuple[Any, ...] = ()

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
            connection.decoders = {}  # texts as the server gives them
            with SSCursor(connection) as cursor:
                for statement in () if self.settings.as_of else SNAPSHOT:
                    cursor.execute(statement)
                cursor.execute(query, values)
                wanted = _FIRST_ROWS
                while rows := cursor.fetchmany(wanted):
                    batch = normal_form.held(self.target, [pa.array(column) for column in zip(*rows, strict=True)])
                    wanted = _fitting(batch)
                    yield batch
        except pymysql.MySQLError as error:
            raise translate(error, "start") from error
        finally:
            connection.close()

    def changes(self, rows: pa.Table) -> pa.Table:
        return normal_form.changes(self.target, rows)

    def _where(self, number: int) -> tuple[str, list[Any]]:
        if not self.bounds:
            return "", []
        name = _literal(quote(self.target.names[self.target.key[0]]))
        above = [(f"{name} > %s", self.bounds[number - 1])] if number else []
        within = f"{name} <= %s" if number else f"({name} <= %s OR {name} IS NULL)"  # that a hand made of a key
        upto = [(within, self.bounds[number])] if number < len(self.bounds) else []
        return f" WHERE {' AND '.join(text for text, _ in (*above, *upto))}", [value for _, value in (*above, *upto)]


def _literal(sql: str) -> str:
    """For a query with parameters: names can hold percent signs."""
    return sql.replace("%", "%%")


def _fitting(batch: pa.Table) -> int:
    """How many rows to fetch after `batch`, so that wide ones take no more memory than narrow ones."""
    by_bytes: int = batch.num_rows * _BATCH_BYTES // max(batch.nbytes, 1)
    return max(1, min(by_bytes, int(batch.num_rows) * 4, _BATCH_ROWS))


def bounds_of(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> tuple[Any, ...]:
    """Values of the key's first column, as the server orders them, with RANGE_ROWS rows or more between two."""
    if not target.key or target.columns[target.key[0]].family not in _DIVIDED:
        return ()
    name = _literal(quote(target.names[target.key[0]]))
    table = _literal(table_of(target))
    found: list[Any] = []
    while True:
        where = f"WHERE {name} > %s " if found else ""
        query = f"SELECT {name} FROM {table} {where}ORDER BY {name} LIMIT 1 OFFSET {RANGE_ROWS}"
        cursor.execute(query, found[-1:])
        row = cursor.fetchone()
        if row is None:
            return tuple(found)
        found.append(row[0])
