"""What a lake cannot hold as upstream has it is not guessed, and is told by name: a day that no calendar has, which is
NULL there, a value that has no form in a column's new type, and a column whose name the format keeps."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.spark.load import SparkLoader
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.feed import Feed, Replica
from tests.support.lakes import FORMATS, lake_tables, lake_uri
from tests.support.observers import Recorder

DAY, TEXT, MOMENT = Column("d", "DATE"), Column("d", "VARCHAR", length=20), Column("d", "DATETIME")
PLAIN = replace(ID, is_pk=False, nullable=True)
PARTITIONS = (
    " PARTITION BY RANGE COLUMNS (`d`) (PARTITION `p0` VALUES LESS THAN ('2000-01-01'),"
    "PARTITION `p1` VALUES LESS THAN ('2025-01-01'))"
)
TO_TEXT = (Action.MODIFY_COLUMN, "MODIFY COLUMN `d` VARCHAR(20)", (ID, TEXT))
CASES = {
    "part": (PLAIN, "2024-00-00", (Action.DROP_PARTITION, "DROP PARTITION `p0`", (PLAIN, DAY)), None),
    "text": (ID, "2024-00-00", TO_TEXT, None),
    "null": (ID, None, TO_TEXT, [(1, None)]),
    "moment": (ID, "0000-00-00", (Action.MODIFY_COLUMN, "MODIFY COLUMN `d` DATETIME", (ID, MOMENT)), [(1, None)]),
    "known": (
        ID,
        "2024-01-02",
        (Action.MODIFY_COLUMN, "MODIFY COLUMN `d` DATETIME", (ID, MOMENT)),
        [(1, datetime(2024, 1, 2))],
    ),
}
"""By table: its first column, the day of its row, a statement, and the rows behind that; None where it must stop."""


@pytest.mark.parametrize("lake", FORMATS)
def test_what_a_statement_makes_of_such_a_day_is_not_guessed(
    lake: str, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    for table, (first, day, (action, query, columns), _) in CASES.items():
        key = "PRIMARY KEY" if first is ID else ""
        create = f"CREATE TABLE `{table}` (`id` INT {key},`d` DATE){PARTITIONS if table == 'part' else ''}"
        feed.statement(f"d.{table}", 10, Action.CREATE_TABLE, create, (first, DAY))
        feed.file(f"d.{table}", 10, typed_line((first, DAY), 11, {"id": "1", "d": day}, table=table))
        feed.statement(f"d.{table}", 20, action, f"ALTER TABLE `{table}` {query}", columns)
    uri = lake_uri(lake, tmp_path)
    for checkpoint in (15, 30):
        feed.checkpoint(checkpoint)
        result = app.once(Replica(feed, uri).settings(), Recorder(), lake_spark)
    found = lake_tables(uri, lake_spark)
    for table, (*_, rows) in CASES.items():
        name = TableName("d", table)
        if rows is None:
            assert "day that no calendar has" in result.tables[name].error, table
        else:
            assert [tuple(row.values()) for row in found[name].to_pylist()] == rows, table


@pytest.mark.parametrize(("lake", "name"), [("delta", "_Metadata"), ("iceberg", "_Row_Id")])
def test_a_column_whose_name_the_format_keeps_is_told(
    lake: str, name: str, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    """Its table can be made, and rows cannot be read or changed in it."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    columns = (ID, Column(name, "INT"))
    feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`{name}` INT)", columns)
    feed.checkpoint(20)
    result = app.once(Replica(feed, lake_uri(lake, tmp_path)).settings(), Recorder(), lake_spark)
    assert f"keeps the name of the column {name}" in result.tables[TableName("d", "t")].error


@pytest.mark.parametrize("lake", FORMATS)
def test_a_value_that_a_statement_cannot_convert_stops_its_table_alone(
    lake: str, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    """Others get upstream's values, also of more digits than statements of DuckDB count with."""
    feed, number = Feed(tmp_path / "storage"), "1234567890123456789012345678.5"
    feed.database("d", 1)
    wide = (Column("c", "DECIMAL", length=38, scale=1), Column("c", "DECIMAL", length=65, scale=30))
    text = (Column("c", "VARCHAR", length=20), Column("c", "INT"))
    cases = {"wide": (*wide, number), "text": (*text, "2.5"), "none": (*text, "x8")}
    for table, (before, after, value) in cases.items():
        old, new = ("DECIMAL(38,1)", "DECIMAL(65,30)") if table == "wide" else ("VARCHAR(20)", "INT")
        create = f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY,`c` {old})"
        feed.statement(f"d.{table}", 10, Action.CREATE_TABLE, create, (ID, before))
        feed.file(f"d.{table}", 10, typed_line((ID, before), 11, {"id": "1", "c": value}, table=table))
        modify = f"ALTER TABLE `{table}` MODIFY COLUMN `c` {new}"
        feed.statement(f"d.{table}", 20, Action.MODIFY_COLUMN, modify, (ID, after))
    feed.checkpoint(30)
    uri = lake_uri(lake, tmp_path)
    tables = app.once(Replica(feed, uri).settings(), Recorder(), lake_spark).tables
    stopped = tables[TableName("d", "none")]
    assert {name.table: table.state for name, table in tables.items()} == {
        "wide": "ok", "text": "ok", "none": "stopped"
    }  # fmt: skip
    assert "column c: 'x8' is no number" in stopped.error
    assert "skip-ddl --table d.none --version 20" in stopped.hint
    found = {name.table: table.column("c").to_pylist() for name, table in lake_tables(uri, lake_spark).items()}
    assert {name: list(map(str, values)) for name, values in found.items()} == {
        "wide": [f"{number}{'0' * 29}"], "text": ["3"], "none": ["x8"]
    }  # fmt: skip
