"""Tables of plain rows, and how changes reach them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from consumer.errors import CannotBeExact, SchemaDrift
from consumer.model.columns import Column
from consumer.model.load import Ending, LoadTarget
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, Progress
from consumer.model.times import tso_to_text

Row = dict[str, Any]
"""Column name -> str, bytes or None."""


_PLACES = count(1)


@dataclass(slots=True)
class MemoryTable:
    """`place` is where it is, whatever its name."""

    columns: tuple[Column, ...]
    rows: list[Row] = field(default_factory=list)
    place: int = field(default_factory=_PLACES.__next__, compare=False)


Tables = dict[TableName, MemoryTable]


def copied(tables: Tables) -> Tables:
    """Tables that can change while `tables` stay."""
    return {name: replace(table, rows=[dict(row) for row in table.rows]) for name, table in tables.items()}


@dataclass(slots=True)
class MemoryStore:
    """What outlives a sink: one store is one target."""

    tables: Tables = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    owners: dict[TableName, str] = field(default_factory=dict)
    """To which consumer name each table belongs."""
    seen: dict[str, set[TableName]] = field(default_factory=dict)
    """By consumer name, the tables of upstream that it has recorded something of."""
    audit: list[tuple[str, AuditRow]] = field(default_factory=list)
    """Each with its consumer's name."""
    staged: dict[str, list[Row]] = field(default_factory=dict)
    epoch: int = 0
    held: bool = False
    writers: int = 0
    at_work: set[int] = field(default_factory=set)
    """The numbers of the writers whose loads are under way, of all that there were."""


def _values(target: LoadTarget, change: Row) -> Row:
    return {name: change[f"c{position}"] for position, name in enumerate(target.names)}


def merge(table: MemoryTable, target: LoadTarget, changes: Sequence[Row]) -> None:
    """Take the folded changes of a table with a key. Raises SchemaDrift."""
    if target.ending is not None:
        end_versions(table, target, target.ending, [change for change in changes if not change["put"]])
        changes = [change for change in changes if change["put"]]
    names = [target.names[position] for position in target.key]
    before = {tuple(row[name] for name in names): row for row in table.rows}
    kept = [column for column in table.columns if column.name in target.extra_columns]
    for change in changes:
        row = _values(target, change)
        old = before.get(tuple(row[name] for name in names))
        if change["put"]:
            row |= {column.name: old[column.name] if old else _default(column, target) for column in kept}
        table.rows = [other for other in table.rows if any(other[name] != row[name] for name in names)]
        if change["put"]:
            table.rows.append({column.name: row[column.name] for column in table.columns})


def end_versions(table: MemoryTable, target: LoadTarget, ending: Ending, ends: Sequence[Row]) -> None:
    """Each of `ends` ends the version that is current in front of it."""
    began, ended, current = (target.names[n] for n in (ending.began, ending.ended, ending.current))
    key = [target.names[position] for position in target.key if position != ending.began]
    at = {tuple(_values(target, end)[name] for name in key): int(_values(target, end)[began]) for end in ends}
    for row in table.rows:
        end = at.get(tuple(row[name] for name in key))
        if end is not None and row[ended] is None and int(row[began]) < end:
            row |= {ended: tso_to_text(end), current: "0"}


def _default(column: Column, target: LoadTarget) -> str | None:
    if column.default is None and not column.nullable:
        raise SchemaDrift(f"a new row has no value for {column.name}, which has no default", table=str(target.table))
    return column.default


def merge_multiset(table: MemoryTable, target: LoadTarget, changes: Sequence[Row]) -> None:
    """Add and remove the copies of rows of a table with no key, or make as many as there must be. Raises
    CannotBeExact."""
    rows = Counter(tuple(row[name] for name in target.names) for row in table.rows)
    for change in changes:
        image = tuple(_values(target, change).values())
        rows[image] = change["copies"] if "copies" in change else rows[image] + change["n"]
    if any(count < 0 for count in rows.values()):
        raise CannotBeExact(f"a row to remove from {target.table} is not there", table=str(target.table))
    table.rows = [dict(zip(target.names, values, strict=True)) for values in rows.elements()]
