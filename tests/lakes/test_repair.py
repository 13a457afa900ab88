"""`verify --repair` of a lake, where more is known of some rows than of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.spark.load import SparkLoader
from tests.lakes.test_deaths import rows_of, settings_of
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.lakes import FORMATS, lake_sink, lake_uri
from tests.support.observers import Recorder

T = TableName("d", "t")
COLUMNS = (ID, VALUE, Column("s", "VARCHAR", length=10, default="x"))


@pytest.mark.parametrize("lake", FORMATS)
def test_rows_of_before_and_behind_a_default(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """A row of before that is gone comes with the column's default."""
    feed, uri = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 12: (2, "2")})
    feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `s` VARCHAR(10) DEFAULT 'x'", COLUMNS)
    rows: tuple[dict[str, str | None], ...] = ({"id": "3", "v": "3", "s": "y"}, {"id": "4", "v": "4", "s": "z"})
    feed.file("d.t", 20, b"".join(typed_line(COLUMNS, 21 + n, row) for n, row in enumerate(rows)))
    feed.checkpoint(30)
    settings = settings_of(feed, uri)
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    sink = lake_sink(uri, lake_spark)
    place = sink._tables.sql(sink._progress.lake_tables[T].location)
    for statement in ("UPDATE {} SET v = 99 WHERE id IN (1, 3)", "DELETE FROM {} WHERE id IN (2, 4)"):
        sink._session().sql(statement.format(place)).collect()
    app.verify(settings, Recorder(), loader=lake_spark, repairing=Repairing(True))
    assert rows_of(uri, lake_spark) == {T: [(1, 1, "x"), (2, 2, "x"), (3, 3, "y"), (4, 4, "z")]}
