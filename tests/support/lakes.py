"""A lake for tests: the one Spark of a module, and its tables as anybody reads them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from consumer.model.names import TableName
from consumer.sink import sink_for, spark_properties
from consumer.sink.lake.jars import jar_folder
from consumer.sink.lake.sink import LakeSink
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.spark.shared import SharedSpark
from consumer.target import TargetOptions

FORMATS = ("delta", "iceberg")


JDBC = "jdbc"
"""Iceberg tables whose catalog is a database: one of SQLite, by its driver."""


def lake_uri(lake: str, folder: Path, name: str = "lake") -> str:
    """Of a lake in `folder`. Skips the test where the driver of its catalog is not there."""
    if lake != JDBC:
        return f"{lake}://{folder}/{name}"
    if not list(jar_folder().glob("sqlite-jdbc-*.jar")):
        pytest.skip("no driver of SQLite: python -m consumer.sink.lake.fetch org.xerial:sqlite-jdbc:3.54.1.0")
    return f"iceberg://prod?type=jdbc&uri=jdbc:sqlite:{folder}/{name}.db&warehouse={folder}/{name}"


def lake_loader() -> SparkLoader:
    """Spark with what lakes need, whatever their format, which several commands share."""
    found: dict[str, str] = {}
    for name in FORMATS:
        more = spark_properties(f"{name}:///tmp/lake")
        found |= {**more, "spark.jars": f"{found.get('spark.jars', '')},{more['spark.jars']}".strip(",")}
    return SparkLoader(SparkSettings("local[2]", tuple(found.items())))


def lake_sink(uri: str, loader: SparkLoader, name: str = "default", zone: str = "UTC") -> LakeSink:
    sink = sink_for(uri, TargetOptions(name, zone, spark=SharedSpark(SparkSettings(), loader)))
    assert isinstance(sink, LakeSink)
    return sink


def lake_tables(uri: str, loader: SparkLoader) -> dict[TableName, pa.Table]:
    """All tables of the lake, read by Spark from where the progress says that they are."""
    sink = lake_sink(uri, loader)
    session = loader.session().newSession()
    sink._tables.prepare(session)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    known = sink._progress.lake_tables.values()
    return {table.replica.name: session.table(sink._tables.sql(table.place)).toArrow() for table in known}
