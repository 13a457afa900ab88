"""One writer at a time, and no writer of yesterday."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pymysql
import pytest

from consumer.errors import BadConfig, LeaseHeld
from consumer.model.actions import Action
from consumer.model.progress import ProgressChange
from consumer.sink.mysql.progress.epochs import STATEMENTS, check_epoch
from consumer.sink.mysql.rows import transactions
from consumer.sink.mysql.rows.writer import MySqlWriter
from consumer.sink.mysql.server import driver, statement_connections
from consumer.sink.mysql.server.connection import Purpose, connect_to_server
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.sink import MySqlSink
from tests.integration.mysql.steps import UPSTREAM, acquired, ddl, settings
from tests.servers import MariaDb


def test_the_second_is_told_who_holds_it(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.sink.mysql.progress.lease._WAIT_SECONDS", 1)
    first = acquired(fresh_mariadb)
    second = MySqlSink(settings(fresh_mariadb))
    with pytest.raises(LeaseHeld, match=f"pid {os.getpid()}"):
        second.acquire(UPSTREAM)
    first.record(ProgressChange(applied_ts=4))
    first.close()
    assert second.acquire(UPSTREAM).applied_ts == 4
    second.close()


def test_a_dead_holder_is_no_obstacle_and_cannot_come_back(fresh_mariadb: MariaDb) -> None:
    first = acquired(fresh_mariadb)
    fresh_mariadb.kill_clients()
    began = time.perf_counter()
    second = acquired(fresh_mariadb)
    assert time.perf_counter() - began < 15
    with pytest.raises(LeaseHeld, match="taken over"):
        first.record(ProgressChange(applied_ts=99))
    with pytest.raises(LeaseHeld):
        first.fence()
    assert second.progress().applied_ts == 0
    first.close()
    second.close()


def test_a_lost_connection_alone_does_no_harm(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    fresh_mariadb.kill_clients()
    sink.record(ProgressChange(applied_ts=5))
    assert sink.progress().applied_ts == 5
    sink.close()


def _pooled(server: MariaDb, monkeypatch: pytest.MonkeyPatch, *purposes: str) -> None:
    """From now on what a connection says reaches another session of the server, as behind a proxy that pools them."""

    def swapped(
        settings: MySqlSettings, purpose: Purpose, autocommit: bool = False, **more: bool
    ) -> pymysql.Connection:
        ours = connect_to_server(settings, purpose, autocommit, **more)
        if purpose in purposes:
            login = {"user": settings.user, "password": settings.password}
            other = pymysql.connect(host=settings.host, port=settings.port, autocommit=autocommit, **login)
            for part in ("_sock", "_rfile"):
                theirs = getattr(other, part)
                setattr(other, part, getattr(ours, part))
                setattr(ours, part, theirs)
            ours.other = other  # both stay open
        return ours

    for module in (driver, statement_connections, transactions):
        monkeypatch.setattr(module, "connect_to_server", swapped)


def test_rows_and_progress_are_not_written_in_a_session_that_is_not_ours(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = acquired(fresh_mariadb)
    sink.record(ProgressChange(applied_ts=4))
    sink.close()
    _pooled(fresh_mariadb, monkeypatch, "dml")
    sink = acquired(fresh_mariadb)
    with pytest.raises(BadConfig, match="a proxy before it pools connections"):
        sink.record(ProgressChange(applied_ts=5))
    assert sink.progress().applied_ts == 4
    sink.close()


def test_statements_do_not_run_in_a_session_that_is_not_ours(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = acquired(fresh_mariadb)
    _pooled(fresh_mariadb, monkeypatch, "ddl")
    (outcome,) = sink.apply_ddls([ddl(Action.CREATE_SCHEMA, "pooled", "", 5, "CREATE DATABASE `pooled`")], {})
    assert isinstance(outcome.error, BadConfig)
    assert fresh_mariadb.execute("SHOW DATABASES LIKE 'pooled'") == []
    sink.close()


def test_fence_waits_for_a_writer_and_refuses_it_afterwards(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    epoch = fresh_mariadb.execute("SELECT epoch FROM storage_consumer.lease")[0][0]
    writer = connect_to_server(settings(fresh_mariadb), "dml")
    cursor = writer.cursor()
    check_epoch(cursor, "replica", epoch, STATEMENTS)
    fencing = threading.Thread(target=sink.fence)
    fencing.start()
    fencing.join(timeout=0.5)
    assert fencing.is_alive()
    writer.commit()
    fencing.join(timeout=10)
    assert not fencing.is_alive()
    with pytest.raises(LeaseHeld):
        check_epoch(cursor, "replica", epoch, STATEMENTS)
    sink.record(ProgressChange(applied_ts=1))
    writer.close()
    sink.close()


def test_writers_of_one_epoch_do_not_wait_for_one_another(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    epoch = fresh_mariadb.execute("SELECT epoch FROM storage_consumer.lease")[0][0]
    writers = [connect_to_server(settings(fresh_mariadb), "dml") for _ in range(3)]
    began = time.perf_counter()
    for writer in writers:
        check_epoch(writer.cursor(), "replica", epoch, STATEMENTS)
    sink.record(ProgressChange(applied_ts=1))
    assert time.perf_counter() - began < 15
    for writer in writers:
        writer.close()
    sink.close()


def test_the_lock_is_taken_again_after_a_lost_connection(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.sink.mysql.progress.lease._HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr("consumer.sink.mysql.progress.lease._WAIT_SECONDS", 1)
    first = acquired(fresh_mariadb)
    fresh_mariadb.kill_clients()
    time.sleep(1)
    with pytest.raises(LeaseHeld):
        MySqlSink(settings(fresh_mariadb)).acquire(UPSTREAM)
    first.record(ProgressChange(applied_ts=1))
    first.close()


def test_a_writer_whose_machine_is_gone_holds_nobody_up_for_long(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.sink.mysql.server.connection.SILENCE_SECONDS", 2)
    first = acquired(fresh_mariadb)
    late = first.writer()
    assert isinstance(late, MySqlWriter)
    gone = connect_to_server(settings(fresh_mariadb), "dml")
    check_epoch(gone.cursor(), "replica", late.epoch, late.lane)
    first.close()
    began = time.perf_counter()
    second = acquired(fresh_mariadb)
    assert time.perf_counter() - began < 20
    with pytest.raises(pymysql.MySQLError):
        gone.commit()
    second.close()


def test_a_statement_may_take_longer_than_a_client_may_be_silent(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.sink.mysql.server.connection.SILENCE_SECONDS", 2)
    monkeypatch.setattr("consumer.sink.mysql.server.connection.SHORT_LOCK_WAIT_SECONDS", 10)
    monkeypatch.setattr("consumer.sink.mysql.progress.lease._HEARTBEAT_SECONDS", 0.2)
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT)")
    sink = acquired(fresh_mariadb)
    busy = fresh_mariadb.connect(autocommit=False)
    busy.cursor().execute("SELECT * FROM d.t")
    release = threading.Timer(4, busy.commit)
    release.start()
    (outcome,) = sink.apply_ddls([ddl(Action.ADD_COLUMN, "d", "t", 5, "ALTER TABLE t ADD COLUMN b INT")], {})
    assert outcome.error is None
    other = MySqlSink(settings(fresh_mariadb))
    with pytest.raises(LeaseHeld):
        other.acquire(UPSTREAM)
    sink.record(ProgressChange(applied_ts=6))
    release.join()
    busy.close()
    sink.close()


_HOLDER = """
import sys, time
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.sink import MySqlSink
MySqlSink(MySqlSettings.from_uri(sys.argv[1], name="replica")).acquire(sys.argv[2])
print("held", flush=True)
time.sleep(60)
"""


def test_after_kill_9_the_next_run_begins_at_once(fresh_mariadb: MariaDb) -> None:
    command = [sys.executable, "-c", _HOLDER, fresh_mariadb.url(), UPSTREAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()
    began = time.perf_counter()
    acquired(fresh_mariadb).close()
    assert time.perf_counter() - began < 15


def test_the_sink_is_light_to_import() -> None:
    code = "import sys, consumer.sink.mysql.sink; print({'pyarrow', 'pyspark'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
