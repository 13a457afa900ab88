"""Names with letters that Spark reads otherwise, and such that no folder can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.spark.load import SparkLoader
from tests.lakes.test_deaths import rows_of, settings_of
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.lakes import FORMATS, lake_uri
from tests.support.observers import Recorder

BEFORE = (ID, Column("x`y", "INT"), Column("a.b", "INT"))
AFTER = (*BEFORE, Column("`w`", "INT", default="5"))


@pytest.mark.parametrize("lake", FORMATS)
def test_rows_that_are_written_anew(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """In front of the statement and behind it."""
    feed, uri = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path)
    feed.database("d", 1)
    created = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`x``y` INT,`a.b` INT)"
    feed.statement("d.t", 10, Action.CREATE_TABLE, created, BEFORE)
    feed.file("d.t", 10, line(11, BEFORE, 1, 2, 3) + line(12, BEFORE, 2, 4, 6))
    feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN ```w``` INT DEFAULT 5", AFTER)
    feed.file("d.t", 20, line(21, AFTER, 2, 7, 8, 9))
    feed.checkpoint(30)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    assert rows_of(uri, lake_spark) == {TableName("d", "t"): [(1, 2, 3, 5), (2, 7, 8, 9)]}


LONG = "𝄞" * 64


@pytest.mark.parametrize("lake", FORMATS)
def test_tables_whose_names_are_too_long_for_a_folder(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """They begin alike."""
    feed, uri, columns = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path), (ID, VALUE)
    feed.database("d", 1)
    for number in (1, 2):
        feed.create(f"d.{LONG[1:]}{number}", 10)
        feed.file(f"d.{LONG[1:]}{number}", 10, line(11, columns, number, 7, table=f"{LONG[1:]}{number}"))
    feed.checkpoint(20)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    assert rows_of(uri, lake_spark) == {TableName("d", f"{LONG[1:]}{n}"): [(n, 7)] for n in (1, 2)}


def line(ts: int, columns: tuple[Column, ...], *values: int, table: str = "t") -> bytes:
    row: dict[str, str | None] = {column.name: str(value) for column, value in zip(columns, values, strict=True)}
    return typed_line(columns, ts, row, table=table)
