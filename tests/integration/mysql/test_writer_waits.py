"""Writers of one table go side by side: a delete of a row that is not there locks nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pymysql
import pytest

from consumer.model.columns import Column
from consumer.model.load import LoadTarget
from consumer.sink.mysql.rows.staged import begin_unlocked
from consumer.sink.mysql.rows.statements import by_statements, delete_statements
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.target import mysql_target
from tests.integration.mysql.writing import changes, make_target, settings_of, write
from tests.servers import MariaDb, SqlServer, mariadb_template

_COLUMNS = [Column("id", "INT", is_pk=True, nullable=False), Column("v", "INT")]
_BODY = "id INT PRIMARY KEY, v INT"
_GONE = [("1", None), ("50", None)]
_WAITED = 1205


def test_a_session_writes_without_locks_of_gaps(fresh_mariadb: SqlServer) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _BODY)
    write(fresh_mariadb, target, changes(target, puts=[("1", "0")]))
    blocker = fresh_mariadb.connect(autocommit=False)
    with blocker, blocker.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("SELECT * FROM db.t WHERE id = 1 FOR UPDATE")
        writing = pool.submit(write, fresh_mariadb, target, changes(target, deletes=_GONE))
        try:
            assert _level_of_the_waiting_one(fresh_mariadb) == "READ COMMITTED"
        finally:
            blocker.rollback()
        assert writing.result().deletes == 2


def _level_of_the_waiting_one(server: SqlServer) -> str:
    deadline = time.monotonic() + 9
    while True:
        query = "SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        if rows := server.execute(query):
            return str(rows[0][0])
        assert time.monotonic() < deadline
        time.sleep(0.3)  # MySQL shows an old answer to who asks again within 0.1 s


@pytest.mark.parametrize("unlocked", [True, False])
def test_new_rows_beside_a_delete_of_a_row_that_is_not_there(unlocked: bool, fresh_mariadb: SqlServer) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _BODY)
    one, other = (
        connect_to_server(settings_of(fresh_mariadb), "dml"),
        connect_to_server(settings_of(fresh_mariadb), "dml"),
    )
    with one, other, one.cursor() as first, other.cursor() as second:
        if unlocked:
            begin_unlocked(first, mysql_target(target).server)
        for statement in delete_statements(target, changes(target, deletes=_GONE)):
            first.execute(statement)
        second.execute("SET SESSION innodb_lock_wait_timeout = 1")
        assert _is_put(second, target) is unlocked


def _is_put(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> bool:
    try:
        by_statements(cursor, target, changes(target, puts=[("60", "0")]), 1 << 24)
    except pymysql.err.OperationalError as error:
        if error.args[0] == _WAITED:
            return False
        raise
    return True


def test_a_binary_log_of_statements_takes_the_rows(tmp_path: Path) -> None:
    """It refuses rows that are written at READ COMMITTED."""
    server = MariaDb(mariadb_template(tmp_path), ["--log-bin", "--server-id=1", "--binlog-format=STATEMENT"]).start()
    try:
        target = make_target(server, _COLUMNS, _BODY)
        for v in "12":
            write(server, target, changes(target, puts=[(str(n), v) for n in range(2, 2500)], deletes=_GONE[:1]))
        assert server.execute("SELECT COUNT(*), SUM(v) FROM db.t") == [(2498, 4996)]
    finally:
        server.stop()
