"""Moves tables that upstream removes to a trash name, and brings them back from there.

The target's present tables show what remains to be done. So a run that dies anywhere can be resumed by looking again:
no rows above the statement's version are written before it is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pymysql

from consumer.model.actions import Action
from consumer.model.names import TableName, qualified, quote
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import errno
from consumer.sink.mysql.statements.evidence import observe_state

_NO_SUCH_COLUMN = 1054


@dataclass(frozen=True, slots=True)
class TrashState:
    """Whether the statement's table and its place in the trash exist.

    `bound` says that foreign keys or triggers belong to the table, and would follow a rename. `columns` are the columns
    by which a row is copied. `empty` says that the table has no rows.
    """

    exists: bool = True
    in_trash: bool = False
    bound: bool = False
    empty: bool = False
    columns: tuple[str, ...] = ()


def has_table(cursor: pymysql.cursors.Cursor, name: TableName, flavor: FlavorName) -> bool:
    """Returns whether the target has this table."""
    return observe_state(cursor, 0, "", (name,), (), flavor).definitions[0] is not None


def has_database(cursor: pymysql.cursors.Cursor, database: str, flavor: FlavorName) -> bool:
    return observe_state(cursor, 0, database, (), (), flavor).definitions[0] is not None


def base_tables(cursor: pymysql.cursors.Cursor, database: str) -> list[TableName]:
    """Returns the tables of a database without its views, which hold no rows."""
    cursor.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type <> 'VIEW'",
        (database,),
    )
    return [TableName(database, table) for (table,) in cursor.fetchall()]


def triggers_of(cursor: pymysql.cursors.Cursor, database: str) -> dict[str, TableName]:
    """Returns the tables of a database's triggers, by the trigger's name."""
    cursor.execute(
        "SELECT trigger_name, event_object_table FROM information_schema.triggers WHERE trigger_schema = %s",
        (database,),
    )
    return {trigger: TableName(database, table) for trigger, table in cursor.fetchall()}


def remaining_statements(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, trash: TableName, flavor: FlavorName
) -> list[str]:
    """Returns the statements that change the target from its present state to the state after `step`. None remain once
    it is reached."""
    if step.file.type == Action.DROP_SCHEMA:
        database = step.name.database
        if not has_database(cursor, database, flavor):
            return []
        return keep_database(database, trash.database, base_tables(cursor, database), triggers_of(cursor, database))
    return trash_statements(step, trash, trash_state(cursor, step.name_before, trash, flavor))


def trash_statements(step: ApplyDdl, trash: TableName, state: TrashState) -> list[str]:
    """Returns the remaining statements of a step about one table, whose table and trash are in `state`."""
    match step.file.type:
        case Action.RECOVER_TABLE:
            return _rename((trash, step.name_before)) if state.in_trash else []
        case Action.TRUNCATE_TABLE:
            return _keep_truncated(step.name_before, trash, state)
    return _keep_dropped(step.name_before, trash, state)


def _keep_dropped(name: TableName, trash: TableName, state: TrashState) -> list[str]:
    drop = f"DROP TABLE {_sql(name)}"
    if not state.exists or state.in_trash:
        return [drop] if state.exists else []
    return [*_copy(name, trash, state), drop] if state.bound else _rename((name, trash))


def _keep_truncated(name: TableName, trash: TableName, state: TrashState) -> list[str]:
    truncate = f"TRUNCATE TABLE {_sql(name)}"
    if not state.exists and state.in_trash:
        return [f"CREATE TABLE {_sql(name)} LIKE {_sql(trash)}"]
    if not state.exists or state.in_trash or state.empty:
        return [truncate]
    if state.bound:
        return [*_copy(name, trash, state), truncate]
    return [*_alike(name, trash), *_rename((name, trash), (_between(trash), name))]


def _copy(name: TableName, trash: TableName, state: TrashState) -> list[str]:
    """Returns the statements that copy a table with foreign keys or triggers, which a rename would move along. They
    stay with its name, and the trash gets the rows. The copy gets its final name once it is complete."""
    copy, columns = _between(trash), ", ".join(map(quote, state.columns))
    rows = f"INSERT INTO {_sql(copy)} ({columns}) SELECT {columns} FROM {_sql(name)}"
    return [*_alike(name, trash), rows, *_rename((copy, trash))]


def _alike(name: TableName, trash: TableName) -> list[str]:
    copy = _sql(_between(trash))
    return [f"DROP TABLE IF EXISTS {copy}", f"CREATE TABLE {copy} LIKE {_sql(name)}"]


def _between(trash: TableName) -> TableName:
    """Returns the name of a table while it is being moved."""
    return TableName(trash.database, "__copy" + trash.table[trash.table.index("_", 2) :])


def trash_state(
    cursor: pymysql.cursors.Cursor, name: TableName, trash: TableName | None, flavor: FlavorName
) -> TrashState:
    """Looks at the table and at its place in the trash. Without `trash`, looks only at the table."""
    exists = has_table(cursor, name, flavor)
    in_trash = trash is not None and has_table(cursor, trash, flavor)
    if not exists or in_trash:
        return TrashState(exists, in_trash)
    cursor.execute(f"SELECT 1 FROM {_sql(name)} LIMIT 1")
    empty = cursor.fetchone() is None
    key = (name.database, name.table)
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND COALESCE(generation_expression, '') = '' ORDER BY ordinal_position",
        key,
    )
    columns = tuple(column for (column,) in cursor.fetchall())
    return TrashState(exists, in_trash, _is_bound(cursor, key), empty, columns)


def is_occupied(cursor: pymysql.cursors.Cursor, step: ApplyDdl, trash: TableName, flavor: FlavorName) -> bool:
    """Returns whether the place in the trash holds other rows than the table that is to be moved there. Rows that an
    earlier execution put there, before a resync, are the same."""
    if step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE) or not has_table(cursor, trash, flavor):
        return False
    state = trash_state(cursor, step.name_before, None, flavor)
    if not state.exists or state.empty:
        return False
    try:
        return _print(cursor, step.name_before, state.columns) != _print(cursor, trash, state.columns)
    except pymysql.MySQLError as error:
        if errno(error) != _NO_SUCH_COLUMN:
            raise
        return True


def _print(cursor: pymysql.cursors.Cursor, name: TableName, columns: tuple[str, ...]) -> tuple[object, ...]:
    """Returns a count and a checksum that are the same for two tables with the same rows, in any order."""
    row = ", ".join(f"QUOTE({quote(column)})" for column in columns)
    hashed = f"CAST(CONV(LEFT(SHA2(CONCAT_WS(',', {row}), 256), 15), 16, 10) AS UNSIGNED)"  # not all servers have MD5
    cursor.execute(f"SELECT COUNT(*), SUM({hashed}) FROM {_sql(name)}")
    fingerprint: tuple[object, ...] = cursor.fetchone()
    return fingerprint


def _is_bound(cursor: pymysql.cursors.Cursor, key: tuple[str, str]) -> bool:
    cursor.execute(
        "SELECT 1 FROM information_schema.referential_constraints WHERE (constraint_schema = %s AND table_name = %s)"
        " OR (unique_constraint_schema = %s AND referenced_table_name = %s) LIMIT 1",
        (*key, *key),
    )
    if cursor.fetchone():
        return True
    cursor.execute(
        "SELECT 1 FROM information_schema.triggers WHERE event_object_schema = %s AND event_object_table = %s LIMIT 1",
        key,
    )
    return cursor.fetchone() is not None


def keep_database(database: str, trash: str, tables: Iterable[TableName], triggers: Iterable[str]) -> list[str]:
    """Returns the statements that move the `tables` of an existing database to the database `trash` and drop the
    database. Views and `triggers` are dropped with it, as they hold no rows."""
    moves = [(name, TableName(trash, name.table)) for name in sorted(tables)]
    drops = [f"DROP TRIGGER {qualified(database, trigger)}" for trigger in sorted(triggers)]
    move_statements = [f"CREATE DATABASE IF NOT EXISTS {quote(trash)}", *drops, *_rename(*moves)] if moves else []
    return [*move_statements, f"DROP DATABASE {quote(database)}"]


def _rename(*moves: tuple[TableName, TableName]) -> list[str]:
    return ["RENAME TABLE " + ", ".join(f"{_sql(old)} TO {_sql(new)}" for old, new in moves)]


def _sql(name: TableName) -> str:
    return qualified(name.database, name.table)
