"""Puts of rows that lack some of the target's columns: staged, completed from the target by key, then written.

All in one transaction, and all staged rows are completed before one is written, so a row keeps what it held in those
columns however REPLACE moves unique values between the rows.
"""

from __future__ import annotations

from dataclasses import replace

import pymysql

from consumer.errors import SchemaDrift
from consumer.model.columns import Family
from consumer.model.load import LoadTarget
from consumer.sink.mysql.connection import qualified, quote
from consumer.sink.mysql.schema import SCHEMA
from consumer.sink.mysql.values import mysql_target

_STAGE = "stage"
_ROW = "storage_consumer_row"
"""A key of the stage's own: some servers take no table without one."""


def make_stage(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """Make the session's empty temporary table for rows of `target`. It is made outside transactions, as servers with
    GTIDs ask for, and ends the one at hand."""
    stage = qualified(SCHEMA, _STAGE)
    settings = mysql_target(target)
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {stage}")
    own = f"{_ROW} BIGINT AUTO_INCREMENT PRIMARY KEY"
    if settings.flavor == "tidb":  # it has no CREATE TABLE .. SELECT
        cursor.execute(f"CREATE TEMPORARY TABLE {stage} ({own}, {_definitions(target)})")
    else:
        table = qualified(settings.database, settings.table)
        columns = ", ".join(map(quote, target.names))
        cursor.execute(f"CREATE TEMPORARY TABLE {stage} ({own}) AS SELECT {columns} FROM {table} LIMIT 0")
    cursor.connection.commit()
    if settings.flavor != "tidb":
        # Rows that are only looked at are not locked then: sessions would wait for one another at every gap.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def staged(target: LoadTarget) -> LoadTarget:
    """The stage, as a target of the same rows."""
    return replace(target, settings=replace(mysql_target(target), database=SCHEMA, table=_STAGE), kept=())


def write_staged(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> int:
    """REPLACE the staged rows, in the transaction at hand. Returns how many of them are new in the target.

    Raises SchemaDrift where a new row would have no value for a column; pymysql's errors pass through.
    """
    settings = mysql_target(target)
    table, stage = qualified(settings.database, settings.table), qualified(SCHEMA, _STAGE)
    same = " AND ".join(_same(target, position) for position in target.key)
    missing = f"{stage} s LEFT JOIN {table} t ON {same} WHERE t.{quote(target.names[target.key[0]])} IS NULL"
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
    completed = f"SELECT {values}, {old} FROM {stage} s JOIN {table} t ON {same}"
    cursor.execute(f"REPLACE INTO {table} ({columns}, {kept}) {completed}")
    if new:
        cursor.execute(f"REPLACE INTO {table} ({columns}) SELECT {values} FROM {missing}")
    return new


def _same(target: LoadTarget, position: int) -> str:
    name = quote(target.names[position])
    if target.columns[position].family is not Family.TEXT:
        return f"t.{name} = s.{name}"
    # As deletes do: 'a' and 'a ' are two keys, though most collations take them for equal.
    left, right = (f"CAST(CONVERT({side}.{name} USING utf8mb4) AS BINARY)" for side in "ts")
    return f"t.{name} = s.{name} AND {left} = {right}"


def _definitions(target: LoadTarget) -> str:
    settings = mysql_target(target)
    return ", ".join(
        f"{quote(name)} {kind}{f' COLLATE {collation}' if collation else ''} NULL"
        for name, kind, collation in zip(target.names, settings.column_types, settings.collations, strict=True)
    )
