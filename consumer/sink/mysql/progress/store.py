"""The tables of schema `storage_consumer` on a server. The caller owns the transaction and handles pymysql's errors."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import pymysql

from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.sink import progress_sql
from consumer.sink.mysql.progress import schema
from consumer.sink.mysql.progress.epochs import forget_proofs
from consumer.sink.mysql.progress.lease import lock_name
from consumer.sink.mysql.server.connection import flavor_from_greeting
from consumer.sink.mysql.server.errors import NO_ANSWER, errno
from consumer.sink.mysql.tables.describe import Spelling
from consumer.sink.progress_layout import KEYS
from consumer.sink.progress_sql import Row, Rows, sha256

_BATCH = 500
_GTIDS = {"mariadb": "@@global.gtid_binlog_pos", "mysql": "@@global.gtid_executed"}


class ServerTables:
    """progress_sql.ProgressTables on a cursor. A folder is identified by a hash of its key. An audit row has the hash
    of its statement."""

    now = "UTC_TIMESTAMP(3)"
    lock = " FOR UPDATE"
    of_name: Collection[str] = tuple(table for table, columns in schema.COLUMNS.items() if "name" in columns)

    def __init__(self, cursor: pymysql.cursors.Cursor) -> None:
        self._cursor = cursor

    def exists(self) -> bool:
        return schema.schema_exists(self._cursor)

    def tells_case(self) -> bool:
        return Spelling(self._cursor).case

    def is_busy(self, name: str) -> bool:
        self._cursor.execute("SELECT IS_USED_LOCK(%s) IS NOT NULL", (lock_name(name),))
        return bool(self._cursor.fetchone()[0])

    def position(self) -> tuple[str, str]:
        try:
            return _position(self._cursor)
        except pymysql.MySQLError as error:
            if errno(error) not in NO_ANSWER:
                raise
            return "", ""

    def run(self, query: str, *values: object) -> Rows:
        with schema.missing_columns_reported():
            self._cursor.execute(query.replace("?", "%s"), values)
        return list(self._cursor.fetchall())

    def matching(self, table: str, columns: str, keys: Sequence[Row]) -> Rows:
        rows: list[Sequence[object]] = []
        for start in range(0, len(keys), _BATCH):
            self._some(f"SELECT {columns} FROM", table, keys[start : start + _BATCH])
            rows += self._cursor.fetchall()
        return rows

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Runs REPLACE in few statements: pymysql joins rows up to 1 MB."""
        if table == "folder_progress":
            rows = [{**row, "id": _folder_id(row)} for row in rows]
        elif table == "audit":
            rows = [{**row, "statement_hash": sha256(row["statement"])} for row in rows]
        if rows:
            columns, marks = ", ".join(f"`{column}`" for column in rows[0]), ", ".join(["%s"] * len(rows[0]))
            query = f"REPLACE INTO storage_consumer.{table} ({columns}) VALUES ({marks})"
            self._cursor.executemany(query, [tuple(row.values()) for row in rows])

    def remove(self, table: str, keys: Sequence[Row]) -> None:
        for start in range(0, len(keys), _BATCH):
            self._some("DELETE FROM", table, keys[start : start + _BATCH])

    def append(self, table: str, rows: Sequence[Row]) -> None:
        self.put(table, rows)

    def update(self, table: str, changes: str, where: str, *values: object) -> None:
        self.run(f"UPDATE storage_consumer.{table} SET {changes} WHERE {where}", *values)

    def delete(self, table: str, where: str, *values: object) -> None:
        self.run(f"DELETE FROM storage_consumer.{table} WHERE {where}", *values)

    def _some(self, what: str, table: str, keys: Sequence[Row]) -> None:
        columns, wanted = _found_by(table, keys)
        query = f"{what} storage_consumer.{table} WHERE name = %s AND ({', '.join(columns)}) IN %s"
        self._cursor.execute(query, (keys[0]["name"], wanted))


def _found_by(table: str, keys: Sequence[Row]) -> tuple[Sequence[str], list[object]]:
    """Returns the key columns without the consumer name, and their values. pymysql renders tuples as ``((a,b),(c,d))``;
    keys of one column must not be wrapped twice."""
    if table == "folder_progress":
        return ("id",), [_folder_id(key) for key in keys]
    columns = KEYS[table][1:]
    return columns, [tuple(key[column] for column in columns) for key in keys]


def _folder_id(row: Row) -> str:
    return sha256(json.dumps([row[column] for column in KEYS["folder_progress"][1:]]))


def store(
    cursor: pymysql.cursors.Cursor,
    name: str,
    epoch: int,
    change: ProgressChange,
    touched: Collection[TableName] = (),
) -> None:
    """Writes `change` as `progress_sql.write_progress` does. At the end of a round it also removes earlier proofs,
    because only then is the progress of all tables recorded."""
    progress_sql.write_progress(ServerTables(cursor), name, epoch, change, touched)
    if change.applied_ts is not None:
        forget_proofs(cursor, name)


def _position(cursor: pymysql.cursors.Cursor) -> tuple[str, str]:
    """Returns the server's own position, for readers of this server or of its replicas at that moment: ``("gtid",
    set)``, ``("binlog", "file:offset")`` if there are no GTIDs, ``("tso", number)`` on TiDB, of a transaction that sees
    all earlier commits. ("", "") if the server keeps none."""
    flavor = flavor_from_greeting(cursor.connection)
    if flavor.name == "tidb":
        cursor.execute("SELECT @@tidb_current_ts")
        return "tso", str(cursor.fetchone()[0])
    cursor.execute(f"SELECT @@global.log_bin, {_GTIDS[flavor.name]}")
    is_on, gtids = cursor.fetchone()
    if not is_on:
        return "", ""
    if gtids:
        return "gtid", "".join(str(gtids).split())
    cursor.execute("SHOW BINARY LOG STATUS" if flavor.version >= (8, 2) else "SHOW MASTER STATUS")
    file, offset, *_ = cursor.fetchone()
    return "binlog", f"{file}:{offset}"
