"""Tables with no key: copies are counted, and a window takes effect once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymysql
import pytest

from consumer.errors import CannotBeExact, ProgressMoved
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, Receipt
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.sink.mysql.progress.store import ServerTables
from consumer.sink.mysql.rows.writer import MySqlWriter
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.progress_sql import read_progress
from tests.integration.mysql.test_writer_types import CASES
from tests.integration.mysql.writing import EPOCH, NAME, counted, make_target, settings_of
from tests.mysql_server import MySql
from tests.servers import MariaDb

_COLUMNS = [Column("a", "INT"), Column("b", "VARCHAR")]
_DDL = "a INT, b VARCHAR(20) COLLATE utf8mb4_general_ci"


def test_copies_are_added_and_removed(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    rows = [(3, ("1", "x")), (2, (None, None)), (1, ("1", "X"))]
    assert _write(fresh_mariadb, target, rows, Window(0, 10)) == Receipt(puts=6, deletes=0)
    rows = [(-2, ("1", "x")), (-1, (None, None)), (-1, ("1", "X")), (1, ("2", ""))]
    assert _write(fresh_mariadb, target, rows, Window(10, 20)) == Receipt(puts=1, deletes=4)
    assert fresh_mariadb.execute("SELECT a, b FROM db.t ORDER BY a") == [(None, None), (1, "x"), (2, "")]
    assert _applied(fresh_mariadb) == 20


@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL"])
def test_numbers_in_a_text_column_are_told_apart(kind: str, fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, [Column("a", kind)], "a VARCHAR(30)")
    _write(fresh_mariadb, target, [(1, ("9007199254740992",)), (1, ("9007199254740993",))], Window(0, 10))
    _write(fresh_mariadb, target, [(-1, ("9007199254740993",))], Window(10, 20))
    assert fresh_mariadb.execute("SELECT a FROM db.t") == [("9007199254740992",)]


def test_a_window_takes_effect_once(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    for _ in range(3):
        assert _write(fresh_mariadb, target, [(2, ("1", "x"))], Window(0, 10)) == Receipt(puts=2, deletes=0)
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(2,)]


def test_a_window_takes_effect_once_where_two_write_it_at_the_same_time(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    start = threading.Barrier(4)

    def work() -> Receipt:
        start.wait()
        return _write(fresh_mariadb, target, [(500, ("1", "x")), (500, ("2", "y"))], Window(0, 10))

    with ThreadPoolExecutor(4) as pool:
        receipts = [job.result(timeout=60) for job in [pool.submit(work) for _ in range(4)]]
    assert set(receipts) == {Receipt(puts=1000, deletes=0)}
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(1000,)]


def test_a_lost_answer_to_the_commit_does_not_double_the_rows(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    lost = []

    def connect_and_lose(*arguments: Any, **named: Any) -> object:
        connection = connect_to_server(*arguments, **named)
        commit = connection.commit

        def commit_and_lose() -> None:
            commit()
            if not lost:
                lost.append(True)
                connection.close()
                raise pymysql.OperationalError(2013, "Lost connection during query")

        connection.commit = commit_and_lose
        return connection

    monkeypatch.setattr("consumer.sink.mysql.rows.transactions.connect_to_server", connect_and_lose)
    _write(fresh_mariadb, target, [(2, ("1", "x"))], Window(0, 10))
    assert lost == [True]
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(2,)]


def test_a_row_that_is_not_there_changes_nothing(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    _write(fresh_mariadb, target, [(2, ("1", "x")), (1, ("2", "y"))], Window(0, 10))
    with pytest.raises(CannotBeExact, match="3 copies of a row are to be removed, the target has 2") as refused:
        _write(fresh_mariadb, target, [(-1, ("2", "y")), (-3, ("1", "x")), (1, ("9", "z"))], Window(10, 20))
    assert refused.value.table == "db.t"
    with pytest.raises(CannotBeExact, match="the target has 0"):
        _write(fresh_mariadb, target, [(-1, ("1", "x "))], Window(10, 20))
    assert fresh_mariadb.execute("SELECT a, b FROM db.t ORDER BY a") == [(1, "x"), (1, "x"), (2, "y")]
    assert _applied(fresh_mariadb) == 10


def test_a_window_that_is_partly_applied_is_refused(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    _write(fresh_mariadb, target, [(1, ("1", "x"))], Window(0, 10))
    with pytest.raises(ProgressMoved, match="up to 10 are applied already"):
        _write(fresh_mariadb, target, [(1, ("1", "x"))], Window(5, 20))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(1,)]


def test_the_global_applied_ts_counts_where_the_table_has_no_row_of_its_own(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    fresh_mariadb.execute("UPDATE storage_consumer.consumer SET applied_ts = 15")
    _write(fresh_mariadb, target, [(1, ("1", "x"))], Window(0, 10))
    _write(fresh_mariadb, target, [(1, ("2", "x"))], Window(15, 20))
    assert fresh_mariadb.execute("SELECT a FROM db.t") == [(2,)]


def test_nothing_to_count_leaves_the_progress_to_the_driver(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL)
    assert _write(fresh_mariadb, target, [], Window(0, 10)) == Receipt(puts=0, deletes=0)
    assert _applied(fresh_mariadb) == 0


@pytest.mark.parametrize("name", CASES)
def test_every_type_is_found_again_by_its_very_value(fresh_mariadb: MariaDb, name: str) -> None:
    case = CASES[name]
    target = make_target(
        fresh_mariadb, [Column("n", "INT"), Column("c", case.type, unsigned=case.unsigned)], f"n INT, c {case.ddl}"
    )
    values = [*case.values, None]
    _write(fresh_mariadb, target, [(2, ("1", value)) for value in values], Window(0, 10))
    for number, value in enumerate(values):
        assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(2 * (len(values) - number),)]
        _write(fresh_mariadb, target, [(-2, ("1", value))], Window(10 + number, 11 + number))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(0,)]


@pytest.mark.parametrize("value", ["0.1", "16777216", "340282350000000000000000000000000000000", "0.000001"])
def test_a_float_is_found_again(fresh_mariadb: MariaDb, value: str) -> None:
    target = make_target(fresh_mariadb, [Column("c", "FLOAT")], "c FLOAT")
    _write(fresh_mariadb, target, [(1, (value,))], Window(0, 10))
    _write(fresh_mariadb, target, [(-1, (value,))], Window(10, 20))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(0,)]


@pytest.mark.parametrize("gone", ["1", "1.0", '{"a": [1]}', '{"a": [1.0]}', None])
def test_json_numbers_that_are_equal_are_two_values_where_they_are_written_in_two_ways(
    fresh_mariadb: MariaDb, gone: str | None
) -> None:
    values = ("1", "1.0", '{"a": [1]}', '{"a": [1.0]}', None)
    target = make_target(fresh_mariadb, [Column("n", "INT"), Column("c", "JSON")], "n INT, c JSON")
    _write(fresh_mariadb, target, [(1, ("7", value)) for value in values], Window(0, 10))
    _write(fresh_mariadb, target, [(-1, ("7", gone))], Window(10, 20))
    left = [value for (value,) in fresh_mariadb.execute("SELECT c FROM db.t")]
    assert sorted(map(str, left)) == sorted(str(value) for value in values if value != gone)


def test_vectors_and_their_absence_are_found_again(fresh_mysql: MySql) -> None:
    values = ("[1,2.5,-3]", "[0,0,0]", "[1,2.5,-3.0000002]", "[1.1754944e-38,3.4028235e+38,0.1]", None)
    target = make_target(fresh_mysql, [Column("n", "INT"), Column("c", "VECTOR")], "n INT, c VECTOR(3)")
    _write(fresh_mysql, target, [(2, ("7", value)) for value in values], Window(0, 10))
    for number, value in enumerate(values):
        _write(fresh_mysql, target, [(-2, ("7", value))], Window(10 + number, 11 + number))
        assert fresh_mysql.execute("SELECT COUNT(*) FROM db.t") == [(2 * (len(values) - number - 1),)]


def _write(
    server: MariaDb, target: LoadTarget, rows: list[tuple[int, tuple[str | bytes | None, ...]]], window: Window
) -> Receipt:
    with MySqlWriter(settings_of(server), EPOCH).session() as session:
        return session.write_multiset(target, counted(target, rows), window)


def _applied(server: MariaDb) -> int:
    connection = server.connect()
    with connection.cursor() as cursor:
        applied = read_progress(ServerTables(cursor), NAME).table(TableName("db", "t")).applied_ts
    connection.close()
    return applied
