"""Tables that upstream takes away, kept under a trash name, and brought back from there.

What is there shows what is left to do: a run that dies anywhere is taken up by looking again, because no rows
above the statement's version are written before it is recorded.
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
from consumer.sink.mysql.statements.evidence import look

_NO_SUCH_COLUMN = 1054


@dataclass(frozen=True, slots=True)
class Found:
    """Of the statement's table and its place in the trash: which are there. `bound`: foreign keys or triggers hang on
    the table, and would follow a rename. `columns` are those that a row is copied by, `empty` says there is none."""

    there: bool = True
    in_trash: bool = False
    bound: bool = False
    empty: bool = False
    columns: tuple[str, ...] = ()


def is_there(cursor: pymysql.cursors.Cursor, name: TableName, flavor: FlavorName) -> bool:
    """Whether the target has this table."""
    return look(cursor, 0, "", (name,), (), flavor).definitions[0] is not None


def has_database(cursor: pymysql.cursors.Cursor, database: str, flavor: FlavorName) -> bool:
    return look(cursor, 0, database, (), (), flavor).definitions[0] is not None


def base_tables(cursor: pymysql.cursors.Cursor, database: str) -> list[TableName]:
    """Its tables but for views, which hold no rows."""
    cursor.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type <> 'VIEW'",
        (database,),
    )
    return [TableName(database, table) for (table,) in cursor.fetchall()]


def triggers_of(cursor: pymysql.cursors.Cursor, database: str) -> dict[str, TableName]:
    """The tables of its triggers, by the trigger's name."""
    cursor.execute(
        "SELECT trigger_name, event_object_table FROM information_schema.triggers WHERE trigger_schema = %s",
        (database,),
    )
    return {trigger: TableName(database, table) for trigger, table in cursor.fetchall()}


def left_to_do(cursor: pymysql.cursors.Cursor, step: ApplyDdl, trash: TableName, flavor: FlavorName) -> list[str]:
    """The statements that bring the target from what it is to where `step` leaves it; none: it is there."""
    if step.file.type == Action.DROP_SCHEMA:
        database = step.name.database
        if not has_database(cursor, database, flavor):
            return []
        return keep_database(database, trash.database, base_tables(cursor, database), triggers_of(cursor, database))
    return statements(step, trash, find(cursor, step.name_before, trash, flavor))


def statements(step: ApplyDdl, trash: TableName, found: Found) -> list[str]:
    """What is left to do of a statement about one table where its table and its trash are as `found`."""
    match step.file.type:
        case Action.RECOVER_TABLE:
            return _rename((trash, step.name_before)) if found.in_trash else []
        case Action.TRUNCATE_TABLE:
            return _keep_truncated(step.name_before, trash, found)
    return _keep_dropped(step.name_before, trash, found)


def _keep_dropped(name: TableName, trash: TableName, found: Found) -> list[str]:
    drop = f"DROP TABLE {_sql(name)}"
    if not found.there or found.in_trash:
        return [drop] if found.there else []
    return [*_copy(name, trash, found), drop] if found.bound else _rename((name, trash))


def _keep_truncated(name: TableName, trash: TableName, found: Found) -> list[str]:
    truncate = f"TRUNCATE TABLE {_sql(name)}"
    if not found.there and found.in_trash:
        return [f"CREATE TABLE {_sql(name)} LIKE {_sql(trash)}"]
    if not found.there or found.in_trash or found.empty:
        return [truncate]
    if found.bound:
        return [*_copy(name, trash, found), truncate]
    return [*_alike(name, trash), *_rename((name, trash), (_between(trash), name))]


def _copy(name: TableName, trash: TableName, found: Found) -> list[str]:
    """For a table with foreign keys or triggers, which a rename would take along: they stay with its name, and the
    trash gets the rows. Under its own name the copy is whole."""
    copy, columns = _between(trash), ", ".join(map(quote, found.columns))
    rows = f"INSERT INTO {_sql(copy)} ({columns}) SELECT {columns} FROM {_sql(name)}"
    return [*_alike(name, trash), rows, *_rename((copy, trash))]


def _alike(name: TableName, trash: TableName) -> list[str]:
    copy = _sql(_between(trash))
    return [f"DROP TABLE IF EXISTS {copy}", f"CREATE TABLE {copy} LIKE {_sql(name)}"]


def _between(trash: TableName) -> TableName:
    """The name of a table on its way."""
    return TableName(trash.database, "__copy" + trash.table[trash.table.index("_", 2) :])


def find(cursor: pymysql.cursors.Cursor, name: TableName, trash: TableName | None, flavor: FlavorName) -> Found:
    """Without `trash` only the table itself is looked at."""
    there = is_there(cursor, name, flavor)
    in_trash = trash is not None and is_there(cursor, trash, flavor)
    if not there or in_trash:
        return Found(there, in_trash)
    cursor.execute(f"SELECT 1 FROM {_sql(name)} LIMIT 1")
    empty = cursor.fetchone() is None
    own = (name.database, name.table)
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND COALESCE(generation_expression, '') = '' ORDER BY ordinal_position",
        own,
    )
    columns = tuple(column for (column,) in cursor.fetchall())
    return Found(there, in_trash, _is_bound(cursor, own), empty, columns)


def is_taken(cursor: pymysql.cursors.Cursor, step: ApplyDdl, trash: TableName, flavor: FlavorName) -> bool:
    """Whether the place in the trash holds other rows than the table that is to go there. Those that an earlier
    execution put there, before a resync, are the same."""
    if step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE) or not is_there(cursor, trash, flavor):
        return False
    found = find(cursor, step.name_before, None, flavor)
    if not found.there or found.empty:
        return False
    try:
        return _print(cursor, step.name_before, found.columns) != _print(cursor, trash, found.columns)
    except pymysql.MySQLError as error:
        if errno(error) != _NO_SUCH_COLUMN:
            raise
        return True


def _print(cursor: pymysql.cursors.Cursor, name: TableName, columns: tuple[str, ...]) -> tuple[object, ...]:
    """What two tables with the same rows have in common, in whatever order they lie."""
    row = ", ".join(f"QUOTE({quote(column)})" for column in columns)
    hashed = f"CAST(CONV(LEFT(SHA2(CONCAT_WS(',', {row}), 256), 15), 16, 10) AS UNSIGNED)"  # not all servers have MD5
    cursor.execute(f"SELECT COUNT(*), SUM({hashed}) FROM {_sql(name)}")
    found: tuple[object, ...] = cursor.fetchone()
    return found


def _is_bound(cursor: pymysql.cursors.Cursor, own: tuple[str, str]) -> bool:
    cursor.execute(
        "SELECT 1 FROM information_schema.referential_constraints WHERE (constraint_schema = %s AND table_name = %s)"
        " OR (unique_constraint_schema = %s AND referenced_table_name = %s) LIMIT 1",
        (*own, *own),
    )
    if cursor.fetchone():
        return True
    cursor.execute(
        "SELECT 1 FROM information_schema.triggers WHERE event_object_schema = %s AND event_object_table = %s LIMIT 1",
        own,
    )
    return cursor.fetchone() is not None


def keep_database(database: str, trash: str, tables: Iterable[TableName], triggers: Iterable[str]) -> list[str]:
    """The `tables` of a database that is there go to the database `trash`; views and `triggers` go with it, as they
    hold no rows."""
    moves = [(name, TableName(trash, name.table)) for name in sorted(tables)]
    drops = [f"DROP TRIGGER {qualified(database, trigger)}" for trigger in sorted(triggers)]
    moved = [f"CREATE DATABASE IF NOT EXISTS {quote(trash)}", *drops, *_rename(*moves)] if moves else []
    return [*moved, f"DROP DATABASE {quote(database)}"]


def _rename(*moves: tuple[TableName, TableName]) -> list[str]:
    return ["RENAME TABLE " + ", ".join(f"{_sql(old)} TO {_sql(new)}" for old, new in moves)]


def _sql(name: TableName) -> str:
    return qualified(name.database, name.table)
