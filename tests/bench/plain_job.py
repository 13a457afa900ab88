"""The job that a good engineer would write in PySpark: ``python -m tests.bench.plain_job FORMAT``, a `WarmProcess`. For
each line that it reads, a JSON object, it does what `do` says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from consumer.sink.lake.jars import properties
from tests.bench.generate import DATABASE
from tests.bench.rows import SYSBENCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_A_TIME = 2
"""Tables: as many as there are cores."""
_TYPES = {"INT": "int"}
_COLUMNS = {column.name: _TYPES.get(column.type, "string") for column in SYSBENCH.columns}
SCHEMA = (
    f"type string, data array<struct<{', '.join(f'{name}: string' for name in _COLUMNS)}>>,"
    " _tidb struct<commitTs: bigint>"
)


def started(lake: str = "", heap: str = "1g") -> SparkSession:
    """Spark as it comes, with what the format's manual asks for, and partitions for two cores."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {
        **(properties(f"{lake}:///tmp/lake") if lake else {}),
        "spark.master": "local[2]",
        "spark.driver.memory": heap,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def applied(spark: SparkSession, lake: str, storage: str, folder: str) -> None:
    """The newest change of each key of each table, by MERGE."""
    named = _named(spark, lake, folder)
    tables = sorted(path.name for path in Path(storage, DATABASE).iterdir() if path.name != "meta")
    if lake == "iceberg":
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {named('').removesuffix('.``')}")
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        list(threads.map(partial(_merged, spark, lake, named, storage), tables))


def _merged(spark: SparkSession, lake: str, named: Callable[[str], str], storage: str, table: str) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    spark.sql(f"CREATE TABLE IF NOT EXISTS {named(table)} ({columns}) USING {lake}")
    changes = spark.read.schema(SCHEMA).json(files_of(storage, table))
    row = f.col("data")[0]
    values = [row[name].cast(kind).alias(name) for name, kind in _COLUMNS.items()]
    rows = changes.select("type", f.col("_tidb.commitTs").alias("_ts"), *values)
    newest = f.row_number().over(Window.partitionBy("id").orderBy(f.desc("_ts")))
    view = f"changes_{table}"
    rows.withColumn("_newest", newest).where("_newest = 1").createOrReplaceTempView(view)
    put = ", ".join(f"s.{name}" for name in _COLUMNS)
    spark.sql(
        f"MERGE INTO {named(table)} t USING {view} s ON t.id = s.id WHEN MATCHED AND s.type = 'DELETE' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in _COLUMNS)}"
        f" WHEN NOT MATCHED AND s.type <> 'DELETE' THEN INSERT ({', '.join(_COLUMNS)}) VALUES ({put})"
    ).collect()


def files_of(storage: str, table: str) -> str:
    """The data files of a table, as a pattern."""
    return f"file://{storage}/{DATABASE}/{table}/*/*/CDC*.json"


def compared(spark: SparkSession, lake: str, one: str, other: str, tables: list[str]) -> None:
    """Raises SystemExit where the tables of two lakes are not equal."""
    names = _named(spark, lake, one), _named(spark, lake, other)
    for table in tables:
        left, right = (spark.table(named(table)).toArrow().sort_by("id") for named in names)
        if left.num_rows == 0 or left.to_pylist() != right.to_pylist():
            raise SystemExit(f"{table}: {left.num_rows} rows of the program are not {right.num_rows} of the plain job")


def read(spark: SparkSession, uri: str, table: str, mode: str) -> None:
    """All rows of the table by the data source."""
    found = spark.read.format("ticdc").options(table=table, mode=mode, tz="UTC").load(uri)
    found.write.format("noop").mode("overwrite").save()


def _named(spark: SparkSession, lake: str, folder: str) -> Callable[[str], str]:
    """The tables of the lake in `folder`."""
    if lake == "delta":
        return lambda table: f"delta.`{folder}/{DATABASE}/{table}`"
    catalog = f"c{abs(hash(folder))}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", folder)
    return lambda table: f"{catalog}.{DATABASE}.`{table}`"


def main() -> None:
    lake = sys.argv[1]
    spark = started(lake, "4g")  # with 1g its MERGE of a million rows into Delta lacks memory
    doing: Mapping[str, Callable[..., None]] = {
        "apply": partial(applied, spark, lake),
        "compare": partial(compared, spark, lake),
        "read": partial(read, spark),
    }
    for line in sys.stdin:
        asked = json.loads(line)
        doing[asked.pop("do")](**asked)
        print(0, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
