"""Statements on plain rows: columns come from the schema files."""

from __future__ import annotations

from dataclasses import replace

from consumer.ddl.changes import declared_columns
from consumer.errors import DdlRefused
from consumer.layout.schema_file import is_view
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import trash_taken
from consumer.model.hints import NOT_KEPT, UNKNOWN_VALUES, not_kept_hint, values_hint
from consumer.model.names import TableName, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import (
    COMMIT_TS,
    DELETED_AT,
    IS_CURRENT,
    OP,
    SOURCE,
    TABLE,
    VALID_TO,
    VERSION,
    ModeDdl,
    ModeKind,
    source_of,
)
from consumer.model.times import tso_to_text
from consumer.model.types.conversions import Conversion, Value
from consumer.model.types.values import NoValue
from consumer.sink.common import merge_conflict, only_own_rows, rows_exist
from tests.support.memory.store import MemoryTable, Row


def execute(tables: dict[TableName, MemoryTable], step: ApplyDdl) -> str:
    """Do what the statement means; a note. Raises DdlRefused."""
    name, action = step.name, step.action
    if step.trash is not None and (moved := _move(tables, step, step.trash)) is not None:
        return moved
    if step.merged is not None:
        return _merge(tables, step, step.merged)
    mode_ddl = step.mode_ddl
    columns = tuple(column for column in (mode_ddl.after if mode_ddl else step.file.columns) if not column.hidden)
    if action == Action.DROP_SCHEMA:
        for gone in [table for table in tables if table.database == name.database]:
            del tables[gone]
    elif action in (Action.CREATE_SCHEMA, Action.MODIFY_SCHEMA_CHARSET):
        return ""
    elif action in (Action.CREATE_VIEW, Action.DROP_VIEW) or is_view(columns):
        return "this target has no views: recorded, not executed"
    elif action in (Action.CREATE_TABLE, Action.CREATE_TABLES):
        if name in tables:
            raise DdlRefused(f"the table {name} exists already: {step.file.query}", table=str(step.table))
        tables[name] = MemoryTable(columns)
    elif action == Action.DROP_TABLE:
        tables.pop(step.name_before, None)
    elif action == Action.RECOVER_TABLE:
        raise DdlRefused(NOT_KEPT, hint=not_kept_hint(step.table, step.file.version), table=str(step.table))
    elif action in (Action.DROP_PARTITION, Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION):
        raise DdlRefused(f"this target has no partitions: {step.file.query}", table=str(step.table))
    elif (old := step.old_name or name) not in tables:
        raise DdlRefused(f"the target has no table {old}: {step.file.query}", table=str(step.table))
    elif action in RENAME_ACTIONS:
        if name in tables:
            raise DdlRefused(f"the table {name} exists already: {step.file.query}", table=str(step.table))
        tables[name] = tables.pop(old)
    elif mode_ddl is not None and mode_ddl.mode.keeps_ended and action == Action.TRUNCATE_TABLE:
        _end_rows(tables[name], mode_ddl, step)
    else:
        _reshape(tables[name], columns, step, truncated=action == Action.TRUNCATE_TABLE)
    return ""


def _move(tables: dict[TableName, MemoryTable], step: ApplyDdl, trash: TableName) -> str | None:
    """Keep what the statement takes away, or bring it back; None where there is nothing to move."""
    name, action = step.name_before, step.action
    if action == Action.RECOVER_TABLE:
        if trash not in tables or name in tables:
            return None
        tables[name] = tables.pop(trash)
        return f"{name} came back from {trash}"
    if action == Action.DROP_SCHEMA:
        moves = {table: TableName(trash.database, table.table) for table in tables if table.database == name.database}
        for table, kept in moves.items():
            _check_free(tables, table, kept, step)
            tables[kept] = tables.pop(table)
    elif name not in tables or _check_free(tables, name, trash, step):
        return None
    elif action == Action.TRUNCATE_TABLE:
        if not tables[name].rows:
            return None
        tables[trash], tables[name] = tables[name], MemoryTable(tables[name].columns)
    else:
        tables[trash] = tables.pop(name)
    return f"{name} is kept as {trash}"


def _check_free(tables: dict[TableName, MemoryTable], name: TableName, trash: TableName, step: ApplyDdl) -> bool:
    """Whether the trash holds the table's rows already. Raises DdlRefused where it holds others."""
    if trash not in tables:
        return False
    own, kept = (sorted(map(repr, tables[each].rows)) for each in (name, trash))
    if own and own != kept:
        reason, hint = trash_taken(trash)
        raise DdlRefused(f"{reason}: {step.file.query}", hint=hint, table=str(step.table))
    return True


def _reshape(table: MemoryTable, columns: tuple[Column, ...], step: ApplyDdl, truncated: bool) -> None:
    mode_ddl = step.mode_ddl
    before = mode_ddl.before if mode_ddl else step.table_before.columns or ()
    parsed = declared_columns(step.file, mode_ddl.mode if mode_ddl else None, before)
    spelled = {same_name(column.name): column.name for column in table.columns}
    old_names = {column.name: spelled.get(parsed.old_name(column.name) or "") for column in columns}
    known, rows = {column.name: column for column in table.columns}, [] if truncated else table.rows
    try:
        table.rows = [
            {
                column.name: _converted(known[old], column, row[old])
                if (old := old_names[column.name])
                else column.default
                for column in columns
            }
            for row in rows
        ]
    except NoValue as error:
        raise DdlRefused(
            f"{UNKNOWN_VALUES}: {error}: {step.file.query}", hint=values_hint(step.file), table=str(step.table)
        ) from error
    table.columns = columns


def _converted(old: Column, new: Column, value: Value | None) -> Value | None:
    return None if value is None else Conversion(old, new).value(value)


def _merge(tables: dict[TableName, MemoryTable], step: ApplyDdl, mode_ddl: ModeDdl) -> str:
    """Others are merged with the table: what the statement means for its own rows."""
    source, own = mode_ddl.mode.name(SOURCE), source_of(step.table)
    creates = step.action in (Action.CREATE_TABLE, Action.CREATE_TABLES)
    if step.name not in tables and not creates:
        raise DdlRefused(f"the target has no table {step.name}: {step.file.query}", table=str(step.table))
    bare = [replace(column, default=None, nullable=not column.is_pk) for column in mode_ddl.after]
    table = tables.setdefault(step.name, MemoryTable(tuple(bare)))
    if step.action in (Action.DROP_TABLE, Action.TRUNCATE_TABLE):
        table.rows = [row for row in table.rows if row[source] != own]
        return only_own_rows(step)
    there = {column.name: column for column in table.columns}
    for column in mode_ddl.after:
        if (other := there.get(column.name, column)).kind != column.kind or other.is_pk != column.is_pk:
            raise merge_conflict(step, f"column {column.name} is another there")
    if creates and any(row[source] == own for row in table.rows):
        raise rows_exist(step, "in memory")
    new = [column for column in bare if column.name not in there]
    table.columns += tuple(new)
    before, after = ({column.name for column in columns} for columns in (mode_ddl.before, mode_ddl.after))
    values = {} if creates else {column.name: column.default for column in mode_ddl.after if column.name not in before}
    values |= dict.fromkeys(before - after)
    for row in table.rows:
        row |= dict.fromkeys(column.name for column in new)
        row |= values if row[source] == own else {}
    return ""


def _end_rows(table: MemoryTable, mode_ddl: ModeDdl, step: ApplyDdl) -> None:
    mode, version = mode_ddl.mode, str(step.file.version)
    time = tso_to_text(step.file.version)
    if mode.kind is ModeKind.HISTORY:
        end: Row = {mode.name(VALID_TO): time, mode.name(IS_CURRENT): "0"}
        table.rows = [{**row, **(end if row[mode.name(VALID_TO)] is None else {})} for row in table.rows]
        return
    if mode.kind is ModeKind.SOFT_DELETE:
        table.rows = [{**row, mode.name(DELETED_AT): row[mode.name(DELETED_AT)] or time} for row in table.rows]
        return
    op, commit_ts = mode.name(OP), mode.name(COMMIT_TS)
    last: dict[tuple[object, ...], Row] = {}
    for row in sorted(table.rows, key=lambda row: (int(row[commit_ts]), row[op] != "D")):
        last[tuple(row[name] for name in mode_ddl.key)] = row
    end = {op: "D", commit_ts: version, mode.name(TABLE): str(step.table), mode.name(VERSION): version}
    table.rows += [{**row, **end} for row in last.values() if row[op] != "D"]
