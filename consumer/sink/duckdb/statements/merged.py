"""What upstream's statements do to a table of which the rows are of several tables of upstream: each is about its own
table's rows, and brings columns that are not there yet. A column that only some of the tables have is NULL in the rows
of the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import tzinfo

from consumer.ddl.changes import declared_columns
from consumer.ddl.declared import Definition, NotExact
from consumer.model.actions import CREATE_ACTIONS, Action
from consumer.model.names import same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import SOURCE, FormedDdl, source_of
from consumer.sink.columnar.casts import backfill
from consumer.sink.columnar.table import ReplicaTable, Upstream, duckdb_type, literal, merge_misfit, quote
from consumer.sink.merging import conflict


def own_rows(step: ApplyDdl, formed: FormedDdl) -> str:
    """The condition for the rows of the statement's table."""
    return f"{quote(formed.mode.name(SOURCE))} = {literal(source_of(step.table))}"


def merged_into(
    step: ApplyDdl, formed: FormedDdl, table: ReplicaTable, zone: tzinfo, there: str
) -> tuple[list[str], ReplicaTable]:
    """The SQL, and what the table is then; it is `there` in SQL. Raises DdlRefused where it is not one that the
    statement's table can be merged into, and NotExact."""
    own = own_rows(step, formed)
    if step.action in (Action.TRUNCATE_TABLE, Action.DROP_TABLE):
        return [f"DELETE FROM {there} WHERE {own}"], table
    if (why := merge_misfit(formed.after, table)) is not None or table.upstream is None:
        raise conflict(step, why or "")
    new = [column for column in formed.after if table.spelled(column.name) is None]
    sql = [f"ALTER TABLE {there} ADD COLUMN {quote(column.name)} {duckdb_type(column)}" for column in new]
    types = {**table.types, **{column.name: duckdb_type(column) for column in new}}
    known = {same_name(column.name) for column in new}
    kept = [column for column in table.upstream.columns if same_name(column.name) not in known]
    after = replace(table, types=types, upstream=Upstream((*kept, *new), table.upstream.virtual))
    if step.action not in CREATE_ACTIONS and (values := _values(step, formed, after, zone)):
        sql.append(f"UPDATE {there} SET {', '.join(values)} WHERE {own}")
    return sql, after


def _values(step: ApplyDdl, formed: FormedDdl, table: ReplicaTable, zone: tzinfo) -> list[str]:
    """The values of the table's rows in columns that come, and none in those that go."""
    said = declared_columns(step.file, formed.mode, formed.before)
    before, after = ({same_name(column.name) for column in columns} for columns in (formed.before, formed.after))
    found = []
    for column in formed.after[: -len(formed.mode.added)]:
        if said.old_name(column.name) not in before:
            value = backfill(column, said.columns.get(same_name(column.name), Definition()), step.file.version, zone)
            name = table.spelled(column.name) or column.name
            empty = value.sql.startswith("CAST(NULL ")
            if not empty and table.types[name] != value.type:
                raise NotExact(f"column {name} is {table.types[name]} in the target, and its default {value.sql}")
            found.append(f"{quote(name)} = {'NULL' if empty else value.sql}")
    gone = (table.spelled(column.name) for column in formed.before if same_name(column.name) not in after)
    return found + [f"{quote(name)} = NULL" for name in gone if name is not None]
