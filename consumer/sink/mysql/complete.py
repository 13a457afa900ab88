"""Puts that are staged in the session, then written: of rows that lack some of the target's columns, which are
completed from it by key, and of rows with key columns that the target computes, which nobody may write.

All in one transaction, and all staged rows are completed before one is written, so a row keeps what it held in those
columns however REPLACE moves unique values between the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pymysql

from consumer.errors import CannotBeExact, SchemaDrift
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
    plain = replace(mysql_target(target), database=SCHEMA, table=_STAGE, checked=(), computed=())
    return replace(target, settings=plain, kept=())


def write_staged(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> int:
    """REPLACE the staged rows, in the transaction at hand. Returns how many of them are new in the target.

    Raises SchemaDrift where a new row would have no value for a column, CannotBeExact where the target computes other
    keys than upstream did; pymysql's errors pass through.
    """
    new = _write_completed(cursor, target) if target.kept else _write_whole(cursor, target)
    computed = mysql_target(target).computed
    if any(target.names[position] in computed for position in target.key):
        cursor.execute(f"SELECT 1 FROM {_missing(target)} LIMIT 1")
        if cursor.fetchone():
            raise _computed_otherwise(target)
    return new


def _written(target: LoadTarget) -> list[str]:
    computed = mysql_target(target).computed
    return [quote(name) for name in target.names if name not in computed]


def _write_whole(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> int:
    settings, columns = mysql_target(target), ", ".join(_written(target))
    table = qualified(settings.database, settings.table)
    cursor.execute(f"REPLACE INTO {table} ({columns}) SELECT {columns} FROM {STAGE}")
    return 0


def _missing(target: LoadTarget) -> str:
    """FROM and WHERE of the staged rows whose keys are not in the table."""
    settings = mysql_target(target)
    table, first = qualified(settings.database, settings.table), quote(target.names[target.key[0]])
    return f"{STAGE} s LEFT JOIN {table} t ON {same_handle(target, 't', 's')} WHERE t.{first} IS NULL"


def _computed_otherwise(target: LoadTarget) -> CannotBeExact:
    names = ", ".join(map(quote, mysql_target(target).computed))
    return CannotBeExact(
        f"the target computes other values of its key's columns {names} than upstream did",
        hint=f"make them plain columns in {target.table}, then resync the table",
        table=str(target.table),
    )


def _write_completed(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> int:
    settings = mysql_target(target)
    table = qualified(settings.database, settings.table)
    missing = _missing(target)
    cursor.execute(f"SELECT COUNT(*) FROM {missing}")
    new = int(cursor.fetchone()[0])
    if new and settings.required:
        names = ", ".join(map(quote, settings.required))
        raise SchemaDrift(
            f"a new row has no value for the target table's columns {names}, which are NOT NULL and have no default",
            hint=f"give them a default: ALTER TABLE {table} ALTER COLUMN .. SET DEFAULT ..",
            table=str(target.table),
        )
    columns, values = ", ".join(_written(target)), ", ".join(f"s.{name}" for name in _written(target))
    kept, old = ", ".join(map(quote, target.kept)), ", ".join(f"t.{quote(name)}" for name in target.kept)
    # The server reads all of a SELECT from the table that it writes to before it writes the first row.
    completed = f"SELECT {values}, {old} FROM {STAGE} s JOIN {table} t ON {same_handle(target, 't', 's')}"
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
