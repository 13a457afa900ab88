"""What a statement does to the replica's tables as they are: SQL, and the tables that are there behind it. `execute`
runs it, `preview` prints it. What rows decide does not stand here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from consumer.ddl.changes import changes_of, declared_columns
from consumer.ddl.declared import Definition, Definitions, NotExact
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
from consumer.sink.columnar.casts import backfill
from consumer.sink.columnar.reshape import Change, NameTaken, changes, functions_of, reshaped
from consumer.sink.columnar.table import ReplicaTable, Upstream, duckdb_type, literal, merge_misfit, quote, visible
from consumer.sink.common import closing_statement, merge_conflict, only_own_rows
from consumer.sink.progress_layout import SCHEMA

Tables = Mapping[TableName, ReplicaTable]

NO_VIEWS = "this target has no views: recorded, not executed"
MISSING = "the target has no such table: it is older than the changefeed, or it was dropped there"
_RESTORE = "restore the table from a snapshot, or create it empty where it was empty upstream, and run again"
_MOVED = "__storage_consumer_moved"


@dataclass(frozen=True, slots=True)
class Written:
    """How names are written: ``catalog.schema.table``, as a database can be named like the file; without the catalog
    where it is ""."""

    catalog: str = ""

    def schema(self, database: str) -> str:
        return f"{quote(self.catalog)}.{quote(database)}" if self.catalog else quote(database)

    def table(self, name: TableName) -> str:
        return f"{self.schema(name.database)}.{quote(name.table)}"


PLAIN = Written()


@dataclass(frozen=True, slots=True)
class Operations:
    """`sql` in its order, and the tables that are others then, by name: None for one that is gone. `note`: what the
    replica does not hold of it. The same in words: `moved` is a table's old and new name; of one that stays, `emptied`
    says that its rows go first, and `columns` what those are made of that it has then. `copies`: the rows of a table
    are copied."""

    sql: tuple[str, ...] = ()
    there: Mapping[TableName, ReplicaTable | None] = field(default_factory=dict)
    note: str = ""
    moved: tuple[TableName, TableName] | None = None
    emptied: bool = False
    columns: tuple[Change, ...] | None = None
    copies: bool = False

    @property
    def functions(self) -> Mapping[str, Conversion]:
        """Those that the SQL calls and DuckDB lacks."""
        return functions_of(self.columns or ())


def follow(
    tables: dict[TableName, ReplicaTable], names: Iterable[TableName], there: Mapping[TableName, ReplicaTable | None]
) -> None:
    """Make `tables`, which has some by all of their `names`, what is `there` behind a statement."""
    for changed, table in there.items():
        for name in {changed, *(name for name in names if name.folded == changed.folded)}:
            if table is None:
                tables.pop(name, None)
            else:
                tables[name] = table


def named_tables(step: ApplyDdl) -> set[TableName]:
    """The tables that `operations` must know, as far as they exist."""
    like = changes_of(step.statement).named("like")
    source = () if like is None else (like.within(step.name.database),)
    return {name for name in (step.name, step.old_name, *step.touches, *source) if name is not None}


def action_of(step: ApplyDdl) -> Action:
    """Raises DdlRefused for a statement of no known kind, or about the target's own database."""
    if same_name(step.name.database) in (SCHEMA, "information_schema", "pg_catalog"):
        raise refused(step, f"the database {step.name.database} is the target's own", "filter it in the changefeed")
    try:
        return step.action
    except DdlRefused as error:
        raise refused(step, error.message, code=error.code) from error


def operations(step: ApplyDdl, tables: Tables, zone: tzinfo, written: Written = PLAIN) -> Operations:
    """What a statement about a table, or CREATE DATABASE, does where there are `tables`, beside what it does to rows of
    partitions. Raises DdlRefused."""
    try:
        if step.merged is not None:
            return _merged(step, step.merged, tables.get(step.name), zone, written)
        return _operations(step, action_of(step), tables, zone, written)
    except NameTaken as error:
        raise refused(step, str(error), "drop that column from the replica by hand and run again") from error
    except NotExact as error:
        raise refused(step, f"the rows cannot be converted exactly: {error}", values_hint(step.file)) from error


def trashed(
    step: ApplyDdl, trash: TableName, tables: Tables, filled: bool, written: Written = PLAIN
) -> Operations | None:
    """A table that goes to the trash, or comes back from there: `tables` has both. None where there is nothing to move,
    or where the trash holds the table of an earlier execution already: then the statement runs as it is. `filled`:
    whether it has rows."""
    name, there = step.name_before, tables.get(trash)
    if step.file.type == Action.RECOVER_TABLE:
        back = there is not None and name not in tables
        return replace(moved(there, name, written), note=f"{name} came back from {trash}") if back and there else None
    truncated = step.file.type == Action.TRUNCATE_TABLE
    if there is not None or name not in tables or (truncated and not filled):
        return None
    table, note = tables[name], f"{name} is kept as {trash}"
    gone = moved(table, trash, written)
    if not truncated:
        return replace(gone, note=note)
    anew = f"CREATE TABLE {written.table(table.name)} AS SELECT * FROM {written.table(trash)} LIMIT 0"
    return replace(gone, sql=(*gone.sql, anew), there={**gone.there, table.name: table}, note=note)


def moved(table: ReplicaTable, new: TableName, written: Written) -> Operations:
    """The table under another name. To another schema, DuckDB can only copy it."""
    source, there = written.table(table.name), {table.name: None, new: replace(table, name=new)}
    names = table.name, new
    if table.name.database != new.database:
        copied = f"CREATE TABLE {written.table(new)} AS SELECT * FROM {source}"
        return Operations((_schema(new, written), copied, f"DROP TABLE {source}"), there, moved=names, copies=True)
    if table.name.folded != new.folded:
        return Operations((f"ALTER TABLE {source} RENAME TO {quote(new.table)}",), there, moved=names)
    # Over a third name: names that differ in case only are one name to DuckDB.
    between = written.table(TableName(new.database, _MOVED))
    renames = (f"ALTER TABLE {source} RENAME TO {quote(_MOVED)}", f"ALTER TABLE {between} RENAME TO {quote(new.table)}")
    return Operations(renames, there, moved=names)


def _operations(step: ApplyDdl, action: Action, tables: Tables, zone: tzinfo, written: Written) -> Operations:
    match action:
        case Action.CREATE_SCHEMA:
            return Operations((_schema(step.name, written),))
        case Action.MODIFY_SCHEMA_CHARSET:
            return Operations()
        case Action.CREATE_TABLE | Action.CREATE_TABLES:
            return _created(step, tables, written)
        case Action.DROP_TABLE:
            return Operations((f"DROP TABLE IF EXISTS {written.table(step.name_before)}",), {step.name_before: None})
        case Action.CREATE_VIEW | Action.DROP_VIEW:
            return Operations(note=NO_VIEWS)
        case Action.RECOVER_TABLE:
            raise refused(step, NOT_KEPT, not_kept_hint(step.table, step.file.version))
        case _ if action in RENAME_ACTIONS:
            return _renamed(step, tables, written)
    return _altered(step, action, tables, zone, written)


def _merged(
    step: ApplyDdl, mode_ddl: ModeDdl, table: ReplicaTable | None, zone: tzinfo, written: Written
) -> Operations:
    """`table` is None where it is not there yet."""
    action = step.action
    if table is None and action in CREATE_ACTIONS:
        ordered = sorted(mode_ddl.after, key=lambda column: column not in mode_ddl.mode.added)
        return empty_table(step.name, Upstream(tuple(ordered)), written)
    if table is None and action == Action.DROP_TABLE:
        return Operations(note=f"{step.name} was not there")
    if table is None:
        raise refused(step, MISSING, _RESTORE)
    removes = action in (Action.DROP_TABLE, Action.TRUNCATE_TABLE)
    try:
        sql, after = merged_into(step, mode_ddl, table, zone, written.table(table.name))
    except DdlRefused as error:
        raise refused(step, error.message, error.hint, error.code) from error
    return Operations(tuple(sql), {table.name: after}, only_own_rows(step) if removes else "")


def _schema(name: TableName, written: Written) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {written.schema(name.database)}"


def _created(step: ApplyDdl, tables: Tables, written: Written) -> Operations:
    name = step.name
    if name in tables:
        hint = table_there_hint(step.table, step.file.version)
        raise refused(step, f"the table {name} exists already", hint, Code.TABLE_EXISTS)
    if step.mode_ddl is not None:
        return empty_table(name, Upstream(step.mode_ddl.after), written)
    upstream = _like(step, tables) or _upstream(step.file.columns, changes_of(step.file).columns)
    return empty_table(name, upstream, written)


def empty_table(name: TableName, upstream: Upstream, written: Written) -> Operations:
    """An empty table, with its schema where that is missing."""
    types = {column.name: duckdb_type(column) for column in upstream.stored}
    body = ", ".join(f"{quote(column)} {kind}" for column, kind in types.items())
    made = f"CREATE TABLE {written.table(name)} ({body})"
    return Operations((_schema(name, written), made), {name: ReplicaTable(name, types, upstream)})


def _like(step: ApplyDdl, tables: Tables) -> Upstream | None:
    """What is known of the table that CREATE .. LIKE copies, where it is the one that upstream copied."""
    source = changes_of(step.statement).named("like")
    table = None if source is None else tables.get(source.within(step.name.database))
    if table is None or table.upstream is None:
        return None
    same = [column.name for column in table.upstream.columns] == [c.name for c in visible(step.file.columns)]
    return table.upstream if same else None


def _renamed(step: ApplyDdl, tables: Tables, written: Written) -> Operations:
    if step.known.is_view or is_view(step.file.columns):
        return Operations(note=NO_VIEWS)
    if step.old_name is None:
        raise refused(step, "the table's old name is not known")
    return moved(_existing(step, step.old_name, tables), step.name, written)


def _altered(step: ApplyDdl, action: Action, tables: Tables, zone: tzinfo, written: Written) -> Operations:
    table, mode_ddl = _existing(step, step.name, tables), step.mode_ddl
    there = mode_ddl.before if mode_ddl else step.known.columns or ()
    definitions = declared_columns(step.file, mode_ddl.mode if mode_ddl else None, there)
    if mode_ddl is not None and mode_ddl.mode.keeps_ended and action == Action.TRUNCATE_TABLE:
        version, own = step.file.version, lambda column: quote(column.name)
        return Operations(
            (closing_statement(mode_ddl, written.table(table.name), step.table, version, quote, literal, own),)
        )
    before = table.upstream or Upstream(visible(there))
    if not before.columns and (made_others := _redeclared(definitions, table)):
        raise not_converted(
            step, f"no file tells what {made_others} was before: the table is older than the changefeed"
        )
    after = _upstream(step.file.columns if mode_ddl is None else mode_ddl.after, definitions, before)
    found = changes(step, table, before, after, definitions, zone)
    emptied = (f"TRUNCATE {written.table(table.name)}",) if action == Action.TRUNCATE_TABLE else ()
    types = {change.name: change.value.type for change in found}
    unknown = [column.name for column in after.stored if column.labelled and not column.elements]
    changed = [name for name in unknown if same_name(name) in definitions.columns]
    sql, copies = reshaped(table, found, written.table)
    return Operations(
        (*emptied, *sql),
        {table.name: replace(table, types=types, upstream=after)},
        f"labels of {', '.join(changed)} are not known from the start: numbers are kept" if changed else "",
        emptied=bool(emptied),
        columns=tuple(found),
        copies=copies,
    )


def _redeclared(definitions: Definitions, table: ReplicaTable) -> str:
    """The columns that are there and get a declaration, in words; "" for none."""
    old_names = ((name, definitions.old_name(name)) for name in definitions.columns)
    found = [name for name, old in old_names if old is not None and table.spelled(old) is not None]
    return f"column {', '.join(found)}" if found else ""


def _existing(step: ApplyDdl, name: TableName, tables: Tables) -> ReplicaTable:
    if name not in tables:
        raise refused(step, MISSING, _RESTORE)
    return tables[name]


def _upstream(columns: Sequence[Column], definitions: Definitions, before: Upstream | None = None) -> Upstream:
    """The columns that a schema file lists, with what only the statement, or what is known of them already, tells."""
    known = by_name(before.columns) if before else {}
    unreal = same_names(before.virtual) if before else set()
    found, virtual = [], set()
    for column in visible(columns):
        lowered = same_name(column.name)
        definition = definitions.columns.get(lowered)
        old = known.get(definitions.old_name(lowered) or "")
        if old is not None and old.family is column.family:
            labels = (
                (column.elements or (definition.elements if definition else ()) or old.elements) if old.elements else ()
            )
        else:
            labels = column.elements or (definition.elements if definition else ())
        found.append(replace(column, elements=labels))
        if definition.virtual if definition else old is not None and same_name(old.name) in unreal:
            virtual.add(column.name)
    return Upstream(tuple(found), frozenset(virtual))


def refused(step: ApplyDdl, why: str, hint: str = "", code: Code | None = None) -> DdlRefused:
    return statement_refused(step.file, f"{why}: {shortened(step.file.query)}", hint, code)


def not_converted(step: ApplyDdl, why: str) -> DdlRefused:
    """The error of a statement that makes a value of which nobody knows what upstream made."""
    return refused(step, f"{UNKNOWN_VALUES}: {why}", values_hint(step.file))


def own_rows(step: ApplyDdl, mode_ddl: ModeDdl) -> str:
    """The condition for the rows of the statement's table."""
    return f"{quote(mode_ddl.mode.name(SOURCE))} = {literal(source_of(step.table))}"


def merged_into(
    step: ApplyDdl, mode_ddl: ModeDdl, table: ReplicaTable, zone: tzinfo, there: str
) -> tuple[list[str], ReplicaTable]:
    """The SQL, and what the table is then; it is `there` in SQL. Raises DdlRefused where it is not one that the
    statement's table can be merged into, and NotExact."""
    own = own_rows(step, mode_ddl)
    if step.action in (Action.TRUNCATE_TABLE, Action.DROP_TABLE):
        return [f"DELETE FROM {there} WHERE {own}"], table
    if (why := merge_misfit(mode_ddl.after, table)) is not None or table.upstream is None:
        raise merge_conflict(step, why or "")
    new = [column for column in mode_ddl.after if table.spelled(column.name) is None]
    sql = [f"ALTER TABLE {there} ADD COLUMN {quote(column.name)} {duckdb_type(column)}" for column in new]
    types = {**table.types, **{column.name: duckdb_type(column) for column in new}}
    known = {same_name(column.name) for column in new}
    kept = [column for column in table.upstream.columns if same_name(column.name) not in known]
    after = replace(table, types=types, upstream=Upstream((*kept, *new), table.upstream.virtual))
    if step.action not in CREATE_ACTIONS and (values := _values(step, mode_ddl, after, zone)):
        sql.append(f"UPDATE {there} SET {', '.join(values)} WHERE {own}")
    return sql, after


def _values(step: ApplyDdl, mode_ddl: ModeDdl, table: ReplicaTable, zone: tzinfo) -> list[str]:
    """The values of the table's rows in columns that come, and none in those that go."""
    parsed = declared_columns(step.file, mode_ddl.mode, mode_ddl.before)
    before, after = ({same_name(column.name) for column in columns} for columns in (mode_ddl.before, mode_ddl.after))
    found = []
    for column in mode_ddl.after[: -len(mode_ddl.mode.added)]:
        if parsed.old_name(column.name) not in before:
            value = backfill(column, parsed.columns.get(same_name(column.name), Definition()), step.file.version, zone)
            name = table.spelled(column.name) or column.name
            if not value.null and table.types[name] != value.type:
                raise NotExact(f"column {name} is {table.types[name]} in the target, and its default {value.sql}")
            found.append(f"{quote(name)} = {'NULL' if value.null else value.sql}")
    gone = (table.spelled(column.name) for column in mode_ddl.before if same_name(column.name) not in after)
    return found + [f"{quote(name)} = NULL" for name in gone if name is not None]
