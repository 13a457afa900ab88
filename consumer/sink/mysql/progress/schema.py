"""The schema `storage_consumer` in the target: its tables, and their creation.

All tables are keyed by consumer name, so several consumers can share a target. Names are compared byte for byte
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
    # Paths are too long for an index: `id` is the SHA-256 of the other key columns.
    "folder_progress": {**_NAME, "id": "CHAR(64) NOT NULL", **_SHARED["folder_progress"]},
    "lease": {
        **_NAME,
        "slot": "INT NOT NULL",
        "epoch": "BIGINT NOT NULL",
        "holder": "TEXT NOT NULL",
        "since": "DATETIME(3) NOT NULL",
    },
    # A row for each transaction of a writer, and for each statement, whose end is not yet recorded (see epochs.py).
    "proof": {**_NAME, "id": "BIGINT NOT NULL"},
    "bad_row": {**_SHARED["bad_row"], "id": "CHAR(32) NOT NULL"},
    "loss": {**_SHARED["loss"], "id": "CHAR(32) NOT NULL"},
    # By table, in lower case: the columns that were searched for texts that end in blanks, and whether one may exist.
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
"""One row a table: the upstream's commit-ts up to which it is complete, the same as UTC time, and its state: ok,
stopped, waits, dropped or excluded."""


@contextmanager
def missing_columns_reported() -> Iterator[None]:
    """Raises BadConfig if the progress lacks a column. pymysql's other errors pass through."""
    try:
        yield
    except pymysql.MySQLError as error:
        if errno(error) == NO_COLUMN:
            raise damaged(str(error.args[-1])) from error
        raise


def ensure_schema(cursor: pymysql.cursors.Cursor) -> None:
    """Creates the database and its missing tables. Each statement commits by itself, so this also completes an
    interrupted start. Raises BadConfig for another layout (see `check_layout`). pymysql's errors pass through."""
    if schema_exists(cursor):
        with missing_columns_reported():
            cursor.execute(LAYOUTS)
        for layout in cursor.fetchall():
            check_layout(*layout)
        return
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    for table, columns in COLUMNS.items():
        body = ", ".join(f"{name} {definition}" for name, definition in columns.items())
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{table} ({body}, {_KEYS[table]}) {_OPTIONS}")
    cursor.execute(_REPLICA)


def schema_exists(cursor: pymysql.cursors.Cursor) -> bool:
    """Returns whether the schema is complete: the view is created last."""
    try:
        cursor.execute(f"SELECT 1 FROM {SCHEMA}.replica LIMIT 0")
    except pymysql.MySQLError as error:
        if error.args[0] in (NO_TABLE, _NO_DATABASE):
            return False
        if error.args[0] != BROKEN_VIEW:  # a later read of the tables reports which one is missing
            raise
    return True


def is_reserved(database: str) -> bool:
    """Returns whether upstream's rows and statements must not go to a database of this name."""
    return same_name(database) in _RESERVED


def is_name_reserved(upstream: TableName, name: TableName) -> bool:
    """Returns whether upstream's table must not have that `name` in the target. A parallel table may be in a reserved
    database."""
    return is_reserved(name.database) and not (is_parallel_load(name) and name != upstream)
