"""One upstream statement onto the replica, from the columns before and after it. The caller owns the transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo

import duckdb

from consumer.ddl.changes import changes_of
from consumer.ddl.declared import Definitions
from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.recover import NOT_KEPT, not_kept_hint
from consumer.errors import DdlRefused
from consumer.layout.schema_file import is_view
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.commands import refused_hint, table_there_hint
from consumer.model.ddl_policy import trash_taken
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.sink.columnar.casts import NotExact
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.duckdb.connection import qualified
from consumer.sink.duckdb.progress.schema import SCHEMA
from consumer.sink.duckdb.statements.partitions import take_rows
from consumer.sink.duckdb.statements.reshape import NameTaken, changes, reshape
from consumer.sink.duckdb.statements.trash import is_taken, moved
from consumer.sink.duckdb.tables.replica import (
    create_schema,
    create_table,
    describe,
    drop_schema,
    drop_table,
    move_table,
    remember,
    visible,
)

Tables = Mapping[TableName, ReplicaTable]

NO_VIEWS = "views are not kept in a DuckDB replica: recorded, not executed"
MISSING = "the target has no such table: it is older than the changefeed, or it was dropped there"
_RESTORE = "restore the table from a snapshot, or create it empty where it was empty upstream, and run again"


def execute(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables, zone: tzinfo) -> str:
    """Execute the statement; returns a note where the replica does not hold all of it. Raises DdlRefused.

    `tables` are those that the statement touches, as far as they exist.
    """
    name = step.name
    if name.database.lower() in (SCHEMA, "information_schema", "pg_catalog"):
        raise _refused(step, f"the database {name.database} is the target's own", "filter it in the changefeed")
    try:
        action = Action(step.file.type)
        if step.trash is not None and is_taken(connection, step, step.trash, tables):
            raise _refused(step, *trash_taken(step.trash))
        if step.trash is not None and (note := moved(connection, step, step.trash, tables)) is not None:
            return note
        return _execute(connection, step, action, tables, zone)
    except NameTaken as error:
        raise _refused(step, str(error), "drop that column from the replica by hand and run again") from error
    except ValueError as error:
        raise _refused(step, f"a statement of the unknown type {step.file.type}") from error
    except NotExact as error:
        raise _refused(step, f"the rows cannot be converted exactly: {error}") from error
    except NotUnderstood as error:
        raise _refused(step, f"cannot tell which rows are in the partition: {error}") from error
    except (duckdb.DataError, duckdb.ProgrammingError, duckdb.InternalError) as error:
        raise _refused(step, str(error).splitlines()[0]) from error


def _execute(
    connection: duckdb.DuckDBPyConnection, step: ApplyDdl, action: Action, tables: Tables, zone: tzinfo
) -> str:
    name = step.name
    match action:
        case Action.CREATE_SCHEMA:
            create_schema(connection, name.database)
        case Action.DROP_SCHEMA:
            drop_schema(connection, name.database)
        case Action.MODIFY_SCHEMA_CHARSET:
            return ""
        case Action.CREATE_TABLE | Action.CREATE_TABLES:
            _create(connection, step, tables)
        case Action.DROP_TABLE:
            drop_table(connection, step.standing)
        case Action.CREATE_VIEW | Action.DROP_VIEW:
            return NO_VIEWS
        case Action.RECOVER_TABLE:
            raise _refused(step, NOT_KEPT, not_kept_hint(step.table, step.file.version))
        case _ if action in RENAME_ACTIONS:
            return _rename(connection, step, tables)
        case _:
            take_rows(connection, step, tables)
            return _alter(connection, step, action, tables.get(name), zone)
    return ""


def _create(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables) -> None:
    if step.name in tables:
        there = f"the table {step.name} is there already"
        raise _refused(step, there, table_there_hint(step.table, step.file.version))
    like = _like(connection, step)
    create_table(connection, step.name, like or _upstream(step.file.columns, changes_of(step.file).columns))


def _like(connection: duckdb.DuckDBPyConnection, step: ApplyDdl) -> Upstream | None:
    """What is known of the table that CREATE .. LIKE copies: an unqualified name can be another database's, of which
    `touches` knows."""
    source = changes_of(step.statement).named("like")
    if source is None:
        return None
    named = [name for name in step.touches if name.table.lower() == source.table.lower() and name != step.name]
    wanted = [column.name for column in visible(step.file.columns)]
    for table in describe(
        connection, {*named, TableName(source.database or step.name.database, source.table)}
    ).values():
        if table.upstream is not None and [column.name for column in table.upstream.columns] == wanted:
            return table.upstream
    return None


def _rename(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables) -> str:
    new = step.name
    if step.old_name is None:
        raise _refused(step, "the table's old name is not known")
    if is_view(step.file.columns):
        return NO_VIEWS
    old = tables.get(step.old_name)
    if old is None:
        raise _refused(step, MISSING, _RESTORE)
    move_table(connection, old, new)
    return ""


def _alter(
    connection: duckdb.DuckDBPyConnection,
    step: ApplyDdl,
    action: Action,
    table: ReplicaTable | None,
    zone: tzinfo,
) -> str:
    definitions = changes_of(step.file).columns
    if table is None:
        raise _refused(step, MISSING, _RESTORE)
    if action == Action.TRUNCATE_TABLE:
        connection.execute(f"TRUNCATE {qualified(connection, table.name)}")
    before = table.upstream or Upstream(visible(step.columns_before or step.file.columns))
    after = _upstream(step.file.columns, definitions, before)
    reshape(connection, table, changes(step, table, before, after, definitions, zone))
    remember(connection, table.name, after)
    unknown = [column.name for column in after.stored if column.labelled and not column.elements]
    changed = [name for name in unknown if name.lower() in definitions.columns]
    return f"labels of {', '.join(changed)} are not known from the start: numbers are kept" if changed else ""


def _upstream(columns: Sequence[Column], definitions: Definitions, before: Upstream | None = None) -> Upstream:
    """The columns that a schema file lists, with what only the statement, or what is known of them already, tells."""
    known = {column.name.lower(): column for column in before.columns} if before else {}
    unreal = {name.lower() for name in before.virtual} if before else set()
    told, virtual = [], set()
    for column in visible(columns):
        lowered = column.name.lower()
        definition = definitions.columns.get(lowered)
        old = known.get(definitions.old_name(lowered) or "")
        if old is not None and old.family is column.family:
            labels = (
                (column.elements or (definition.elements if definition else ()) or old.elements) if old.elements else ()
            )
        else:
            labels = column.elements or (definition.elements if definition else ())
        told.append(replace(column, elements=labels))
        if definition.virtual if definition else old is not None and old.name.lower() in unreal:
            virtual.add(column.name)
    return Upstream(tuple(told), frozenset(virtual))


def _refused(step: ApplyDdl, why: str, hint: str = "") -> DdlRefused:
    name, version = step.table, step.file.version
    return DdlRefused(
        f"{why}: {step.file.query}",
        hint=hint or refused_hint(name, version),
        table=str(name),
        path=step.file.path,
        version=version,
    )
