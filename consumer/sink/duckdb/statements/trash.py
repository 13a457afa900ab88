"""Tables that upstream takes away, kept under a trash name, and brought back from there. The caller owns the
transaction, so a move is whole or not there."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.sink.columnar.table import ReplicaTable
from consumer.sink.duckdb.connection import qualified
from consumer.sink.duckdb.tables.replica import describe, drop_schema, has_rows, move_table, remember


def moved(
    connection: duckdb.DuckDBPyConnection, step: ApplyDdl, trash: TableName, tables: Mapping[TableName, ReplicaTable]
) -> str | None:
    """Move the statement's table to the trash, or back; a note, or None where there is nothing to move, or where the
    trash holds the table of an earlier execution already: then the statement runs as it is."""
    name, action = step.standing, Action(step.file.type)
    if action == Action.DROP_SCHEMA:
        return _keep_schema(connection, name.database, trash.database)
    kept = describe(connection, [trash]).get(trash)
    if action == Action.RECOVER_TABLE:
        if kept is None or name in tables:
            return None
        move_table(connection, kept, name)
        return f"{name} came back from {trash}"
    if kept is not None or name not in tables:
        return None
    if action == Action.TRUNCATE_TABLE and not has_rows(connection, name):
        return None
    table = tables[name]
    move_table(connection, table, trash)
    if action == Action.TRUNCATE_TABLE:
        made, source = qualified(connection, table.name), qualified(connection, trash)
        connection.execute(f"CREATE TABLE {made} AS SELECT * FROM {source} LIMIT 0")
        if table.upstream is not None:
            remember(connection, table.name, table.upstream)
    return f"{name} is kept as {trash}"


def is_taken(
    connection: duckdb.DuckDBPyConnection, step: ApplyDdl, trash: TableName, tables: Mapping[TableName, ReplicaTable]
) -> bool:
    """Whether the place in the trash holds other rows than the table that is to go there. Those that an earlier
    execution put there, before a resync, are the same."""
    own, kept = tables.get(step.standing), describe(connection, [trash]).get(trash)
    if step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE) or own is None or kept is None:
        return False
    if not has_rows(connection, own.name):
        return False
    one, other = (f"SELECT * FROM {qualified(connection, name)}" for name in (own.name, kept.name))
    differ = f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}) LIMIT 1"
    return list(own.types.items()) != list(kept.types.items()) or bool(connection.execute(differ).fetchall())


def _keep_schema(connection: duckdb.DuckDBPyConnection, database: str, trash: str) -> str | None:
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower(?) ORDER BY table_name",
        (database,),
    ).fetchall()
    found = describe(connection, [TableName(*row) for row in rows])
    if not found:
        return None
    for name, table in found.items():
        move_table(connection, table, TableName(trash, name.table))
    drop_schema(connection, database)
    return f"{database} is kept as {trash}"
