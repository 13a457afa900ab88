"""The schema `storage_consumer` in the file: its tables, and their creation.

Everything but the lease and the tables' columns is keyed by consumer name. `storage_consumer.replica` is public: one
row a table, the upstream's commit-ts up to which it is complete, that as UTC time, and ok, stopped, waits,
dropped or excluded. The tables are not public. They have no keys: DuckDB checks keys too early for a delete and an
insert in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from consumer.sink.progress_formats import Layout

SCHEMA = "storage_consumer"

_TABLE = {"name": "VARCHAR", "database_name": "VARCHAR", "table_name": "VARCHAR"}
TABLES: Mapping[str, Mapping[str, str]] = {
    "consumer": {
        "name": "VARCHAR",
        "format": "INTEGER",
        "upstream": "VARCHAR",
        "applied_ts": "UBIGINT",
        "start_ts": "UBIGINT",
        "updated": "TIMESTAMP",
        # The last release that acquired the file.
        "written_by": "VARCHAR",
        "time_zone": "VARCHAR",
        "routes": "VARCHAR",
        "forms": "VARCHAR",
        "filters": "VARCHAR",
    },
    "table_progress": {**_TABLE, "applied_ts": "UBIGINT", "state": "VARCHAR", "reason": "VARCHAR", "hint": "VARCHAR"},
    "folder_progress": {
        "name": "VARCHAR",
        "root": "VARCHAR",
        "version": "UBIGINT",
        "part": "VARCHAR",
        "date": "VARCHAR",
        "dispatcher": "VARCHAR",
        "done": "BIGINT",
        "size": "BIGINT",
        "stamp": "VARCHAR",
        "open_files": "VARCHAR",
        "index_stamp": "VARCHAR",
        "first_ts": "UBIGINT",
        "last_ts": "UBIGINT",
    },
    "ddl": {
        **_TABLE,
        "version": "UBIGINT",
        "checksum": "UBIGINT",
        "state": "VARCHAR",
        "before_state": "VARCHAR",
        "reason": "VARCHAR",
    },
    # Every table that rows or statements went to: `table_progress` only holds the exceptions.
    "known_table": _TABLE,
    # The rows that were set aside; their letters tell more.
    "bad_row": {
        **_TABLE,
        "id": "VARCHAR",
        "path": "VARCHAR",
        "line": "BIGINT",
        "position": "BIGINT",
        "version": "UBIGINT",
        "commit_ts": "UBIGINT",
        "letter": "VARCHAR",
        "reason": "VARCHAR",
    },
    "audit": {
        "name": "VARCHAR",
        "epoch": "BIGINT",
        "finished": "TIMESTAMP",
        "step": "VARCHAR",
        "database_name": "VARCHAR",
        "table_name": "VARCHAR",
        "from_ts": "UBIGINT",
        "to_ts": "UBIGINT",
        "row_count": "BIGINT",
        "puts": "BIGINT",
        "deletes": "BIGINT",
        "dropped_rows": "BIGINT",
        "statement": "VARCHAR",
    },
    "lease": {"epoch": "BIGINT", "holder": "VARCHAR", "since": "TIMESTAMP"},
    # What the schema files and statements said of each replica table: DuckDB's own catalog does not hold it.
    "table_columns": {"database_name": "VARCHAR", "table_name": "VARCHAR", "columns": "VARCHAR"},
}

_REPLICA = """
CREATE OR REPLACE VIEW storage_consumer.replica AS
SELECT k.name AS consumer, k.database_name || '.' || k.table_name AS "table",
  coalesce(p.applied_ts, c.applied_ts) AS applied_ts,
  make_timestamp(CAST((coalesce(p.applied_ts, c.applied_ts) // 262144) * 1000 AS BIGINT)) AS applied_time,
  coalesce(p.state, 'ok') AS state
FROM storage_consumer.known_table k
JOIN storage_consumer.consumer c ON c.name = k.name
LEFT JOIN storage_consumer.table_progress p
  ON p.name = k.name AND p.database_name = k.database_name AND p.table_name = k.table_name
"""


def create_missing(connection: duckdb.DuckDBPyConnection) -> None:
    """Create what is missing. The caller owns the transaction."""
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    for table, columns in TABLES.items():
        body = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{table} ({body})")
    connection.execute(
        f"INSERT INTO {SCHEMA}.lease SELECT 0, '', now() AT TIME ZONE 'UTC' "
        f"WHERE NOT EXISTS (SELECT 1 FROM {SCHEMA}.lease)"
    )


def create_view(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the public view, or replace it by this release's. The caller owns the transaction."""
    connection.execute(_REPLICA)


def exists(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the schema is there."""
    return bool(
        connection.execute(
            "SELECT 1 FROM duckdb_views() WHERE database_name = current_database() AND schema_name = ? "
            "AND view_name = 'replica'",
            (SCHEMA,),
        ).fetchall()
    )


def layout(connection: duckdb.DuckDBPyConnection) -> Layout:
    """The (table, column) pairs that the schema has now."""
    found = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = ?",
        (SCHEMA,),
    ).fetchall()
    return {(str(table), str(column)) for table, column in found}
