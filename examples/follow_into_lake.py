"""Keeps a Delta or an Iceberg table of your own equal to a table of TiDB: a streaming query, and one MERGE a batch.

    spark-submit follow_into_lake.py s3://bucket/cdc?protocol=canal-json shop.orders lake.shop.orders s3://bucket/checkpoint

The session needs the jars and settings of the format. A batch that is merged twice, as after a death, leaves the same
rows. The query ends at a statement that it cannot follow, and its error says what to do: docs/spark.md. A table that is
older than the changefeed, or went through such statements, begins as a copy of its state.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

OF_CHANGES = {"_op", "_commit_ts", "_commit_time", "_version", "_seq", "_before"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Merge the changes of a table into a Delta or an Iceberg table.")
    parser.add_argument("storage", help="the URI of the storage")
    parser.add_argument("table", help="the table, as shop.orders")
    parser.add_argument("target", help="the table to merge into, as Spark SQL names it")
    parser.add_argument("checkpoint", help="the folder of the query's checkpoint")
    parser.add_argument("--using", default="iceberg", choices=("iceberg", "delta"), help="the format of a new target")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the read, as tz=UTC")
    parser.add_argument("--seconds", type=int, default=0, help="between batches; 0 ends with what there is")
    given = parser.parse_args()

    spark = SparkSession.builder.getOrCreate()
    options = {"zero-dates": "error", **dict(option.split("=", 1) for option in given.option)}
    changes = spark.readStream.format("ticdc").options(**options, table=given.table).load(given.storage)
    columns = [field for field in changes.schema if field.name not in OF_CHANGES]
    key = [field.name for field in columns if field.metadata.get("ticdc", {}).get("key")]
    if not key:
        sys.exit(f"no column of a key of {given.table} is read: a MERGE cannot tell its rows apart")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {given.target} ({StructType(columns).toDDL()}) USING {given.using}")
    try:
        there = {name.lower() for name in spark.table(given.target).columns}
    except AnalysisException as error:  # Delta neither uses nor replaces such a folder
        sys.exit(
            f"{given.target} cannot be read: {error.getCondition()}. A process that was killed while it created a Delta"
            " table leaves a folder without a table: if that is so, remove the folder, and start again"
        )
    if lacking := [quoted(field.name) for field in columns if field.name.lower() not in there]:
        sys.exit(
            f"{given.target} lacks {', '.join(lacking)}: execute there what upstream did: ALTER TABLE .. ADD COLUMNS,"
            " and UPDATE .. SET it to the default that rows of before have, which no change shows; then start again"
        )
    merge = merge_of(given.target, [field.name for field in columns], key)

    def take(batch: DataFrame, number: int) -> None:
        newest = F.max_by(F.struct("*"), "_seq")
        last = batch.groupBy(*map(quoted, key)).agg(newest.alias("last")).select("last.*")
        last.createOrReplaceTempView("last_changes")
        batch.sparkSession.sql(merge)

    writer = changes.writeStream.foreachBatch(take).option("checkpointLocation", given.checkpoint)
    try:
        if given.seconds:
            writer.trigger(processingTime=f"{given.seconds} seconds").start().awaitTermination()
        for _ in range(2):  # availableNow ends after one batch, and the first can be one from before a death
            writer.trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException as end:
        sys.exit(str(end))
    return 0


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def merge_of(target: str, columns: list[str], key: list[str]) -> str:
    """Returns the MERGE of the last change of each row."""
    same_key = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    return (
        f"MERGE INTO {target} AS t USING last_changes AS s ON {same_key}"
        " WHEN MATCHED AND s._op = 'D' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{quoted(name)} = s.{quoted(name)}' for name in columns)}"
        f" WHEN NOT MATCHED AND s._op <> 'D' THEN INSERT ({', '.join(map(quoted, columns))}) VALUES ({values})"
    )


if __name__ == "__main__":
    sys.exit(main())
