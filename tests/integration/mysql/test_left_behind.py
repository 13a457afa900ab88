"""Statements of a round that broke off, on threads that are left behind: none runs beside the round that follows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from consumer.errors import LeaseHeld
from consumer.model.actions import Action
from consumer.model.progress import DdlRecord, DdlState, ProgressChange
from consumer.sink.mysql.server.statement_connections import StatementConnections
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.statements import execute as mysql_ddl
from consumer.sink.mysql.statements.operations import Operations
from consumer.sink.mysql.statements.planned import PlannedDdl, Records, facts, intents
from tests.integration.mysql.steps import acquired, ddl, settings
from tests.servers import MariaDb

_CREATE = ddl(Action.CREATE_TABLE, "d", "s", 7, "CREATE TABLE `s` (`id` INT PRIMARY KEY)")
_SECOND = "CREATE TABLE `r` (`id` INT PRIMARY KEY)"


def test_one_that_waited_for_a_connection(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server that had the guard is gone, and its replica has the intent."""
    fresh_mariadb.execute("CREATE DATABASE d")
    sink = acquired(fresh_mariadb)
    check = Records.check

    def late(records: Records, *given: object) -> None:
        fresh_mariadb.kill_clients()
        sink.fence()
        with StatementConnections(settings(fresh_mariadb)).cursor() as cursor:
            check(records, cursor, *given[1:])  # type: ignore[arg-type]

    monkeypatch.setattr(Records, "check", late)
    (outcome,) = sink.apply_ddls([_CREATE], {})
    assert isinstance(outcome.error, LeaseHeld)
    assert fresh_mariadb.execute("SHOW TABLES FROM d") == []
    sink.close()


def test_one_that_waited_for_its_table(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_mariadb.execute("CREATE DATABASE d")
    sink = acquired(fresh_mariadb)
    intent = DdlRecord(_CREATE.id, DdlState.INTENT, json.dumps([0, "", [["d", "s"]], [], [None], []]))
    sink.record(ProgressChange(ddls=(intent,)))
    _fence_behind("wait_for_running", sink, fresh_mariadb, monkeypatch)
    (outcome,) = sink.apply_ddls([_CREATE], {_CREATE.id: intent})
    assert isinstance(outcome.error, LeaseHeld)
    assert fresh_mariadb.execute("SHOW TABLES FROM d") == []
    sink.close()


@pytest.mark.parametrize("behind", ["_execute", "current_state"])
def test_one_that_waited_in_the_middle_of_its_query(
    behind: str, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the statement before it, or for the driver."""
    fresh_mariadb.execute("CREATE DATABASE d")
    sink = acquired(fresh_mariadb)
    both = Operations((_CREATE.file.query, _SECOND))
    monkeypatch.setattr("consumer.sink.mysql.statements.planned.operations", lambda *_, **__: both)
    _fence_behind(behind, sink, fresh_mariadb, monkeypatch)
    (outcome,) = sink.apply_ddls([_CREATE], {})
    assert isinstance(outcome.error, LeaseHeld)
    assert fresh_mariadb.execute("SHOW TABLES FROM d") == [("s",)]
    sink.close()


def test_one_that_waited_for_the_driver(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was looked at, and nothing of it is recorded: nobody waits for it."""
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.s (id INT PRIMARY KEY)")
    truncate = ddl(Action.TRUNCATE_TABLE, "d", "s", 9, "TRUNCATE TABLE `s`")
    sink = acquired(fresh_mariadb)

    def late(planned: Sequence[PlannedDdl]) -> ProgressChange:
        monkeypatch.undo()
        sink.fence()
        (outcome,) = sink.apply_ddls([truncate], sink.progress().ddls)
        assert outcome.error is None
        fresh_mariadb.execute("INSERT INTO d.s VALUES (1)")
        return intents(planned)

    monkeypatch.setattr("consumer.sink.mysql.sink.intents", late)
    with pytest.raises(LeaseHeld):
        sink.apply_ddls([truncate], {})
    assert fresh_mariadb.execute("SELECT * FROM d.s") == [(1,)]
    assert [record.state for record in sink.progress().ddls.values()] == [DdlState.DONE]
    sink.close()


def test_what_came_of_one_is_not_recorded_behind_what_a_later_round_has_recorded(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target refused it, and no longer does."""
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.s (id INT)")
    sink = acquired(fresh_mariadb)
    add = ddl(Action.ADD_COLUMN, "d", "s", 9, "ALTER TABLE `s` ADD COLUMN `c` INT, ADD COLUMN `e` INT AFTER `b`")

    def late(*given: Any) -> Sequence[ProgressChange]:
        monkeypatch.undo()
        fresh_mariadb.execute("ALTER TABLE d.s ADD COLUMN b INT")
        sink.fence()
        (outcome,) = sink.apply_ddls([add], {})
        assert outcome.error is None
        return facts(*given)

    monkeypatch.setattr("consumer.sink.mysql.sink.facts", late)
    (outcome,) = sink.apply_ddls([add], {})
    assert isinstance(outcome.error, LeaseHeld)
    assert [record.state for record in sink.progress().ddls.values()] == [DdlState.DONE]
    sink.close()


def test_no_statement_keeps_the_process_alive(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python waits at its end for every thread that is no daemon, and no signal ends that."""
    fresh_mariadb.execute("CREATE DATABASE d")
    sink, kept = acquired(fresh_mariadb), list[bool]()
    check = Records.check

    def seen(records: Records, *given: Any) -> None:
        kept.append(threading.current_thread().daemon)
        check(records, *given)

    monkeypatch.setattr(Records, "check", seen)
    other = ddl(Action.CREATE_TABLE, "d", "r", 8, _SECOND)
    assert [outcome.error for outcome in sink.apply_ddls([_CREATE, other], {})] == [None, None]
    assert kept == [True, True]
    sink.close()


def test_a_session_that_is_opened_meanwhile_is_not_one_that_is_lost(fresh_mariadb: MariaDb) -> None:
    """Of another statement of the same round, which then waits for its next one."""
    sink = acquired(fresh_mariadb)
    lost = sink._statements._new()
    del sink._statements.sessions[lost]
    with ThreadPoolExecutor(1) as pool, sink._statements.cursor() as cursor:
        waits = pool.submit(sink._statements.wait_for_lost, cursor)
        time.sleep(0.2)
        assert not waits.done()
        with sink._statements.cursor() as opened:
            opened.execute("SELECT 1")
        lost.close()
        waits.result(timeout=4)
    sink.close()


def _fence_behind(name: str, sink: MySqlSink, server: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another round begins once that has returned; the guard was lost, with its connection. It would wait for this
    session, and does not here: the session itself is to see that it comes too late."""
    monkeypatch.setattr("consumer.sink.mysql.sink.wait_for_listening", lambda *_: None)
    real = getattr(mysql_ddl, name)

    def fenced(*given: object) -> object:
        result = real(*given)
        assert sink._lock is not None
        assert sink._lock._connection is not None
        server.execute(f"KILL {sink._lock._connection.thread_id()}")
        sink.fence()
        return result

    monkeypatch.setattr(mysql_ddl, name, fenced)
