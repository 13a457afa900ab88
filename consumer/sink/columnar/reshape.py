"""Changes the columns of a replica table: which stay, appear and disappear, and what becomes of the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from consumer.ddl.declared import Definition, Definitions
from consumer.model.names import TableName, by_name, same_name, same_names
from consumer.model.steps import ApplyDdl
from consumer.model.types.conversions import Conversion
from consumer.sink.columnar.casts import NewValue, backfill_value, converted_value
from consumer.sink.columnar.table import ReplicaTable, Upstream, quote_name

_REBUILT = "__storage_consumer_rebuilt"
_FUNCTION = "upstream_value_"
"""The prefix of functions that return what TiDB made of a value."""


class NameTaken(Exception):
    """A column that the statement creates has the name of an existing one."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column of the new table. `old` is its name in the present table, None for a new column."""

    name: str
    old: str | None
    value: NewValue


def functions_of(changes: Iterable[ColumnChange]) -> Mapping[str, Conversion]:
    """Returns the functions that the values call and DuckDB lacks."""
    return {name: conversion for change in changes for name, conversion in change.value.functions.items()}


def column_changes(
    step: ApplyDdl,
    table: ReplicaTable,
    before: Upstream,
    after: Upstream,
    definitions: Definitions,
    zone: tzinfo,
) -> list[ColumnChange]:
    """Returns the columns of the table after the statement. Only the statement's own changes count. If an earlier
    statement was not executed, a column that it should have added stays absent, and one that it should have dropped
    stays. Raises NameTaken, and NotExact if the value of a new column is not known."""
    columns_before = by_name(before.columns)
    result: list[ColumnChange] = []
    for column in after.stored:
        old = definitions.old_name(column.name)
        if old is None:
            definition = definitions.columns.get(same_name(column.name), Definition())
            result.append(ColumnChange(column.name, None, backfill_value(column, definition, step.file.version, zone)))
        elif (spelled := table.spelled(old)) is not None:
            value = NewValue(table.types[spelled], quote_name(spelled))
            if old in columns_before:
                function = f"{_FUNCTION}{len(result)}"
                value = converted_value(
                    columns_before[old], column, table.types[spelled], quote_name(spelled), function
                )
            result.append(ColumnChange(column.name, spelled, value))
    return _with_kept(table, result, definitions.dropped)


def _with_kept(table: ReplicaTable, changes: list[ColumnChange], dropped: Collection[str]) -> list[ColumnChange]:
    """Returns `changes` with the columns that only the replica has, each after the column that it follows now."""
    taken = {change.old for change in changes}
    names = same_names(change.name for change in changes)
    position = 0
    for name, kind in table.types.items():
        if name in taken:
            position = 1 + next(index for index, change in enumerate(changes) if change.old == name)
        elif same_name(name) not in dropped:
            if same_name(name) in names:
                raise NameTaken(
                    f"the replica has a column {name} already, from before a statement that was not executed"
                )
            changes.insert(position, ColumnChange(name, name, NewValue(kind, quote_name(name))))
            position += 1
    return changes


def reshape_statements(
    table: ReplicaTable, changes: Sequence[ColumnChange], written: Callable[[TableName], str]
) -> tuple[list[str], bool]:
    """Returns the statements that give the table the new columns, and whether they copy its rows. They work in place if
    columns only disappear, or only appear at the end. Otherwise they copy, because the columns have upstream's order.
    `written` returns a table's name in SQL."""
    name = written(table.name)
    kept = [change for change in changes if change.old is not None]
    in_place = all(change.value.sql == quote_name(change.old or "") and change.old == change.name for change in kept)
    old_names = [change.old for change in kept]
    if in_place and len(kept) == len(changes) and old_names == [name for name in table.types if name in old_names]:
        dropped = (quote_name(dropped) for dropped in table.types if dropped not in old_names)
        return [f"ALTER TABLE {name} DROP COLUMN {column}" for column in dropped], False
    if in_place and old_names == list(table.types) and list(changes[: len(kept)]) == kept:
        sql = []
        for change in changes[len(kept) :]:
            added = quote_name(change.name)
            sql.append(f"ALTER TABLE {name} ADD COLUMN {added} {change.value.type} DEFAULT {change.value.sql}")
            sql.append(f"ALTER TABLE {name} ALTER COLUMN {added} DROP DEFAULT")
        return sql, False
    selected = ", ".join(f"{change.value.sql} AS {quote_name(change.name)}" for change in changes)
    copy = written(TableName(table.name.database, _REBUILT))
    create_copy = f"CREATE TABLE {copy} AS SELECT {selected} FROM {name}"
    return [create_copy, f"DROP TABLE {name}", f"ALTER TABLE {copy} RENAME TO {quote_name(table.name.table)}"], True
