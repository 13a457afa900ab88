"""Progress <-> the tables of schema `storage_consumer`. The caller owns the transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import duckdb

from consumer import __version__
from consumer.errors import BadConfig
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.progress import (
    FORMAT_VERSION,
    DdlId,
    DdlRecord,
    DdlState,
    FolderProgress,
    Progress,
    ProgressChange,
    TableProgress,
)
from consumer.sink.duckdb.progress.schema import TABLES, exists, layout
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

Row = Mapping[str, Any]
Item = TypeVar("Item")
Kept = TypeVar("Kept")

_TABLE_KEY = ("database_name", "table_name")
_FOLDER_KEY = ("root", "version", "part", "date", "dispatcher")
_DDL_KEY = (*_TABLE_KEY, "version", "checksum")


def load(connection: duckdb.DuckDBPyConnection | None, name: str) -> Progress:
    """The progress of consumer `name`; empty where there is none. Raises BadConfig for a later format."""
    if connection is None or not exists(connection):
        return Progress()
    reading = connection
    found = reading.execute("SELECT format FROM storage_consumer.consumer WHERE name = ?", (name,)).fetchall()
    if not found:
        return Progress()
    older = layout(reading) if found[0][0] < FORMAT_VERSION else None

    def select(table: str, columns: str) -> Rows:
        there = columns if older is None else readable(older, table, columns)
        if there is None:
            return []
        return list(reading.execute(f"SELECT {there} FROM storage_consumer.{table} WHERE name = ?", (name,)).fetchall())

    return progress_of(select)


def consumers(connection: duckdb.DuckDBPyConnection | None) -> dict[str, int]:
    """Every consumer name, with how many of its tables are in order."""
    if connection is None or not exists(connection):
        return {}
    return {str(name): int(tables) for name, tables in connection.execute(CONSUMERS).fetchall()}


def kept(connection: duckdb.DuckDBPyConnection | None, name: str) -> dict[TableName, str]:
    """The tables that another consumer than `name` keeps, with that one."""
    if connection is None or not exists(connection):
        return {}
    return kept_elsewhere(connection.execute(KEPT.format(name="?"), (name,)).fetchall())


def forget(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Remove every row of consumer `name`."""
    for table in OF_A_NAME:
        if "name" in TABLES.get(table, ()):
            connection.execute(f"DELETE FROM storage_consumer.{table} WHERE name = ?", (name,))


def register(connection: duckdb.DuckDBPyConnection, name: str, upstream: str, time_zone: str) -> None:
    """Write the consumer's row when it is the first run. Raises WrongUpstream
    where the row is another upstream's, BadConfig where it is bound to another time zone."""
    found = connection.execute(
        "SELECT upstream, time_zone FROM storage_consumer.consumer WHERE name = ?", (name,)
    ).fetchall()
    if not found:
        connection.execute(
            "INSERT INTO storage_consumer.consumer "
            "(name, format, upstream, applied_ts, start_ts, updated, written_by, time_zone) "
            "VALUES (?, ?, ?, 0, 0, now() AT TIME ZONE 'UTC', ?, ?)",
            (name, FORMAT_VERSION, upstream, __version__, time_zone),
        )
        return
    check_upstream(name, found[0][0], upstream)
    _check_time_zone(name, found[0][1], time_zone)
    connection.execute(
        "UPDATE storage_consumer.consumer SET written_by = ?, time_zone = ? WHERE name = ?",
        (__version__, time_zone, name),
    )


def _check_time_zone(name: str, recorded: str, time_zone: str) -> None:
    """Releases that did not record the zone kept TIMESTAMPs in it: only under UTC are they what they are now."""
    if not recorded and time_zone != "UTC":
        raise BadConfig(
            f"the replica of name {name!r} has TIMESTAMPs in the changefeed's local time, kept so by an older release;"
            " this one keeps them in UTC",
            hint="fill a new file",
        )
    check_time_zone(name, recorded or time_zone, time_zone)


def store(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    epoch: int,
    change: ProgressChange,
    touched: Collection[TableName] = (),
) -> None:
    """Write `change`; `touched` are tables to be listed in the public view. Raises ProgressMoved."""
    change.check(*_places(connection, name, change.tables))
    if change.applied_ts is not None:
        connection.execute(
            "UPDATE storage_consumer.consumer SET applied_ts = ?, updated = now() AT TIME ZONE 'UTC' WHERE name = ?",
            (change.applied_ts, name),
        )
        _prune_audit(connection, name)
    if change.start_ts is not None:
        connection.execute("UPDATE storage_consumer.consumer SET start_ts = ? WHERE name = ?", (change.start_ts, name))
    _forget_tombstones(connection, name, change)
    _replace(connection, "table_progress", name, _TABLE_KEY, *_split(change.tables, _table_key, _table_row))
    _replace(connection, "folder_progress", name, _FOLDER_KEY, *_split(change.folders, _folder_key, _folder_row))
    forgotten = [_ddl_key(gone) for gone in change.forget_ddls]
    executed = [_ddl_row(record) for record in change.ddls if record.id not in change.forget_ddls]
    _replace(connection, "ddl", name, _DDL_KEY, executed, forgotten)
    _replace(connection, "known_table", name, _TABLE_KEY, [_table_key(table) for table in touched if table.table])
    _append_audit(connection, name, epoch, change)


def ddl_state(connection: duckdb.DuckDBPyConnection, name: str, wanted: DdlId) -> DdlState | None:
    """What is recorded of one statement."""
    found = connection.execute(
        "SELECT state FROM storage_consumer.ddl WHERE name = ? AND database_name = ? AND table_name = ? "
        "AND version = ? AND checksum = ?",
        (name, *wanted),
    ).fetchall()
    return DdlState(found[0][0]) if found else None


def table_applied_ts(connection: duckdb.DuckDBPyConnection, name: str, table: TableName) -> int:
    """How far one table is."""
    found = connection.execute(
        "SELECT coalesce((SELECT max(applied_ts) FROM storage_consumer.table_progress "
        "WHERE name = $1 AND database_name = $2 AND table_name = $3), "
        "(SELECT applied_ts FROM storage_consumer.consumer WHERE name = $1), 0)",
        (name, table.database, table.table),
    ).fetchall()
    return int(found[0][0])


def _places(
    connection: duckdb.DuckDBPyConnection, name: str, tables: Collection[TableName]
) -> tuple[int, dict[TableName, int]]:
    """The global applied-ts, and that of those of `tables` that have one of their own."""
    found = connection.execute("SELECT applied_ts FROM storage_consumer.consumer WHERE name = ?", (name,)).fetchall()
    rows = connection.execute(
        "SELECT p.database_name, p.table_name, p.applied_ts FROM storage_consumer.table_progress p, "
        f"(SELECT unnest(from_json($rows, '{_shape('known_table')}'), recursive := true)) g "
        f"WHERE p.name = $name AND {_same('p', 'g', _TABLE_KEY)}",
        {"rows": json.dumps([_table_key(table) for table in tables]), "name": name},
    ).fetchall()
    return (int(found[0][0]) if found else 0), {TableName(*row[:2]): int(row[2]) for row in rows}


def _table_key(table: TableName) -> Row:
    return {"database_name": table.database, "table_name": table.table}


def _table_row(table: TableName, kept: TableProgress) -> Row:
    return {**_table_key(table), **asdict(kept)}


def _folder_key(folder: Folder) -> Row:
    return dict(zip(_FOLDER_KEY, folder, strict=True))


def _folder_row(folder: Folder, kept: FolderProgress) -> Row:
    return {
        **_folder_key(folder),
        "done": kept.done,
        "size": kept.size,
        "stamp": kept.stamp,
        "open_files": open_files(kept),
        "index_stamp": kept.index,
        "first_ts": kept.first_ts,
        "last_ts": kept.last_ts,
    }


def _ddl_key(wanted: DdlId) -> Row:
    return dict(zip(_DDL_KEY, wanted, strict=True))


def _ddl_row(record: DdlRecord) -> Row:
    return {
        **_ddl_key(record.id),
        "state": record.state.value,
        "before_state": record.before,
        "reason": record.reason,
    }


def _forget_tombstones(connection: duckdb.DuckDBPyConnection, name: str, change: ProgressChange) -> None:
    """A tombstone that goes away takes its row of the public view along."""
    gone = [_table_key(table) for table, kept in change.tables.items() if kept is None]
    if gone:
        connection.execute(
            "DELETE FROM storage_consumer.known_table k USING storage_consumer.table_progress p, "
            f"(SELECT unnest(from_json($rows, '{_shape('known_table')}'), recursive := true)) g "
            "WHERE k.name = $name AND p.name = $name AND p.state = 'dropped' "
            f"AND {_same('k', 'g', _TABLE_KEY)} AND {_same('p', 'g', _TABLE_KEY)}",
            {"rows": json.dumps(gone), "name": name},
        )


def _split(
    changed: Mapping[Item, Kept | None], key: Callable[[Item], Row], row: Callable[[Item, Kept], Row]
) -> tuple[list[Row], list[Row]]:
    """The rows to write, and the keys to remove."""
    kept = [row(item, value) for item, value in changed.items() if value is not None]
    return kept, [key(item) for item, value in changed.items() if value is None]


def _replace(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    name: str,
    key: tuple[str, ...],
    kept: Sequence[Row],
    gone: Sequence[Row] = (),
) -> None:
    """Write `kept`, each over the row with its key (of two with one key the later counts), and remove `gone`."""
    last = {tuple(row[part] for part in key): {"name": name, **row} for row in kept}
    incoming = f"SELECT unnest(from_json($rows, '{_shape(table)}'), recursive := true)"
    if last or gone:
        keys = [*last.values(), *({"name": name, **row} for row in gone)]
        connection.execute(
            f"DELETE FROM storage_consumer.{table} t USING ({incoming}) g "
            f"WHERE t.name = g.name AND {_same('t', 'g', key)}",
            {"rows": json.dumps(keys)},
        )
    if last:
        connection.execute(
            f"INSERT INTO storage_consumer.{table} {incoming}", {"rows": json.dumps(list(last.values()))}
        )


def _prune_audit(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    connection.execute(
        "DELETE FROM storage_consumer.audit "
        f"WHERE name = ? AND finished < (now() AT TIME ZONE 'UTC') - INTERVAL {AUDIT_DAYS} DAY",
        (name,),
    )


def _append_audit(connection: duckdb.DuckDBPyConnection, name: str, epoch: int, change: ProgressChange) -> None:
    rows = [
        {
            "name": name,
            "epoch": epoch,
            "step": row.step,
            **_table_key(row.table),
            "from_ts": row.from_ts,
            "to_ts": row.to_ts,
            "row_count": row.changes,
            "puts": row.puts,
            "deletes": row.deletes,
            "dropped_rows": row.dropped_rows,
            "statement": row.statement,
        }
        for row in change.audit
    ]
    if rows:
        connection.execute(
            "INSERT INTO storage_consumer.audit SELECT * REPLACE (now() AT TIME ZONE 'UTC' AS finished) "
            f"FROM (SELECT unnest(from_json($rows, '{_shape('audit')}'), recursive := true))",
            {"rows": json.dumps(rows)},
        )


def _same(left: str, right: str, key: tuple[str, ...]) -> str:
    return " AND ".join(f"{left}.{part} = {right}.{part}" for part in key)


def _shape(table: str) -> str:
    """The row type of a table, as from_json takes it."""
    return json.dumps([dict(TABLES[table])])
