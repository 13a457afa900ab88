"""Puts of rows that lack some of the target's columns: staged, completed from the target by key, then written.

All in one transaction, and all staged rows are completed before one is written, so a row keeps what it held in those
columns however REPLACE moves unique values between the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pymysql

from consumer.errors import SchemaDrift
from consumer.model.columns import Family
from consumer.model.load import LoadTarget
from consumer.sink.mysql.connection import qualified, quote
from consumer.sink.mysql.schema import SCHEMA
from consumer.sink.mysql.values import mysql_target

STAGE, KEYS = qualified(SCHEMA, "stage"), qualified(SCHEMA, "stage_keys")
_STAGE = "stage"
_ROW = "storage_consumer_row"
"""A key of the stage's own: some servers take no table without one."""


def make_stage(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """Make the session's empty temporary table for rows of `target`. It is made outside transactions, as servers with
    GTIDs ask for, and ends the one at hand."""
    settings = mysql_target(target)
    _make(cursor, target, STAGE, range(len(target.names)), f"{_ROW} BIGINT AUTO_INCREMENT PRIMARY KEY")
    if settings.checked:
        _make(cursor, target, KEYS, target.key, f"{_ROW} BIGINT AUTO_INCREMENT PRIMARY KEY")
    cursor.connection.commit()
    if settings.flavor != "tidb":
        # Rows that are only looked at are not locked then: sessions would wait for one another at every gap.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def _make(cursor: pymysql.cursors.Cursor, target: LoadTarget, stage: str, positions: Sequence[int], own: str) -> None:
    settings = mysql_target(target)
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {stage}")
    if settings.flavor == "tidb":  # it has no CREATE TABLE .. SELECT
        cursor.execute(f"CREATE TEMPORARY TABLE {stage} ({own}, {_definitions(target, positions)})")
        return
    table = qualified(settings.database, settings.table)
    columns = ", ".join(quote(target.names[position]) for position in positions)
    cursor.execute(f"CREATE TEMPORARY TABLE {stage} ({own}) AS SELECT {columns} FROM {table} LIMIT 0")


def staged(target: LoadTarget) -> LoadTarget:
    """The stage, as a target of the same rows."""
    return replace(target, settings=replace(mysql_target(target), database=SCHEMA, table=_STAGE, checked=()), kept=())


def write_staged(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> int:
    """REPLACE the staged rows, in the transaction at hand. Returns how many of them are new in the target.

    Raises SchemaDrift where a new row would have no value for a column; pymysql's errors pass through.
    """
    settings = mysql_target(target)
    table = qualified(settings.database, settings.table)
    if not target.kept:
        columns = ", ".join(map(quote, target.names))
        cursor.execute(f"REPLACE INTO {table} ({columns}) SELECT {columns} FROM {STAGE}")
        return 0
    same = same_handle(target, "t", "s")
    missing = f"{STAGE} s LEFT JOIN {table} t ON {same} WHERE t.{quote(target.names[target.key[0]])} IS NULL"
    cursor.execute(f"SELECT COUNT(*) FROM {missing}")
    new = int(cursor.fetchone()[0])
    if new and settings.required:
        names = ", ".join(map(quote, settings.required))
        raise SchemaDrift(
            f"a new row has no value for the target table's columns {names}, which are NOT NULL and have no default",
            hint=f"give them a default: ALTER TABLE {table} ALTER COLUMN .. SET DEFAULT ..",
            table=str(target.table),
        )
    columns, values = ", ".join(map(quote, target.names)), ", ".join(f"s.{quote(name)}" for name in target.names)
    kept, old = ", ".join(map(quote, target.kept)), ", ".join(f"t.{quote(name)}" for name in target.kept)
    # The server reads all of a SELECT from the table that it writes to before it writes the first row.
    completed = f"SELECT {values}, {old} FROM {STAGE} s JOIN {table} t ON {same}"
    cursor.execute(f"REPLACE INTO {table} ({columns}, {kept}) {completed}")
    if new:
        cursor.execute(f"REPLACE INTO {table} ({columns}) SELECT {values} FROM {missing}")
    return new


def same_handle(target: LoadTarget, left: str, right: str) -> str:
    """The condition that rows of two tables have the very same key."""
    return " AND ".join(_same(target, position, left, right) for position in target.key)


def _same(target: LoadTarget, position: int, left: str, right: str) -> str:
    name = quote(target.names[position])
    equal = f"{left}.{name} = {right}.{name}"
    if target.columns[position].family is not Family.TEXT:
        return equal
    # As deletes do: 'a' and 'a ' are two keys, though most collations take them for equal.
    one, other = (f"CAST(CONVERT({side}.{name} USING utf8mb4) AS BINARY)" for side in (left, right))
    return f"{equal} AND {one} = {other}"


def _definitions(target: LoadTarget, positions: Sequence[int]) -> str:
    settings = mysql_target(target)
    columns = ((target.names[n], settings.column_types[n], settings.collations[n]) for n in positions)
    return ", ".join(
        f"{quote(name)} {kind}{f' COLLATE {collation}' if collation else ''} NULL" for name, kind, collation in columns
    )
