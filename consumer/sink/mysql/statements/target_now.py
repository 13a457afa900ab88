"""What the server has while a statement is looked at: now, or as the statements of a plan leave it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import pymysql

from consumer.ddl.changes import Changes, compiled
from consumer.ddl.definitions import statement_of
from consumer.ddl.indexes import after, copied
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, INDEX_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.names import TableName, same_names
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import UNTOLD, TableIndexes
from consumer.sink.mysql.server.connection import FlavorName, is_in_a_cluster
from consumer.sink.mysql.statements.trash import Found, find, is_there, left_to_do, statements
from consumer.sink.mysql.tables.describe import table_indexes

_COLLATIONS: WeakKeyDictionary[pymysql.Connection, frozenset[str]] = WeakKeyDictionary()
"""Hundreds, of the server that a connection leads to, which has them all for as long as it runs."""


class TargetNow:
    """The server and its tables, where the statements in the storage do not tell. Asked once for all statements of a
    call; the tables only when a statement names others."""

    def __init__(self, cursor: pymysql.cursors.Cursor, flavor: FlavorName) -> None:
        self.flavor = flavor
        self._cursor = cursor

    @cached_property
    def tables(self) -> frozenset[TableName]:
        self._cursor.execute("SELECT table_schema, table_name FROM information_schema.tables")
        return frozenset(TableName(database, table) for database, table in self._cursor.fetchall())

    @cached_property
    def nodes_in_utc(self) -> bool | None:
        """Whether the nodes of this Galera cluster run in UTC, summer and winter; None where it is in none."""
        if not is_in_a_cluster(self._cursor):
            return None
        times = ("2024-01-01 00:00:00", "2024-07-01 00:00:00")
        same = " AND ".join(f"CONVERT_TZ('{time}', '+00:00', 'SYSTEM') = '{time}'" for time in times)
        self._cursor.execute(f"SELECT {same}")
        return bool(self._cursor.fetchone()[0])

    @property
    def collations(self) -> frozenset[str]:
        """In lower case."""
        connection = self._cursor.connection
        if connection not in _COLLATIONS:
            self._cursor.execute(
                "SELECT collation_name FROM information_schema.collations WHERE collation_name IS NOT NULL"
            )
            _COLLATIONS[connection] = same_names(name for (name,) in self._cursor.fetchall())
        return _COLLATIONS[connection]

    def has(self, table: TableName) -> bool:
        """Whether another statement can mean this table."""
        return table in self.tables

    def all_tables(self) -> Collection[TableName]:
        return self.tables

    def holds(self, table: TableName) -> bool:
        """Whether the table is there; of one table, looked at alone."""
        return is_there(self._cursor, table, self.flavor)

    def indexes(self, table: TableName) -> TableIndexes:
        return table_indexes(self._cursor, table)

    def columns(self, table: TableName) -> frozenset[str]:
        """In lower case."""
        self._cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s", table
        )
        return same_names(str(name) for (name,) in self._cursor.fetchall())

    def by_key(self, table: TableName) -> bool:
        """Whether it is partitioned BY KEY."""
        self._cursor.execute(
            "SELECT partition_method FROM information_schema.partitions"
            " WHERE table_schema = %s AND table_name = %s LIMIT 1",
            (table.database, table.table),
        )
        row = self._cursor.fetchone()
        return bool(row and row[0] and "KEY" in row[0])


class Others(Collection[TableName]):
    """The tables of the target but for `own`; nobody has looked for them before they are needed."""

    def __init__(self, now: TargetNow, own: TableName) -> None:
        self._now, self._own = now, own

    def __iter__(self) -> Iterator[TableName]:
        return (name for name in self._now.all_tables() if name != self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, TableName) and name != self._own and self._now.has(name)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as the plan leaves it."""

    today: TableName | None
    """Where it is on the server; None: not yet there."""
    changes: tuple[Changes, ...] = ()
    """What the plan's statements do to it."""
    likened: bool = False
    """It began as a copy of that."""


class PlannedTarget(TargetNow):
    """The target as the statements that were followed so far will have left it."""

    def __init__(self, cursor: pymysql.cursors.Cursor, flavor: FlavorName) -> None:
        super().__init__(cursor, flavor)
        self._tables: dict[TableName, _Table] = {}
        self._changed: set[TableName] = set()

    @cached_property
    def _folded(self) -> frozenset[TableName]:
        return frozenset(name.folded for name in self.tables)

    def has(self, table: TableName) -> bool:
        return table in self._changed or super().has(table)

    def all_tables(self) -> Collection[TableName]:
        return self.tables.union(self._changed)

    def holds(self, table: TableName) -> bool:
        return table in self._changed or super().holds(table)

    def indexes(self, table: TableName) -> TableIndexes:
        place = self._at(table)
        found = UNTOLD if place.today is None else super().indexes(place.today)
        for change in place.changes:
            found = after(found, change.indexes, 0)
        return copied(found) if place.likened else found

    def by_key(self, table: TableName) -> bool:
        today = self._at(table).today
        return today is not None and super().by_key(today)

    def lacking(self, step: ApplyDdl) -> TableName | None:
        """The table that the statement changes, where it is not there and no statement before makes it."""
        if step.file.type in CREATE_ACTIONS | DROP_ACTIONS | DATABASE_ACTIONS:
            return None
        name = step.old_name or step.name
        return None if name in self._changed or name.folded in self._folded else name

    def moves(self, step: ApplyDdl, trash: TableName) -> list[str]:
        """The statements that bring the table of `step` to the trash, or back."""
        if step.file.type == Action.DROP_SCHEMA:
            return left_to_do(self._cursor, step, trash, self.flavor)
        found = find(self._cursor, step.name, trash, self.flavor)
        if step.name in self._changed:
            found = Found(in_trash=found.in_trash)
        return statements(step, trash, replace(found, in_trash=found.in_trash or trash in self._changed))

    def touched(self, step: ApplyDdl) -> None:
        """What is looked at next comes behind `step`, whatever came of it."""
        self._changed |= {step.name, *step.touches, *filter(None, (step.trash, step.old_name))}

    def follow(self, step: ApplyDdl, executed: Sequence[str] | None) -> None:
        """Take in what a step executes; None for one that moves its table to the trash, or back."""
        name, action = step.name, step.file.type
        if action in RENAME_ACTIONS:
            self._move(step.old_name, name)
        elif action == Action.RECOVER_TABLE:
            self._move(step.trash, name)
        elif action in DROP_ACTIONS:
            self._move(name, step.trash if executed is None else None)
        elif executed is not None and action in CREATE_ACTIONS | INDEX_ACTIONS:
            done = tuple(compiled(statement_of(statement)) for statement in executed)
            place = _Table(None) if action in CREATE_ACTIONS else self._at(name)
            source = done[0].named("like") if done else None
            if source is not None:
                like = source.within(step.name.database)
                place, done = replace(self._at(like), likened=True), ()
            self._tables[name] = replace(place, changes=(*place.changes, *done))

    def _at(self, table: TableName) -> _Table:
        return self._tables.get(table, _Table(table))

    def _move(self, old: TableName | None, new: TableName | None) -> None:
        place = _Table(None) if old is None else self._at(old)
        if old is not None:
            self._tables[old] = _Table(None)
        if new is not None:
            self._tables[new] = place
