"""One upstream statement onto the replica, from the columns before and after it. The caller owns the transaction."""

from __future__ import annotations

from datetime import tzinfo

import duckdb

from consumer.ddl.expressions import NotUnderstood
from consumer.model.actions import CREATE_ACTIONS, Action
from consumer.model.ddl_policy import trash_taken
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import SOURCE, FormedDdl
from consumer.sink.duckdb.connection import catalog
from consumer.sink.duckdb.statements.merged import own_rows
from consumer.sink.duckdb.statements.operations import (
    Operations,
    Tables,
    Written,
    action_of,
    moved,
    operations,
    refused,
    trashed,
)
from consumer.sink.duckdb.statements.partitions import take_rows
from consumer.sink.duckdb.statements.trash import is_taken
from consumer.sink.duckdb.tables import describe, drop_schema, forget, has_rows, remember, tables_of
from consumer.sink.merging import rows_there


def execute(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables, zone: tzinfo) -> str:
    """Execute the statement; returns a note where the replica does not hold all of it. Raises DdlRefused.

    `tables` are the `named_tables`, as far as they exist.
    """
    action, trash = action_of(step), step.trash
    try:
        if action == Action.DROP_SCHEMA:
            return _drop_schema(connection, step.name.database, trash)
        written = Written(catalog(connection))
        if trash is not None:
            both = {**tables, **describe(connection, [trash])}
            if is_taken(connection, step, trash, both):
                raise refused(step, *trash_taken(trash))
            filled = step.standing in tables and has_rows(connection, tables[step.standing].name)
            if (away := trashed(step, trash, both, filled, written)) is not None:
                return run(connection, away)
        if step.merged is not None and action in CREATE_ACTIONS and step.name in tables:
            _check_empty(connection, step, step.merged, written)
        take_rows(connection, step, tables)
        return run(connection, operations(step, tables, zone, written))
    except NotUnderstood as error:
        raise refused(step, f"cannot tell which rows are in the partition: {error}") from error
    except (duckdb.DataError, duckdb.ProgrammingError, duckdb.InternalError) as error:
        raise refused(step, str(error).splitlines()[0]) from error


def _check_empty(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, formed: FormedDdl, written: Written) -> None:
    """A new table has no rows yet among those of the tables that it is merged with."""
    there, own = written.table(step.name), own_rows(step, formed)
    source = describe(connection, [step.name])[step.name].spelled(formed.mode.name(SOURCE))
    if source is not None and connection.execute(f"SELECT 1 FROM {there} WHERE {own} LIMIT 1").fetchall():
        found = rows_there(step, f"DELETE FROM {there} WHERE {own}")
        raise refused(step, found.message, found.hint)


def run(connection: duckdb.DuckDBPyConnection, done: Operations) -> str:
    """Execute it, and remember what upstream says of the tables; returns the note."""
    for statement in done.sql:
        connection.execute(statement)
    for name, table in done.there.items():
        if table is not None and table.upstream is not None:
            remember(connection, name, table.upstream)
        else:
            forget(connection, name)
    return done.note


def _drop_schema(connection: duckdb.DuckDBPyConnection, database: str, trash: TableName | None) -> str:
    """Its tables go to the schema `trash`, if that is given."""
    found = {} if trash is None else describe(connection, tables_of(connection, database))
    written = Written(catalog(connection))
    for name, table in found.items():
        if trash is not None:
            run(connection, moved(table, TableName(trash.database, name.table), written))
    drop_schema(connection, database)
    return f"{database} is kept as {trash}" if found else ""
