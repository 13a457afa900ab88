"""Small tables are written in one transaction: all of them or none, and as each would be by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pymysql
import pytest

from consumer.errors import LeaseHeld, RowRefused, TargetBusy, TargetUnavailable
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, Receipt
from consumer.sink.mysql.rows.writer import MySqlSession, MySqlWriter
from consumer.sink.mysql.server.connection import LOCK_WAIT_SECONDS
from tests.integration.mysql.writing import EPOCH, by_statements, changes, make_target, settings_of
from tests.servers import MariaDb, SqlServer
from tests.support.feed import Feed, Replica
from tests.tidb_server import TiDb, checks_hold

_ID = Column("id", "INT", is_pk=True, nullable=False)
_V = Column("v", "VARCHAR")
_Parts = list[tuple[LoadTarget, pa.Table]]


def _plain(server: MariaDb, name: str, limit: str = "") -> LoadTarget:
    target = make_target(server, [_ID, _V], f"id INT PRIMARY KEY, v VARCHAR(9) {limit}", table=name)
    server.execute(f"INSERT INTO db.`{name}` VALUES (7, 'old'), (8, 'old')")
    return target


def _several(server: MariaDb, prefix: str) -> _Parts:
    """By LOAD DATA and by statements, with puts, deletes or both, and an error value of an ENUM."""
    first, second, third = (_plain(server, f"{prefix}{n}") for n in range(3))
    odd = make_target(server, [_ID, Column("e", "ENUM")], "id INT PRIMARY KEY, e ENUM('a')", table=f"{prefix}3")
    return [
        (first, changes(first, puts=[("1", "a"), ("7", "new")], deletes=[("8", None)])),
        (by_statements(second), changes(second, puts=[("1", "it's")])),
        (third, changes(third, deletes=[("7", None), ("9", None)])),
        (odd, changes(odd, puts=[("1", "0"), ("2", "1")])),
    ]


def _together(
    server: MariaDb, parts: Sequence[tuple[LoadTarget, pa.Table]], epoch: int = EPOCH
) -> list[Receipt | None]:
    with MySqlWriter(settings_of(server), epoch).session() as session:
        return list(session.write_packed(parts))


def _rows(server: MariaDb, prefix: str) -> list[object]:
    return [server.execute(f"SELECT * FROM db.`{prefix}{n}` ORDER BY id") for n in range(4)]


def test_they_are_one_transaction_and_the_rows_are_as_each_alone_leaves_them(fresh_mariadb: MariaDb) -> None:
    receipts = _together(fresh_mariadb, _several(fresh_mariadb, "t"))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM storage_consumer.proof") == [(1,)]
    with MySqlWriter(settings_of(fresh_mariadb), EPOCH).session() as session:
        alone = [session.write(*part) for part in _several(fresh_mariadb, "a")]
    assert receipts == alone
    assert len({receipt.proofs for receipt in receipts if receipt is not None}) == 1
    assert _rows(fresh_mariadb, "t") == _rows(fresh_mariadb, "a")
    assert _rows(fresh_mariadb, "t") == [
        [(1, "a"), (7, "new")],
        [(1, "it's"), (7, "old"), (8, "old")],
        [(8, "old")],
        [(1, ""), (2, "a")],
    ]


@pytest.mark.parametrize("way", ["load data", "statements"])
def test_where_one_row_is_refused_nothing_of_any_is_written(way: str, fresh_mariadb: MariaDb) -> None:
    good, bad = _plain(fresh_mariadb, "good"), _plain(fresh_mariadb, "bad")
    parts = [
        (good, changes(good, puts=[("1", "a")])),
        (bad if way == "load data" else by_statements(bad), changes(bad, puts=[("1", "longer than 9")])),
    ]
    with MySqlWriter(settings_of(fresh_mariadb), EPOCH).session() as session:
        if way == "load data":
            assert session.write_packed(parts) == [None, None]
        else:
            with pytest.raises(RowRefused):
                session.write_packed(parts)
        assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.good") == [(2,)]
        assert session.write(*parts[0]).puts == 1
        with pytest.raises(RowRefused):
            session.write(*parts[1])
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.good") == [(3,)]
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.bad") == [(2,)]


def test_what_needs_a_stage_is_left_to_a_transaction_of_its_own(fresh_mariadb: MariaDb) -> None:
    parts = _several(fresh_mariadb, "t")
    kept = make_target(fresh_mariadb, [_ID], "id INT PRIMARY KEY, own INT DEFAULT 5", table="kept")
    assert kept.extra_columns
    receipts = _together(fresh_mariadb, [parts[0], (kept, changes(kept, puts=[("1",)])), parts[1]])
    assert [receipt is None for receipt in receipts] == [False, True, False]
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.kept") == [(0,)]


def test_who_is_locked_out_writes_none(fresh_mariadb: MariaDb) -> None:
    parts = _several(fresh_mariadb, "t")
    before = _rows(fresh_mariadb, "t")
    with pytest.raises(LeaseHeld):
        _together(fresh_mariadb, parts, EPOCH - 1)
    assert _rows(fresh_mariadb, "t") == before


def test_one_that_is_locked_holds_up_the_others_for_a_second(fresh_mariadb: MariaDb) -> None:
    parts = _several(fresh_mariadb, "t")
    before = _rows(fresh_mariadb, "t")
    locking, waiting = fresh_mariadb.connect(autocommit=False), "SELECT @@innodb_lock_wait_timeout"
    if not isinstance(fresh_mariadb, TiDb):
        waiting += ", @@lock_wait_timeout"
    with (
        locking,
        locking.cursor() as cursor,
        MySqlWriter(settings_of(fresh_mariadb), EPOCH).session() as session,
    ):
        cursor.execute("SELECT * FROM db.t2 WHERE id = 7 FOR UPDATE")
        began = time.monotonic()
        with pytest.raises(TargetBusy):
            session.write_packed(parts)
        assert 1 <= time.monotonic() - began < LOCK_WAIT_SECONDS
        assert _rows(fresh_mariadb, "t") == before
        assert session.write(*parts[0]).puts == 2  # nothing of it is locked any more
        locking.rollback()
        assert None not in session.write_packed(parts)
        waits = session._transactions.run("", lambda own: own.execute(waiting) and own.fetchone())
    assert set(waits) == {1}


def test_a_table_without_transactions_keeps_what_it_got_and_gets_it_again(fresh_mariadb: MariaDb) -> None:
    plain, bad = _plain(fresh_mariadb, "plain"), _plain(fresh_mariadb, "bad")
    fresh_mariadb.execute("ALTER TABLE db.plain ENGINE = MyISAM")
    parts = [
        (plain, changes(plain, puts=[("1", "a")], deletes=[("7", None)])),
        (by_statements(bad), changes(bad, puts=[("1", "longer than 9")])),
    ]
    with MySqlWriter(settings_of(fresh_mariadb), EPOCH).session() as session:
        with pytest.raises(RowRefused):
            session.write_packed(parts)
        assert session.write(*parts[0]).puts == 1
    assert fresh_mariadb.execute("SELECT * FROM db.plain ORDER BY id") == [(1, "a"), (8, "old")]
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.bad") == [(2,)]


def test_a_commit_whose_answer_is_lost_is_written_again(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = _several(fresh_mariadb, "t")
    real, lost = pymysql.Connection.commit, list[int]()

    def commit(connection: pymysql.Connection) -> None:
        real(connection)
        if not lost and fresh_mariadb.execute("SELECT 1 FROM storage_consumer.proof"):
            lost.append(1)
            connection.close()
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(pymysql.Connection, "commit", commit)
    with MySqlWriter(settings_of(fresh_mariadb), EPOCH).session() as session:
        with pytest.raises(TargetUnavailable):
            session.write_packed(parts)
        once = _rows(fresh_mariadb, "t")
        assert [session.write(*part).proofs for part in parts]
    assert lost
    assert _rows(fresh_mariadb, "t") == once


def _feed(folder: Path, tables: int) -> Feed:
    feed = Feed(folder)
    feed.database("d", 1)
    for number in range(tables):
        feed.create(f"d.t{number}", 2 + number)
    return feed


@pytest.fixture
def checking(fresh_mariadb: SqlServer) -> Iterator[SqlServer]:
    with checks_hold(fresh_mariadb) as server:
        yield server


def test_a_refused_row_stops_its_own_table(checking: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = _feed(tmp_path / "storage", 5)
    replica = Replica(feed, checking.url())
    assert replica.once(9).exit_code == 0
    checking.execute("ALTER TABLE d.t2 ADD CONSTRAINT few CHECK (v < 100)")
    answers: list[Sequence[Receipt | None]] = []
    real = MySqlSession.write_packed

    def told(session: MySqlSession, parts: Sequence[tuple[LoadTarget, pa.Table]]) -> Sequence[Receipt | None]:
        try:
            answers.append(real(session, parts))
        except RowRefused:
            answers.append([None] * len(parts))
            raise
        return answers[-1]

    monkeypatch.setattr(MySqlSession, "write_packed", told)
    for number in range(5):
        feed.puts(f"d.t{number}", 2 + number, {20: (1, "5"), 21: (2, "500" if number == 2 else "6")})
    result = replica.once(30)
    assert {str(n): t.state for n, t in result.tables.items() if n.table} == {
        f"d.t{number}": "stopped" if number == 2 else "ok" for number in range(5)
    }
    assert answers == [[None] * 5]
    for number in range(5):
        rows = [] if number == 2 else [(1, 5), (2, 6)]
        assert checking.execute(f"SELECT * FROM d.t{number} ORDER BY id") == rows
    for number in range(5):
        feed.puts(f"d.t{number}", 2 + number, {40: (3, "7")})
    checking.execute("ALTER TABLE d.t2 DROP CONSTRAINT few")
    assert replica.once(50).exit_code == 0
    assert [None not in answer for answer in answers[1:]] == [True]
    for number in range(5):
        rows = [(1, 5), (2, 500 if number == 2 else 6), (3, 7)]
        assert checking.execute(f"SELECT * FROM d.t{number} ORDER BY id") == rows


def test_of_several_that_are_locked_only_the_first_is_waited_for_as_long_as_the_patience_lasts(
    fresh_mariadb: MariaDb,
) -> None:
    parts = _several(fresh_mariadb, "t")
    locking, wait = fresh_mariadb.connect(autocommit=False), "SELECT @@innodb_lock_wait_timeout"
    with (
        locking,
        locking.cursor() as cursor,
        MySqlWriter(settings_of(fresh_mariadb), EPOCH).session(4.0) as session,
    ):
        cursor.execute("SELECT * FROM db.t0 FOR UPDATE")
        cursor.execute("SELECT * FROM db.t2 FOR UPDATE")
        began = time.monotonic()
        for number in (0, 2):
            with pytest.raises(TargetBusy, match=f"t{number}"):
                session.write(*parts[number])
            assert 4 <= time.monotonic() - began < 9
        assert session._transactions.run("", lambda own: own.execute(wait) and own.fetchone()) == (1,)
        assert session.write(*parts[1]).puts == 1
