"""The schema `storage_consumer` in the file: its tables, and their creation.

Everything but the lease and the tables' columns is keyed by consumer name. `storage_consumer.replica` is public: one
row a table, the upstream's commit-ts up to which it is complete, that as UTC time, and ok, stopped, waits,
dropped or excluded. The tables are not public. They have no keys: DuckDB checks keys too early for a delete and an
insert in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from consumer.sink.progress_layout import LAYOUTS, SCHEMA, check_layout, columns_in

_TYPES = {"flag": "INTEGER", "number": "BIGINT", "tso": "UBIGINT", "time": "TIMESTAMP"}
TABLES: Mapping[str, Mapping[str, str]] = {
    **columns_in(lambda kind: _TYPES.get(str(kind), "VARCHAR")),
    "lease": {"epoch": "BIGINT", "holder": "VARCHAR", "since": "TIMESTAMP"},
    # What the schema files and statements said of each replica table: DuckDB's own catalog does not hold it.
    "table_columns": {"database_name": "VARCHAR", "table_name": "VARCHAR", "columns": "VARCHAR"},
}

_REPLICA = """
CREATE VIEW storage_consumer.replica AS
SELECT k.name AS consumer, k.database_name || '.' || k.table_name AS "table",
  coalesce(p.applied_ts, c.applied_ts) AS applied_ts,
  make_timestamp(CAST((coalesce(p.applied_ts, c.applied_ts) // 262144) * 1000 AS BIGINT)) AS applied_time,
  coalesce(p.state, 'ok') AS state
FROM storage_consumer.known_table k
JOIN storage_consumer.consumer c ON c.name = k.name
LEFT JOIN storage_consumer.table_progress p
  ON p.name = k.name AND p.database_name = k.database_name AND p.table_name = k.table_name
"""


def ensure_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the progress schema. The caller owns the transaction. Raises BadConfig for another layout (see
    `check_layout`)."""
    if exists(connection):
        for found in connection.execute(LAYOUTS).fetchall():
            check_layout(*found)
        return
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    for table, columns in TABLES.items():
        body = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{table} ({body})")
    connection.execute(f"INSERT INTO {SCHEMA}.lease SELECT 0, '', now() AT TIME ZONE 'UTC'")
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
