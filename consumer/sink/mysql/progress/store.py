"""Progress <-> the tables of schema `storage_consumer`. The caller owns the transaction and pymysql's errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pymysql

from consumer import __version__
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.progress import FORMAT_VERSION, AuditRow, Progress, ProgressChange
from consumer.sink.mysql.progress.epochs import forget_proofs
from consumer.sink.mysql.progress.schema import exists, layout
from consumer.sink.progress_formats import readable
from consumer.sink.progress_rows import (
    AUDIT_DAYS,
    CONSUMERS,
    KEPT,
    OF_A_NAME,
    Rows,
    check_time_zone,
    check_upstream,
    kept_elsewhere,
    open_files,
    progress_of,
)

_BATCH = 500
_AUDIT_COLUMNS = (
    "(name, epoch, finished, step, database_name, table_name, from_ts, to_ts, row_count, puts, deletes, dropped_rows, "
    "statement, statement_hash)"
)


def load(cursor: pymysql.cursors.Cursor, name: str) -> Progress:
    """The progress of consumer `name`; empty where there is none. Raises BadConfig for a later format."""
    if not exists(cursor):
        return Progress()

    cursor.execute("SELECT format FROM storage_consumer.consumer WHERE name = %s", (name,))
    row = cursor.fetchone()
    if row is None:
        return Progress()
    older = layout(cursor) if row[0] < FORMAT_VERSION else None

    def select(table: str, columns: str) -> Rows:
        there = columns if older is None else readable(older, table, columns)
        if there is None:
            return []
        cursor.execute(f"SELECT {there} FROM storage_consumer.{table} WHERE name = %s", (name,))
        return list(cursor.fetchall())

    return progress_of(select)


def consumers(cursor: pymysql.cursors.Cursor) -> dict[str, int]:
    """Every consumer name, with how many of its tables are in order."""
    if not exists(cursor):
        return {}
    cursor.execute(CONSUMERS)
    return {str(name): int(tables) for name, tables in cursor.fetchall()}


def kept(cursor: pymysql.cursors.Cursor, name: str) -> dict[TableName, str]:
    """The tables that another consumer than `name` keeps, with that one."""
    if not exists(cursor):
        return {}
    cursor.execute(KEPT.format(name="%s"), (name,))
    return kept_elsewhere(list(cursor.fetchall()))


def forget(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """Remove every row of consumer `name`."""
    for table in OF_A_NAME:
        cursor.execute(f"DELETE FROM storage_consumer.{table} WHERE name = %s", (name,))


def register(cursor: pymysql.cursors.Cursor, name: str, upstream: str, time_zone: str) -> None:
    """Write the consumer's row when it is the first run. Raises WrongUpstream where the row is another upstream's,
    BadConfig where it is bound to another time zone."""
    cursor.execute("SELECT upstream, time_zone FROM storage_consumer.consumer WHERE name = %s", (name,))
    row = cursor.fetchone()
    if row is None:
        cursor.execute(
            "INSERT INTO storage_consumer.consumer (name, format, upstream, applied_ts, start_ts, updated, written_by, "
            "time_zone) VALUES (%s, %s, %s, 0, 0, UTC_TIMESTAMP(3), %s, %s)",
            (name, FORMAT_VERSION, upstream, __version__, time_zone),
        )
        return
    check_upstream(name, row[0], upstream)
    check_time_zone(name, row[1] or time_zone, time_zone)
    cursor.execute(
        "UPDATE storage_consumer.consumer SET written_by = %s, time_zone = %s WHERE name = %s",
        (__version__, time_zone, name),
    )


def _prune_audit(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """Drop audit rows older than 30 days."""
    cursor.execute(
        "DELETE FROM storage_consumer.audit WHERE name = %s AND finished < UTC_TIMESTAMP(3) - INTERVAL %s DAY",
        (name, AUDIT_DAYS),
    )


def store(
    cursor: pymysql.cursors.Cursor,
    name: str,
    epoch: int,
    change: ProgressChange,
    touched: Collection[TableName] = (),
) -> None:
    """Write `change` in the transaction at hand; `touched` are tables to be listed in the public view. Raises
    ProgressMoved."""
    change.check(*_places(cursor, name, change.tables))
    if change.applied_ts is not None:
        cursor.execute(
            "UPDATE storage_consumer.consumer SET applied_ts = %s, updated = UTC_TIMESTAMP(3) WHERE name = %s",
            (change.applied_ts, name),
        )
        _prune_audit(cursor, name)
        forget_proofs(cursor, name)  # only the end of a round says how far all is
    if change.start_ts is not None:
        cursor.execute("UPDATE storage_consumer.consumer SET start_ts = %s WHERE name = %s", (change.start_ts, name))
    _store_tables(cursor, name, change)
    _store_folders(cursor, name, change)
    _store_ddls(cursor, name, change)
    _insert(cursor, "known_table", ((name, table.database, table.table) for table in touched if table.table))
    _store_audit(cursor, name, epoch, change.audit)


def _places(cursor: pymysql.cursors.Cursor, name: str, tables: Iterable[TableName]) -> tuple[int, dict[TableName, int]]:
    """The global applied-ts, and that of those of `tables` that have one of their own."""
    cursor.execute("SELECT applied_ts FROM storage_consumer.consumer WHERE name = %s", (name,))
    row = cursor.fetchone()
    keys = [(table.database, table.table) for table in tables]
    places: dict[TableName, int] = {}
    for start in range(0, len(keys), _BATCH):
        cursor.execute(
            "SELECT database_name, table_name, applied_ts FROM storage_consumer.table_progress "
            "WHERE name = %s AND (database_name, table_name) IN %s",
            (name, keys[start : start + _BATCH]),
        )
        places |= {TableName(*found[:2]): int(found[2]) for found in cursor.fetchall()}
    return (int(row[0]) if row else 0), places


def _store_tables(cursor: pymysql.cursors.Cursor, name: str, change: ProgressChange) -> None:
    gone = [(table.database, table.table) for table, kept in change.tables.items() if kept is None]
    # A tombstone that goes away takes its row of the public view along.
    _delete(
        cursor,
        "FROM storage_consumer.known_table WHERE name = %s AND EXISTS (SELECT 1 FROM storage_consumer.table_progress p "
        "WHERE p.name = known_table.name AND p.database_name = known_table.database_name "
        "AND p.table_name = known_table.table_name AND p.state = 'dropped') AND (database_name, table_name)",
        name,
        gone,
    )
    _delete(cursor, "FROM storage_consumer.table_progress WHERE name = %s AND (database_name, table_name)", name, gone)
    rows = (
        (name, table.database, table.table, kept.applied_ts, kept.state.value, kept.reason, kept.hint)
        for table, kept in change.tables.items()
        if kept is not None
    )
    _insert(cursor, "table_progress", rows)


def _store_folders(cursor: pymysql.cursors.Cursor, name: str, change: ProgressChange) -> None:
    gone = [(_folder_id(folder),) for folder, kept in change.folders.items() if kept is None]
    _delete(cursor, "FROM storage_consumer.folder_progress WHERE name = %s AND (id)", name, gone)
    rows = (
        (
            *(name, _folder_id(folder), *folder),
            *(kept.done, kept.size, kept.stamp, open_files(kept), kept.index, kept.first_ts, kept.last_ts),
        )
        for folder, kept in change.folders.items()
        if kept is not None
    )
    _insert(cursor, "folder_progress", rows)


def _store_ddls(cursor: pymysql.cursors.Cursor, name: str, change: ProgressChange) -> None:
    rows = ((*(name, *record.id), record.state.value, record.before, record.reason) for record in change.ddls)
    _insert(cursor, "ddl", rows)
    _delete(
        cursor,
        "FROM storage_consumer.ddl WHERE name = %s AND (database_name, table_name, version, checksum)",
        name,
        [tuple(gone) for gone in change.forget_ddls],
    )


def _store_audit(cursor: pymysql.cursors.Cursor, name: str, epoch: int, rows: Sequence[AuditRow]) -> None:
    if not rows:
        return
    cursor.execute("SELECT UTC_TIMESTAMP(3)")
    now = cursor.fetchone()[0]
    values = (
        (
            *(name, epoch, now, row.step, row.table.database, row.table.table, row.from_ts, row.to_ts),
            *(row.changes, row.puts, row.deletes, row.dropped_rows, row.statement, _sha256(row.statement)),
        )
        for row in rows
    )
    _insert(cursor, "audit", values, columns=_AUDIT_COLUMNS)


def _insert(cursor: pymysql.cursors.Cursor, table: str, rows: Iterator[tuple[Any, ...]], columns: str = "") -> None:
    """REPLACE the rows in few statements: pymysql joins them up to 1 MB."""
    values = list(rows)
    if values:
        marks = ", ".join(["%s"] * len(values[0]))
        cursor.executemany(f"REPLACE INTO storage_consumer.{table} {columns} VALUES ({marks})", values)


def _delete(cursor: pymysql.cursors.Cursor, what: str, name: str, keys: Sequence[tuple[Any, ...]]) -> None:
    """``DELETE {what} IN (keys)``, some hundred keys a statement."""
    for start in range(0, len(keys), _BATCH):
        cursor.execute(f"DELETE {what} IN %s", (name, _flat(keys[start : start + _BATCH])))


def _flat(keys: Sequence[tuple[Any, ...]]) -> list[Any]:
    """pymysql renders a list of tuples as ``((a,b),(c,d))``; one-column keys must not be wrapped twice."""
    return [key[0] if len(key) == 1 else key for key in keys]


def _folder_id(folder: Folder) -> str:
    return _sha256(json.dumps(folder))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
