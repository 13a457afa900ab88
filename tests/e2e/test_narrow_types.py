"""Columns of a restored target that would change values stop their table before a row is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from consumer.model.columns import Column
from tests.servers import MariaDb
from tests.support.build import ID
from tests.support.feed import Feed, Replica

MOMENT = "2026-01-01 00:00:00.987"


def feed_of(folder: Path, column: Column, value: str) -> Feed:
    feed = Feed(folder)
    feed.database("d", 1)
    feed.describe("d.t", 2, (ID, column))
    row = json.loads(feed._line("d.t", 10, 1, ""))
    row |= {"data": [{"id": "1", "c": value}], "mysqlType": {"id": "int", "c": column.type.lower()}}
    feed.file("d.t", 2, json.dumps(row).encode() + b"\r\n")
    return feed


def column(kind: str, length: int | None = None, scale: int | None = None) -> Column:
    return Column("c", kind, length=length, scale=scale)


def made(server: MariaDb, definition: str) -> Sequence[object]:
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, c {definition})")
    return ()


@pytest.mark.parametrize(
    ("upstream", "value", "definition"),
    [
        (column("DATETIME", scale=3), MOMENT, "DATETIME"),
        (column("DATETIME", scale=3), MOMENT, "DATETIME(2)"),
        (column("TIMESTAMP", scale=3), MOMENT, "TIMESTAMP NULL"),
        (column("TIMESTAMP", scale=3), MOMENT, "DATETIME(3)"),
        (column("TIME", scale=3), "10:00:00.987", "TIME"),
        (column("DATETIME", scale=3), MOMENT, "DATE"),
        (column("DOUBLE", 22), "1.23456789012345", "FLOAT"),
        (column("DOUBLE", 22), "1.23456789012345", "DOUBLE(10,2)"),
        (column("FLOAT", 12), "1.2345", "FLOAT(7,2)"),
        (column("DECIMAL", 10, 4), "1.2345", "DECIMAL(10,2)"),
        (column("DECIMAL", 10, 4), "1.2345", "DOUBLE"),
        (column("BIGINT", 20), "9007199254740993", "DOUBLE"),
        (column("VARCHAR", 10), "a  ", "CHAR(10)"),
        (column("VARBINARY", 8), "ab", "BINARY(8)"),
        (column("BINARY", 4), "ab\0\0", "BINARY(8)"),
    ],
    ids=lambda case: f"{case.type}" if isinstance(case, Column) else None,
)
def test_a_narrower_type_stops_its_table(
    upstream: Column, value: str, definition: str, fresh_mariadb: MariaDb, tmp_path: Path
) -> None:
    made(fresh_mariadb, definition)
    result = Replica(feed_of(tmp_path, upstream, value), fresh_mariadb.url()).once(20, tz="UTC")
    assert result.exit_code == 3
    [table] = result.tables.values()
    assert f"column `c` is {upstream.type}" in table.error
    assert fresh_mariadb.execute("SELECT * FROM d.t") == []


@pytest.mark.parametrize(
    ("upstream", "value", "definition", "shown"),
    [
        (column("DATETIME", scale=3), MOMENT, "DATETIME(6)", f"{MOMENT}000"),
        (column("DATETIME", scale=3), MOMENT, "VARCHAR(40)", MOMENT),
        (column("DATE"), "2026-01-01", "DATETIME", "2026-01-01 00:00:00"),
        (column("FLOAT", 12), "0.1", "DOUBLE", "0.10000000149011612"),
        (column("DECIMAL", 10, 4), "1.2345", "DECIMAL(20,6)", "1.234500"),
        (column("INT", 11), "7", "BIGINT UNSIGNED", "7"),
        (column("INT", 11), "7", "DECIMAL(10,0)", "7"),
        (column("CHAR", 10), "a", "VARCHAR(10)", "a"),
        (column("VARCHAR", 10), "a ", "LONGTEXT", "a "),
        (column("BINARY", 2), "ab", "VARBINARY(8)", "ab"),
        (column("YEAR", 4), "2026", "YEAR", "2026"),
        (column("JSON"), '{"a": 1}', "JSON", '{"a": 1}'),
    ],
    ids=lambda case: f"{case.type}" if isinstance(case, Column) else None,
)
def test_a_wider_type_holds_the_value(
    upstream: Column, value: str, definition: str, shown: str, fresh_mariadb: MariaDb, tmp_path: Path
) -> None:
    made(fresh_mariadb, definition)
    assert Replica(feed_of(tmp_path, upstream, value), fresh_mariadb.url()).once(20, tz="UTC").exit_code == 0
    assert fresh_mariadb.execute("SELECT CONVERT(c USING utf8mb4) FROM d.t") == [(shown,)]


def test_blanks_that_are_cut_off_are_told_by_a_server_that_keeps_notes_back(
    fresh_mariadb: MariaDb, tmp_path: Path
) -> None:
    made(fresh_mariadb, "VARCHAR(2)")
    fresh_mariadb.execute("SET GLOBAL sql_notes = 0")
    try:
        result = Replica(feed_of(tmp_path, column("VARCHAR", 10), "a    "), fresh_mariadb.url()).once(20, tz="UTC")
    finally:
        fresh_mariadb.execute("SET GLOBAL sql_notes = 1")
    assert result.exit_code == 3
    assert fresh_mariadb.execute("SELECT * FROM d.t") == []


class File:
    """A DuckDB file whose d.t somebody has made, with the column `c` of the type `kind`."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._path = folder / "r.duckdb"
        self.url = f"duckdb:///{self._path}"
        self.sql("CREATE SCHEMA d", f"CREATE TABLE d.t (id INTEGER, c {kind})")

    def sql(self, *statements: str) -> list[tuple[object, ...]]:
        with duckdb.connect(str(self._path)) as connection:
            for statement in statements:
                connection.execute(statement)
            return connection.fetchall()


@pytest.mark.parametrize(
    ("upstream", "value", "kind"),
    [
        (column("DECIMAL", 10, 4), "1.2345", "DECIMAL(10,2)"),
        (column("DECIMAL", 10, 4), "1.2345", "INTEGER"),
        (column("DECIMAL", 10, 4), "1.2345", "DOUBLE"),
        (column("DECIMAL", 50, 4), "1.2345", "DECIMAL(38,4)"),
        (column("BIGINT", 20), "9007199254740993", "DOUBLE"),
        (column("BIGINT", 20), "5", "BOOLEAN"),
        (column("DATETIME", scale=3), MOMENT, "DATE"),
        (column("DATETIME", scale=3), MOMENT, "TIMESTAMP_S"),
        (column("TIMESTAMP", scale=3), MOMENT, "TIMESTAMPTZ"),
        (column("TIME", scale=3), "10:00:00.987", "TIME"),
        (column("DOUBLE", 22), "1.23456789012345", "FLOAT"),
        (column("DOUBLE", 22), "1.5", "INTEGER"),
        (column("VARCHAR", 10), "1.50", "DECIMAL(4,1)"),
        (column("VARCHAR", 10), "ab", "BLOB"),
        (column("VARBINARY", 10), "ab", "VARCHAR"),
    ],
    ids=lambda case: f"{case.type}" if isinstance(case, Column) else None,
)
def test_a_narrower_type_of_a_file_stops_its_table(upstream: Column, value: str, kind: str, tmp_path: Path) -> None:
    file = File(tmp_path, kind)
    replica = Replica(feed_of(tmp_path / "cdc", upstream, value), file.url)
    result = replica.once(20, tz="UTC")
    assert result.exit_code == 3
    [table] = result.tables.values()
    assert 'column "c" would be' in table.error
    assert file.sql("SELECT * FROM d.t") == []
    file.sql(table.hint.partition(" and run again")[0])
    assert replica.once(20, tz="UTC").exit_code == 0
    assert file.sql("SELECT count(c) FROM d.t") == [(1,)]


@pytest.mark.parametrize(
    ("upstream", "value", "kind", "shown"),
    [
        (column("DECIMAL", 10, 4), "1.2345", "DECIMAL(20,6)", "1.234500"),
        (column("DECIMAL", 10, 0), "7", "HUGEINT", "7"),
        (column("INT", 11), "7", "UBIGINT", "7"),
        (column("INT", 11), "7", "DECIMAL(10,2)", "7.00"),
        (column("BIGINT", 20), "9007199254740993", "VARCHAR", "9007199254740993"),
        (column("DATE"), "2026-01-01", "TIMESTAMP", "2026-01-01 00:00:00"),
        (column("DATETIME", scale=3), MOMENT, "VARCHAR", MOMENT),
        (column("FLOAT", 12), "0.1", "DOUBLE", "0.10000000149011612"),
        (column("YEAR", 4), "2026", "INTEGER", "2026"),
    ],
    ids=lambda case: f"{case.type}" if isinstance(case, Column) else None,
)
def test_a_wider_type_of_a_file_holds_the_value(
    upstream: Column, value: str, kind: str, shown: str, tmp_path: Path
) -> None:
    file = File(tmp_path, kind)
    assert Replica(feed_of(tmp_path / "cdc", upstream, value), file.url).once(20, tz="UTC").exit_code == 0
    assert file.sql("SELECT CAST(c AS VARCHAR) FROM d.t") == [(shown,)]


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT.NOCASE"])
def test_a_key_of_a_file_that_takes_texts_for_equal_stops_its_table(collation: str, tmp_path: Path) -> None:
    """With `a` the row of `A` would go. A column beside the key may have such a collation."""
    file = File(tmp_path, "VARCHAR COLLATE NOCASE")
    file.sql(f"ALTER TABLE d.t ALTER id TYPE VARCHAR COLLATE {collation}", "INSERT INTO d.t VALUES ('A', 'x')")
    key, feed = Column("id", "VARCHAR", length=20, nullable=False, is_pk=True), Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.describe("d.t", 2, (key, Column("c", "VARCHAR", length=20)))
    row = json.loads(feed._line("d.t", 10, 1, ""))
    feed.file("d.t", 2, json.dumps(row | {"data": [{"id": "a", "c": "y"}]}).encode() + b"\r\n")
    replica = Replica(feed, file.url)
    result = replica.once(20, tz="UTC")
    assert result.exit_code == 3
    [table] = result.tables.values()
    assert 'rows are found by "id", whose collation in the file takes different texts for equal' in table.error
    assert file.sql("SELECT * FROM d.t") == [("A", "x")]
    file.sql(table.hint.partition(" and run again")[0])
    assert replica.once(20, tz="UTC").exit_code == 0
    assert sorted(file.sql("SELECT * FROM d.t")) == [("A", "x"), ("a", "y")]
