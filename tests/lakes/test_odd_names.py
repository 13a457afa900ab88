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


KEPT = {
    "delta": ("_metadata", "_row_dropped_", "__delta_internal_is_row_deleted", "deletionVectorId"),
    "iceberg": ("_file", "_row_id", "_last_updated_sequence_number", "__row_operation"),
}
"""Names of columns that Spark or the format have for themselves. Nothing in the program has them."""


@pytest.mark.parametrize("lake", FORMATS)
def test_names_that_are_not_to_be_had_stop_their_tables(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """At the statement that brings them, with the rows of before; other tables go on."""
    feed, uri = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path)
    feed.database("d", 1)
    for number, name in enumerate(KEPT[lake]):
        query = f"CREATE TABLE `t{number}` (`id` INT PRIMARY KEY,`{name}` INT)"
        feed.statement(f"d.t{number}", 10, Action.CREATE_TABLE, query, (ID, Column(name, "INT")))
    kept = Column(KEPT[lake][1], "INT")
    for table, action, change, after in (
        ("a", Action.ADD_COLUMN, f"ADD COLUMN `{kept.name}` INT", (ID, VALUE, kept)),
        ("r", Action.MODIFY_COLUMN, f"RENAME COLUMN `v` TO `{kept.name}`", (ID, kept)),
    ):
        feed.create(f"d.{table}", 10)
        feed.puts(f"d.{table}", 10, {11: (1, "1")})
        feed.statement(f"d.{table}", 20, action, f"ALTER TABLE `{table}` {change}", after)
    feed.create("d.ok", 10)
    feed.puts("d.ok", 10, {11: (1, "1"), 21: (1, "2"), 22: (3, "3")})
    feed.checkpoint(30)
    seen = Recorder()
    app.once(settings_of(feed, uri), seen, lake_spark)
    stopped = {str(table): str(error) for table, error in seen.stopped.items()}
    assert stopped.keys() == {"d.a", "d.r", *(f"d.t{number}" for number in range(len(KEPT[lake])))}
    for number, name in enumerate(KEPT[lake]):
        assert f"keeps the name of the column {name} for itself" in stopped[f"d.t{number}"]
    found = rows_of(uri, lake_spark)
    assert found == {
        TableName("d", "a"): [(1, 1)],
        TableName("d", "r"): [(1, 1)],
        TableName("d", "ok"): [(1, 2), (3, 3)],
    }


OURS = (("held", "n"), ("copy", "gone"), ("c1", "c0"), ("put", "row"), ("t", "s"))
"""What this program calls columns on their way."""


@pytest.mark.parametrize("lake", FORMATS)
def test_names_that_this_program_has_on_the_way(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Of tables without a key, of whose equal rows some go."""
    feed, uri = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path)
    feed.database("d", 1)
    for number, names in enumerate(OURS):
        columns = tuple(Column(name, "INT") for name in names)
        query = f"CREATE TABLE `t{number}` ({','.join(f'`{name}` INT' for name in names)})"
        feed.statement(f"d.t{number}", 10, Action.CREATE_TABLE, query, columns)
    for checkpoint, changes in (
        (15, ((11, "INSERT", 1, 2), (12, "INSERT", 1, 2), (13, "INSERT", 3, 4))),
        (20, ((16, "DELETE", 1, 2), (17, "INSERT", 5, 6))),
    ):
        for number, names in enumerate(OURS):
            columns = tuple(Column(name, "INT") for name in names)
            lines = [line(ts, columns, *row, table=f"t{number}", kind=kind) for ts, kind, *row in changes]
            feed.file(f"d.t{number}", 10, b"".join(lines))
        feed.checkpoint(checkpoint)
        assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    assert set(map(tuple, rows_of(uri, lake_spark).values())) == {((1, 2), (3, 4), (5, 6))}


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


def line(ts: int, columns: tuple[Column, ...], *values: int, table: str = "t", kind: str = "INSERT") -> bytes:
    row: dict[str, str | None] = {column.name: str(value) for column, value in zip(columns, values, strict=True)}
    return typed_line(columns, ts, row, kind, table=table)
