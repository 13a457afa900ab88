"""Which rows are in a partition: a MariaDB that has the partitioned table is asked."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.ddl.definitions import statement_of
from consumer.ddl.partitions import created_table, partition_changes
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.table_definition import Partitioning, PartitionKind
from consumer.sink.columnar.partitions import members
from consumer.sink.columnar.progress import create_schema
from consumer.sink.columnar.statements import PLAIN, empty_table
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.duckdb.statements.execute import run_operations
from tests.servers import MariaDb
from tests.support.examples import examples

COLUMNS = (
    Column("id", "INT"),
    Column("n", "INT"),
    Column("u", "BIGINT", unsigned=True),
    Column("d", "DATE"),
    Column("t", "DATETIME", scale=3),
    Column("s", "VARCHAR", length=20),
    Column("b", "VARBINARY", length=20),
    Column("y", "YEAR"),
    Column("a", "DECIMAL", length=8, scale=2),
)
DECLARED = (
    "`id` INT,`n` INT,`u` BIGINT UNSIGNED,`d` DATE,`t` DATETIME(3),`s` VARCHAR(20) COLLATE utf8mb4_bin,"
    "`b` VARBINARY(20),`y` YEAR,`a` DECIMAL(8,2)"
)
WHOLE = ("`n`", "`n`+3", "`n`*2-1", "(`n`+1)*3", "-`n`", "`n` DIV 7", "MOD(`n`, 5)", "`n`%7", "ABS(`n`)", "FLOOR(`n`)")
OF_DATE = (
    *("YEAR(`d`)", "TO_DAYS(`d`)", "MONTH(`d`)", "DAY(`d`)", "DAYOFMONTH(`d`)", "DAYOFYEAR(`d`)", "DAYOFWEEK(`d`)"),
    *("WEEKDAY(`d`)", "QUARTER(`d`)", "EXTRACT(YEAR_MONTH FROM `d`)", "YEAR(`d`)*100+MONTH(`d`)"),
    *("TO_SECONDS(`t`)", "TO_DAYS(`t`)", "HOUR(`t`)", "MINUTE(`t`)", "SECOND(`t`)", "MICROSECOND(`t`)"),
    *("EXTRACT(HOUR FROM `t`)", "DATEDIFF(`t`, `d`)"),
)
OTHERS = ("`u`", "`u` DIV 3", "`u`%11", "`y`", "FLOOR(`a`)", "CEILING(`a`)")

words = st.text("abB9é ", max_size=4)
dates = st.dates(dt.date(1000, 1, 1))
times = st.datetimes(dt.datetime(1000, 1, 1)).map(
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
)
rows = st.lists(
    st.tuples(
        st.none() | st.integers(-60, 60) | st.integers(-(2**30), 2**30),
        st.none() | st.integers(0, 60) | st.integers(2**63 - 5, 2**63 + 5) | st.integers(0, 2**64 - 1),
        st.none() | dates | st.dates(dt.date(2019, 12, 1), dt.date(2020, 2, 1)),
        st.none() | times,
        st.none() | words,
        st.none() | words.map(str.encode),
        st.none() | st.integers(1901, 2155) | st.just(0),
        st.none() | st.decimals(-300, 300, places=2),
    ),
    min_size=8,
    max_size=30,
)


def quote_name(text: str) -> str:
    return f"_UTF8MB4'{text}'"


def by_range(draw: Callable[..., Any]) -> str:
    expression = draw(st.sampled_from(WHOLE + OF_DATE + OTHERS))
    numbers = st.integers(0, 60) | st.integers(1990, 2030) | st.integers(0, 800_000) | st.integers(2**63 - 5, 2**63 + 5)
    signed = st.integers(-60, 60) | st.integers(-(2**30), 2**30)
    bounds = draw(st.lists(signed if expression in WHOLE else numbers, min_size=1, max_size=5, unique=True))
    if "`u`" not in expression:  # only these are unsigned
        bounds = [bound for bound in bounds if bound < 2**63] or [7]
    return f"RANGE ({expression}) ({less_than([str(bound) for bound in sorted(bounds)])})"


def less_than(bounds: Sequence[str], width: int = 1) -> str:
    limits = [*bounds, ", ".join(["MAXVALUE"] * width)]
    return ",".join(f"PARTITION `p{at}` VALUES LESS THAN ({bound})" for at, bound in enumerate(limits))


def by_range_columns(draw: Callable[..., Any]) -> str:
    kinds: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any], Callable[[Any], str]]] = {
        "`n`": (st.integers(-60, 60), int, str),
        "`u`": (st.integers(0, 60), int, str),
        "`d`": (dates, lambda date: date, lambda date: quote_name(date.isoformat())),
        "`t`": (times, lambda time: time, lambda time: quote_name(time.isoformat(" "))),
        "`s`": (words, lambda text: text.rstrip(" ").encode(), quote_name),
        "`b`": (words, str.encode, quote_name),
    }
    columns = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=3, unique=True))
    chosen = [kinds[column] for column in columns]
    bounds = {
        tuple(order(value) for (_, order, _), value in zip(chosen, values, strict=True)): values
        for values in draw(st.lists(st.tuples(*(values for values, _, _ in chosen)), min_size=1, max_size=4))
    }
    shown = [", ".join(show(v) for (_, _, show), v in zip(chosen, bounds[key], strict=True)) for key in sorted(bounds)]
    return f"RANGE COLUMNS ({', '.join(columns)}) ({less_than(shown, len(columns))})"


def by_list(draw: Callable[..., Any]) -> str:
    what, values, show = draw(
        st.sampled_from(
            [
                *((f"({expression})", st.integers(0, 12), str) for expression in (*WHOLE, *OF_DATE)),
                (" COLUMNS (`n`)", st.integers(-60, 60), str),
                (" COLUMNS (`s`)", words.map(lambda text: text.rstrip(" ")), quote_name),
                (
                    " COLUMNS (`n`, `s`)",
                    st.tuples(st.integers(-9, 9), words.map(lambda text: text.rstrip(" "))),
                    lambda pair: f"({pair[0]}, {quote_name(pair[1])})",
                ),
            ]
        )
    )
    members_ = [show(value) for value in draw(st.lists(values, min_size=2, max_size=9, unique=True))]
    members_ += ["NULL"] if "`n`, `s`" not in what and draw(st.booleans()) else []
    cut = draw(st.integers(1, len(members_) - 1))
    listed = ",".join(
        f"PARTITION `p{at}` VALUES IN ({', '.join(part)})" for at, part in enumerate((members_[:cut], members_[cut:]))
    )
    return f"LIST{what} ({listed},PARTITION `p2` DEFAULT)"


def by_hash(draw: Callable[..., Any]) -> str:
    expression = draw(st.sampled_from(WHOLE + OF_DATE + OTHERS))
    return f"HASH ({expression}) PARTITIONS {draw(st.integers(1, 7))}"


@st.composite
def partitionings(draw: Callable[..., Any]) -> str:
    return draw(st.sampled_from([by_range, by_range_columns, by_list, by_hash]))(draw)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    path: Path = tmp_path_factory.mktemp("replica") / "r.duckdb"
    connection = duckdb.connect(str(path))
    create_schema(connection)
    return connection


def filled(connection: duckdb.DuckDBPyConnection, values: Sequence[Sequence[Any]]) -> ReplicaTable:
    connection.execute("DROP SCHEMA IF EXISTS d CASCADE")
    made = empty_table(TableName("d", "t"), Upstream(COLUMNS), PLAIN)
    run_operations(connection, made)
    connection.executemany(f"INSERT INTO d.t VALUES ({', '.join('?' * len(COLUMNS))})", values)
    table = made.changed_tables[TableName("d", "t")]
    assert table is not None
    return table


@pytest.fixture(scope="module")
def server(mariadb: MariaDb) -> Iterator[pymysql.cursors.Cursor]:
    with contextlib.closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        yield cursor
        cursor.execute("DROP DATABASE IF EXISTS d")


def nulls_in_hash(server: pymysql.cursors.Cursor, known: Partitioning) -> set[int]:
    """Rows whose place is another one in TiDB: there NULL counts as 0, in MariaDB as the least number."""
    if known.kind is not PartitionKind.HASH:
        return set()
    server.execute(f"SELECT id FROM t WHERE ({known.by[0]}) IS NULL")
    return {id_ for (id_,) in server.fetchall()}


@examples(60)
@given(partitionings(), rows)
def test_rows_are_in_the_partitions_in_which_a_server_has_them(
    server: pymysql.cursors.Cursor,
    replica: duckdb.DuckDBPyConnection,
    partition_by: str,
    drawn: list[tuple[Any, ...]],
) -> None:
    values = [(at, *row) for at, row in enumerate(drawn)]
    query = f"CREATE TABLE `t` ({DECLARED}) PARTITION BY {partition_by}"
    server.execute("CREATE OR REPLACE DATABASE d")
    server.execute("USE d")
    server.execute(query)
    server.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(COLUMNS))})", values)
    known = created_table(partition_changes(statement_of(query)), "utf8mb4_bin").partitioning
    assert known is not None, query
    table = filled(replica, values)
    told = set(range(len(values))) - nulls_in_hash(server, known)
    for at, partition in enumerate(known.partitions):
        server.execute(f"SELECT id FROM t PARTITION ({partition.name})")
        wanted = {id_ for (id_,) in server.fetchall()}
        condition = members(known, {at}, table)
        found = dict(replica.sql(f"SELECT id, {condition} FROM d.t").fetchall())
        assert {id_: found[id_] for id_ in told} == {id_: id_ in wanted for id_ in told}, (partition, condition)
