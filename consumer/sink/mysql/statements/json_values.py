"""Columns that become JSON, or were: the values of the rows that are there are written again as TiDB writes JSON.

To MariaDB JSON is a text, which it leaves as it is; MySQL has an order of members and forms of numbers of its own.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from itertools import islice
from typing import IO

import pymysql
from pymysql.cursors import SSCursor

from consumer.ddl.changes import declared_columns
from consumer.ddl.declared import Definition
from consumer.model.columns import Column, Family
from consumer.model.json_texts import tidb_json
from consumer.model.names import TableName, by_name, qualified, quote, same_name
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.progress_layout import SCHEMA

_FORMS = qualified(SCHEMA, "json_forms")
_AT_A_TIME = 500
_PLAIN = Definition()


def json_columns(step: ApplyDdl, flavor: FlavorName) -> tuple[str, ...]:
    """Those of the target's table that an ALTER TABLE leaves with other texts than upstream's."""
    mode_ddl = step.mode_ddl
    before, after = (mode_ddl.before, mode_ddl.after) if mode_ddl else (step.known.columns or (), step.file.columns)
    parsed = declared_columns(step.file, mode_ddl.mode if mode_ddl else None, before)
    known = by_name(before)
    told = ((known.get(parsed.old_name(column.name) or ""), column) for column in after)
    plain = ((old, column) for old, column in told if not parsed.columns.get(same_name(column.name), _PLAIN).generated)
    return tuple(column.name for old, column in plain if old is not None and _is_changed(old, column, flavor))


def _is_changed(old: Column, new: Column, flavor: FlavorName) -> bool:
    match flavor:
        case "mariadb":
            return new.family is Family.JSON is not old.family
        case "mysql":
            return old.family is Family.JSON and new.family in (Family.TEXT, Family.BINARY)
        case _:
            return False


def rewrite_json(cursor: pymysql.cursors.Cursor, table: TableName, column: str) -> None:
    """Can be done again: what is in TiDB's form stays so. pymysql's errors pass through.

    One look at the column, and one UPDATE, which finds the new texts by hashes of the old ones: texts have no index.
    """
    there, own = qualified(*table), quote(column)
    text = f"CONVERT({own} USING utf8mb4)"
    with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
        if not _spooled(cursor.connection, f"SELECT DISTINCT {text} FROM {there} WHERE {own} IS NOT NULL", spool):
            return
        spool.seek(0)
        cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {_FORMS}")
        cursor.execute(
            f"CREATE TEMPORARY TABLE {_FORMS} (old CHAR(64) PRIMARY KEY, form LONGTEXT)"
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )
        while lines := list(islice(spool, _AT_A_TIME)):
            cursor.executemany(f"INSERT INTO {_FORMS} VALUES (%s, %s)", [json.loads(line) for line in lines])
    form = f"SELECT form FROM {_FORMS} WHERE old = CONVERT(SHA2({text}, 256) USING utf8mb4) COLLATE utf8mb4_bin"
    stay = [f"{quote(name)} = {quote(name)}" for name in _touched_by_updates(cursor, table)]
    cursor.execute(f"UPDATE {there} SET {', '.join([f'{own} = COALESCE(({form}), {own})', *stay])}")
    cursor.execute(f"DROP TEMPORARY TABLE {_FORMS}")


def _spooled(connection: pymysql.Connection, query: str, spool: IO[str]) -> bool:
    """Whether texts of `query` are not in TiDB's form; their hashes and forms, a line each."""
    found = False
    with SSCursor(connection) as texts:
        texts.execute(query)
        for (text,) in texts:
            if (form := tidb_json(text)) != text:
                found = True
                spool.write(json.dumps([hashlib.sha256(text.encode()).hexdigest(), form]) + "\n")
    return found


def _touched_by_updates(cursor: pymysql.cursors.Cursor, table: TableName) -> list[str]:
    """The columns to which an UPDATE gives its own time."""
    cursor.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND extra LIKE '%%on update%%'",
        table,
    )
    return [name for (name,) in cursor.fetchall()]
