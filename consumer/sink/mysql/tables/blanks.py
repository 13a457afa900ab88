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

import pymysql

from consumer.model.names import TableName, qualified, quote
from consumer.sink.progress_layout import SCHEMA

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
