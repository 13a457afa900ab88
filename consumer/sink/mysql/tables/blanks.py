"""Texts of unique keys that end in blanks, where the target's collation passes over those.

To the server 'a' and 'a ' are one key; to a TiDB without its new collations they are two, and REPLACE would lose one.
Of two such texts one ends in a blank. So a table that holds none is written by REPLACE, at full speed, until a put
brings the first: from then on REPLACE is not used for it (see `staged`). What a table may hold is kept in the progress
schema, by name: what is true of the target's table is true for all consumers. It is forgotten before a statement that
may change keys or their columns, and once rows are written while other columns are keys.
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
    """What is known of a table: the `columns` in which such texts were looked for, and whether there may be one."""

    columns: str = ""
    found: bool = False


def known_blanks(cursor: pymysql.cursors.Cursor, tables: Iterable[TableName]) -> dict[TableName, Blanks]:
    """What is known of `tables`, under the names as given. pymysql's errors pass through."""
    folded = {tuple(table.folded): table for table in tables}  # pymysql knows plain tuples alone
    keys, known = list(folded), {}
    for start in range(0, len(keys), _NAMES):
        cursor.execute(
            f"SELECT database_name, table_name, looked_at, found FROM {TABLE} WHERE (database_name, table_name) IN %s",
            (keys[start : start + _NAMES],),
        )
        known.update({folded[row[:2]]: Blanks(row[2], bool(row[3])) for row in cursor.fetchall()})
    return known


def is_known(blanks: Blanks | None, names: Sequence[str], padded: Sequence[int]) -> bool:
    """Whether rows can be written with no look at the table: what is recorded is about the columns at `padded`. What is
    recorded about others is true no longer once rows are written that nobody looked at for it, and it may be about
    keys that come back."""
    if blanks is None:
        return not padded
    return blanks.found or blanks.columns == shown_columns(names, padded)


def blanks_moved(cursor: pymysql.cursors.Cursor, tables: Sequence[TableName]) -> None:
    """Rows may move between `tables`: what one may hold, each may; where nothing was found, it is to be looked for
    again. In the transaction at hand."""
    names = [tuple(table.folded) for table in tables]
    cursor.execute(f"SELECT 1 FROM {TABLE} WHERE (database_name, table_name) IN %s AND found LIMIT 1", (names,))
    if cursor.fetchone() is None:
        cursor.execute(f"DELETE FROM {TABLE} WHERE (database_name, table_name) IN %s", (names,))
        return
    cursor.executemany(
        f"REPLACE INTO {TABLE} (database_name, table_name, looked_at, found) VALUES (%s, %s, '', 1)", names
    )


def blanks_renamed(cursor: pymysql.cursors.Cursor, old: TableName, new: TableName) -> None:
    """What was known of `new` is about another table; it is `old` now. In the transaction at hand."""
    cursor.execute(f"DELETE FROM {TABLE} WHERE (database_name, table_name) = %s", (tuple(new.folded),))
    renamed = f"UPDATE {TABLE} SET database_name = %s, table_name = %s WHERE (database_name, table_name) = %s"
    cursor.execute(renamed, (*new.folded, tuple(old.folded)))


def forget_looks(cursor: pymysql.cursors.Cursor, tables: Collection[TableName]) -> None:
    """Columns or keys of `tables` may be others next: where nothing was found, it is to be looked for again. In the
    transaction at hand."""
    names = sorted({tuple(table.folded) for table in tables})
    for start in range(0, len(names), _NAMES):
        cursor.execute(
            f"DELETE FROM {TABLE} WHERE (database_name, table_name) IN %s AND NOT found",
            (names[start : start + _NAMES],),
        )


def shown_columns(names: Sequence[str], padded: Sequence[int]) -> str:
    """The columns to look at, as they are recorded."""
    return ", ".join(quote(names[position]) for position in padded)


def end_in_blanks(target: LoadTarget, puts: pa.Table) -> bool:
    """Whether rows of `puts` bring such a text."""
    import pyarrow.compute as pc  # the driver, which may have nothing to load, does not wait for it

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
