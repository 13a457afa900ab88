"""A replica table brought to other columns: which stay, come and go, and how the rows follow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from consumer.ddl.declared import Definition, Definitions
from consumer.model.names import TableName, by_name, same_name, same_names
from consumer.model.steps import ApplyDdl
from consumer.model.types.conversions import Conversion
from consumer.sink.columnar.casts import NewValue, backfill, converted
from consumer.sink.columnar.table import ReplicaTable, Upstream, quote

_REBUILT = "__storage_consumer_rebuilt"
_FUNCTION = "upstream_value_"
"""Begins the names of functions that make what TiDB made of a value."""


class NameTaken(Exception):
    """A column that the statement makes has the name of another that is still there."""


@dataclass(frozen=True, slots=True)
class Change:
    """A column of the new table. `old` is its name in the table so far, None where it is new."""

    name: str
    old: str | None
    value: NewValue


def functions_of(changes: Iterable[Change]) -> Mapping[str, Conversion]:
    """Those that the values call and DuckDB lacks."""
    return {name: conversion for change in changes for name, conversion in change.value.functions.items()}


def changes(
    step: ApplyDdl,
    table: ReplicaTable,
    before: Upstream,
    after: Upstream,
    definitions: Definitions,
    zone: tzinfo,
) -> list[Change]:
    """The columns of the table once the statement has run. It comes to what the statement itself says: a column that
    an earlier one should have added or dropped, and was not executed, stays absent, or stays. Raises NameTaken, and
    NotExact where the value of a new column is not known."""
    known = by_name(before.columns)
    found: list[Change] = []
    for column in after.stored:
        old = definitions.old_name(column.name)
        if old is None:
            definition = definitions.columns.get(same_name(column.name), Definition())
            found.append(Change(column.name, None, backfill(column, definition, step.file.version, zone)))
        elif (spelled := table.spelled(old)) is not None:
            value = NewValue(table.types[spelled], quote(spelled))
            if old in known:
                function = f"{_FUNCTION}{len(found)}"
                value = converted(known[old], column, table.types[spelled], quote(spelled), function)
            found.append(Change(column.name, spelled, value))
    return _with_kept(table, found, definitions.dropped)


def _with_kept(table: ReplicaTable, found: list[Change], dropped: Collection[str]) -> list[Change]:
    """`found` with the columns that only the replica has, each behind the column that it stands behind now."""
    taken = {change.old for change in found}
    names = same_names(change.name for change in found)
    place = 0
    for name, kind in table.types.items():
        if name in taken:
            place = 1 + next(at for at, change in enumerate(found) if change.old == name)
        elif same_name(name) not in dropped:
            if same_name(name) in names:
                raise NameTaken(
                    f"the replica has a column {name} already, from before a statement that was not executed"
                )
            found.insert(place, Change(name, name, NewValue(kind, quote(name))))
            place += 1
    return found


def reshaped(
    table: ReplicaTable, changes: Sequence[Change], written: Callable[[TableName], str]
) -> tuple[list[str], bool]:
    """What brings the table to the new columns, and whether that copies its rows: in place where columns only go, or
    only come at the end; else a copy, as the order of columns is upstream's. `written` writes a table's name."""
    name = written(table.name)
    kept = [change for change in changes if change.old is not None]
    in_place = all(change.value.sql == quote(change.old or "") and change.old == change.name for change in kept)
    old_names = [change.old for change in kept]
    if in_place and len(kept) == len(changes) and old_names == [name for name in table.types if name in old_names]:
        gone = (quote(gone) for gone in table.types if gone not in old_names)
        return [f"ALTER TABLE {name} DROP COLUMN {column}" for column in gone], False
    if in_place and old_names == list(table.types) and list(changes[: len(kept)]) == kept:
        sql = []
        for change in changes[len(kept) :]:
            added = quote(change.name)
            sql.append(f"ALTER TABLE {name} ADD COLUMN {added} {change.value.type} DEFAULT {change.value.sql}")
            sql.append(f"ALTER TABLE {name} ALTER COLUMN {added} DROP DEFAULT")
        return sql, False
    selected = ", ".join(f"{change.value.sql} AS {quote(change.name)}" for change in changes)
    copy = written(TableName(table.name.database, _REBUILT))
    made = f"CREATE TABLE {copy} AS SELECT {selected} FROM {name}"
    return [made, f"DROP TABLE {name}", f"ALTER TABLE {copy} RENAME TO {quote(table.name.table)}"], True
