"""What DROP, TRUNCATE and EXCHANGE PARTITION do to a replica's rows, and where they stop the table instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from consumer.ddl.definitions import statement_of
from consumer.ddl.partitions import created_table, partition_changes
from consumer.errors import ConsumerError, DdlRefused
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.steps import TableBefore
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica, Rows

V = Column("v", "INT")
OTHER = TableName("db", "x")
TENS = "RANGE (`v`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (20))"
BERLIN = ZoneInfo("Europe/Berlin")


def refusal(
    replica: Replica, alter: str, by: str | None = None, column: Column = V, declared: str = "INT", **more: int
) -> ConsumerError | None:
    """Execute ``ALTER TABLE t <alter>`` on a table that is divided by `by` (None: not known); why it was refused."""
    action = Action(more.get("action", Action.TRUNCATE_PARTITION))
    touches = (OTHER,) if action == Action.EXCHANGE_PARTITION else ()
    step = replica.step(action, f"ALTER TABLE `t` {alter}", (ID, column), touches=touches)
    query = f"CREATE TABLE `t` (`id` INT,`{column.name}` {declared}) PARTITION BY {by}"
    known = None if by is None else created_table(partition_changes(statement_of(query)), "utf8mb4_bin").partitioning
    assert (known is None) == (by is None)
    (outcome,) = replica.sink.apply_ddls([replace(step, table_before=TableBefore(partitioning=known))], {})
    return outcome.error


def fill(replica: Replica, values: Sequence[str | None], column: Column = V) -> None:
    rows: Rows = [(str(at), value) for at, value in enumerate(values)]
    replica.put((ID, column), rows)


def left(replica: Replica) -> list[int]:
    return [row[0] for row in replica.rows()]


@pytest.mark.parametrize(
    ("alter", "by", "values", "wanted"),
    [
        ("TRUNCATE PARTITION `p0`", TENS, ["5", None, "10", "19", "-3"], [2, 3]),
        ("DROP PARTITION `p1`", TENS, ["5", None, "10", "19", "-3"], [0, 1, 4]),
        ("TRUNCATE PARTITION `p0`, `P1`", TENS, ["5", None, "10"], []),
        ("TRUNCATE PARTITION `p0`", "HASH (`v`) PARTITIONS 3", ["0", None, "-3", "1", "-1"], [3, 4]),
        ("TRUNCATE PARTITION `p0`,`p1`", "KEY (`v`) PARTITIONS 2", ["0", None], []),
        ("TRUNCATE PARTITION ALL", None, ["0", None], []),
        ("DROP COLUMN `w`, DROP PARTITION `p0`", TENS, ["5", "15"], [1]),
    ],
)
def test_a_partitions_rows_go(
    replica: Replica, alter: str, by: str | None, values: list[str | None], wanted: list[int]
) -> None:
    fill(replica, values)
    action = Action.MULTI_SCHEMA_CHANGE if "COLUMN" in alter else Action.TRUNCATE_PARTITION
    assert refusal(replica, alter, by, action=action) is None
    assert left(replica) == wanted


@pytest.mark.parametrize(
    ("alter", "by", "why"),
    [
        ("TRUNCATE PARTITION `p0`", None, "no statement in the storage defines it clearly"),
        ("TRUNCATE PARTITION `p9`", TENS, "p9"),
        ("TRUNCATE PARTITION `p0`", "KEY (`v`) PARTITIONS 2", "KEY"),
        (
            "TRUNCATE PARTITION `p0`",
            "LIST (`v`) (PARTITION `p0` VALUES IN (1),PARTITION `p1` VALUES IN (2))",
            "1 row of",
        ),
        ("TRUNCATE PARTITION `p0`", TENS.replace("`v`", "YEARWEEK(`v`)"), "YEARWEEK"),
        ("TRUNCATE PARTITION `p0`", TENS.replace("`v`", "`gone`"), "gone"),
        ("TRUNCATE PARTITION `p0`", TENS.replace("(`v`)", "(`v` DIV 0)"), "DIV"),
        ("FIRST PARTITION LESS THAN (10)", TENS, "PARTITION"),
        ("ENGINE = InnoDB", TENS, "names no partition"),
    ],
)
def test_what_cannot_be_told_stops_the_table(replica: Replica, alter: str, by: str | None, why: str) -> None:
    replica.apply(Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)", (ID, V))
    assert refusal(replica, alter, by) is None, "no rows, nothing to tell"
    fill(replica, ["1", "30"])
    error = refusal(replica, alter, by)
    assert isinstance(error, DdlRefused)
    assert why in error.message
    assert "skip-ddl --table db.t" in error.hint
    assert "resync" not in error.hint, "it would meet the statement again"
    assert left(replica) == [0, 1]


def test_a_difference_below_zero_is_not_guessed(replica: Replica) -> None:
    column = Column("v", "INT", unsigned=True)
    by = TENS.replace("(`v`)", "(`v`-5)")
    fill(replica, ["7", "20"], column)
    assert refusal(replica, "TRUNCATE PARTITION `p0`", by, column) is None
    assert left(replica) == [1]
    fill(replica, ["3"], column)
    assert refusal(replica, "TRUNCATE PARTITION `p0`", by, column) is not None


DATES = ["0000-00-00", "2019-12-31", "2020-01-01", None]


def test_dates_that_are_none(replica: Replica) -> None:
    column = Column("d", "DATE")
    fill(replica, DATES, column)
    assert replica.types()["d"] == "VARCHAR"
    years = "RANGE (YEAR(`d`)) (PARTITION `p0` VALUES LESS THAN (2020),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
    assert refusal(replica, "TRUNCATE PARTITION `p0`", years, column, "DATE") is not None
    first = (
        "RANGE COLUMNS (`d`) (PARTITION `p0` VALUES LESS THAN ('2020-1-1'),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
    )
    assert refusal(replica, "TRUNCATE PARTITION `p0`", first, column, "DATE") is None
    assert left(replica) == [2]


def test_seconds_since_1970_are_counted_in_utc(tmp_path: Path) -> None:
    replica, column = Replica(tmp_path, "Europe/Berlin"), Column("t", "TIMESTAMP")
    instants = [datetime(2024, 10, 26, 22, tzinfo=ZoneInfo("UTC")) + timedelta(minutes=30 * step) for step in range(12)]
    fill(replica, [f"{instant:%Y-%m-%d %H:%M:%S}" for instant in instants], column)

    def by(bound: datetime) -> str:
        edge = f"PARTITION `p0` VALUES LESS THAN ({int(bound.timestamp())})"
        return f"RANGE (UNIX_TIMESTAMP(`t`)) ({edge},PARTITION `p1` VALUES LESS THAN MAXVALUE)"

    assert refusal(replica, "TRUNCATE PARTITION `p0`", by(instants[3]), column, "TIMESTAMP") is None
    assert left(replica) == list(range(3, 12))
    assert refusal(replica, "TRUNCATE PARTITION `p1`", by(instants[9]), column, "TIMESTAMP") is None
    assert left(replica) == list(range(3, 9))
    text = "RANGE (UNIX_TIMESTAMP(`t`)) (PARTITION `p0` VALUES LESS THAN (UNIX_TIMESTAMP('2024-10-27')),"
    more = "PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
    assert refusal(replica, "TRUNCATE PARTITION `p0`", text + more, column, "TIMESTAMP") is not None
    replica.sink.close()


TEXT = Column("s", "VARCHAR", length=9)
CASELESS = "VARCHAR(9) COLLATE utf8mb4_general_ci"
LETTERS = "RANGE COLUMNS (`s`) (PARTITION `p0` VALUES LESS THAN ('m'),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
WORDS = "LIST COLUMNS (`s`) (PARTITION `p0` VALUES IN ('De','fr'),PARTITION `p1` VALUES IN ('Jp'){})"


@pytest.mark.parametrize(
    ("declared", "by", "values", "wanted"),
    [
        ("VARCHAR(9)", LETTERS, ["Z", "l ", "m ", "é", "l\t"], [2, 3]),
        (CASELESS, LETTERS, ["z", "l1", "a-1"], [0]),
        (CASELESS, LETTERS, ["z", "L"], None),
        (CASELESS, LETTERS.replace("'m'", "'M x'"), ["z"], None),
        (CASELESS, WORDS.format(""), ["De", "Jp"], [1]),
        (CASELESS, WORDS.format(""), ["De", "JP"], None),
        (CASELESS, WORDS.format(",PARTITION `p2` DEFAULT"), ["De", "x"], None),
        ("VARCHAR(9)", WORDS.format(",PARTITION `p2` DEFAULT"), ["De ", "de", "Jp"], [1, 2]),
    ],
)
def test_text_is_compared_by_its_collation(
    replica: Replica, declared: str, by: str, values: list[str], wanted: list[int] | None
) -> None:
    fill(replica, values, TEXT)
    error = refusal(replica, "TRUNCATE PARTITION `p0`", by, TEXT, declared)
    assert (error is None) == (wanted is not None)
    assert left(replica) == (list(range(len(values))) if wanted is None else wanted)


EXCHANGE = "EXCHANGE PARTITION `p1` WITH TABLE `db`.`X`"


def exchange(replica: Replica, by: str = TENS, column: Column = V, declared: str = "INT") -> ConsumerError | None:
    return refusal(replica, EXCHANGE, by, column, declared, action=Action.EXCHANGE_PARTITION)


def test_an_exchange_moves_the_rows_of_both_tables(replica: Replica) -> None:
    fill(replica, ["5", "15", None, "11"])
    replica.put((ID, V), [("50", "12")], OTHER)
    assert exchange(replica) is None
    assert replica.rows() == [(0, 5), (2, None), (50, 12)]
    assert replica.rows(OTHER) == [(1, 15), (3, 11)]
    assert exchange(replica) is None
    assert replica.rows() == [(0, 5), (1, 15), (2, None), (3, 11)]
    assert replica.rows(OTHER) == [(50, 12)]


def test_tables_of_a_snapshot_have_the_columns_of_the_statement(replica: Replica) -> None:
    """Somebody else made them, and no rows from the storage came yet."""
    replica.query("CREATE SCHEMA IF NOT EXISTS db")
    for name, values in (("t", "(0, 5), (1, 15), (2, 16)"), ("x", "(3, 17)")):
        replica.query(f"CREATE TABLE db.{name} (id INTEGER, v INTEGER); INSERT INTO db.{name} VALUES {values}")
    assert exchange(replica) is None
    assert left(replica) == [0, 3]
    assert replica.rows(OTHER) == [(1, 15), (2, 16)]
    assert refusal(replica, "TRUNCATE PARTITION `p0`", TENS) is None
    assert left(replica) == [3]


def test_a_row_that_came_into_a_foreign_partition_stops_the_table(replica: Replica) -> None:
    fill(replica, ["15"])
    replica.put((ID, V), [("50", "2")], OTHER)
    assert exchange(replica) is not None
    assert (replica.rows(), replica.rows(OTHER)) == ([(0, 15)], [(50, 2)])


def test_an_exchange_needs_both_tables_with_the_same_columns(replica: Replica) -> None:
    fill(replica, ["15"])
    assert exchange(replica) is not None
    replica.put((ID, Column("w", "INT")), [("50", "12")], OTHER)
    assert exchange(replica) is not None
    assert left(replica) == [0]


@pytest.mark.parametrize("strange_in", [TABLE, OTHER])
def test_an_exchange_where_one_table_holds_a_date_that_is_none(replica: Replica, strange_in: TableName) -> None:
    column = Column("d", "DATETIME", scale=3)
    by = "HASH (`id`) PARTITIONS 2"
    for name, id_ in ((TABLE, "1"), (OTHER, "3")):
        day = "0000-00-00" if name == strange_in else "2024-01-02"
        replica.put((ID, column), [(id_, f"{day} 03:04:05.600")], name)
    before = {name: {(row[0], str(row[1])[:10]) for row in replica.rows(name)} for name in (TABLE, OTHER)}
    assert exchange(replica, by, column, "DATETIME(3)") is None
    after = {name: {(row[0], str(row[1])[:10]) for row in replica.rows(name)} for name in (TABLE, OTHER)}
    assert after == {TABLE: before[OTHER], OTHER: before[TABLE]}
    assert {replica.types(name)["d"] for name in (TABLE, OTHER)} == {"VARCHAR"}
    assert {str(row[1])[10:] for name in (TABLE, OTHER) for row in replica.rows(name)} == {" 03:04:05.600"}
