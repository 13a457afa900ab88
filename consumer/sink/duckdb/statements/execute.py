"""Applies one upstream statement to the replica, from the columns before and after it. It is executed (the caller owns
the transaction), or shown. What depends on rows is shown in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import tzinfo

import duckdb

from consumer.ddl.expressions import NotUnderstood
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, Action
from consumer.model.ddl_policy import trash_taken
from consumer.model.names import TableName, same_name
from consumer.model.steps import ApplyDdl, TargetDdl
from consumer.model.table_modes import SOURCE, ModeDdl
from consumer.model.types.values import NoValue
from consumer.sink.columnar.casts import functions_registered
from consumer.sink.columnar.statements import (
    PLAIN,
    SqlNames,
    TableOperations,
    Tables,
    action_of,
    follow,
    move_table,
    own_rows,
    refuse_step,
    refuse_unknown_values,
    table_operations,
    trash_table,
)
from consumer.sink.columnar.table import ReplicaTable, quote_name
from consumer.sink.common import rows_exist
from consumer.sink.duckdb.connection import qualified_name
from consumer.sink.duckdb.statements.partitions import take_rows
from consumer.sink.duckdb.tables import drop_schema, has_rows, replica_tables, tables_in_schema


def execute_statement(
    connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables, zone: tzinfo, written: SqlNames
) -> TableOperations:
    """Executes the statement and returns what was done. The caller must still record the changed columns. Raises
    DdlRefused.

    `tables` are the `tables_of_step`, as far as they exist.
    """
    action, trash = action_of(step), step.trash
    try:
        if action == Action.DROP_SCHEMA:
            return _drop_schema(connection, step.name.database, trash, written)
        if trash is not None:
            both = {**tables, **replica_tables(connection, [trash])}
            if is_trash_occupied(connection, step, trash, both):
                raise refuse_step(step, *trash_taken(trash))
            filled = step.name_before in tables and has_rows(connection, tables[step.name_before].name)
            if (away := trash_table(step, trash, both, filled, written)) is not None:
                return run_operations(connection, away)
        if step.merged is not None and action in CREATE_ACTIONS and step.name in tables:
            _check_empty(connection, step, step.merged, written)
        retyped = take_rows(connection, step, tables)
        done = run_operations(connection, table_operations(step, {**tables, **retyped}, zone, written))
        return replace(done, changed_tables={**retyped, **done.changed_tables}) if retyped else done
    except NotUnderstood as error:
        raise refuse_step(step, f"cannot tell which rows are in the partition: {error}") from error
    except NoValue as error:
        raise refuse_unknown_values(step, str(error)) from error
    except (duckdb.DataError, duckdb.ProgrammingError, duckdb.InternalError) as error:
        raise refuse_step(step, str(error).splitlines()[0]) from error


def _check_empty(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, mode_ddl: ModeDdl, written: SqlNames) -> None:
    """Raises DdlRefused if the target's merged table already has rows of a new table."""
    table_sql, condition = written.table(step.name), own_rows(step, mode_ddl)
    source = replica_tables(connection, [step.name])[step.name].spelled(mode_ddl.mode.name(SOURCE))
    if source is not None and connection.execute(f"SELECT 1 FROM {table_sql} WHERE {condition} LIMIT 1").fetchall():
        error = rows_exist(step, f"DELETE FROM {table_sql} WHERE {condition}")
        raise refuse_step(step, error.message, error.hint, error.code)


def run_operations(connection: duckdb.DuckDBPyConnection, done: TableOperations) -> TableOperations:
    """Runs the SQL of `done`. Raises NoValue if nobody knows what upstream made of a value."""
    with functions_registered(connection, done.functions):
        for statement in done.sql:
            connection.execute(statement)
    return done


def _drop_schema(
    connection: duckdb.DuckDBPyConnection, database: str, trash: TableName | None, written: SqlNames
) -> TableOperations:
    """Drops a schema. Its tables are moved to the schema `trash`, if there is one."""
    kept = {} if trash is None else replica_tables(connection, tables_in_schema(connection, database))
    changes: dict[TableName, ReplicaTable | None] = {}
    for name, table in kept.items():
        if trash is not None:
            changes |= run_operations(
                connection, move_table(table, TableName(trash.database, name.table), written)
            ).changed_tables
    changes |= dict.fromkeys(drop_schema(connection, database))
    return TableOperations(changed_tables=changes, note=f"{database} is kept as {trash}" if kept else "")


def is_trash_occupied(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, trash: TableName, tables: Tables) -> bool:
    """Returns whether the place in the trash holds other rows than the table that is to be moved there. `tables` has
    both. Rows that an earlier execution put there, before a resync, are the same."""
    table, kept = tables.get(step.name_before), tables.get(trash)
    if step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE) or table is None or kept is None:
        return False
    if not has_rows(connection, table.name):
        return False
    own_rows_sql, kept_rows_sql = (
        f"SELECT * FROM {qualified_name(connection, name)}" for name in (table.name, kept.name)
    )
    differ = (
        f"({own_rows_sql} EXCEPT ALL {kept_rows_sql}) UNION ALL ({kept_rows_sql} EXCEPT ALL {own_rows_sql}) LIMIT 1"
    )
    return list(table.types.items()) != list(kept.types.items()) or bool(connection.execute(differ).fetchall())


_ROWS_OF_PARTITIONS = {
    Action.DROP_PARTITION: "deletes the rows of the partition, where its expression can be evaluated",
    Action.TRUNCATE_PARTITION: "deletes the rows of the partition, where its expression can be evaluated",
    Action.EXCHANGE_PARTITION: "exchanges the rows of the partition, where its expression can be evaluated",
}


class Preview:
    """`tables` are those of `names` that the file has now."""

    def __init__(self, names: Collection[TableName], tables: Tables, zone: tzinfo) -> None:
        self._tables, self._zone = dict(tables), zone
        self._spelled: defaultdict[TableName, list[TableName]] = defaultdict(list)
        for name in names:
            self._spelled[name.folded].append(name)

    def look(self, step: ApplyDdl) -> TargetDdl:
        """Returns one statement's operations, after those that were looked at before."""
        try:
            action = action_of(step)
            if action == Action.DROP_SCHEMA:
                return self._dropped(step.name.database, step.trash)
            rows = [_ROWS_OF_PARTITIONS[action]] if action in _ROWS_OF_PARTITIONS else []
            away = None if step.trash is None else trash_table(step, step.trash, self._tables, filled=True)
            if away is not None and action == Action.TRUNCATE_TABLE and step.trash is not None:
                rows = [f"moves the rows of {PLAIN.table(step.name)}, where it has any, to {PLAIN.table(step.trash)}"]
                away = TableOperations(changed_tables=away.changed_tables)
            done = away or table_operations(step, self._tables, self._zone)
        except DdlRefused as error:
            return TargetDdl(error=error.message)
        self._follow(done.changed_tables)
        return TargetDdl((*rows, *done.sql), done.note)

    def _dropped(self, database: str, trash: TableName | None) -> TargetDdl:
        dropped = [name for name in self._tables if same_name(name.database) == same_name(database)]
        kept = {TableName(trash.database, name.table): self._tables[name] for name in dropped} if trash else {}
        self._follow({name: replace(table, name=name) for name, table in kept.items()})
        self._follow(dict.fromkeys(dropped))
        moving = (
            f"moves every table of {quote_name(database)} to the schema {quote_name(trash.database)}" if trash else ""
        )
        return TargetDdl(tuple(filter(None, (moving, f"DROP SCHEMA IF EXISTS {quote_name(database)} CASCADE"))))

    def _follow(self, changes: Mapping[TableName, ReplicaTable | None]) -> None:
        follow(self._tables, [name for changed in changes for name in self._spelled.get(changed.folded, ())], changes)
