"""The schema `storage_consumer` in the target: what it holds, and how it comes to be.

Everything is keyed by consumer name, so several consumers can share a target. Names are compared byte for byte
(utf8mb4_bin), whatever the server's own collation is. `storage_consumer.replica` is public; the tables are not.
"""

from __future__ import annotations

import pymysql

from consumer.errors import BadConfig
from consumer.model.progress import FORMAT_VERSION

SCHEMA = "storage_consumer"

_RESERVED = frozenset({SCHEMA, "mysql", "information_schema", "performance_schema", "sys"})
_NO_TABLE, _NO_DATABASE = 1146, 1049
_OPTIONS = "ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
_TABLE_KEY = "name VARCHAR(64) NOT NULL, database_name VARCHAR(64) NOT NULL, table_name VARCHAR(64) NOT NULL"

_TABLES = {
    "consumer": (
        "name VARCHAR(64) NOT NULL, format INT NOT NULL, upstream TEXT NOT NULL, applied_ts BIGINT UNSIGNED NOT NULL, "
        "start_ts BIGINT UNSIGNED NOT NULL, updated DATETIME(3) NOT NULL, PRIMARY KEY (name)"
    ),
    "table_progress": (
        f"{_TABLE_KEY}, applied_ts BIGINT UNSIGNED NOT NULL, state VARCHAR(16) NOT NULL, reason LONGTEXT NOT NULL, "
        "hint LONGTEXT NOT NULL, PRIMARY KEY (name, database_name, table_name)"
    ),
    # Paths are longer than an index takes: `id` is the SHA-256 of what stands beside it.
    "folder_progress": (
        "name VARCHAR(64) NOT NULL, id CHAR(64) NOT NULL, root LONGTEXT NOT NULL, version BIGINT UNSIGNED NOT NULL, "
        "part VARCHAR(64) NOT NULL, date VARCHAR(32) NOT NULL, dispatcher VARCHAR(255) NOT NULL, "
        "done BIGINT NOT NULL, size BIGINT NOT NULL, stamp TEXT NOT NULL, open_files LONGTEXT NOT NULL, "
        "PRIMARY KEY (name, id)"
    ),
    "ddl": (
        f"{_TABLE_KEY}, version BIGINT UNSIGNED NOT NULL, checksum BIGINT UNSIGNED NOT NULL, "
        "state VARCHAR(16) NOT NULL, before_state LONGTEXT NOT NULL, reason LONGTEXT NOT NULL, "
        "PRIMARY KEY (name, database_name, table_name, version, checksum)"
    ),
    "lease": (
        "name VARCHAR(64) NOT NULL, slot INT NOT NULL, epoch BIGINT NOT NULL, holder TEXT NOT NULL, "
        "since DATETIME(3) NOT NULL, PRIMARY KEY (name, slot)"
    ),
    # Every table that rows or statements went to: `table_progress` only holds the exceptions.
    "known_table": f"{_TABLE_KEY}, PRIMARY KEY (name, database_name, table_name)",
    "audit": (
        "id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(64) NOT NULL, epoch BIGINT NOT NULL, "
        "finished DATETIME(3) NOT NULL, step VARCHAR(64) NOT NULL, database_name VARCHAR(64) NOT NULL, "
        "table_name VARCHAR(64) NOT NULL, from_ts BIGINT UNSIGNED NOT NULL, to_ts BIGINT UNSIGNED NOT NULL, "
        "row_count BIGINT NOT NULL, puts BIGINT NOT NULL, deletes BIGINT NOT NULL, dropped_rows BIGINT NOT NULL, "
        "statement LONGTEXT NOT NULL, statement_hash CHAR(64) NOT NULL, PRIMARY KEY (id), KEY (name, finished)"
    ),
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


def ensure_schema(cursor: pymysql.cursors.Cursor) -> None:
    """Create what is missing. pymysql's errors pass through."""
    if exists(cursor):
        return
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    for table, body in _TABLES.items():
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{table} ({body}) {_OPTIONS}")
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


def check_format(found: int) -> None:
    """Raises BadConfig for progress that a later release wrote."""
    if found != FORMAT_VERSION:
        raise BadConfig(
            f"the progress in the target has format {found}, this release reads {FORMAT_VERSION}",
            hint="run the release that wrote it",
        )


def is_reserved(database: str) -> bool:
    """Whether upstream's rows and statements must not go to a database of this name."""
    return database.lower() in _RESERVED
