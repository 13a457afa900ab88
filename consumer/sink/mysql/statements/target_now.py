"""What the server has when a statement is examined: now, or after the statements of a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import pymysql

from consumer.ddl.changes import StatementChanges, compile_statement
from consumer.ddl.declared import created_columns
from consumer.ddl.definitions import statement_of
from consumer.ddl.indexes import copied_indexes, indexes_after
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, INDEX_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.names import TableName, quote, same_names
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import UNTOLD, TableIndexes
from consumer.sink.mysql.server.connection import FlavorName, is_in_a_cluster
from consumer.sink.mysql.statements.trash import (
    TrashState,
    base_tables,
    has_database,
    has_table,
    keep_database,
    trash_state,
    trash_statements,
    triggers_of,
)
from consumer.sink.mysql.tables.describe import describe_tables, table_indexes
from consumer.sink.mysql.target import TargetColumn

_COLLATIONS: WeakKeyDictionary[pymysql.Connection, frozenset[str]] = WeakKeyDictionary()
"""The names of all collations, several hundred, of the server that a connection leads to. They stay the same while it
runs."""


class TargetNow:
    """The server and its tables, for facts that the statements in the storage do not declare. Each is queried once for
    all statements of a call, the tables only when a statement names others."""

    def __init__(self, cursor: pymysql.cursors.Cursor, flavor: FlavorName) -> None:
        self.flavor = flavor
        self._cursor = cursor

    @cached_property
    def tables(self) -> frozenset[TableName]:
        self._cursor.execute("SELECT table_schema, table_name FROM information_schema.tables")
        return frozenset(TableName(database, table) for database, table in self._cursor.fetchall())

    @cached_property
    def nodes_in_utc(self) -> bool | None:
        """Returns whether the nodes of this Galera cluster run in UTC, in summer and winter. None if it is in no
        cluster."""
        if not is_in_a_cluster(self._cursor):
            return None
        times = ("2024-01-01 00:00:00", "2024-07-01 00:00:00")
        same = " AND ".join(f"CONVERT_TZ('{time}', '+00:00', 'SYSTEM') = '{time}'" for time in times)
        self._cursor.execute(f"SELECT {same}")
        return bool(self._cursor.fetchone()[0])

    @property
    def collations(self) -> frozenset[str]:
        """Returns the names in lower case."""
        connection = self._cursor.connection
        if connection not in _COLLATIONS:
            self._cursor.execute(
                "SELECT collation_name FROM information_schema.collations WHERE collation_name IS NOT NULL"
            )
            _COLLATIONS[connection] = same_names(name for (name,) in self._cursor.fetchall())
        return _COLLATIONS[connection]

    def has(self, table: TableName) -> bool:
        """Returns whether another statement can mean this table."""
        return table in self.tables

    def all_tables(self) -> Collection[TableName]:
        return self.tables

    def holds(self, table: TableName) -> bool:
        """Returns whether the table exists. Looks at this table only."""
        return has_table(self._cursor, table, self.flavor)

    def has_view(self, name: TableName) -> bool:
        self._cursor.execute(
            "SELECT 1 FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s AND table_type LIKE '%%VIEW'",
            name,
        )
        return self._cursor.fetchone() is not None

    def has_database(self, database: str) -> bool:
        return has_database(self._cursor, database, self.flavor)

    def indexes(self, table: TableName) -> TableIndexes:
        return table_indexes(self._cursor, table)

    def columns(self, table: TableName) -> frozenset[str]:
        """Returns the names in lower case."""
        self._cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s", table
        )
        return same_names(str(name) for (name,) in self._cursor.fetchall())

    def declared(self, table: TableName) -> tuple[Column, ...]:
        """Returns the columns as the server has them, except those of types that upstream does not have."""
        table_now = describe_tables(self._cursor, [table]).get(table)
        return tuple(filter(None, map(_column, table_now.columns if table_now else ())))

    def by_key(self, table: TableName) -> bool:
        """Returns whether the table is partitioned BY KEY."""
        self._cursor.execute(
            "SELECT partition_method FROM information_schema.partitions"
            " WHERE table_schema = %s AND table_name = %s LIMIT 1",
            (table.database, table.table),
        )
        row = self._cursor.fetchone()
        return bool(row and row[0] and "KEY" in row[0])


def _column(shown: TargetColumn) -> Column | None:
    null = "NULL" if shown.nullable else "NOT NULL"
    try:
        (column,) = created_columns(statement_of(f"CREATE TABLE `t` ({quote(shown.name)} {shown.type} {null})"))
    except DdlRefused:
        return None
    return column


class OtherTables(Collection[TableName]):
    """The tables of the target except `excluded`. They are not queried before they are needed."""

    def __init__(self, now: TargetNow, excluded: TableName) -> None:
        self._now, self._own = now, excluded

    def __iter__(self) -> Iterator[TableName]:
        return (name for name in self._now.all_tables() if name != self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, TableName) and name != self._own and self._now.has(name)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table after the statements of the plan."""

    today: TableName | None
    """Its present name on the server. None: it does not exist yet."""
    changes: tuple[StatementChanges, ...] = ()
    """What the plan's statements do to it."""
    likened: bool = False
    """It begins as a copy of that table (CREATE TABLE LIKE)."""
    is_view: bool = False


class PlannedTarget(TargetNow):
    """The target after the statements that were followed so far."""

    def __init__(self, cursor: pymysql.cursors.Cursor, flavor: FlavorName) -> None:
        super().__init__(cursor, flavor)
        self._tables: dict[TableName, _Table | None] = {}
        """The tables that the plan creates, moves or drops (None), by their names afterwards."""
        self._databases: dict[str, bool] = {}
        """Whether a database exists then. It has the databases that were queried, or that the plan creates or drops."""
        self._changed: set[TableName] = set()

    @cached_property
    def _folded(self) -> frozenset[TableName]:
        return frozenset(name.folded for name in self.tables)

    def has(self, table: TableName) -> bool:
        if table in self._tables:
            return self._tables[table] is not None
        return table in self._changed or super().has(table)

    def all_tables(self) -> Collection[TableName]:
        return [name for name in self.tables.union(self._changed, self._tables) if self.has(name)]

    def holds(self, table: TableName) -> bool:
        return self._tables[table] is not None if table in self._tables else super().holds(table)

    def has_view(self, name: TableName) -> bool:
        table = self._at(name)
        return table.is_view or (table.today is not None and super().has_view(table.today))

    def has_database(self, database: str) -> bool:
        if database not in self._databases:
            self._databases[database] = super().has_database(database)
        return self._databases[database]

    def indexes(self, table: TableName) -> TableIndexes:
        planned = self._at(table)
        indexes = UNTOLD if planned.today is None else super().indexes(planned.today)
        for change in planned.changes:
            indexes = indexes_after(indexes, change.indexes, 0)
        return copied_indexes(indexes) if planned.likened else indexes

    def declared(self, table: TableName) -> tuple[Column, ...]:
        today = self._at(table).today
        return () if today is None else super().declared(today)

    def by_key(self, table: TableName) -> bool:
        today = self._at(table).today
        return today is not None and super().by_key(today)

    def lacking(self, step: ApplyDdl) -> TableName | None:
        """Returns the table that the statement changes if it does not exist and no earlier statement creates it."""
        if step.file.type in CREATE_ACTIONS | DROP_ACTIONS | DATABASE_ACTIONS:
            return None
        name = step.old_name or step.name
        if name in self._tables:
            return name if self._tables[name] is None else None
        return None if name in self._changed or name.folded in self._folded else name

    def moves(self, step: ApplyDdl, trash: TableName) -> list[str]:
        """Returns the statements that move the table of `step` to the trash, or back, and follows them."""
        action, name = step.file.type, step.name_before
        if action == Action.DROP_SCHEMA:
            return self._database_moves(name.database, trash.database)
        table, exists, in_trash = self._at(name), self.holds(name), self.holds(trash)
        state = TrashState(exists, in_trash)
        if exists and not in_trash and table.today is not None:
            today = trash_state(self._cursor, table.today, None, self.flavor)
            state = replace(today, exists=True, empty=today.empty and name not in self._changed)
        remaining = trash_statements(step, trash, state)
        if action == Action.RECOVER_TABLE:
            self._move(trash, name)
            self._databases[name.database] = True
        elif action == Action.TRUNCATE_TABLE:
            if exists and not in_trash and not state.empty:
                self._tables |= {trash: table, name: replace(table, likened=True)}
        elif exists and not in_trash:
            self._move(name, trash)
        else:
            self._tables[name] = None
        return remaining

    def _database_moves(self, database: str, trash: str) -> list[str]:
        if not self.has_database(database):
            return []
        planned = {name: table for name, table in self._tables.items() if table is not None and not table.is_view}
        moved = {name for name in base_tables(self._cursor, database) if name not in self._tables}
        moved |= {name for name in planned if name.database == database}
        # Triggers stay with their tables as long as these exist.
        today = {self._at(name).today for name in moved if not self._at(name).likened}
        triggers = [t for t, table in triggers_of(self._cursor, database).items() if table in today]
        for name in moved:
            self._move(name, TableName(trash, name.table))
        if moved:
            self._databases[trash] = True
        self._drop_database(database)
        return keep_database(database, trash, moved, triggers)

    def touched(self, step: ApplyDdl) -> None:
        """Notes that what is examined next comes after `step`, whatever its outcome."""
        self._changed |= {step.name, *step.touches, *filter(None, (step.trash, step.old_name))}

    def follow(self, step: ApplyDdl, executed: Sequence[str]) -> None:
        """Applies to this plan what a step executes, unless it moves something to the trash or back."""
        name, action = step.name, step.file.type
        if action in CREATE_ACTIONS | RENAME_ACTIONS or action == Action.CREATE_SCHEMA:
            self._databases[name.database] = True
        if action == Action.DROP_SCHEMA:
            self._drop_database(name.database)
        elif action in RENAME_ACTIONS:
            self._move(step.old_name, name)
        elif action in DROP_ACTIONS:
            if step.merged is None:  # otherwise the rows of its other sources stay
                self._tables[step.name_before] = None
        elif action in CREATE_ACTIONS | INDEX_ACTIONS:
            self._change(step, executed)

    def _change(self, step: ApplyDdl, executed: Sequence[str]) -> None:
        name, action = step.name, step.file.type
        done = tuple(compile_statement(statement_of(statement)) for statement in executed)
        made = action in CREATE_ACTIONS and (step.merged is None or not self.holds(name))
        table = _Table(None, is_view=action == Action.CREATE_VIEW) if made else self._at(name)
        source = done[0].named("like") if done else None
        if source is not None:
            like = source.within(name.database)
            table, done = replace(self._at(like), likened=True), ()
        self._tables[name] = replace(table, changes=(*table.changes, *done))

    def _at(self, table: TableName) -> _Table:
        return self._tables.get(table, _Table(table)) or _Table(None)

    def _move(self, old: TableName | None, new: TableName) -> None:
        table = _Table(None) if old is None else self._at(old)
        if old is not None:
            self._tables[old] = None
        self._tables[new] = table

    def _drop_database(self, database: str) -> None:
        names = self.tables.union(self._tables, self._changed)
        self._tables |= dict.fromkeys(name for name in names if name.database == database)
        self._databases[database] = False
