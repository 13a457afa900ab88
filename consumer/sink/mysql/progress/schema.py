"""The schema `storage_consumer` in the target: its tables, and their creation.

Everything is keyed by consumer name, so several consumers can share a target. Names are compared byte for byte
(utf8mb4_bin), independent of the server's own collation. `storage_consumer.replica` and `syncpoint` are public; the
other tables are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pymysql

from consumer.model.names import TableName, same_name
from consumer.model.progress import is_parallel_load
from consumer.sink.mysql.server.errors import BROKEN_VIEW, NO_COLUMN, NO_TABLE, errno
from consumer.sink.progress_layout import KEYS, LAYOUTS, SCHEMA, Kind, check_layout, columns_in, damaged

_RESERVED = frozenset({SCHEMA, "mysql", "information_schema", "performance_schema", "sys"})
_NO_DATABASE = 1049
_OPTIONS = "ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
_TYPES = {
    "flag": "INT",
    "number": "BIGINT",
    "tso": "BIGINT UNSIGNED",
    "time": "DATETIME(3)",
    "text": "TEXT",
    "long text": "LONGTEXT",
}


def _spelled(kind: Kind) -> str:
    return f"{f'VARCHAR({kind})' if isinstance(kind, int) else _TYPES[kind]} NOT NULL"


_SHARED = columns_in(_spelled)
_NAME = {"name": _SHARED["known_table"]["name"]}

COLUMNS: Mapping[str, Mapping[str, str]] = {
    **_SHARED,
    # Paths are longer than an index takes: `id` is the SHA-256 of what stands beside it.
    "folder_progress": {**_NAME, "id": "CHAR(64) NOT NULL", **_SHARED["folder_progress"]},
    "lease": {
        **_NAME,
        "slot": "INT NOT NULL",
        "epoch": "BIGINT NOT NULL",
        "holder": "TEXT NOT NULL",
        "since": "DATETIME(3) NOT NULL",
    },
    # One for each transaction of a writer, and each statement, whose end is not recorded yet (see epochs.py).
    "proof": {**_NAME, "id": "BIGINT NOT NULL"},
    "bad_row": {**_SHARED["bad_row"], "id": "CHAR(32) NOT NULL"},
    "loss": {**_SHARED["loss"], "id": "CHAR(32) NOT NULL"},
    # Of tables, in lower case: where texts that end in blanks were looked for, and whether there may be one.
    "blank_keys": {
        "database_name": "VARCHAR(64) NOT NULL",
        "table_name": "VARCHAR(64) NOT NULL",
        "looked_at": "TEXT NOT NULL",
        "found": "TINYINT NOT NULL",
    },
    "audit": {
        "id": "BIGINT NOT NULL AUTO_INCREMENT",
        **_SHARED["audit"],
        "statement_hash": "CHAR(64) NOT NULL",
    },
}
_KEYS = {
    **{table: f"PRIMARY KEY ({', '.join(key)})" for table, key in KEYS.items()},
    "consumer": "PRIMARY KEY (name)",
    "folder_progress": "PRIMARY KEY (name, id)",
    "lease": "PRIMARY KEY (name, slot)",
    "proof": "PRIMARY KEY (name, id)",
    "blank_keys": "PRIMARY KEY (database_name, table_name)",
    "audit": "PRIMARY KEY (id), KEY (name, finished)",
}

_REPLICA = """
CREATE OR REPLACE SQL SECURITY INVOKER VIEW storage_consumer.replica
  (consumer, `table`, applied_ts, applied_time, state)
AS SELECT k.name, CONCAT(k.database_name, '.', k.table_name), COALESCE(p.applied_ts, c.applied_ts),
  CAST(
    TIMESTAMPADD(MICROSECOND, (COALESCE(p.applied_ts, c.applied_ts) >> 18) * 1000, CAST('1970-01-01' AS DATETIME(3)))
    AS DATETIME(3)
  ),
  COALESCE(p.state, 'ok')
FROM storage_consumer.known_table k
JOIN storage_consumer.consumer c ON c.name = k.name
LEFT JOIN storage_consumer.table_progress p
  ON p.name = k.name AND p.database_name = k.database_name AND p.table_name = k.table_name
"""
"""One row a table: the upstream's commit-ts up to which it is complete, that as UTC time, and ok, stopped, waits,
dropped or excluded."""


@contextmanager
def columns_of_progress() -> Iterator[None]:
    """Raises BadConfig where the progress lacks a column; pymysql's other errors pass through."""
    try:
        yield
    except pymysql.MySQLError as error:
        if errno(error) == NO_COLUMN:
            raise damaged(str(error.args[-1])) from error
        raise


def ensure_schema(cursor: pymysql.cursors.Cursor) -> None:
    """Create the database and those tables that are missing: each statement commits by itself, so a start that was cut
    short is made whole. Raises BadConfig for another layout (see `check_layout`); pymysql's errors pass through."""
    if exists(cursor):
        with columns_of_progress():
            cursor.execute(LAYOUTS)
        for found in cursor.fetchall():
            check_layout(*found)
        return
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    for table, columns in COLUMNS.items():
        body = ", ".join(f"{name} {definition}" for name, definition in columns.items())
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{table} ({body}, {_KEYS[table]}) {_OPTIONS}")
    cursor.execute(_REPLICA)


def exists(cursor: pymysql.cursors.Cursor) -> bool:
    """Whether the schema is there, whole: the view is the last to be created."""
    try:
        cursor.execute(f"SELECT 1 FROM {SCHEMA}.replica LIMIT 0")
    except pymysql.MySQLError as error:
        if error.args[0] in (NO_TABLE, _NO_DATABASE):
            return False
        if error.args[0] != BROKEN_VIEW:  # whoever reads the tables is told which one is not there
            raise
    return True


def is_reserved(database: str) -> bool:
    """Whether upstream's rows and statements must not go to a database of this name."""
    return same_name(database) in _RESERVED


def is_kept_from(upstream: TableName, name: TableName) -> bool:
    """Whether upstream's table must not have that `name` in the target. What is loaded beside another table may."""
    return is_reserved(name.database) and not (is_parallel_load(name) and name != upstream)
