"""What a statement does to the replica's present tables: SQL, and the tables after it. A target executes it or shows
it. What depends on rows is decided elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from consumer.ddl.changes import declared_columns, statement_changes
from consumer.ddl.declared import Definition, Definitions, NoExactValue
from consumer.errors import Code, DdlRefused
from consumer.layout.schema_file import is_view
from consumer.model.actions import CREATE_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.hints import (
    NOT_KEPT,
    UNKNOWN_VALUES,
    not_kept_hint,
    statement_refused,
    table_there_hint,
    values_hint,
)
from consumer.model.names import TableName, by_name, same_name, same_names
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import SOURCE, ModeDdl, source_of
from consumer.model.texts import shortened
from consumer.model.types.conversions import Conversion
from consumer.sink.columnar.casts import backfill_value
from consumer.sink.columnar.reshape import ColumnChange, NameTaken, column_changes, functions_of, reshape_statements
from consumer.sink.columnar.table import (
    ReplicaTable,
    Upstream,
    duckdb_type,
    merge_misfit,
    quote_name,
    quote_text,
    visible_columns,
)
from consumer.sink.common import closing_statement, merge_conflict, only_own_rows
from consumer.sink.progress_layout import SCHEMA

Tables = Mapping[TableName, ReplicaTable]

NO_VIEWS = "this target has no views: recorded, not executed"
MISSING = "the target has no such table: it is older than the changefeed, or it was dropped there"
_RESTORE = "restore the table from a snapshot, or create it empty where it was empty upstream, and run again"
_MOVED = "__storage_consumer_moved"


@dataclass(frozen=True, slots=True)
class SqlNames:
    """The form of names in SQL: ``catalog.schema.table``, because a database can have the name of the file. Without the
    catalog if it is ""."""

    catalog: str = ""

    def schema(self, database: str) -> str:
        return f"{quote_name(self.catalog)}.{quote_name(database)}" if self.catalog else quote_name(database)

    def table(self, name: TableName) -> str:
        return f"{self.schema(name.database)}.{quote_name(name.table)}"


PLAIN = SqlNames()


@dataclass(frozen=True, slots=True)
class TableOperations:
    """What a statement does.

    `sql` are statements in order. `changed_tables` are the tables that it changes, by name, None for a dropped one.
    `note` is what the replica does not hold. The other fields say the same as `sql` in another form: `moved` is a
    table's old and new name. Of a table that stays, `emptied` says that its rows are removed first, and `columns` what
    its new columns are made of. `copies` says that the rows of a table are copied.
    """

    sql: tuple[str, ...] = ()
    changed_tables: Mapping[TableName, ReplicaTable | None] = field(default_factory=dict)
    note: str = ""
    moved: tuple[TableName, TableName] | None = None
    emptied: bool = False
    columns: tuple[ColumnChange, ...] | None = None
    copies: bool = False

    @property
    def functions(self) -> Mapping[str, Conversion]:
        """Returns the functions that the SQL calls and DuckDB lacks."""
        return functions_of(self.columns or ())


def follow(
    tables: dict[TableName, ReplicaTable], names: Iterable[TableName], changes: Mapping[TableName, ReplicaTable | None]
) -> None:
    """Applies to `tables`, which has tables by all of their `names`, the `changes` of a statement."""
    for changed, table in changes.items():
        for name in {changed, *(name for name in names if name.folded == changed.folded)}:
            if table is None:
                tables.pop(name, None)
            else:
                tables[name] = table


def tables_of_step(step: ApplyDdl) -> set[TableName]:
    """Returns the tables that `table_operations` must know, as far as they exist."""
    like = statement_changes(step.statement).named("like")
    source = () if like is None else (like.within(step.name.database),)
    return {name for name in (step.name, step.old_name, *step.touches, *source) if name is not None}


def action_of(step: ApplyDdl) -> Action:
    """Returns the kind of the statement. Raises DdlRefused for an unknown kind, or a statement about the target's own
    database."""
    if same_name(step.name.database) in (SCHEMA, "information_schema", "pg_catalog"):
        raise refuse_step(step, f"the database {step.name.database} is the target's own", "filter it in the changefeed")
    try:
        return step.action
    except DdlRefused as error:
        raise refuse_step(step, error.message, code=error.code) from error


def table_operations(step: ApplyDdl, tables: Tables, zone: tzinfo, written: SqlNames = PLAIN) -> TableOperations:
    """Returns what a statement about a table, or CREATE DATABASE, does to `tables`, except what it does to rows of
    partitions. Raises DdlRefused."""
    try:
        if step.merged is not None:
            return _merged(step, step.merged, tables.get(step.name), zone, written)
        return _operations(step, action_of(step), tables, zone, written)
    except NameTaken as error:
        raise refuse_step(step, str(error), "drop that column from the replica by hand and run again") from error
    except NoExactValue as error:
        raise refuse_step(step, f"the rows cannot be converted exactly: {error}", values_hint(step.file)) from error


def trash_table(
    step: ApplyDdl, trash: TableName, tables: Tables, filled: bool, written: SqlNames = PLAIN
) -> TableOperations | None:
    """Returns the operations that move a table to the trash, or back. `tables` has both. None if there is nothing to
    move, or if the trash already holds the table of an earlier execution: then the statement runs unchanged. `filled`
    says that the table has rows."""
    name, trashed = step.name_before, tables.get(trash)
    if step.file.type == Action.RECOVER_TABLE:
        back = trashed is not None and name not in tables
        return (
            replace(move_table(trashed, name, written), note=f"{name} came back from {trash}")
            if back and trashed
            else None
        )
    truncated = step.file.type == Action.TRUNCATE_TABLE
    if trashed is not None or name not in tables or (truncated and not filled):
        return None
    table, note = tables[name], f"{name} is kept as {trash}"
    moved = move_table(table, trash, written)
    if not truncated:
        return replace(moved, note=note)
    create = f"CREATE TABLE {written.table(table.name)} AS SELECT * FROM {written.table(trash)} LIMIT 0"
    return replace(
        moved, sql=(*moved.sql, create), changed_tables={**moved.changed_tables, table.name: table}, note=note
    )


def move_table(table: ReplicaTable, new: TableName, written: SqlNames) -> TableOperations:
    """Returns the operations that rename a table. To another schema, DuckDB can only copy it."""
    source, changes = written.table(table.name), {table.name: None, new: replace(table, name=new)}
    names = table.name, new
    if table.name.database != new.database:
        copied = f"CREATE TABLE {written.table(new)} AS SELECT * FROM {source}"
        return TableOperations(
            (_schema(new, written), copied, f"DROP TABLE {source}"), changes, moved=names, copies=True
        )
    if table.name.folded != new.folded:
        return TableOperations((f"ALTER TABLE {source} RENAME TO {quote_name(new.table)}",), changes, moved=names)
    # By way of a third name: names that differ only in case are one name to DuckDB.
    between = written.table(TableName(new.database, _MOVED))
    renames = (
        f"ALTER TABLE {source} RENAME TO {quote_name(_MOVED)}",
        f"ALTER TABLE {between} RENAME TO {quote_name(new.table)}",
    )
    return TableOperations(renames, changes, moved=names)


def _operations(step: ApplyDdl, action: Action, tables: Tables, zone: tzinfo, written: SqlNames) -> TableOperations:
    match action:
        case Action.CREATE_SCHEMA:
            return TableOperations((_schema(step.name, written),))
        case Action.MODIFY_SCHEMA_CHARSET:
            return TableOperations()
        case Action.CREATE_TABLE | Action.CREATE_TABLES:
            return _created(step, tables, written)
        case Action.DROP_TABLE:
            return TableOperations(
                (f"DROP TABLE IF EXISTS {written.table(step.name_before)}",), {step.name_before: None}
            )
        case Action.CREATE_VIEW | Action.DROP_VIEW:
            return TableOperations(note=NO_VIEWS)
        case Action.RECOVER_TABLE:
            raise refuse_step(step, NOT_KEPT, not_kept_hint(step.table, step.file.version))
        case _ if action in RENAME_ACTIONS:
            return _renamed(step, tables, written)
    return _altered(step, action, tables, zone, written)


def _merged(
    step: ApplyDdl, mode_ddl: ModeDdl, table: ReplicaTable | None, zone: tzinfo, written: SqlNames
) -> TableOperations:
    """Returns the operations for a merged table. `table` is None if it does not exist yet."""
    action = step.action
    if table is None and action in CREATE_ACTIONS:
        ordered = sorted(mode_ddl.after, key=lambda column: column not in mode_ddl.mode.added)
        return empty_table(step.name, Upstream(tuple(ordered)), written)
    if table is None and action == Action.DROP_TABLE:
        return TableOperations(note=f"{step.name} was not there")
    if table is None:
        raise refuse_step(step, MISSING, _RESTORE)
    removes = action in (Action.DROP_TABLE, Action.TRUNCATE_TABLE)
    try:
        sql, after = merged_into(step, mode_ddl, table, zone, written.table(table.name))
    except DdlRefused as error:
        raise refuse_step(step, error.message, error.hint, error.code) from error
    return TableOperations(tuple(sql), {table.name: after}, only_own_rows(step) if removes else "")


def _schema(name: TableName, written: SqlNames) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {written.schema(name.database)}"


def _created(step: ApplyDdl, tables: Tables, written: SqlNames) -> TableOperations:
    name = step.name
    if name in tables:
        hint = table_there_hint(step.table, step.file.version)
        raise refuse_step(step, f"the table {name} exists already", hint, Code.TABLE_EXISTS)
    if step.mode_ddl is not None:
        return empty_table(name, Upstream(step.mode_ddl.after), written)
    upstream = _like(step, tables) or _upstream(step.file.columns, statement_changes(step.file).columns)
    return empty_table(name, upstream, written)


def empty_table(name: TableName, upstream: Upstream, written: SqlNames) -> TableOperations:
    """Returns the operations that create an empty table, and its schema if that is missing."""
    types = {column.name: duckdb_type(column) for column in upstream.stored}
    body = ", ".join(f"{quote_name(column)} {kind}" for column, kind in types.items())
    made = f"CREATE TABLE {written.table(name)} ({body})"
    return TableOperations((_schema(name, written), made), {name: ReplicaTable(name, types, upstream)})


def _like(step: ApplyDdl, tables: Tables) -> Upstream | None:
    """Returns what is known of the table that CREATE .. LIKE copies, if it is the one that upstream copied."""
    source = statement_changes(step.statement).named("like")
    table = None if source is None else tables.get(source.within(step.name.database))
    if table is None or table.upstream is None:
        return None
    same = [column.name for column in table.upstream.columns] == [c.name for c in visible_columns(step.file.columns)]
    return table.upstream if same else None


def _renamed(step: ApplyDdl, tables: Tables, written: SqlNames) -> TableOperations:
    if step.table_before.is_view or is_view(step.file.columns):
        return TableOperations(note=NO_VIEWS)
    if step.old_name is None:
        raise refuse_step(step, "the table's old name is not known")
    return move_table(_existing(step, step.old_name, tables), step.name, written)


def _altered(step: ApplyDdl, action: Action, tables: Tables, zone: tzinfo, written: SqlNames) -> TableOperations:
    table, mode_ddl = _existing(step, step.name, tables), step.mode_ddl
    columns_before = mode_ddl.before if mode_ddl else step.table_before.columns or ()
    definitions = declared_columns(step.file, mode_ddl.mode if mode_ddl else None, columns_before)
    if mode_ddl is not None and mode_ddl.mode.keeps_ended and action == Action.TRUNCATE_TABLE:
        version, key_expression = step.file.version, lambda column: quote_name(column.name)
        return TableOperations(
            (
                closing_statement(
                    mode_ddl,
                    table_sql=written.table(table.name),
                    table=step.table,
                    version=version,
                    quote=quote_name,
                    literal=quote_text,
                    key_expression=key_expression,
                ),
            )
        )
    before = table.upstream or Upstream(visible_columns(columns_before))
    if not before.columns and (redeclared := _redeclared(definitions, table)):
        raise refuse_unknown_values(
            step, f"no file shows what {redeclared} was before: the table is older than the changefeed"
        )
    after = _upstream(step.file.columns if mode_ddl is None else mode_ddl.after, definitions, before)
    changed_columns = column_changes(step, table, before, after, definitions, zone)
    emptied = (f"TRUNCATE {written.table(table.name)}",) if action == Action.TRUNCATE_TABLE else ()
    types = {change.name: change.value.type for change in changed_columns}
    unknown = [column.name for column in after.stored if column.labelled and not column.elements]
    changed = [name for name in unknown if same_name(name) in definitions.columns]
    sql, copies = reshape_statements(table, changed_columns, written.table)
    return TableOperations(
        (*emptied, *sql),
        {table.name: replace(table, types=types, upstream=after)},
        f"labels of {', '.join(changed)} are not known from the start: numbers are kept" if changed else "",
        emptied=bool(emptied),
        columns=tuple(changed_columns),
        copies=copies,
    )


def _redeclared(definitions: Definitions, table: ReplicaTable) -> str:
    """Returns the existing columns that get a declaration, in words; "" for none."""
    old_names = ((name, definitions.old_name(name)) for name in definitions.columns)
    names = [name for name, old in old_names if old is not None and table.spelled(old) is not None]
    return f"column {', '.join(names)}" if names else ""


def _existing(step: ApplyDdl, name: TableName, tables: Tables) -> ReplicaTable:
    if name not in tables:
        raise refuse_step(step, MISSING, _RESTORE)
    return tables[name]


def _upstream(columns: Sequence[Column], definitions: Definitions, before: Upstream | None = None) -> Upstream:
    """Returns the columns that a schema file lists, with what only the statement, or the record of the table,
    declares."""
    columns_before = by_name(before.columns) if before else {}
    unreal = same_names(before.virtual) if before else set()
    result, virtual = [], set()
    for column in visible_columns(columns):
        lowered = same_name(column.name)
        definition = definitions.columns.get(lowered)
        old = columns_before.get(definitions.old_name(lowered) or "")
        if old is not None and old.family is column.family:
            labels = (
                (column.elements or (definition.elements if definition else ()) or old.elements) if old.elements else ()
            )
        else:
            labels = column.elements or (definition.elements if definition else ())
        result.append(replace(column, elements=labels))
        if definition.virtual if definition else old is not None and same_name(old.name) in unreal:
            virtual.add(column.name)
    return Upstream(tuple(result), frozenset(virtual))


def refuse_step(step: ApplyDdl, why: str, hint: str = "", code: Code | None = None) -> DdlRefused:
    return statement_refused(step.file, f"{why}: {shortened(step.file.query)}", hint, code)


def refuse_unknown_values(step: ApplyDdl, why: str) -> DdlRefused:
    """Returns the error for a statement that makes a value of which nobody knows what upstream made."""
    return refuse_step(step, f"{UNKNOWN_VALUES}: {why}", values_hint(step.file))


def own_rows(step: ApplyDdl, mode_ddl: ModeDdl) -> str:
    """Returns the condition for the rows of the statement's table."""
    return f"{quote_name(mode_ddl.mode.name(SOURCE))} = {quote_text(source_of(step.table))}"


def merged_into(
    step: ApplyDdl, mode_ddl: ModeDdl, table: ReplicaTable, zone: tzinfo, table_sql: str
) -> tuple[list[str], ReplicaTable]:
    """Returns the SQL, and the table afterwards. `table_sql` is its name in SQL. Raises DdlRefused if the statement's
    table cannot be merged into it, and NotExact."""
    condition = own_rows(step, mode_ddl)
    if step.action in (Action.TRUNCATE_TABLE, Action.DROP_TABLE):
        return [f"DELETE FROM {table_sql} WHERE {condition}"], table
    if (why := merge_misfit(mode_ddl.after, table)) is not None or table.upstream is None:
        raise merge_conflict(step, why or "")
    new = [column for column in mode_ddl.after if table.spelled(column.name) is None]
    sql = [f"ALTER TABLE {table_sql} ADD COLUMN {quote_name(column.name)} {duckdb_type(column)}" for column in new]
    types = {**table.types, **{column.name: duckdb_type(column) for column in new}}
    new_names = {same_name(column.name) for column in new}
    kept = [column for column in table.upstream.columns if same_name(column.name) not in new_names]
    after = replace(table, types=types, upstream=Upstream((*kept, *new), table.upstream.virtual))
    if step.action not in CREATE_ACTIONS and (values := _values(step, mode_ddl, after, zone)):
        sql.append(f"UPDATE {table_sql} SET {', '.join(values)} WHERE {condition}")
    return sql, after


def _values(step: ApplyDdl, mode_ddl: ModeDdl, table: ReplicaTable, zone: tzinfo) -> list[str]:
    """Returns assignments that give the table's rows their values in new columns, and NULL in dropped columns."""
    parsed = declared_columns(step.file, mode_ddl.mode, mode_ddl.before)
    before, after = ({same_name(column.name) for column in columns} for columns in (mode_ddl.before, mode_ddl.after))
    assignments = []
    for column in mode_ddl.after[: -len(mode_ddl.mode.added)]:
        if parsed.old_name(column.name) not in before:
            value = backfill_value(
                column, parsed.columns.get(same_name(column.name), Definition()), step.file.version, zone
            )
            name = table.spelled(column.name) or column.name
            if not value.null and table.types[name] != value.type:
                raise NoExactValue(f"column {name} is {table.types[name]} in the target, and its default {value.sql}")
            assignments.append(f"{quote_name(name)} = {'NULL' if value.null else value.sql}")
    dropped = (table.spelled(column.name) for column in mode_ddl.before if same_name(column.name) not in after)
    return assignments + [f"{quote_name(name)} = NULL" for name in dropped if name is not None]
