"""ENUM and SET columns of a restored target: labels that rows tell (`content-compatible`), and numbers of labels."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed, Replica

TYPES = {"id": "int(11)", "e": "enum('a','b','it''s')", "s": "set('x','y')"}


@pytest.mark.parametrize(
    ("enum", "set_", "wrong"),
    [
        ("'a','b','it''s'", "'x','y'", ""),
        ("'a','b','it''s','more'", "'x','y','z'", ""),
        ("'b','a','it''s'", "'x','y'", "column e: label 1 is 'a' upstream and 'b' in the target"),
        ("'a','b'", "'x','y'", 'column e: label 3 is "it\'s" upstream and no label in the target'),
        ("'a','b','it''s'", "'y','x'", "column s: label 1 is 'x' upstream and 'y' in the target"),
    ],
)
@pytest.mark.parametrize("null", ["NULL", "NOT NULL"])
def test_the_target_has_them_or_the_table_stops(
    server: SqlServer, null: str, enum: str, set_: str, wrong: str, tmp_path: Path
) -> None:
    server.execute(
        "CREATE DATABASE d CHARACTER SET utf8mb4",
        f"CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM({enum}) {null}, s SET({set_}) {null})",
    )
    feed = Feed(tmp_path)
    nullable = null == "NULL"
    feed.describe("d.t", 2, (ID, Column("e", "ENUM", nullable=nullable), Column("s", "SET", nullable=nullable)))
    row = {"id": "1", "e": "3", "s": "2"}
    feed.file("d.t", 2, row_line("INSERT", row, commit_ts=10, mysqlType=TYPES) + b"\r\n")
    result = Replica(feed, server.url()).once(20)
    if not wrong:
        assert result.exit_code == 0
        assert server.execute("SELECT e, s FROM d.t") == [("it's", "y")]
        return
    assert result.exit_code == 3
    [table] = result.tables.values()
    assert wrong in str(table.error)
    assert "load-export DIR --table d.t" in table.hint, "its CREATE TABLE is not in the storage"
    assert server.execute("SELECT COUNT(*) FROM d.t") == [(0,)]


def test_a_row_without_labels_in_its_types_is_taken(tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM('b','a') NOT NULL)")
    feed = Feed(tmp_path)
    feed.describe("d.t", 2, (ID, Column("e", "ENUM", nullable=False)))
    types = {"id": "int", "e": "enum"}
    feed.file("d.t", 2, row_line("INSERT", {"id": "1", "e": "1"}, commit_ts=10, mysqlType=types) + b"\r\n")
    assert Replica(feed, fresh_mariadb.url()).once(20).exit_code == 0
    assert fresh_mariadb.execute("SELECT e FROM d.t") == [("b",)]


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("kind", ["ENUM", "SET"])
@pytest.mark.parametrize("labels", [("b", "a"), ("a", "b", "c")])
def test_labels_whose_statement_an_event_filter_left_out(
    labels: tuple[str, ...], kind: str, rounds: int, tmp_path: Path
) -> None:
    """On a DuckDB file, which keeps texts: further labels are no matter, others are. In one round rows of both orders
    would be read by one of them."""
    feed = Feed(tmp_path / "storage")
    columns = (ID, Column("e", kind, elements=("a", "b")))
    feed.statement(
        "d.t", 2, Action.CREATE_TABLE, f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`e` {kind}('a','b'))", columns
    )
    feed.file("d.t", 2, row_line("INSERT", {"id": "1", "e": "1"}, commit_ts=10) + b"\r\n")
    replica = Replica(feed, f"duckdb:///{tmp_path}/r.duckdb")
    assert rounds == 1 or replica.once(15).exit_code == 0
    feed.describe("d.t", 20, (ID, Column("e", kind, elements=labels)))
    feed.file("d.t", 20, row_line("INSERT", {"id": "2", "e": str(len(labels))}, commit_ts=30) + b"\r\n")
    result = replica.once(40)
    if "c" in labels:
        assert result.exit_code == 0
        with duckdb.connect(str(tmp_path / "r.duckdb")) as file:
            assert file.execute("SELECT e FROM d.t ORDER BY id").fetchall() == [
                ("a",), ("c" if kind == "ENUM" else "a,b",)
            ]  # fmt: skip
        return
    assert result.exit_code == 3
    [table] = result.tables.values()
    assert "the rows carry the labels' numbers" in table.error
    assert "load-export" in table.hint


UPSTREAM = ("a", "b😀", "it's")


@pytest.mark.parametrize("kind", ["ENUM", "SET"])
@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ("'a','b😀','it''s'", True),
        ("'a','b😀','it''s','more'", True),
        ("'b😀','a','it''s'", False),
        ("'a','b😀'", False),
        ("'more','a','b😀','it''s'", False),
    ],
)
def test_labels_of_a_restored_table(server: SqlServer, labels: str, fits: bool, kind: str, tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.describe("d.t", 2, (ID, Column("e", kind, elements=UPSTREAM)))
    server.execute(
        "CREATE DATABASE d CHARACTER SET utf8mb4", f"CREATE TABLE d.t (id INT PRIMARY KEY, e {kind}({labels}))"
    )
    feed.file("d.t", 2, row_line("INSERT", {"id": "1", "e": "1"}, commit_ts=10) + b"\r\n")
    result = Replica(feed, server.url()).once(20)
    if fits:
        assert result.exit_code == 0
        assert server.execute("SELECT id, e FROM d.t") == [(1, "a")]
        return
    assert result.exit_code == 3
    [error] = [table.error for table in result.tables.values()]
    assert "the rows carry the labels' numbers" in str(error)
    assert server.execute("SELECT COUNT(*) FROM d.t") == [(0,)]


@pytest.mark.parametrize("there", ["'a','b'", "'b','a'"])
def test_rows_of_two_orders_of_labels_in_one_round(there: str, tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    """Whatever the target has: 1 is a in the first row, and b in the second."""
    feed = Feed(tmp_path)
    fresh_mariadb.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM({there}))")
    for version, labels in ((2, ("a", "b")), (20, ("b", "a"))):
        feed.describe("d.t", version, (ID, Column("e", "ENUM", elements=labels)))
        row = {"id": str(version), "e": "1"}
        feed.file("d.t", version, row_line("INSERT", row, commit_ts=version + 5) + b"\r\n")
    result = Replica(feed, fresh_mariadb.url()).once(40)
    assert result.exit_code == 3
    [table] = result.tables.values()
    assert "its labels are not in the order of d/t/meta/schema_2_" in table.error
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
