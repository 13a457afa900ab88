"""What a step executes on this server: upstream's text, rewritten for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import pymysql

from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.resolve import Names
from consumer.ddl.rewrite_mysql import RewriteContext, Rewritten, rewrite
from consumer.model.actions import INDEX_ACTIONS, Action
from consumer.model.names import TableName, same_names
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import PartitionKind, TableIndexes
from consumer.sink.mysql.server.connection import FlavorName, is_in_a_cluster
from consumer.sink.mysql.statements.merged import Merged
from consumer.sink.mysql.statements.table_modes import formed_statements, merged_of
from consumer.sink.mysql.statements.zone import UTC, agreed_zone, offset_at, session_zone
from consumer.sink.mysql.tables.indexes import table_indexes

_COLLATIONS: WeakKeyDictionary[pymysql.Connection, frozenset[str]] = WeakKeyDictionary()
"""Hundreds, of the server that a connection leads to, which has them all for as long as it runs."""


class ServerNames:
    """What the server has, asked once for all statements of a wave: the tables only when a statement names others."""

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


class _Others(Collection[TableName]):
    """The server's tables with `more`, but for `own`; nobody has looked for them before they are needed."""

    def __init__(self, server: ServerNames, more: Collection[TableName], own: TableName) -> None:
        self._server, self._more, self._own = server, more, own

    def __iter__(self) -> Iterator[TableName]:
        return (name for name in self._server.tables.union(self._more) if name != self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name != self._own and (name in self._server.tables or name in self._more)


class TargetNow:
    """What the server's tables are like, where the statements in the storage do not tell."""

    def __init__(self, cursor: pymysql.cursors.Cursor) -> None:
        self._cursor = cursor

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


@dataclass(frozen=True, slots=True)
class StatementText(Rewritten):
    """What a step executes, in a session with this `time_zone`. `strict`: where a value would be changed, it fails.
    `merged`: the table is one that others are merged with."""

    time_zone: str = UTC
    strict: bool = False
    merged: Merged | None = None


def text_of(
    step: ApplyDdl, server: ServerNames, now: TargetNow, more: Collection[TableName] = (), *, zone: str = "UTC"
) -> StatementText:
    """The text of `step` for this server. Raises DdlRefused where it has no right form there.

    `more` are tables that will be there by then. `zone` is the changefeed's.
    """
    file, action = step.file, step.action
    statement = statement_of(step.statement.query)
    zone = agreed_zone(step, statement, zone, lambda: server.nodes_in_utc)
    if step.formed is not None:
        found = tuple(formed_statements(step, step.formed, zone))
        merged = None if step.merged is None else merged_of(step, step.merged, zone)
        # Rows that upstream no longer has may hold what does not fit a column that it changes.
        return StatementText(found, time_zone=session_zone(step, statement, zone), strict=True, merged=merged)
    before, there = step.known.indexes, None
    if action in INDEX_ACTIONS and (not before.whole or before.skips):
        there = now.indexes(step.name)
        before = before if before.whole else before.beside(there)
    planned = {*step.touches} - {step.name, *step.behind}
    place = RewriteContext(
        server.flavor,
        Names(_Others(server, more, step.name), step.name, step.name.database, step.old_name, planned),
        file.version,
        server.collations,
        before,
        there,
        step.known.charset,
        _by_key(step, action, now),
        _columns_before(step, statement, server, now),
        file.columns,
        offset_at(step, zone),
    )
    done = rewrite(statement, action, place)
    statements = tuple(text.strip() for text in done.statements)
    return StatementText(statements, done.notes, done.timestamp, session_zone(step, statement, zone))


def _columns_before(
    step: ApplyDdl, statement: ParsedStatement, server: ServerNames, now: TargetNow
) -> frozenset[str] | None:
    if server.flavor != "mysql" or not any(token.word == "EXISTS" for token in statement.tokens):
        return None
    told = step.known.columns
    return now.columns(step.name) if told is None else same_names(column.name for column in told)


def _by_key(step: ApplyDdl, action: Action, now: TargetNow) -> bool:
    if action not in (Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION):
        return False
    told = step.known.partitioning
    return now.by_key(step.name) if told is None else told.kind is PartitionKind.KEY
