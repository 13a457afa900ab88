"""Puts that bring texts ending in blanks into unique keys (see `blanks`), and the look for such texts in the table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.errors import RowsCollide
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.tables.blanks import TABLE, shown_columns
from consumer.sink.mysql.target import mysql_target, table_of


def end_in_blanks(target: LoadTarget, puts: pa.Table) -> bool:
    """Whether rows of `puts` bring such a text."""
    columns = (puts.column(f"c{position}") for position in mysql_target(target).padded)
    return any(pc.any(pc.ends_with(column, " ")).as_py() for column in columns)


def look_for_blanks(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> bool:
    """Whether the table holds such a text; recorded in the transaction at hand. It reads an index of each column."""
    settings = mysql_target(target)
    table, found = table_of(target), False
    for position in settings.padded:
        cursor.execute(f"SELECT 1 FROM {table} WHERE {quote(target.names[position])} LIKE '% ' LIMIT 1")
        found = found or cursor.fetchone() is not None
    record_blanks(cursor, target, found)
    return found


def record_blanks(cursor: pymysql.cursors.Cursor, target: LoadTarget, found: bool) -> None:
    """Record what the table may hold, in the transaction at hand."""
    settings = mysql_target(target)
    name = settings.name.folded
    cursor.execute(
        f"REPLACE INTO {TABLE} (database_name, table_name, looked_at, found) VALUES (%s, %s, %s, %s)",
        (*name, shown_columns(target.names, settings.padded), found),
    )


def may_lose(target: LoadTarget) -> RowsCollide:
    """The table needs another way of writing than REPLACE: its load is to be planned again."""
    columns = shown_columns(target.names, mysql_target(target).padded)
    return RowsCollide(
        f"texts in {columns} of unique keys end in blanks, which the target ignores and upstream may not",
        table=str(target.table),
    )
