"""The server's own name of the present moment, for those who read it, or a replica of it, at that moment."""

from __future__ import annotations

import pymysql

from consumer.sink.mysql.server.connection import greeted
from consumer.sink.mysql.server.errors import NOT_TOLD, errno

_GTIDS = {"mariadb": "@@global.gtid_binlog_pos", "mysql": "@@global.gtid_executed"}


def position(cursor: pymysql.cursors.Cursor) -> tuple[str, str]:
    """``("gtid", set)``, ``("binlog", "file:offset")`` if there are no GTIDs, ``("tso", number)`` on a TiDB: of a
    transaction that sees all that was committed before it. ("", "") if the server keeps none, or does not tell it.
    """
    try:
        return _asked(cursor)
    except pymysql.MySQLError as error:
        if errno(error) not in NOT_TOLD:
            raise
        return "", ""


def _asked(cursor: pymysql.cursors.Cursor) -> tuple[str, str]:
    flavor = greeted(cursor.connection)
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
