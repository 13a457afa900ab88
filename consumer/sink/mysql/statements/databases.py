"""The database that a statement runs in, made where it is missing, with what TiDB means by a bare CREATE DATABASE."""

from __future__ import annotations

import re

import pymysql

from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS
from consumer.model.names import quote
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.server.errors import MISSING, errno

_CREATE_DATABASE = re.compile(
    r"\s*CREATE\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:`(?:[^`]|``)+`|\S+)", re.I
)
_TIDB_DEFAULTS = "CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin"


def use_database(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> bool:
    """Select the database that unqualified names mean: the file's, but a rename is read in the old name's. False where
    what is to be dropped has no database any more: unqualified names would mean an earlier statement's."""
    if step.file.type in DATABASE_ACTIONS:
        return True
    if step.file.type in CREATE_ACTIONS | RENAME_ACTIONS:
        _enter_or_create(cursor, step.name.database)
    if step.file.type in RENAME_ACTIONS and step.old_name is not None:
        cursor.execute(f"USE {quote(step.old_name.database)}")
    elif step.file.type not in CREATE_ACTIONS | RENAME_ACTIONS:
        return _enter(cursor, step)
    return True


def _enter_or_create(cursor: pymysql.cursors.Cursor, database: str) -> None:
    try:
        cursor.execute(f"USE {quote(database)}")
    except pymysql.MySQLError as error:
        if errno(error) not in MISSING:
            raise
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quote(database)} {_TIDB_DEFAULTS}")
        cursor.execute(f"USE {quote(database)}")


def _enter(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> bool:
    try:
        cursor.execute(f"USE {quote(step.name.database)}")
    except pymysql.MySQLError as error:
        if errno(error) not in MISSING or step.file.type not in DROP_ACTIONS:
            raise
        return False
    return True


def adopt_database(cursor: pymysql.cursors.Cursor, step: ApplyDdl, statement: str) -> str:
    """A database that is there already gets upstream's defaults: tables that name no character set take them."""
    options = _CREATE_DATABASE.sub("", statement, count=1).strip(" ;\r\n") or _TIDB_DEFAULTS
    cursor.execute(f"ALTER DATABASE {quote(step.name.database)} {options}")
    return f"the database {step.name.database} existed already; it has upstream's character set now"
