"""An answer that is read row by row, and whose connection breaks."""

from __future__ import annotations

import gc
import sys

import pymysql
import pytest
from pymysql.cursors import SSCursor

from consumer.sink.mysql.server.connection import connect
from consumer.sink.mysql.settings import MySqlSettings
from tests.servers import SqlServer

_MUCH = "SELECT REPEAT('x', 10000) FROM information_schema.columns a, information_schema.columns b"


def test_nothing_is_printed_of_what_is_left_of_it(fresh_mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    connection = connect(MySqlSettings.from_uri(fresh_mariadb.url(), name="default"), "dml")
    cursor = SSCursor(connection)
    cursor.execute(_MUCH)
    cursor.fetchone()
    fresh_mariadb.kill_clients()
    with pytest.raises(pymysql.MySQLError):
        cursor.fetchall()
    connection.close()
    del cursor, connection
    gc.collect()
    assert printed == []
