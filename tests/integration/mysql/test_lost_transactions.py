"""A target that lacks what it had committed, as a replica that was behind: nothing is recorded that builds on it."""

from __future__ import annotations

from collections.abc import Callable

import pymysql
import pytest

from consumer.errors import DdlRefused, LeaseHeld, ProgressMoved, TargetUnavailable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadOutcome, LoadTask, TableLoad
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange, State, TableProgress
from consumer.model.steps import Window
from consumer.sink.mysql.progress import epochs
from consumer.sink.mysql.rows.writer import MySqlWriter
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.statements.planned import Records
from consumer.target import LoadRequest
from tests.integration.mysql.steps import UPSTREAM, acquired, ddl, settings
from tests.integration.mysql.writing import changes
from tests.servers import MariaDb

_TABLE = TableName("d", "t")
_ID = Column("id", "INT", nullable=False, is_pk=True)
_KEPT = ("consumer", "table_progress", "lease", "ddl", "proof")


def _remember(server: MariaDb) -> Callable[[], None]:
    """What brings the progress back to what it is now, as a fail-over does."""
    server.execute("DROP DATABASE IF EXISTS past", "CREATE DATABASE past")
    for table in _KEPT:
        server.execute(
            f"CREATE TABLE past.{table} LIKE storage_consumer.{table}",
            f"INSERT INTO past.{table} SELECT * FROM storage_consumer.{table}",
        )

    def go_back() -> None:
        for table in _KEPT:
            server.execute(
                f"DELETE FROM storage_consumer.{table}",
                f"INSERT INTO storage_consumer.{table} SELECT * FROM past.{table}",
            )

    return go_back


def _written(sink: MySqlSink, server: MariaDb) -> LoadOutcome:
    """One row is written by a writer of `sink`."""
    server.execute("CREATE DATABASE IF NOT EXISTS d", "CREATE TABLE IF NOT EXISTS d.t (id INT PRIMARY KEY)")
    (target,) = sink.prepare([LoadRequest(TableLoad(_TABLE), (_ID,))])
    assert not isinstance(target, Exception)
    with sink.writer().session() as session:
        receipt = session.write(target, changes(target, puts=[("1",)]))
    return LoadOutcome(LoadTask(0, target, Window(0, 9), (), Dialect()), (), (receipt,))


_DONE = ProgressChange(tables={_TABLE: TableProgress(9)})


def test_progress_that_builds_on_lost_progress_is_refused(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    sink.record(ProgressChange(applied_ts=4))
    go_back = _remember(fresh_mariadb)
    sink.record(ProgressChange(applied_ts=5))
    go_back()
    with pytest.raises(ProgressMoved, match="lacks what it had recorded"):
        sink.record(ProgressChange(applied_ts=6))
    with pytest.raises(ProgressMoved):
        sink.writer()
    assert sink.progress().applied_ts == 4
    sink.fence()
    sink.record(ProgressChange(applied_ts=5))
    assert sink.progress().applied_ts == 5
    sink.close()


def test_rows_that_are_lost_are_not_recorded(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    outcome = _written(sink, fresh_mariadb)
    fresh_mariadb.execute("DELETE FROM d.t", "DELETE FROM storage_consumer.proof")
    with pytest.raises(ProgressMoved):
        sink.commit([outcome], _DONE)
    assert not sink.progress().tables
    sink.close()


def test_rows_that_are_there_are_recorded_however_often_it_is_asked(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    outcome = _written(sink, fresh_mariadb)
    for _ in range(2):  # the answer to the first may have been lost
        sink.commit([outcome], _DONE)
    assert sink.progress().tables[_TABLE].applied_ts == 9
    sink.record(ProgressChange(applied_ts=9))
    assert fresh_mariadb.execute("SELECT * FROM storage_consumer.proof") == []
    sink.close()


def test_a_load_does_not_begin_where_earlier_progress_is_lost(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    sink.end(sink.writer())
    go_back = _remember(fresh_mariadb)
    sink.record(ProgressChange(applied_ts=5))
    with pytest.raises(ProgressMoved):
        _written_behind(go_back, sink, fresh_mariadb)
    assert fresh_mariadb.execute("SELECT * FROM d.t") == []
    sink.close()


def _written_behind(go_back: Callable[[], None], sink: MySqlSink, server: MariaDb) -> None:
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    (target,) = sink.prepare([LoadRequest(TableLoad(_TABLE), (_ID,))])
    assert not isinstance(target, Exception)
    writer = sink.writer()
    go_back()
    with writer.session() as session:
        session.write(target, changes(target, puts=[("1",)]))


_CREATE = ddl(Action.CREATE_TABLE, "d", "s", 7, "CREATE TABLE `s` (`id` INT PRIMARY KEY)")


@pytest.mark.parametrize("lost", ["intent", "statement"])
def test_a_statement_that_is_lost_is_not_recorded(
    lost: str, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_mariadb.execute("CREATE DATABASE d")
    sink = acquired(fresh_mariadb)
    check, prove = Records.check, Records.prove

    def without_intent(records: Records, *given: object) -> None:
        fresh_mariadb.execute("DELETE FROM storage_consumer.ddl")
        check(records, *given)  # type: ignore[arg-type]

    def without_proof(records: Records, cursor: pymysql.cursors.Cursor) -> None:
        prove(records, cursor)
        fresh_mariadb.execute("DROP TABLE d.s", "DELETE FROM storage_consumer.proof")

    if lost == "intent":
        monkeypatch.setattr(Records, "check", without_intent)
        (outcome,) = sink.apply_ddls([_CREATE], {})
        assert isinstance(outcome.error, ProgressMoved)
    else:
        monkeypatch.setattr(Records, "prove", without_proof)
        with pytest.raises(ProgressMoved):
            sink.apply_ddls([_CREATE], {})
    assert fresh_mariadb.execute("SHOW TABLES FROM d") == []
    assert "done" not in {record.state for record in sink.progress().ddls.values()}
    sink.close()


_FOUR = [ddl(Action.CREATE_TABLE, "d", f"s{n}", 7 + n, f"CREATE TABLE `s{n}` (`id` INT PRIMARY KEY)") for n in range(4)]


def test_statements_whose_proof_cannot_be_left_are_looked_for(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have run, in sessions that end before they say so."""
    fresh_mariadb.execute("CREATE DATABASE d")
    sink, prove = acquired(fresh_mariadb), Records.prove

    def too_late(records: Records, cursor: pymysql.cursors.Cursor) -> None:
        fresh_mariadb.execute(f"KILL {cursor.connection.thread_id()}")
        prove(records, cursor)

    monkeypatch.setattr(Records, "prove", too_late)
    assert {type(outcome.error) for outcome in sink.apply_ddls(_FOUR, {})} == {TargetUnavailable}
    assert len(fresh_mariadb.execute("SHOW TABLES FROM d")) == 4
    intents = sink.progress().ddls
    assert {record.state.value for record in intents.values()} == {"intent"}

    monkeypatch.setattr(Records, "prove", prove)
    assert [outcome.error for outcome in sink.apply_ddls(_FOUR, intents)] == [None] * 4
    assert {record.state.value for record in sink.progress().ddls.values()} == {"done"}
    sink.close()


def test_a_refused_statement_leaves_the_proof_of_those_before_it(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d")
    sink = acquired(fresh_mariadb)
    refused = ddl(Action.CREATE_TABLE, "d", "s9", 20, "CREATE TABLE `s9` (`id` INT PRIMARY KEY, `id` INT)")
    found = sink.apply_ddls([*_FOUR[:2], refused, *_FOUR[2:]], {})
    assert [type(outcome.error) for outcome in found] == [type(None)] * 2 + [DdlRefused] + [type(None)] * 2
    assert sorted(record.state.value for record in sink.progress().ddls.values()) == ["done"] * 4 + ["refused"]
    sink.close()


def test_a_commit_whose_answer_is_lost_is_no_loss(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = acquired(fresh_mariadb)
    real = pymysql.Connection.commit
    answers = iter([False, True, False])

    def commit(connection: pymysql.Connection) -> None:
        real(connection)
        if not next(answers, True):
            connection.close()
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(pymysql.Connection, "commit", commit)
    sink.record(ProgressChange(applied_ts=5))
    sink.record(ProgressChange(applied_ts=6))
    sink.fence()
    sink.record(ProgressChange(applied_ts=7))
    assert sink.progress().applied_ts == 7
    sink.close()


def test_a_fence_whose_commit_is_not_answered_is_no_other_consumer(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = acquired(fresh_mariadb)
    real = pymysql.Connection.commit

    def commit(connection: pymysql.Connection) -> None:
        monkeypatch.undo()
        real(connection)
        connection.close()
        raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(pymysql.Connection, "commit", commit)
    with pytest.raises(TargetUnavailable):
        sink.fence()
    sink.fence()
    sink.record(ProgressChange(applied_ts=7))
    assert sink.progress().applied_ts == 7
    sink.close()


def test_a_table_is_kept_where_it_is_lost_that_it_is_to_be_emptied(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    sink = acquired(fresh_mariadb)
    go_back = _remember(fresh_mariadb)
    sink.record(ProgressChange(tables={_TABLE: TableProgress(9, State.EMPTYING)}))
    go_back()
    with pytest.raises(ProgressMoved):
        sink.empty_table(_TABLE, _DONE)
    assert fresh_mariadb.execute("SELECT * FROM d.t") == [(1,)]
    sink.fence()
    sink.empty_table(_TABLE, _DONE)
    assert fresh_mariadb.execute("SHOW TABLES FROM d") == []
    assert sink.progress().tables == _DONE.tables
    sink.close()


def test_a_guard_that_is_refused_holds_nothing(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins again then waits for no lock of its own."""
    monkeypatch.setattr(epochs, "_FENCE_WAIT_SECONDS", 3)
    sink = acquired(fresh_mariadb)
    go_back = _remember(fresh_mariadb)
    sink.fence()
    go_back()
    assert sink._lock is not None
    with pytest.raises(ProgressMoved), sink._lock.guarding(sink._epoch):
        pass
    sink.fence()
    sink.close()


def test_writers_of_what_was_lost_stay_locked_out(fresh_mariadb: MariaDb) -> None:
    """The epochs that they had may not come again."""
    first = acquired(fresh_mariadb)
    go_back = _remember(fresh_mariadb)
    first.fence()
    late = first.writer()
    first.record(ProgressChange(applied_ts=5))
    go_back()
    first.fence()
    now = first.writer()
    assert isinstance(late, MySqlWriter)
    assert isinstance(now, MySqlWriter)
    assert (late.lane, late.epoch) != (now.lane, now.epoch)
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    (target,) = first.prepare([LoadRequest(TableLoad(_TABLE), (_ID,))])
    assert not isinstance(target, Exception)
    with late.session() as session, pytest.raises((LeaseHeld, ProgressMoved)):
        session.write(target, changes(target, puts=[("1",)]))
    first.close()


def test_a_target_without_any_of_it_begins_anew(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    sink.record(ProgressChange(applied_ts=5))
    fresh_mariadb.execute("DROP DATABASE storage_consumer")
    with pytest.raises(ProgressMoved):
        sink.record(ProgressChange(applied_ts=6))
    sink.fence()
    assert sink.progress().applied_ts == 0
    sink.record(ProgressChange(applied_ts=1))
    assert sink.progress().applied_ts == 1
    sink.close()


def test_the_lock_is_taken_where_the_target_is_now(fresh_mariadb: MariaDb) -> None:
    """A new server knows nothing of the locks of the one before."""
    sink = acquired(fresh_mariadb)
    fresh_mariadb.kill_clients()
    sink.fence()
    with pytest.raises(LeaseHeld):
        MySqlSink(settings(fresh_mariadb)).acquire(UPSTREAM)
    sink.close()
