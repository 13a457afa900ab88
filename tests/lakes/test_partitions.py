"""What DROP and TRUNCATE PARTITION do to the rows of a lake: those that MySQL keeps in the named partitions go."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.spark.load import SparkLoader
from tests.lakes.test_days import PLAIN
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.feed import Feed, Replica
from tests.support.lakes import FORMATS, lake_tables, lake_uri
from tests.support.observers import Recorder

WHOLE, TEXT, DAY, MOMENT = (
    Column("v", kind, **more)
    for kind, more in (("INT", {}), ("VARCHAR", {"length": 9}), ("DATE", {}), ("TIMESTAMP", {}))
)
TENS = "RANGE (`v`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (20))"
LISTED = "LIST (`v`) (PARTITION `p0` VALUES IN (1,NULL),PARTITION `p1` VALUES IN (2,3))"
LETTERS = "RANGE COLUMNS (`v`) (PARTITION `p0` VALUES LESS THAN ('m'),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
YEARS = "RANGE (YEAR(`v`)) (PARTITION `p0` VALUES LESS THAN (2020),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
SECONDS = YEARS.replace("YEAR", "UNIX_TIMESTAMP").replace("2020", "1729987200")
"""Until 2024-10-27 00:00 in UTC, 02:00 in Berlin."""
DROP, TRUNCATE = Action.DROP_PARTITION, Action.TRUNCATE_PARTITION
CASES: dict[str, tuple[Column, Column, str, str, Action, str, list[str | None], list[int] | None]] = {
    "truncated": (ID, WHOLE, "INT", TENS, TRUNCATE, "TRUNCATE PARTITION `p0`", ["5", None, "10", "19", "-3"], [2, 3]),
    "dropped": (ID, WHOLE, "INT", TENS, DROP, "DROP PARTITION `p1`", ["5", None, "10", "19", "-3"], [0, 1, 4]),
    "two": (ID, WHOLE, "INT", TENS, TRUNCATE, "TRUNCATE PARTITION `p0`, `P1`", ["5", None, "10"], []),
    "all": (ID, WHOLE, "INT", TENS, TRUNCATE, "TRUNCATE PARTITION ALL", ["5", None], []),
    "no_key": (PLAIN, WHOLE, "INT", TENS, DROP, "DROP PARTITION `p0`", ["5", "15", "15"], [1, 2]),
    "listed": (ID, WHOLE, "INT", LISTED, DROP, "DROP PARTITION `p0`", ["1", None, "2", "3"], [2, 3]),
    "hashed": (ID, WHOLE, "INT", "HASH (`v`) PARTITIONS 3", TRUNCATE, "TRUNCATE PARTITION `p0`",
               ["0", None, "-3", "1", "-1"], [3, 4]),
    "letters": (ID, TEXT, "VARCHAR(9)", LETTERS, DROP, "DROP PARTITION `p0`", ["Z", "l ", "m ", "é", "l"], [2, 3]),
    "years": (ID, DAY, "DATE", YEARS, DROP, "DROP PARTITION `p0`", ["2019-12-31", "2020-01-01", "1999-05-06"], [1]),
    "seconds": (ID, MOMENT, "TIMESTAMP", SECONDS, DROP, "DROP PARTITION `p0`",
                ["2024-10-27 01:59:59", "2024-10-27 03:00:00"], [1]),
    "a_listed_gap": (ID, WHOLE, "INT", LISTED, TRUNCATE, "TRUNCATE PARTITION `p0`", ["1", "9"], None),
    "by_key": (ID, WHOLE, "INT", "KEY (`v`) PARTITIONS 2", TRUNCATE, "TRUNCATE PARTITION `p0`", ["1"], None),
}  # fmt: skip
"""By table: its columns and the type of the second, the partitions, a statement, that column's values in the rows 0, 1
and so on, and the rows that stay; None where the table must stop, as it cannot be told."""


@pytest.mark.parametrize("lake", FORMATS)
def test_the_rows_of_the_partitions_go(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    for table, (first, column, kind, by, action, query, values, _) in CASES.items():
        key = "PRIMARY KEY" if first is ID else ""
        create = f"CREATE TABLE `{table}` (`id` INT {key},`v` {kind}) PARTITION BY {by}"
        columns = (first, column)
        feed.statement(f"d.{table}", 10, Action.CREATE_TABLE, create, columns)
        lines = [typed_line(columns, 11 + at, {"id": str(at), "v": v}, table=table) for at, v in enumerate(values)]
        feed.file(f"d.{table}", 10, b"".join(lines))
        feed.statement(f"d.{table}", 30, action, f"ALTER TABLE `{table}` {query}", columns)
        more = typed_line(columns, 31, {"id": "100", "v": values[0]}, table=table)
        feed.file(f"d.{table}", 30, more)
    uri = lake_uri(lake, tmp_path)
    for checkpoint in (20, 40, 50):
        feed.checkpoint(checkpoint)
        result = app.once(Replica(feed, uri).settings(tz="Europe/Berlin"), Recorder(), lake_spark)
    found = lake_tables(uri, lake_spark)
    for table, (*_, values, wanted) in CASES.items():
        ids = sorted(found[TableName("d", table)]["id"].to_pylist())
        stopped = result.tables[TableName("d", table)].error
        if wanted is None:
            assert "cannot tell which rows are in the partition" in stopped, table
            assert ids == list(range(len(values))), table
        else:
            assert (stopped, ids) == ("", [*wanted, 100]), table
