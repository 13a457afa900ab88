"""The tables of schema `storage_consumer` in the file. The caller owns the transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import duckdb

from consumer.model.names import TableName
from consumer.model.progress import DdlId, DdlState
from consumer.sink.duckdb.progress import schema
from consumer.sink.progress_layout import KEYS
from consumer.sink.progress_rows import Rows
from consumer.sink.progress_sql import Row


class FileTables:
    """progress_sql.ProgressTables on a connection; None: there is no file yet. Rows travel as JSON, many at a time."""

    now = "(now() AT TIME ZONE 'UTC')"
    of_name: Collection[str] = tuple(table for table, columns in schema.TABLES.items() if "name" in columns)

    def __init__(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        self._connection = connection

    def exists(self) -> bool:
        return self._connection is not None and schema.exists(self._connection)

    def tells_case(self) -> bool:
        return False

    def position(self) -> tuple[str, str]:
        return "", ""

    def run(self, query: str, *values: object) -> Rows:
        assert self._connection is not None
        return list(self._connection.execute(query, values).fetchall())

    def matching(self, table: str, columns: str, keys: Sequence[Row]) -> Rows:
        same = f"FROM storage_consumer.{table} t SEMI JOIN ({_incoming(table)}) g USING ({', '.join(KEYS[table])})"
        return self.run(f"SELECT {columns} {same}", json.dumps(keys)) if keys else ()

    def put(self, table: str, rows: Sequence[Row]) -> None:
        last = {tuple(row[part] for part in KEYS[table]): row for row in rows}
        self.remove(table, list(last.values()))
        self.append(table, list(last.values()))

    def remove(self, table: str, keys: Sequence[Row]) -> None:
        same = " AND ".join(f"t.{part} = g.{part}" for part in KEYS[table])
        if keys:
            self.run(
                f"DELETE FROM storage_consumer.{table} t USING ({_incoming(table)}) g WHERE {same}", json.dumps(keys)
            )

    def append(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            self.run(f"INSERT INTO storage_consumer.{table} BY NAME {_incoming(table)}", json.dumps(rows))


def _incoming(table: str) -> str:
    """The rows of a JSON text as those of `table`."""
    shape = json.dumps([dict(schema.TABLES[table])])
    return f"SELECT unnest(from_json(?, '{shape}'), recursive := true)"


def ddl_state(connection: duckdb.DuckDBPyConnection, name: str, wanted: DdlId) -> DdlState | None:
    """The record of one statement."""
    found = connection.execute(
        "SELECT state FROM storage_consumer.ddl WHERE name = ? AND database_name = ? AND table_name = ? "
        "AND version = ? AND checksum = ?",
        (name, *wanted),
    ).fetchall()
    return DdlState(found[0][0]) if found else None


def table_applied_ts(connection: duckdb.DuckDBPyConnection, name: str, table: TableName) -> int:
    """How far one table is."""
    found = connection.execute(
        "SELECT coalesce((SELECT max(applied_ts) FROM storage_consumer.table_progress "
        "WHERE name = $1 AND database_name = $2 AND table_name = $3), "
        "(SELECT applied_ts FROM storage_consumer.consumer WHERE name = $1), 0)",
        (name, table.database, table.table),
    ).fetchall()
    return int(found[0][0])
