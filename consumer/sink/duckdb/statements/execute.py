"""One upstream statement onto the replica, from the columns before and after it: executed (the caller owns the
transaction), or shown. What rows decide is shown in words."""

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
from consumer.sink.columnar.casts import functions_there
from consumer.sink.columnar.statements import (
    PLAIN,
    Operations,
    Tables,
    Written,
    action_of,
    follow,
    moved,
    not_converted,
    operations,
    own_rows,
    refused,
    trashed,
)
from consumer.sink.columnar.table import ReplicaTable, quote
from consumer.sink.common import rows_there
from consumer.sink.duckdb.connection import qualified
from consumer.sink.duckdb.statements.partitions import take_rows
from consumer.sink.duckdb.tables import describe, drop_schema, has_rows, tables_of


def execute(
    connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables, zone: tzinfo, written: Written
) -> Operations:
    """Execute the statement; returns what was done. What it changed is still to be remembered. Raises DdlRefused.

    `tables` are the `named_tables`, as far as they exist.
    """
    action, trash = action_of(step), step.trash
    try:
        if action == Action.DROP_SCHEMA:
            return _drop_schema(connection, step.name.database, trash, written)
        if trash is not None:
            both = {**tables, **describe(connection, [trash])}
            if is_taken(connection, step, trash, both):
                raise refused(step, *trash_taken(trash))
            filled = step.name_before in tables and has_rows(connection, tables[step.name_before].name)
            if (away := trashed(step, trash, both, filled, written)) is not None:
                return run(connection, away)
        if step.merged is not None and action in CREATE_ACTIONS and step.name in tables:
            _check_empty(connection, step, step.merged, written)
        retyped = take_rows(connection, step, tables)
        done = run(connection, operations(step, {**tables, **retyped}, zone, written))
        return replace(done, there={**retyped, **done.there}) if retyped else done
    except NotUnderstood as error:
        raise refused(step, f"cannot tell which rows are in the partition: {error}") from error
    except NoValue as error:
        raise not_converted(step, str(error)) from error
    except (duckdb.DataError, duckdb.ProgrammingError, duckdb.InternalError) as error:
        raise refused(step, str(error).splitlines()[0]) from error


def _check_empty(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, mode_ddl: ModeDdl, written: Written) -> None:
    """A new table has no rows yet among those of the tables that it is merged with."""
    there, own = written.table(step.name), own_rows(step, mode_ddl)
    source = describe(connection, [step.name])[step.name].spelled(mode_ddl.mode.name(SOURCE))
    if source is not None and connection.execute(f"SELECT 1 FROM {there} WHERE {own} LIMIT 1").fetchall():
        found = rows_there(step, f"DELETE FROM {there} WHERE {own}")
        raise refused(step, found.message, found.hint, found.code)


def run(connection: duckdb.DuckDBPyConnection, done: Operations) -> Operations:
    """Raises NoValue where nobody knows what upstream made of a value."""
    with functions_there(connection, done.functions):
        for statement in done.sql:
            connection.execute(statement)
    return done


def _drop_schema(
    connection: duckdb.DuckDBPyConnection, database: str, trash: TableName | None, written: Written
) -> Operations:
    """Its tables go to the schema `trash`, if that is given."""
    found = {} if trash is None else describe(connection, tables_of(connection, database))
    there: dict[TableName, ReplicaTable | None] = {}
    for name, table in found.items():
        if trash is not None:
            there |= run(connection, moved(table, TableName(trash.database, name.table), written)).there
    there |= dict.fromkeys(drop_schema(connection, database))
    return Operations(there=there, note=f"{database} is kept as {trash}" if found else "")


def is_taken(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, trash: TableName, tables: Tables) -> bool:
    """Whether the place in the trash holds other rows than the table that is to go there; `tables` has both. Those that
    an earlier execution put there, before a resync, are the same."""
    own, kept = tables.get(step.name_before), tables.get(trash)
    if step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE) or own is None or kept is None:
        return False
    if not has_rows(connection, own.name):
        return False
    one, other = (f"SELECT * FROM {qualified(connection, name)}" for name in (own.name, kept.name))
    differ = f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}) LIMIT 1"
    return list(own.types.items()) != list(kept.types.items()) or bool(connection.execute(differ).fetchall())


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
        """One statement, behind those that were looked at before."""
        try:
            action = action_of(step)
            if action == Action.DROP_SCHEMA:
                return self._dropped(step.name.database, step.trash)
            rows = [_ROWS_OF_PARTITIONS[action]] if action in _ROWS_OF_PARTITIONS else []
            away = None if step.trash is None else trashed(step, step.trash, self._tables, filled=True)
            if away is not None and action == Action.TRUNCATE_TABLE and step.trash is not None:
                rows = [f"moves the rows of {PLAIN.table(step.name)}, where it has any, to {PLAIN.table(step.trash)}"]
                away = Operations(there=away.there)
            done = away or operations(step, self._tables, self._zone)
        except DdlRefused as error:
            return TargetDdl(error=error.message)
        self._follow(done.there)
        return TargetDdl((*rows, *done.sql), done.note)

    def _dropped(self, database: str, trash: TableName | None) -> TargetDdl:
        own = [name for name in self._tables if same_name(name.database) == same_name(database)]
        kept = {TableName(trash.database, name.table): self._tables[name] for name in own} if trash else {}
        self._follow({name: replace(table, name=name) for name, table in kept.items()})
        self._follow(dict.fromkeys(own))
        moved = f"moves every table of {quote(database)} to the schema {quote(trash.database)}" if trash else ""
        return TargetDdl(tuple(filter(None, (moved, f"DROP SCHEMA IF EXISTS {quote(database)} CASCADE"))))

    def _follow(self, there: Mapping[TableName, ReplicaTable | None]) -> None:
        follow(self._tables, [name for changed in there for name in self._spelled.get(changed.folded, ())], there)
