"""What upstream's statements would do to the replica, told without doing it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from consumer.ddl.changes import changes_of
from consumer.ddl.recover import NOT_KEPT
from consumer.layout.schema_file import is_view
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.result import TargetDdl
from consumer.model.steps import ApplyDdl
from consumer.sink.columnar.sql import quote
from consumer.sink.columnar.types import duckdb_type
from consumer.sink.duckdb.progress.schema import SCHEMA
from consumer.sink.duckdb.statements.execute import MISSING, NO_VIEWS
from consumer.sink.duckdb.tables.replica import visible

_ROWS_OF_PARTITIONS = {
    Action.DROP_PARTITION: "deletes the rows of the partition, where its expression can be evaluated",
    Action.TRUNCATE_PARTITION: "deletes the rows of the partition, where its expression can be evaluated",
    Action.EXCHANGE_PARTITION: "exchanges the rows of the partition, where its expression can be evaluated",
}


def preview(step: ApplyDdl, in_trash: bool, there: Collection[TableName]) -> TargetDdl:
    """One statement; `in_trash`: the table that it brings back is, or will be, in the trash. `there` are the tables
    that the file has by then."""
    try:
        action = Action(step.file.type)
    except ValueError:
        return TargetDdl(error=f"a statement of the unknown type {step.file.type}")
    if step.name.database.lower() == SCHEMA:
        return TargetDdl(error=f"the database {SCHEMA} is the target's own")
    name = step.name
    match action:
        case Action.CREATE_SCHEMA:
            return TargetDdl((f"CREATE SCHEMA IF NOT EXISTS {quote(name.database)}",))
        case Action.MODIFY_SCHEMA_CHARSET:
            return TargetDdl(note="a replica has no character sets")
        case Action.CREATE_VIEW | Action.DROP_VIEW:
            return TargetDdl(note=NO_VIEWS)
        case Action.RECOVER_TABLE:
            return TargetDdl(_moved(step.trash, name)) if in_trash and step.trash else TargetDdl(error=NOT_KEPT)
        case _ if action in RENAME_ACTIONS and step.old_name is None:
            return TargetDdl(error="the table's old name is not known")
        case _ if action in RENAME_ACTIONS and is_view(step.file.columns):
            return TargetDdl(note=NO_VIEWS)
        case Action.CREATE_TABLE | Action.CREATE_TABLES if name in there:
            return TargetDdl(error=f"the table {name} is there already")
        case Action.CREATE_TABLE | Action.CREATE_TABLES | Action.DROP_TABLE | Action.DROP_SCHEMA:
            pass
        case _ if (step.old_name or name) not in there:
            return TargetDdl(error=f"{step.old_name or name}: {MISSING}")
    return TargetDdl(tuple(_statements(step, action)))


def tables_after(step: ApplyDdl, there: Collection[TableName]) -> set[TableName]:
    """The tables that are there once `step` has run."""
    if step.file.type == Action.DROP_SCHEMA:
        return {name for name in there if name.database != step.name.database}
    gone = {step.old_name} if step.old_name is not None else set()
    if step.file.type == Action.DROP_TABLE:
        return {*there} - {step.name}
    return {*there, step.name} - gone if step.name.table and not is_view(step.file.columns) else {*there}


def _statements(step: ApplyDdl, action: Action) -> Iterator[str]:
    name, trash = step.name, step.trash
    match action:
        case Action.DROP_SCHEMA:
            if trash is not None:
                yield f"moves every table of {quote(name.database)} to the schema {quote(trash.database)}"
            yield f"DROP SCHEMA IF EXISTS {quote(name.database)} CASCADE"
        case Action.DROP_TABLE:
            yield from _moved(name, trash) if trash else (f"DROP TABLE IF EXISTS {_sql(name)}",)
        case Action.TRUNCATE_TABLE if trash is not None:
            yield f"moves the rows of {_sql(name)}, where it has any, to {_sql(trash)}"
        case Action.TRUNCATE_TABLE:
            yield f"TRUNCATE {_sql(name)}"
        case Action.CREATE_TABLE | Action.CREATE_TABLES:
            columns = ", ".join(f"{quote(c.name)} {duckdb_type(c)}" for c in _stored(step, step.file.columns))
            yield f"CREATE TABLE {_sql(name)} ({columns})"
        case _ if action in RENAME_ACTIONS:
            yield from _moved(step.old_name, name)
        case _ if action in _ROWS_OF_PARTITIONS:
            yield _ROWS_OF_PARTITIONS[action]
        case _:
            yield from _reshaped(step)


def _moved(old: TableName | None, new: TableName) -> tuple[str, ...]:
    if old is None:
        return ()
    if old.database == new.database:
        return (f"ALTER TABLE {_sql(old)} RENAME TO {quote(new.table)}",)
    return (f"CREATE TABLE {_sql(new)} AS SELECT * FROM {_sql(old)}", f"DROP TABLE {_sql(old)}")


def _reshaped(step: ApplyDdl) -> Iterator[str]:
    """The columns that go, come and change; none for a statement about what a replica does not have."""
    before = {column.name.lower(): column for column in visible(step.columns_before or step.file.columns)}
    after = {column.name.lower(): column for column in _stored(step, step.file.columns)}
    old_names = {name: changes_of(step.statement).columns.old_name(name) or "" for name in after}
    kept = set(old_names.values())
    own = f"ALTER TABLE {_sql(step.name)}"
    for name, column in before.items():
        if name not in kept:
            yield f"{own} DROP COLUMN {quote(column.name)}"
    for name, column in after.items():
        old = before.get(old_names[name])
        if old is None:
            yield f"{own} ADD COLUMN {quote(column.name)} {duckdb_type(column)}"
            continue
        if old.name != column.name:
            yield f"{own} RENAME COLUMN {quote(old.name)} TO {quote(column.name)}"
        if duckdb_type(old) != duckdb_type(column):
            yield f"{own} ALTER COLUMN {quote(column.name)} TYPE {duckdb_type(column)}"


def _stored(step: ApplyDdl, columns: Sequence[Column]) -> list[Column]:
    """The columns that rows have values of, as far as the statement itself tells."""
    declared = changes_of(step.statement).columns.columns
    return [c for c in visible(columns) if not ((known := declared.get(c.name.lower())) and known.virtual)]


def _sql(name: TableName) -> str:
    return f"{quote(name.database)}.{quote(name.table)}"
