"""How Spark is started: what others may see of it, and what becomes of a session that was there before."""

from __future__ import annotations

import gc
import os
import sys
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from consumer.errors import BadConfig
from consumer.spark.jvm import end_jvm
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.integration.spark.test_failures import task, works


@pytest.fixture(autouse=True)
def no_jvm() -> Iterator[None]:
    """Before and after each test."""
    end_jvm()
    yield
    end_jvm()


def test_secrets_in_properties_are_not_in_the_command_line() -> None:
    loader = SparkLoader(SparkSettings("local[1]", (("spark.x.password", "päss\\word= #1"),)))
    assert works(loader)
    try:
        context = SparkContext._active_spark_context
        assert context._jvm.java.lang.System.getProperty("spark.x.password") == "päss\\word= #1"
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert any(b"SparkSubmit" in command for command in commands)
        assert not any(b"word= #1" in command for command in commands)
    finally:
        loader.close()


def test_a_session_that_was_there_before_is_left_as_it_is() -> None:
    theirs = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        theirs.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
        loader = SparkLoader(SparkSettings("local[1]"))
        assert works(loader)
        loader.abandon()
        loader.close()
        assert theirs.range(5).count() == 5
        assert theirs.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "7"
    finally:
        theirs.stop()


def test_speculation_is_refused() -> None:
    with pytest.raises(BadConfig, match="speculation"):
        SparkLoader(SparkSettings("local[1]", (("spark.speculation", "true"),))).split([task(0)])


def test_tasks_have_no_archive_to_read_again() -> None:
    """Each task would read the lists of all archives on the module path: 35 ms and more."""

    def archives(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            importers = sys.path_importer_cache.items()
            found = [entry for entry, importer in importers if isinstance(importer, zipimport.zipimporter)]
            yield pa.record_batch([pa.array([*found, *(entry for entry in sys.path if Path(entry).is_file())])], ["x"])

    loader = SparkLoader(SparkSettings("local[1]"))
    assert works(loader)
    try:
        session = SparkSession.builder.getOrCreate()
        assert session.range(0, 2, 1, 2).mapInArrow(archives, "x string").collect() == []
    finally:
        loader.close()


def test_workers_import_no_pandas_have_few_objects_to_look_through_and_keep_memory() -> None:
    """PySpark collects garbage after each task; pyarrow would import pandas in each worker's first one."""

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            few = gc.get_freeze_count() > 10_000
            kept = "MALLOC_TRIM_THRESHOLD_" in os.environ
            values = pa.array([str("pandas" in sys.modules), str(few), str(kept)])
            yield pa.record_batch([values], ["x"])

    loader = SparkLoader(SparkSettings("local[1]"))
    assert works(loader)
    try:
        session = SparkSession.builder.getOrCreate()
        told = [row.x for row in session.range(0, 2, 1, 2).mapInArrow(seen, "x string").collect()]
        assert told == ["False", "True", "True"] * 2
    finally:
        loader.close()
