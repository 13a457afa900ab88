"""What others read of an Iceberg lake: PyIceberg, which shares no code with Spark's."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.sink.lake.formats import Commit
from consumer.spark.load import SparkLoader
from tests.lakes.test_deaths import COUNTED, KEYED, WANTED, settings_of, storage
from tests.support.observers import Recorder


def test_pyiceberg_reads_the_rows_and_what_commits_say(lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Tables with deleted rows, and with a column that came later."""
    table = pytest.importorskip("pyiceberg.table")
    feed, uri = storage(tmp_path / "storage"), f"iceberg://{tmp_path}/lake"
    for checkpoint in (20, 29, 40):
        feed.checkpoint(checkpoint)
        assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    for name, rows in WANTED.items():
        place = f"{tmp_path}/lake/{name.database}/{name.table}"
        found = table.StaticTable.from_metadata(place)
        assert sorted(tuple(row.values()) for row in found.scan().to_arrow().to_pylist()) == rows
        snapshot = found.current_snapshot()
        said = Commit.of(snapshot.summary["storage-consumer"])
        assert said is not None
        assert said.applied == {name: {KEYED: 29, COUNTED: 40}[name]}
        assert found.refs()["storage_consumer"].snapshot_id == snapshot.snapshot_id
