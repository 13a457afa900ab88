"""Rows that lack columns of a server's table: what stays, what comes by default, what stops the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from consumer.errors import CannotBeExact, RowRefused, SchemaDrift
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, TableLoad
from consumer.sink.mysql.tables.prepare import prepare_targets
from consumer.target import LoadRequest
from tests.integration.mysql.writing import by_statements, changes, make_target, settings_of, write
from tests.servers import MariaDb
from tests.tidb_server import TiDb

ID = Column("id", "INT", nullable=False, is_pk=True)
V = Column("v", "VARCHAR", length=9)
BOTH_WAYS = pytest.mark.parametrize("way", [lambda target: target, by_statements], ids=["load data", "statements"])
Way = Callable[[LoadTarget], LoadTarget]


@BOTH_WAYS
def test_values_of_every_kind_stay(way: Way, fresh_mariadb: MariaDb) -> None:
    point, place = ("BLOB", "'(1, 2)'") if isinstance(fresh_mariadb, TiDb) else ("POINT", "POINT(1, 2)")
    own = (
        f"f FLOAT, b BIT(64), e ENUM('a','b'), s SET('x','y'), j JSON, p {point}, t TIMESTAMP(6) NULL, y YEAR, "
        "blob_ BLOB, d DECIMAL(65,30), u TIMESTAMP DEFAULT '2020-01-01' ON UPDATE CURRENT_TIMESTAMP"
    )
    target = way(make_target(fresh_mariadb, [ID, V], f"id INT PRIMARY KEY, v VARCHAR(9), {own}"))
    assert len(target.extra_columns) == 11
    fresh_mariadb.execute(
        "SET SESSION sql_mode = ''",
        f"INSERT INTO db.t VALUES (1, 'a', 1.1, ~0, '', 3, '{{\"k\": 1}}', {place}, '2021-02-03 04:05:06.789', 0, "
        "x'00ff', '1e-30', '2020-02-02')",
    )
    shown = "SELECT id, f, b, e + 0, s + 0, j, HEX(p), t, y, HEX(blob_), d, u FROM db.t WHERE id = 1"
    before = fresh_mariadb.execute(shown)
    receipt = write(fresh_mariadb, target, changes(target, puts=[("1", "b"), ("2", "c")]))
    assert (receipt.puts, receipt.defaulted) == (2, 1)
    assert fresh_mariadb.execute(shown) == before
    assert fresh_mariadb.execute("SELECT v, f, u FROM db.t ORDER BY id")[1][:2] == ("c", None)
    assert str(fresh_mariadb.execute("SELECT u FROM db.t WHERE id = 2")[0][0]) == "2020-01-01 00:00:00"


@BOTH_WAYS
def test_the_error_value_of_an_enum_in_a_completed_row(way: Way, fresh_mariadb: MariaDb) -> None:
    columns = [ID, Column("e", "ENUM")]
    target = way(make_target(fresh_mariadb, columns, "id INT PRIMARY KEY, e ENUM('a','b'), own INT"))
    fresh_mariadb.execute("INSERT INTO db.t VALUES (1, 'a', 7)")
    write(fresh_mariadb, target, changes(target, puts=[("1", "0"), ("2", "2"), ("3", "0")]))
    assert fresh_mariadb.execute("SELECT id, e + 0, own FROM db.t") == [(1, 0.0, 7), (2, 2.0, None), (3, 0.0, None)]


def test_keys_that_differ_in_blanks_only_are_two_rows(fresh_mariadb: MariaDb) -> None:
    columns = [Column("k", "VARCHAR", length=9, nullable=False, is_pk=True), V]
    target = make_target(fresh_mariadb, columns, "k VARCHAR(9) PRIMARY KEY, v VARCHAR(9), own INT")
    fresh_mariadb.execute("INSERT INTO db.t VALUES ('a', 'x', 7), ('b', 'x', 8)")
    write(fresh_mariadb, target, changes(target, puts=[("a ", "y"), ("b", "y")], deletes=[("a", None)]))
    assert fresh_mariadb.execute("SELECT k, v, own FROM db.t ORDER BY k") == [("a ", "y", None), ("b", "y", 8)]


def test_a_refused_row_is_told_by_its_key(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, [ID, V], "id INT PRIMARY KEY, v VARCHAR(3), own INT")
    with pytest.raises(RowRefused, match="id='2'"):
        write(fresh_mariadb, target, changes(target, puts=[("1", "abc"), ("2", "abcd")]))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(0,)]


def test_a_partitioned_table_and_one_with_generated_columns(fresh_mariadb: MariaDb) -> None:
    body = "id INT PRIMARY KEY, v VARCHAR(9), own INT, g INT AS (own + id) STORED"
    target = make_target(fresh_mariadb, [ID, V], body)
    fresh_mariadb.execute("ALTER TABLE db.t PARTITION BY HASH (id) PARTITIONS 3")
    fresh_mariadb.execute("INSERT INTO db.t (id, v, own) VALUES (1, 'a', 7)")
    write(fresh_mariadb, target, changes(target, puts=[("1", "b"), ("2", "c")]))
    assert fresh_mariadb.execute("SELECT * FROM db.t ORDER BY id") == [(1, "b", 7, 8), (2, "c", None, None)]


@pytest.mark.parametrize("seed", range(2))
def test_sessions_at_the_same_time(seed: int, fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, [ID, V], "id INT PRIMARY KEY, v VARCHAR(9), own INT NULL")
    assert not target.in_one_call
    rows = ",".join(f"({number}, 'a', {number})" for number in range(0, 4000, 2))
    fresh_mariadb.execute(f"INSERT INTO db.t VALUES {rows}")
    parts = [[(str(number), "b") for number in range(4000) if number % 4 == part] for part in range(4)]
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(write, fresh_mariadb, target, changes(target, puts=part)) for part in parts]
        assert sum(job.result(timeout=60).defaulted for job in jobs) == 2000
    assert fresh_mariadb.execute("SELECT COUNT(*), SUM(v = 'b'), SUM(own) FROM db.t") == [(4000, 4000, 1999 * 2000)]


def test_a_connection_that_dies_between_the_stage_and_the_rows(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, [ID, V], "id INT PRIMARY KEY, v VARCHAR(9) UNIQUE, own INT")
    assert target.in_one_call
    fresh_mariadb.execute("INSERT INTO db.t VALUES (1, 'a', 1), (2, 'b', 2)")
    holder = fresh_mariadb.connect(autocommit=False)
    with ThreadPoolExecutor(1) as pool, holder, holder.cursor() as cursor:
        cursor.execute("SELECT * FROM db.t WHERE id = 2 FOR UPDATE")
        moved = changes(target, puts=[("1", "b"), ("2", "a")])
        job = pool.submit(write, fresh_mariadb, target, moved)
        waiting = "SELECT id FROM information_schema.processlist WHERE info LIKE 'DELETE `db`%'"
        while not (found := fresh_mariadb.execute(waiting)):
            time.sleep(0.01)
        fresh_mariadb.execute(f"KILL {found[0][0]}")
        holder.rollback()
        job.result(timeout=30)
    assert fresh_mariadb.execute("SELECT * FROM db.t ORDER BY id") == [(1, "b", 1), (2, "a", 2)]


@pytest.mark.parametrize(
    ("body", "columns", "error"),
    [
        ("id INT, v VARCHAR(9), own INT", [Column("id", "INT"), V], SchemaDrift),
        ("id INT PRIMARY KEY, v VARCHAR(9), own INT, UNIQUE (v, own)", [ID, V], SchemaDrift),
        ("id INT PRIMARY KEY, v VARCHAR(9), own INT DEFAULT 0, UNIQUE (own)", [ID, V], SchemaDrift),
        ("id INT, v VARCHAR(9), own INT, PRIMARY KEY (id, own)", [ID, V], CannotBeExact),
    ],
)
def test_tables_that_cannot_be_completed(
    body: str, columns: list[Column], error: type[Exception], fresh_mariadb: MariaDb
) -> None:
    whole = make_target(fresh_mariadb, [*columns, Column("own", "INT", is_pk="(id, own)" in body)], body)
    connection = fresh_mariadb.connect()
    with connection, connection.cursor() as cursor:
        (found,) = prepare_targets(
            cursor, [LoadRequest(TableLoad(whole.table), tuple(columns))], settings_of(fresh_mariadb)
        )
    assert isinstance(found, error)


def test_a_unique_key_of_a_kept_column_that_new_rows_leave_null(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, [ID, V], "id INT PRIMARY KEY, v VARCHAR(9), own INT UNIQUE")
    assert (target.extra_columns, target.in_one_call) == (("own",), False)
