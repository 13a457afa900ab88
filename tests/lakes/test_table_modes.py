"""Tables that are no mirrors hold in a lake what they hold in a DuckDB file."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.model.names import TableName
from consumer.spark.load import SparkLoader
from tests.e2e.test_forms_by_hand import MS, first_rows, line
from tests.support.feed import Feed, Replica
from tests.support.lakes import FORMATS, lake_tables, lake_uri
from tests.support.observers import Recorder


def told(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    return str(value) if isinstance(value, datetime) else value


@pytest.mark.parametrize("lake", FORMATS)
@pytest.mark.parametrize("form", ["append", "soft-delete", "history"])
def test_rows_and_a_truncate(form: str, lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """In two rounds, so that rows that are there are changed; then a TRUNCATE, and rows behind it."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", MS)
    first_rows(feed)
    feed.file("d.t", 2 * MS, line(20, "UPDATE", 1, "11", {"v": "10"}) + line(21, "INSERT", 2, "22"))
    feed.truncate("d.t", 30 * MS)
    feed.file("d.t", 30 * MS, line(31, "INSERT", 1, "31"))
    urls = lake_uri(lake, tmp_path), f"duckdb:///{tmp_path}/r.duckdb"
    for checkpoint in (15 * MS, 25 * MS, 40 * MS):
        feed.checkpoint(checkpoint)
        for url in urls:
            settings = Replica(feed, url).settings(table_modes=[f"d.t = {form}"])
            assert app.once(settings, Recorder(), lake_spark).exit_code == 0
        with duckdb.connect(str(tmp_path / "r.duckdb"), read_only=True) as connection:
            wanted = connection.execute("SELECT * FROM d.t").fetchall()
        found = lake_tables(urls[0], lake_spark)[TableName("d", "t")].to_pylist()
        assert sorted(map(repr, ([*map(told, row)] for row in wanted))) == sorted(
            map(repr, ([*map(told, row.values())] for row in found))
        ), f"{form} at {checkpoint // MS}"
