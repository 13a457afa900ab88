"""Keys with columns that the target computes: found by the rows' values, which are never written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumer.errors import CannotBeExact
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, TableLoad
from consumer.model.names import TableName
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.tables.prepare import prepare_targets
from consumer.target import LoadRequest
from tests.integration.mysql.writing import by_statements, changes, make_target, settings_of, write
from tests.servers import SqlServer

A, K = Column("a", "INT"), Column("k", "INT", nullable=False, is_pk=True)
C, V = Column("c", "VARCHAR", length=9), Column("v", "VARCHAR", length=9)
ID = Column("id", "INT", nullable=False, is_pk=True)
BOTH_WAYS = pytest.mark.parametrize("way", [lambda target: target, by_statements], ids=["load data", "statements"])
Way = Callable[[LoadTarget], LoadTarget]


@BOTH_WAYS
def test_unique_values_that_move_between_rows(way: Way, fresh_mariadb: SqlServer) -> None:
    body = "id INT PRIMARY KEY, c VARCHAR(9), v VARCHAR(9) AS (CONCAT('v', c)) STORED UNIQUE"
    target = way(make_target(fresh_mariadb, [ID, C, V], body, unique=["v"]))
    assert target.names == ("id", "c", "v")
    write(fresh_mariadb, target, changes(target, puts=[("1", "a", "va"), ("2", "b", "vb"), ("3", "c", "vc")]))
    write(
        fresh_mariadb,
        target,
        changes(target, puts=[("1", "b", "vb"), ("2", "a", "va")], deletes=[("3", "c", "vc")]),
    )
    assert fresh_mariadb.execute("SELECT * FROM db.t ORDER BY id") == [(1, "b", "vb"), (2, "a", "va")]


@BOTH_WAYS
def test_a_primary_key_that_is_computed_and_rows_that_lack_a_column(way: Way, fresh_mysql: SqlServer) -> None:
    body = "a INT, k INT AS (a + 1) STORED PRIMARY KEY, c VARCHAR(9), own INT DEFAULT 7"
    target = way(make_target(fresh_mysql, [A, K, C], body))
    assert (target.key, target.extra_columns) == ((1,), ("own",))
    fresh_mysql.execute("INSERT INTO db.t (a, c, own) VALUES (1, 'a', 1), (2, 'b', 2)")
    write(fresh_mysql, target, changes(target, puts=[("1", "2", "x"), ("5", "6", "e")], deletes=[("2", "3", "b")]))
    assert fresh_mysql.execute("SELECT * FROM db.t ORDER BY k") == [(1, 2, "x", 1), (5, 6, "e", 7)]


@BOTH_WAYS
def test_a_target_that_computes_other_keys_than_upstream(way: Way, fresh_mysql: SqlServer) -> None:
    target = way(make_target(fresh_mysql, [A, K, C], "a INT, k INT AS (a + 2) STORED PRIMARY KEY, c VARCHAR(9)"))
    with pytest.raises(CannotBeExact, match="computes other values of its key's columns `k`"):
        write(fresh_mysql, target, changes(target, puts=[("1", "2", "x")]))
    assert fresh_mysql.execute("SELECT COUNT(*) FROM db.t") == [(0,)]


@pytest.mark.parametrize("kind", ["STORED", "VIRTUAL"])
def test_a_unique_key_on_a_generated_column_that_upstream_does_not_have(kind: str, fresh_mariadb: SqlServer) -> None:
    make_target(fresh_mariadb, [ID, C], f"id INT PRIMARY KEY, c VARCHAR(9), k INT AS (id % 2) {kind} UNIQUE")
    request = LoadRequest(TableLoad(TableName("db", "t")), (ID, C, Column("k", "INT")), indexes=frozenset())
    settings = settings_of(fresh_mariadb)
    connection = connect_to_server(settings, "ddl", autocommit=True)
    with connection.cursor() as cursor:
        (found,) = prepare_targets(cursor, [request], settings)
    connection.close()
    assert isinstance(found, CannotBeExact)
    assert "which upstream does not have" in found.message


def test_blank_twins_in_a_table_whose_rows_lack_a_column(fresh_mariadb: SqlServer) -> None:
    columns = [Column("v", "VARCHAR", length=9, nullable=False, is_pk=True), C]
    target = make_target(fresh_mariadb, columns, "v VARCHAR(9) PRIMARY KEY, c VARCHAR(9), own INT")
    with pytest.raises(CannotBeExact, match="one of them would be lost"):
        write(fresh_mariadb, target, changes(target, puts=[("a", "x"), ("a ", "y")]))
