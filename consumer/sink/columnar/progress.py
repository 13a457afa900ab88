"""The progress as tables of DuckDB, in a file or in memory: the schema `storage_consumer`, its rows, and the epoch.

All tables except the lease and the tables' columns are keyed by consumer name. `storage_consumer.replica` is public:
one row a table, with the upstream's commit-ts up to which it is complete, the same as UTC time, and ok, stopped, waits,
dropped or excluded. The tables are not public. They have no keys, because DuckDB checks keys too early for a delete and
an insert in one transaction. The epoch is needed in addition to the lock on a file: DuckDB itself keeps other processes
out only while the file is open, which it is not between rounds. The caller owns the transaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

import duckdb

from consumer.errors import LeaseHeld
from consumer.model.names import TableName
from consumer.model.progress import DdlId, DdlState
from consumer.sink.progress_layout import KEYS, LAYOUTS, SCHEMA, check_layout, columns_in, damaged
from consumer.sink.progress_sql import Row, Rows, holder_text

_FEW = 4
"""In rows."""
_TYPES = {"flag": "INTEGER", "number": "BIGINT", "tso": "UBIGINT", "time": "TIMESTAMP"}
TABLES: Mapping[str, Mapping[str, str]] = {
    **columns_in(lambda kind: _TYPES.get(str(kind), "VARCHAR")),
    "lease": {"epoch": "BIGINT", "holder": "VARCHAR", "since": "TIMESTAMP"},
    # What the schema files and statements declare about each replica table: DuckDB's own catalog does not hold it.
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


def create_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """Creates the progress schema if it is missing. The caller owns the transaction. Raises BadConfig for another
    layout (see `check_layout`)."""
    if has_schema(connection):
        for layout in FileTables(connection).run(LAYOUTS):
            check_layout(*layout)
        return
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    for table, columns in TABLES.items():
        body = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{table} ({body})")
    connection.execute(f"INSERT INTO {SCHEMA}.lease SELECT 0, '', now() AT TIME ZONE 'UTC'")
    connection.execute(_REPLICA)


def has_schema(connection: duckdb.DuckDBPyConnection) -> bool:
    """Returns whether the schema exists."""
    return bool(
        connection.execute(
            "SELECT 1 FROM duckdb_views() WHERE database_name = current_database() AND schema_name = ? "
            "AND view_name = 'replica'",
            (SCHEMA,),
        ).fetchall()
    )


GENERATION = "SELECT concat_ws(' ', epoch, holder, since) FROM {}.storage_consumer.lease"
"""The query for a text that changes whenever somebody acquires the file with that catalog."""


def raise_file_epoch(tables: FileTables) -> int:
    """Locks out all writers of earlier epochs and returns the new epoch. The caller commits."""
    tables.update("lease", f"epoch = epoch + 1, holder = ?, since = {tables.now}", "true", holder_text())
    rows = tables.run("SELECT epoch FROM storage_consumer.lease")
    if not rows:
        raise damaged(f"{SCHEMA}.lease has no row")
    return int(rows[0][0])


def check_file_epoch(tables: FileTables, epoch: int) -> None:
    """Part of every write transaction. Raises LeaseHeld unless `epoch` is in force."""
    rows = tables.run("SELECT epoch, holder FROM storage_consumer.lease")
    if not rows or rows[0][0] != epoch:
        holder = rows[0][1] if rows else "nobody: its progress was removed"
        raise LeaseHeld(
            f"this consumer was taken over by {holder}",
            hint="end the other one, then run again: only one consumer of a file can run",
        )


class FileTables:
    """progress_sql.ProgressTables on a connection. None says that there is no file yet. Rows are passed as JSON, many
    at a time."""

    now = "(now() AT TIME ZONE 'UTC')"
    lock = ""  # the file has one transaction that writes at a time
    of_name: Collection[str] = tuple(table for table, columns in TABLES.items() if "name" in columns)
    columns: Mapping[str, Mapping[str, str]] = TABLES
    keys: Mapping[str, Sequence[str]] = KEYS
    returning = ""

    def __init__(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        self._connection = connection

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        assert self._connection is not None
        return self._connection

    def exists(self) -> bool:
        return self._connection is not None and has_schema(self._connection)

    def tells_case(self) -> bool:
        return False

    def is_busy(self, name: str) -> bool:
        return False  # consumers of one file take turns

    def position(self) -> tuple[str, str]:
        return "", ""

    def run(self, query: str, *values: object) -> Rows:
        assert self._connection is not None
        try:
            return list(self._connection.execute(query, values).fetchall())
        except duckdb.BinderException as error:  # a column is missing, or has another type
            raise damaged(str(error).splitlines()[0]) from error

    def matching(self, table: str, columns: str, keys: Sequence[Row]) -> Rows:
        if not keys:
            return ()
        incoming, values = self._incoming(table, keys)
        same = f"SEMI JOIN ({incoming}) g USING ({', '.join(self.keys[table])})"
        return self.run(f"SELECT {columns} FROM {SCHEMA}.{table} t {same}", *values)

    def put(self, table: str, rows: Sequence[Row]) -> None:
        last = {tuple(row[part] for part in self.keys[table]): row for row in rows}
        self.remove(table, list(last.values()))
        self.append(table, list(last.values()))

    def remove(self, table: str, keys: Sequence[Row]) -> None:
        if keys:
            incoming, values = self._incoming(table, keys)
            same = " AND ".join(f"t.{part} = g.{part}" for part in self.keys[table])
            self.take_out(table, f"USING ({incoming}) g WHERE {same}", *values)

    def append(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            incoming, values = self._incoming(table, rows)
            self.put_in(table, incoming, *values)

    def update(self, table: str, changes: str, where: str, *values: object) -> None:
        self.run(f"UPDATE {SCHEMA}.{table} SET {changes} WHERE {where}", *values)

    def delete(self, table: str, where: str, *values: object) -> None:
        self.take_out(table, f"WHERE {where}", *values)

    def take_out(self, table: str, which: str, *values: object) -> Rows:
        """Deletes rows. Returns their columns of `returning`."""
        return self.run(f"DELETE FROM {SCHEMA}.{table} t {which} {self.returning.format('t')}", *values)

    def put_in(self, table: str, rows: str, *values: object) -> Rows:
        """Inserts the rows of the query `rows`. Returns their columns of `returning`."""
        return self.run(f"INSERT INTO {SCHEMA}.{table} BY NAME {rows} {self.returning.format(table)}", *values)

    def _incoming(self, table: str, rows: Sequence[Row]) -> tuple[str, Sequence[object]]:
        """Returns a query for `rows`, all of the same columns of `table`, and its values. JSON is parsed faster than
        many parameters, and planned slower than a few."""
        if len(rows) > _FEW:
            shape = json.dumps([dict(self.columns[table])])
            return f"SELECT unnest(from_json(?, '{shape}'), recursive := true)", [json.dumps(rows)]
        row = f"({', '.join(f'CAST(? AS {self.columns[table][column]})' for column in rows[0])})"
        query = f"SELECT * FROM (VALUES {', '.join([row] * len(rows))}) incoming({', '.join(rows[0])})"
        return query, [value for each in rows for value in each.values()]


def done_ddls(connection: duckdb.DuckDBPyConnection, name: str, wanted: Sequence[DdlId]) -> set[DdlId]:
    """Returns those of the `wanted` statements that are recorded as executed."""
    keys = [dict(zip(KEYS["ddl"], (name, *ddl), strict=True)) for ddl in wanted]
    rows = FileTables(connection).matching("ddl", "database_name, table_name, version, checksum, state", keys)
    return {DdlId(*ddl) for *ddl, state in rows if state == DdlState.DONE}


def table_applied_ts(connection: duckdb.DuckDBPyConnection, name: str, table: TableName) -> int:
    """Returns the applied-ts of one table."""
    rows = connection.execute(
        "SELECT coalesce((SELECT max(applied_ts) FROM storage_consumer.table_progress "
        "WHERE name = $1 AND database_name = $2 AND table_name = $3), "
        "(SELECT applied_ts FROM storage_consumer.consumer WHERE name = $1), 0)",
        (name, table.database, table.table),
    ).fetchall()
    return int(rows[0][0])
