"""An answer whose connection breaks, or is closed."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time

import pymysql
import pytest
from pymysql.cursors import SSCursor

from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.settings import MySqlSettings
from tests.servers import SqlServer

_MUCH = "SELECT REPEAT('x', 10000) FROM information_schema.columns a, information_schema.columns b"


def test_nothing_is_printed_of_what_is_left_of_it(fresh_mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    connection = connect_to_server(MySqlSettings.from_uri(fresh_mariadb.url(), name="default"), "dml")
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


@pytest.mark.parametrize("options", ["?ssl-mode=DISABLED", ""])
def test_a_connection_is_closed_while_another_thread_waits_for_its_answer(
    options: str, fresh_mariadb: SqlServer
) -> None:
    found = MySqlSettings.from_uri(fresh_mariadb.url() + options, name="default")
    connection, ended = connect_to_server(found, "dml"), threading.Event()

    def ask() -> None:
        with contextlib.suppress(pymysql.MySQLError), connection.cursor() as cursor:
            cursor.execute("SELECT SLEEP(20)")
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    time.sleep(1)
    began = time.monotonic()
    connection.close()
    assert time.monotonic() - began < 10
    assert ended.wait(10)
