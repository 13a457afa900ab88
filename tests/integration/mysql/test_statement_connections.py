"""Statements take no more connections than they may, however many calls run at a time; they ask for what they need."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import cached_property

import pytest

from consumer.errors import TargetBusy
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.server import statement_connections
from consumer.sink.mysql.server.statement_connections import StatementConnections
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.statements import planned
from consumer.sink.mysql.statements.target_now import TargetNow
from tests.integration.mysql.steps import UPSTREAM, ddl, settings
from tests.servers import MariaDb

MOST = 3


def create(number: int) -> ApplyDdl:
    return ddl(Action.CREATE_TABLE, "d", f"t{number}", 10 + number, f"CREATE TABLE `t{number}` (`id` INT PRIMARY KEY)")


def test_many_calls_share_a_few_connections(fresh_mariadb: MariaDb) -> None:
    sink = MySqlSink(replace(settings(fresh_mariadb), worker_count=MOST))
    sink.acquire(UPSTREAM)
    ids = "SELECT COUNT(DISTINCT id) FROM information_schema.processlist WHERE user = 'root'"
    seen, done = list[int](), threading.Event()
    watching = fresh_mariadb.connect()

    def look() -> None:
        with watching.cursor() as cursor:
            cursor.execute(ids)
            seen.append(int(cursor.fetchone()[0]))

    def watch() -> None:
        while not done.is_set():
            look()

    look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        calls = [[create(number) for number in range(first, first + 6)] for first in range(0, 60, 6)]
        with ThreadPoolExecutor(len(calls)) as pool:
            outcomes = list(pool.map(lambda steps: sink.apply_ddls(steps, {}), calls))
    finally:
        done.set()
        watcher.join()
        watching.close()
    assert {outcome.error for call in outcomes for outcome in call} == {None}
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd'") == [(60,)]
    assert MOST <= max(seen) - seen[0] <= MOST + 1  # one guards the statements
    sink.close()


def test_the_servers_tables_are_asked_for_only_by_statements_that_name_others(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Counted(TargetNow):
        @cached_property
        def tables(self) -> frozenset[TableName]:
            asked.append("tables")
            return super().tables

    monkeypatch.setattr(planned, "TargetNow", Counted)
    sink = MySqlSink(settings(fresh_mariadb))
    sink.acquire(UPSTREAM)
    assert [outcome.error for outcome in sink.apply_ddls([create(1), create(2)], {})] == [None, None]
    assert asked == []
    like = ddl(Action.CREATE_TABLE, "d", "copy", 90, "CREATE TABLE `copy` LIKE `D`.`T1`")
    assert [outcome.error for outcome in sink.apply_ddls([like], {})] == [None]
    assert asked == ["tables"]
    sink.close()


def test_the_servers_collations_are_asked_for_once_a_connection(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[frozenset[str]] = []

    class Kept(TargetNow):
        @property
        def collations(self) -> frozenset[str]:
            answers.append(super().collations)
            return answers[-1]

    monkeypatch.setattr(planned, "TargetNow", Kept)
    sink = MySqlSink(replace(settings(fresh_mariadb), worker_count=1))
    sink.acquire(UPSTREAM)
    assert [sink.apply_ddls([step], {})[0].error for step in (create(1), create(2))] == [None, None]
    first, second = answers
    assert first is second
    there = fresh_mariadb.execute("SELECT LOWER(collation_name) FROM information_schema.collations")
    assert first == {name for (name,) in there if name}
    sink.close()


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_drop_in_a_database_that_is_gone_takes_nothing_of_another_one(kind: str, fresh_mariadb: MariaDb) -> None:
    """Its names are not qualified, and it comes behind another database's statement, on one connection."""
    sink = MySqlSink(replace(settings(fresh_mariadb), worker_count=1))
    sink.acquire(UPSTREAM)
    made = "VIEW d.t AS SELECT 1" if kind == "VIEW" else "TABLE d.t (id INT PRIMARY KEY)"
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.u (id INT, v INT)", f"CREATE {made}")
    index = ddl(Action.ADD_INDEX, "d", "u", 10, "ALTER TABLE `u` ADD INDEX `i`(`v`)")
    drop = ddl(Action[f"DROP_{kind}"], "gone", "t", 11, f"DROP {kind} `t`")
    assert [sink.apply_ddls([step], {})[0].error for step in (index, drop)] == [None, None]
    assert fresh_mariadb.execute("SELECT table_name FROM information_schema.tables WHERE table_name = 't'") == [("t",)]
    sink.close()


@pytest.mark.parametrize("runs", [False, True])
def test_a_session_that_is_left_is_waited_for_while_it_listens(
    runs: bool, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that runs a statement listens to nothing, and its end is waited for where its table is."""
    monkeypatch.setattr(statement_connections, "_WAIT_SECONDS", 0.2)
    lost, later = StatementConnections(settings(fresh_mariadb)), StatementConnections(settings(fresh_mariadb))
    with lost.cursor() as cursor, later.cursor() as other:
        started = threading.Thread(target=cursor.execute, args=("DO SLEEP(2)",))
        if runs:
            started.start()
            while not fresh_mariadb.execute("SELECT 1 FROM information_schema.processlist WHERE info = 'DO SLEEP(2)'"):
                pass
        with nullcontext() if runs else pytest.raises(TargetBusy, match="of a connection that is lost"):
            later.wait_for_lost(other)
        if runs:
            started.join()
    lost.close()
    monkeypatch.undo()
    with later.cursor() as other:
        later.wait_for_lost(other)
    later.close()


def test_statements_at_a_time_are_not_taken_for_lost_ones(fresh_mariadb: MariaDb) -> None:
    connections = StatementConnections(settings(fresh_mariadb))
    with connections.cursor() as one, connections.cursor() as other:
        connections.wait_for_lost(one)
        connections.wait_for_lost(other)
    connections.close()
    assert not connections.sessions


def test_each_of_many_sessions_has_a_mark(fresh_mariadb: MariaDb) -> None:
    """By which a later run finds it."""
    connections = StatementConnections(replace(settings(fresh_mariadb), worker_count=1000))
    with ExitStack() as stack:
        for _ in range(connections.most):
            stack.enter_context(connections.cursor())
        looked = stack.enter_context(StatementConnections(settings(fresh_mariadb)).cursor())
        locks = statement_connections._locks("replica")
        looked.execute("SELECT " + ", ".join(["IS_USED_LOCK(%s)"] * len(locks)), locks)
        assert {*connections.sessions.values()} <= {*looked.fetchone()}
