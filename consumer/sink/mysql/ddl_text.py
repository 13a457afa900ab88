"""What a step executes on this server: upstream's text, rewritten for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pymysql

from consumer.ddl.rewrite_mysql import Rewritten, rewrite
from consumer.ddl.timestamp_defaults import in_session_zone
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, Action
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.connection import FlavorName
from consumer.sink.mysql.ddl_zone import offset_at

_UNINDEXED = CREATE_ACTIONS | DATABASE_ACTIONS | {Action.DROP_TABLE, Action.TRUNCATE_TABLE, Action.DROP_VIEW}
"""Actions whose statement names no index of a table that is there."""


@dataclass(frozen=True, slots=True)
class ServerNames:
    """What the server has, asked once for all statements of a wave."""

    flavor: FlavorName
    tables: frozenset[TableName]
    collations: frozenset[str]

    @classmethod
    def ask(cls, cursor: pymysql.cursors.Cursor, flavor: FlavorName) -> ServerNames:
        cursor.execute("SELECT table_schema, table_name FROM information_schema.tables")
        tables = frozenset(TableName(database, table) for database, table in cursor.fetchall())
        cursor.execute("SELECT collation_name FROM information_schema.collations WHERE collation_name IS NOT NULL")
        return cls(flavor, tables, frozenset(name for (name,) in cursor.fetchall()))


def rewritten(
    cursor: pymysql.cursors.Cursor,
    step: ApplyDdl,
    server: ServerNames,
    more: Collection[TableName] = (),
    *,
    ask: bool = True,
    zone: str = "UTC",
) -> Rewritten:
    """The text of `step` for this server. Raises DdlRefused where it has no right form there.

    `more` are tables that will be there by then; without `ask` the server is not asked what the own table is like.
    `zone` is the changefeed's.
    """
    file, action = step.file, _action(step)
    return rewrite(
        in_session_zone(file.query, file.columns, offset_at(step, zone)),
        action=action,
        database=file.database,
        known=(server.tables | {*more}) - {file.name},
        planned={*step.touches} - {file.name},
        flavor=server.flavor,
        version=file.version,
        own=file.name,
        old_name=step.old_name,
        supported_collations=server.collations,
        indexes=None if action in _UNINDEXED or not ask else _indexes(cursor, file.name),
        key_partitioned=action in (Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION)
        and ask
        and _key_partitioned(cursor, file.name),
    )


def _action(step: ApplyDdl) -> Action:
    try:
        return Action(step.file.type)
    except ValueError:
        return Action.NONE


def _indexes(cursor: pymysql.cursors.Cursor, table: TableName) -> Sequence[str]:
    cursor.execute(
        "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s",
        (table.database, table.table),
    )
    return [name for (name,) in cursor.fetchall()]


def _key_partitioned(cursor: pymysql.cursors.Cursor, table: TableName) -> bool:
    cursor.execute(
        "SELECT partition_method FROM information_schema.partitions"
        " WHERE table_schema = %s AND table_name = %s LIMIT 1",
        (table.database, table.table),
    )
    row = cursor.fetchone()
    return bool(row and row[0] and "KEY" in row[0])
