"""A lake for tests: the one Spark of a module, and its tables as anybody reads them."""

from __future__ import annotations

import pyarrow as pa

from consumer.model.names import TableName
from consumer.sink import sink_for, spark_properties
from consumer.sink.lake.sink import LakeSink
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.spark.shared import SharedSpark
from consumer.target import TargetOptions


def lake_loader(uri: str = "delta:///tmp/lake") -> SparkLoader:
    """Spark with what a lake needs, which several commands share."""
    return SparkLoader(SparkSettings("local[2]", tuple(spark_properties(uri).items())))


def lake_sink(uri: str, loader: SparkLoader, name: str = "default", zone: str = "UTC") -> LakeSink:
    sink = sink_for(uri, TargetOptions(name, zone, spark=SharedSpark(SparkSettings(), loader)))
    assert isinstance(sink, LakeSink)
    return sink


def lake_tables(uri: str, loader: SparkLoader) -> dict[TableName, pa.Table]:
    """All tables of the lake, read by Spark from where the progress says that they are."""
    session = loader.session().newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    known = lake_sink(uri, loader)._progress.lake_tables.values()
    return {table.replica.name: session.read.format("delta").load(table.place).toArrow() for table in known}
