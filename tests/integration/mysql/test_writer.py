"""Sessions meet refusals, lost connections and a new holder of the lease."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from consumer.errors import LeaseHeld, RowRefused, TargetBusy, TargetUnavailable
from consumer.model import patience
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, Receipt, TableLoad
from consumer.model.names import TableName
from consumer.sink.mysql.progress.epochs import raise_epoch
from consumer.sink.mysql.rows.writer import MySqlWriter
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.settings import MySqlSettings
from tests.integration.mysql.writing import EPOCH, by_statements, changes, make_target, settings_of, write
from tests.servers import MariaDb
from tests.tidb_server import TiDb

_ID = Column("id", "INT", is_pk=True, nullable=False)
Way = Callable[[LoadTarget], LoadTarget]


@pytest.fixture(params=["load data", "statements"])
def way(request: pytest.FixtureRequest) -> Way:
    return by_statements if request.param == "statements" else lambda target: target


def test_nothing_to_write_needs_no_target() -> None:
    nowhere = MySqlSettings(host="127.0.0.1", port=1, user="root", password="", name="x")
    writer = pickle.loads(pickle.dumps(MySqlWriter(nowhere, EPOCH)))
    target = LoadTarget(TableLoad(TableName("db", "t")), columns=(_ID,), names=("id",), key=(0,))
    with writer.session() as session:
        assert session.write(target, changes(target)) == Receipt(puts=0, deletes=0)


def test_a_put_replaces_the_row_and_whatever_collides_with_it(fresh_mariadb: MariaDb, way: Way) -> None:
    target = make_target(
        fresh_mariadb,
        [_ID, Column("u", "INT"), Column("v", "INT")],
        "id INT PRIMARY KEY, u INT UNIQUE, v INT",
        unique=["u"],
    )
    assert write(fresh_mariadb, way(target), changes(target, puts=[("1", "1", "1"), ("2", "2", "2")])).puts == 2
    write(fresh_mariadb, way(target), changes(target, puts=[("1", "2", "3")]))
    assert fresh_mariadb.execute("SELECT * FROM db.t") == [(1, 2, 3)]


@pytest.mark.parametrize("kind", ["VARCHAR", "ENUM"])
def test_a_key_of_0_stays_0(fresh_mariadb: MariaDb, way: Way, kind: str) -> None:
    definition = "id INT AUTO_INCREMENT PRIMARY KEY, v " + ("ENUM('a')" if kind == "ENUM" else "VARCHAR(1)")
    target = make_target(fresh_mariadb, [_ID, Column("v", kind)], definition)
    for _ in range(2):
        write(fresh_mariadb, way(target), changes(target, puts=[("0", "1"), ("5", None)]))
    assert fresh_mariadb.execute("SELECT id FROM db.t") == [(0,), (5,)]


@pytest.mark.parametrize(
    ("ddl", "kind", "good", "bad", "reason"),
    [
        ("INT", "BIGINT", "1", "99999999999", "Out of range value for column 'v'"),
        ("VARCHAR(3)", "VARCHAR", "abc", "abcd", "Data too long for column 'v'"),
        ("VARCHAR(3)", "VARCHAR", "abc", "abc ", "Data truncated for column 'v'"),
        ("DECIMAL(5,1)", "DECIMAL", "1.1", "1.25", "Data truncated for column 'v'|Incorrect decimal value: '1.25' for"),
        ("DATE", "DATE", "2024-01-31", "2024-01-32", "Incorrect date value"),
        ("VARCHAR(9) NOT NULL", "VARCHAR", "", None, "Column 'v' cannot be null"),
        ("VARCHAR(9) CHARACTER SET gbk", "VARCHAR", "一", "😀", "Incorrect string value"),
        ("ENUM('a','b')", "ENUM", "0", "3", "Data truncated for column 'v'"),
        ("SET('a','b')", "SET", "3", "4", "Data truncated for column 'v'"),
        ("JSON", "JSON", "{}", "{", "CONSTRAINT `t.v` failed|Invalid JSON text"),
        ("BIT(3)", "BIT", "7", "8", "Data too long for column 'v'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(
    fresh_mariadb: MariaDb, way: Way, ddl: str, kind: str, good: str, bad: str | None, reason: str
) -> None:
    target = make_target(fresh_mariadb, [_ID, Column("v", kind)], f"id INT PRIMARY KEY, v {ddl}")
    rows = [(str(number), bad if number == 1777 else good) for number in range(2500)]
    with pytest.raises(RowRefused) as refused:
        write(fresh_mariadb, way(target), changes(target, puts=rows))
    assert "the row id='1777': " in refused.value.message
    assert any(text in refused.value.message for text in reason.split("|"))
    assert refused.value.table == "db.t"
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(0,)]


def test_a_refused_error_value_is_not_hidden_by_right_ones(fresh_mariadb: MariaDb, way: Way) -> None:
    target = make_target(
        fresh_mariadb,
        [_ID, Column("e", "ENUM"), Column("v", "INT")],
        "id INT PRIMARY KEY, e ENUM('a'), v TINYINT",
    )
    rows = [(str(number), "0", "999" if number == 333 else "1") for number in range(500)]
    with pytest.raises(RowRefused, match=r"id='333'.*column 'v'"):
        write(fresh_mariadb, way(target), changes(target, puts=rows))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(0,)]


def test_a_server_that_switched_local_infile_off(fresh_mariadb: MariaDb) -> None:
    columns = [_ID, Column("v", "VARCHAR")]
    target = make_target(fresh_mariadb, columns, "id INT PRIMARY KEY, v VARCHAR(9)")
    rows = [(str(number), "x'\\") for number in range(300)]
    fresh_mariadb.execute("SET GLOBAL local_infile = 0")
    try:
        write(fresh_mariadb, target, changes(target, puts=rows))
        seen = make_target(fresh_mariadb, columns, "id INT PRIMARY KEY, v VARCHAR(9)", table="t2")
        write(fresh_mariadb, seen, changes(seen, puts=rows))
    finally:
        fresh_mariadb.execute("SET GLOBAL local_infile = 1")
    for table in ("t", "t2"):
        assert fresh_mariadb.execute(f"SELECT COUNT(*) FROM db.{table} WHERE v = 'x''\\\\'") == [(300,)]


def test_statements_keep_to_max_allowed_packet(fresh_mariadb: MariaDb) -> None:
    target = by_statements(make_target(fresh_mariadb, [_ID, Column("v", "LONGBLOB")], "id INT PRIMARY KEY, v LONGBLOB"))
    fresh_mariadb.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        write(fresh_mariadb, target, changes(target, puts=[(str(number), b"\\" * 300_000) for number in range(9)]))
        with pytest.raises(RowRefused, match=r"row id='20'.*max_allowed_packet is 1048576"):
            write(fresh_mariadb, target, changes(target, puts=[("19", b""), ("20", b"\\" * 600_000)]))
    finally:
        fresh_mariadb.execute("SET GLOBAL max_allowed_packet = 67108864")
    assert fresh_mariadb.execute("SELECT COUNT(*), MIN(LENGTH(v)) FROM db.t") == [(9, 300_000)]


@pytest.mark.parametrize("verb", ["KILL", "KILL QUERY"])
def test_a_killed_batch_is_written_again(
    fresh_mariadb: MariaDb, way: Way, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr("consumer.sink.mysql.rows.writer.PUT_ROWS", 50)
    target = make_target(fresh_mariadb, [_ID, Column("v", "INT")], "id INT PRIMARY KEY, v INT")
    write(fresh_mariadb, target, changes(target, puts=[(str(number), "0") for number in range(200)]))
    everything = changes(
        target,
        puts=[(str(number), "1") for number in range(190)],
        deletes=[(str(number), None) for number in range(190, 200)],
    )
    with _locked(fresh_mariadb, "SELECT * FROM db.t WHERE id = 120 FOR UPDATE") as release:
        job = _start(lambda: write(fresh_mariadb, way(target), everything))
        fresh_mariadb.execute(f"{verb} {_waiting(fresh_mariadb)}")
        release()
        assert job.result(timeout=30) == Receipt(puts=190, deletes=10)
    assert fresh_mariadb.execute("SELECT COUNT(*), MIN(v) FROM db.t") == [(190, 1)]


@pytest.mark.parametrize(("kind", "there"), [("INT UNIQUE", 100), ("INT", 0)])
def test_puts_that_lock_neighbours_in_another_unique_key_are_committed_in_small_parts(
    fresh_mariadb: MariaDb, way: Way, monkeypatch: pytest.MonkeyPatch, kind: str, there: int
) -> None:
    monkeypatch.setattr("consumer.sink.mysql.rows.writer.NEIGHBOURS_ROWS", 50)
    unique = ["u"] if there else []
    target = make_target(fresh_mariadb, [_ID, Column("u", "INT")], f"id INT PRIMARY KEY, u {kind}", unique=unique)
    write(fresh_mariadb, target, changes(target, puts=[("120", "120")]))
    puts = [(str(number), str(number)) for number in range(200)]
    with _locked(fresh_mariadb, "SELECT * FROM db.t WHERE id = 120 FOR UPDATE") as release:
        job = _start(lambda: write(fresh_mariadb, way(target), changes(target, puts=puts)))
        _waiting(fresh_mariadb)
        assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t WHERE id <> 120") == [(there,)]
        release()
        assert job.result(timeout=30) == Receipt(puts=200, deletes=0)
    assert fresh_mariadb.execute("SELECT COUNT(*), SUM(id = u) FROM db.t") == [(200, 200)]


def test_a_new_holder_of_the_lease_ends_a_session_between_batches(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.sink.mysql.rows.writer.PUT_ROWS", 50)
    target = make_target(fresh_mariadb, [_ID, Column("v", "INT")], "id INT PRIMARY KEY, v INT")
    write(fresh_mariadb, target, changes(target, puts=[("70", "0")]))
    with _locked(fresh_mariadb, "SELECT * FROM db.t WHERE id = 70 FOR UPDATE") as release:
        puts = [(str(number), "1") for number in range(200)]
        job = _start(lambda: write(fresh_mariadb, target, changes(target, puts=puts)))
        _waiting(fresh_mariadb)
        takeover = _start(lambda: _take_over(fresh_mariadb))
        _waiting(fresh_mariadb, "lease")
        release()
        assert takeover.result(timeout=30) > EPOCH
        with pytest.raises(LeaseHeld):
            job.result(timeout=30)
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t WHERE v = 1") == [(100,)]


def test_an_old_epoch_writes_nothing(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, [_ID], "id INT PRIMARY KEY")
    with MySqlWriter(settings_of(fresh_mariadb), EPOCH - 1).session() as session, pytest.raises(LeaseHeld):
        session.write(target, changes(target, puts=[("1",)]))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(0,)]


def test_a_target_that_stays_away_is_given_up(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "WRITE_SECONDS", 1.0)
    target = make_target(fresh_mariadb, [_ID], "id INT PRIMARY KEY")
    nowhere = MySqlSettings(host="127.0.0.1", port=1, user="root", password="", name="x")
    began = time.monotonic()
    with MySqlWriter(nowhere, EPOCH).session() as session, pytest.raises(TargetUnavailable):
        session.write(target, changes(target, puts=[("1",)]))
    assert 1 <= time.monotonic() - began < 30


def test_a_lock_that_is_never_free_is_given_up(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, [_ID], "id INT PRIMARY KEY")
    fresh_mariadb.execute("INSERT INTO db.t VALUES (1)")
    with _locked(fresh_mariadb, "SELECT * FROM db.t FOR UPDATE"):
        job = _start(lambda: write(fresh_mariadb, target, changes(target, puts=[("1",)]), patience=1.5))
        with pytest.raises(TargetBusy):
            job.result(timeout=60)


def _start(work: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    job = pool.submit(work)
    pool.shutdown(wait=False)
    return job


@contextmanager
def _locked(server: MariaDb, statement: str) -> Iterator[Callable[[], None]]:
    """Hold the locks of `statement` until the given function is called."""
    holder = server.connect(autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute(statement)
    released = threading.Event()

    def release() -> None:
        if not released.is_set():
            released.set()
            holder.rollback()

    try:
        yield release
    finally:
        release()
        holder.close()


def _waiting(server: MariaDb, text: str = "INTO") -> int:
    """The id of the connection that waits for a lock with a statement that has `text` in it."""
    deadline = time.monotonic() + 20
    query = (
        # It does not show a LOAD DATA.
        "SELECT session_id FROM information_schema.tidb_trx "
        f"WHERE state = 'LockWaiting' AND COALESCE(current_sql_digest_text, 'into') LIKE '%{text.lower()}%'"
        if isinstance(server, TiDb)
        else "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx "
        f"WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%{text}%'"
    )
    while time.monotonic() < deadline:
        time.sleep(0.2)  # InnoDB answers from a cache to whoever asks more often
        if found := server.execute(query):
            return int(found[0][0])
    raise AssertionError("nobody waits for a lock")


def _take_over(server: MariaDb) -> int:
    settings = settings_of(server)
    connection: pymysql.Connection = connect_to_server(settings, "dml")
    with connection.cursor() as cursor:
        epoch = raise_epoch(cursor, settings.name)
    connection.commit()
    connection.close()
    return epoch
