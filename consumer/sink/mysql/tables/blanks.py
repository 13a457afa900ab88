"""Texts of unique keys that end in blanks, where the target's collation ignores trailing blanks.

To the server 'a' and 'a ' are one key. To a TiDB without its new collations they are two, and REPLACE would lose one of
the rows. One of two such texts ends in a blank. So a table that holds none is written by REPLACE, at full speed, until
a put brings the first. From then on REPLACE is not used for it (see `staged`). The progress schema records what a table
may hold, by name: it is true for all consumers. The record is removed before a statement that may change keys or their
columns, and once rows are written while other columns are keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from consumer.errors import RowsCollide
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, qualified, quote
from consumer.sink.mysql.target import mysql_target, table_of
from consumer.sink.progress_layout import SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = qualified(SCHEMA, "blank_keys")
_NAMES = 500


@dataclass(frozen=True, slots=True)
class Blanks:
    """The record of a table: the `columns` that were searched for such texts, and whether it may hold one
    (`may_hold`)."""

    columns: str = ""
    may_hold: bool = False


def known_blanks(cursor: pymysql.cursors.Cursor, tables: Iterable[TableName]) -> dict[TableName, Blanks]:
    """Returns the records of `tables`, by the names as given. pymysql's errors pass through."""
    folded = {tuple(table.folded): table for table in tables}  # pymysql accepts only plain tuples
    keys, records = list(folded), {}
    for start in range(0, len(keys), _NAMES):
        cursor.execute(
            f"SELECT database_name, table_name, looked_at, found FROM {TABLE} WHERE (database_name, table_name) IN %s",
            (keys[start : start + _NAMES],),
        )
        records.update({folded[row[:2]]: Blanks(row[2], bool(row[3])) for row in cursor.fetchall()})
    return records


def is_known(blanks: Blanks | None, names: Sequence[str], padded: Sequence[int]) -> bool:
    """Returns whether rows can be written without looking at the table: the record is about the columns at `padded`. A
    record about other columns does not count. It stops being true once rows are written that nobody searched for those
    columns, and it may be about keys that are created again later."""
    if blanks is None:
        return not padded
    return blanks.may_hold or blanks.columns == shown_columns(names, padded)


def blanks_moved(cursor: pymysql.cursors.Cursor, tables: Sequence[TableName]) -> None:
    """Records, in the current transaction, that rows may move between `tables`: what one may hold, each may hold. Where
    nothing was found, the tables are to be searched again."""
    names = [tuple(table.folded) for table in tables]
    cursor.execute(f"SELECT 1 FROM {TABLE} WHERE (database_name, table_name) IN %s AND found LIMIT 1", (names,))
    if cursor.fetchone() is None:
        cursor.execute(f"DELETE FROM {TABLE} WHERE (database_name, table_name) IN %s", (names,))
        return
    cursor.executemany(
        f"REPLACE INTO {TABLE} (database_name, table_name, looked_at, found) VALUES (%s, %s, '', 1)", names
    )


def blanks_renamed(cursor: pymysql.cursors.Cursor, old: TableName, new: TableName) -> None:
    """Moves the record of `old` to `new`, in the current transaction. The former record of `new` was about another
    table."""
    cursor.execute(f"DELETE FROM {TABLE} WHERE (database_name, table_name) = %s", (tuple(new.folded),))
    renamed = f"UPDATE {TABLE} SET database_name = %s, table_name = %s WHERE (database_name, table_name) = %s"
    cursor.execute(renamed, (*new.folded, tuple(old.folded)))


def forget_looks(cursor: pymysql.cursors.Cursor, tables: Collection[TableName]) -> None:
    """Removes, in the current transaction, the records of `tables` in which nothing was found. Their columns or keys
    may change next, so they are to be searched again."""
    names = sorted({tuple(table.folded) for table in tables})
    for start in range(0, len(names), _NAMES):
        cursor.execute(
            f"DELETE FROM {TABLE} WHERE (database_name, table_name) IN %s AND NOT found",
            (names[start : start + _NAMES],),
        )


def shown_columns(names: Sequence[str], padded: Sequence[int]) -> str:
    """Returns the columns to search, in the form in which they are recorded."""
    return ", ".join(quote(names[position]) for position in padded)


def end_in_blanks(target: LoadTarget, puts: pa.Table) -> bool:
    """Returns whether rows of `puts` have such a text."""
    import pyarrow.compute as pc  # imported here, as a driver with nothing to load should not wait for it

    columns = (puts.column(f"c{position}") for position in mysql_target(target).padded)
    return any(pc.any(pc.ends_with(column, " ")).as_py() for column in columns)


def look_for_blanks(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> bool:
    """Returns whether the table holds such a text, and records it in the current transaction. It reads an index for
    each column."""
    settings = mysql_target(target)
    table, has_blanks = table_of(target), False
    for position in settings.padded:
        cursor.execute(f"SELECT 1 FROM {table} WHERE {quote(target.names[position])} LIKE '% ' LIMIT 1")
        has_blanks = has_blanks or cursor.fetchone() is not None
    record_blanks(cursor, target, has_blanks)
    return has_blanks


def record_blanks(cursor: pymysql.cursors.Cursor, target: LoadTarget, may_hold: bool) -> None:
    """Records what the table may hold, in the current transaction."""
    settings = mysql_target(target)
    name = settings.name.folded
    cursor.execute(
        f"REPLACE INTO {TABLE} (database_name, table_name, looked_at, found) VALUES (%s, %s, %s, %s)",
        (*name, shown_columns(target.names, settings.padded), may_hold),
    )


def may_lose(target: LoadTarget) -> RowsCollide:
    """Returns the error that makes a load be planned again, because the table needs another way of writing than
    REPLACE."""
    columns = shown_columns(target.names, mysql_target(target).padded)
    return RowsCollide(
        f"texts in {columns} of unique keys end in blanks, which the target ignores and upstream may not",
        table=str(target.table),
    )
