"""The schema `storage_consumer` in the target: its tables, and their creation.

Everything is keyed by consumer name, so several consumers can share a target. Names are compared byte for byte
(utf8mb4_bin), independent of the server's own collation. `storage_consumer.replica` is public; the tables are not.
"""

from __future__ import annotations

from collections.abc import Mapping

import pymysql

from consumer.model.names import MAX_TSO, same_name
from consumer.sink.progress_formats import Layout

SCHEMA = "storage_consumer"

_RESERVED = frozenset({SCHEMA, "mysql", "information_schema", "performance_schema", "sys"})
_NO_TABLE, _NO_DATABASE = 1146, 1049
_OPTIONS = "ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
_NAME = {"name": "VARCHAR(64) NOT NULL"}
_TABLE = {**_NAME, "database_name": "VARCHAR(64) NOT NULL", "table_name": "VARCHAR(64) NOT NULL"}

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "consumer": {
        **_NAME,
        "format": "INT NOT NULL",
        "upstream": "TEXT NOT NULL",
        "applied_ts": "BIGINT UNSIGNED NOT NULL",
        "start_ts": "BIGINT UNSIGNED NOT NULL",
        "updated": "DATETIME(3) NOT NULL",
        # The last release that acquired the target.
        "written_by": "TEXT NOT NULL",
        "time_zone": "VARCHAR(64) NOT NULL",
        "routes": "LONGTEXT NOT NULL",
        "forms": "LONGTEXT NOT NULL",
        "filters": "LONGTEXT NOT NULL",
    },
    "table_progress": {
        **_TABLE,
        "applied_ts": "BIGINT UNSIGNED NOT NULL",
        "state": "VARCHAR(16) NOT NULL",
        "reason": "LONGTEXT NOT NULL",
        "hint": "LONGTEXT NOT NULL",
    },
    # Paths are longer than an index takes: `id` is the SHA-256 of what stands beside it.
    "folder_progress": {
        **_NAME,
        "id": "CHAR(64) NOT NULL",
        "root": "LONGTEXT NOT NULL",
        "version": "BIGINT UNSIGNED NOT NULL",
        "part": "VARCHAR(64) NOT NULL",
        "date": "VARCHAR(32) NOT NULL",
        "dispatcher": "VARCHAR(255) NOT NULL",
        "done": "BIGINT NOT NULL",
        "size": "BIGINT NOT NULL",
        "stamp": "TEXT NOT NULL",
        "open_files": "LONGTEXT NOT NULL",
        "index_stamp": "TEXT NOT NULL",
        "first_ts": "BIGINT UNSIGNED NOT NULL",
        "last_ts": f"BIGINT UNSIGNED NOT NULL DEFAULT {MAX_TSO}",
    },
    "ddl": {
        **_TABLE,
        "version": "BIGINT UNSIGNED NOT NULL",
        "checksum": "BIGINT UNSIGNED NOT NULL",
        "state": "VARCHAR(16) NOT NULL",
        "before_state": "LONGTEXT NOT NULL",
        "reason": "LONGTEXT NOT NULL",
    },
    "lease": {
        **_NAME,
        "slot": "INT NOT NULL",
        "epoch": "BIGINT NOT NULL",
        "holder": "TEXT NOT NULL",
        "since": "DATETIME(3) NOT NULL",
    },
    # One for each transaction of a writer, and each statement, whose end is not recorded yet (see epochs.py).
    "proof": {**_NAME, "id": "BIGINT NOT NULL"},
    # Every table that rows or statements went to: `table_progress` only holds the exceptions.
    "known_table": _TABLE,
    # The rows that were set aside; their letters tell more.
    "bad_row": {
        **_TABLE,
        "id": "CHAR(32) NOT NULL",
        "path": "LONGTEXT NOT NULL",
        "line": "BIGINT NOT NULL",
        "position": "BIGINT NOT NULL",
        "version": "BIGINT UNSIGNED NOT NULL",
        "commit_ts": "BIGINT UNSIGNED NOT NULL",
        "letter": "LONGTEXT NOT NULL",
        "reason": "LONGTEXT NOT NULL",
    },
    # Of tables, in lower case: where texts that end in blanks were looked for, and whether there may be one.
    "blank_keys": {
        "database_name": "VARCHAR(64) NOT NULL",
        "table_name": "VARCHAR(64) NOT NULL",
        "looked_at": "TEXT NOT NULL",
        "found": "TINYINT NOT NULL",
    },
    "audit": {
        "id": "BIGINT NOT NULL AUTO_INCREMENT",
        **_NAME,
        "epoch": "BIGINT NOT NULL",
        "finished": "DATETIME(3) NOT NULL",
        "step": "VARCHAR(64) NOT NULL",
        "database_name": "VARCHAR(64) NOT NULL",
        "table_name": "VARCHAR(64) NOT NULL",
        "from_ts": "BIGINT UNSIGNED NOT NULL",
        "to_ts": "BIGINT UNSIGNED NOT NULL",
        "row_count": "BIGINT NOT NULL",
        "puts": "BIGINT NOT NULL",
        "deletes": "BIGINT NOT NULL",
        "dropped_rows": "BIGINT NOT NULL",
        "statement": "LONGTEXT NOT NULL",
        "statement_hash": "CHAR(64) NOT NULL",
    },
}
_KEYS = {
    "consumer": "PRIMARY KEY (name)",
    "table_progress": "PRIMARY KEY (name, database_name, table_name)",
    "folder_progress": "PRIMARY KEY (name, id)",
    "ddl": "PRIMARY KEY (name, database_name, table_name, version, checksum)",
    "lease": "PRIMARY KEY (name, slot)",
    "proof": "PRIMARY KEY (name, id)",
    "known_table": "PRIMARY KEY (name, database_name, table_name)",
    "bad_row": "PRIMARY KEY (name, database_name, table_name, id)",
    "blank_keys": "PRIMARY KEY (database_name, table_name)",
    "audit": "PRIMARY KEY (id), KEY (name, finished)",
}

_REPLICA = """
CREATE OR REPLACE SQL SECURITY INVOKER VIEW storage_consumer.replica
  (consumer, `table`, applied_ts, applied_time, state)
AS SELECT k.name, CONCAT(k.database_name, '.', k.table_name), COALESCE(p.applied_ts, c.applied_ts),
  TIMESTAMPADD(MICROSECOND, (COALESCE(p.applied_ts, c.applied_ts) >> 18) * 1000, CAST('1970-01-01' AS DATETIME(3))),
  COALESCE(p.state, 'ok')
FROM storage_consumer.known_table k
JOIN storage_consumer.consumer c ON c.name = k.name
LEFT JOIN storage_consumer.table_progress p
  ON p.name = k.name AND p.database_name = k.database_name AND p.table_name = k.table_name
"""
"""One row a table: the upstream's commit-ts up to which it is complete, that as UTC time, and ok, stopped, waits,
dropped or excluded."""


def create_missing(cursor: pymysql.cursors.Cursor) -> None:
    """Create the database and those tables that are missing. pymysql's errors pass through."""
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    for table, columns in COLUMNS.items():
        body = ", ".join(f"{name} {definition}" for name, definition in columns.items())
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{table} ({body}, {_KEYS[table]}) {_OPTIONS}")


def create_view(cursor: pymysql.cursors.Cursor) -> None:
    """Create the public view, or replace it by this release's. pymysql's errors pass through."""
    cursor.execute(_REPLICA)


def exists(cursor: pymysql.cursors.Cursor) -> bool:
    """Whether the schema is there, whole: the view is the last to be created."""
    try:
        cursor.execute(f"SELECT 1 FROM {SCHEMA}.replica LIMIT 0")
    except pymysql.MySQLError as error:
        if error.args[0] in (_NO_TABLE, _NO_DATABASE):
            return False
        raise
    return True


def layout(cursor: pymysql.cursors.Cursor) -> Layout:
    """The (table, column) pairs that the schema has now."""
    cursor.execute("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s", (SCHEMA,))
    return {(str(table), str(column)) for table, column in cursor.fetchall()}


def is_reserved(database: str) -> bool:
    """Whether upstream's rows and statements must not go to a database of this name."""
    return same_name(database) in _RESERVED
