"""The two shapes of a job. Rows of a result are the pickled results of a task.

packed   many small tables in one job of one task, which takes them whole from files to target, no shuffle
keyed    one large table: tasks decode and fold splits, repartition by key, fold again and write
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from consumer.model.load import FileSlice, LoadTask
from consumer.ports import Moved, RangeReader
from consumer.spark.exchange import Exchange
from consumer.target import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def packed(spark: SparkSession, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.tasks import load_share

        for _ in batches:
            for number, results in load_share(tasks, writer, reader):
                yield _result_batch(number, [pickle.dumps(result) for result in results])

    return spark.range(0, 1, 1, 1).mapInArrow(run, "task int, body binary")


def keyed(
    spark: SparkSession,
    task: LoadTask,
    pieces: Sequence[Sequence[FileSlice]],
    decoders: int,
    buckets: int,
    partitions: int,
    writer: Writer,
    reader: RangeReader,
    tell: Moved,
    exchange: Exchange,
) -> DataFrame:
    """`decoders` tasks decode the `pieces`, one after the other; `partitions` tasks write the `buckets`."""
    size = (task.bytes - task.bytes // 2) // buckets

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.tasks import FAILED, decode_to_buckets

        for batch in batches:
            for group in batch.column(0).to_pylist():
                for bucket, body in decode_to_buckets(pieces[group], task, reader, buckets, tell, exchange):
                    goes_to = range(partitions) if bucket == FAILED else [bucket % partitions]
                    yield _bucket_batch(goes_to, bucket, body)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.tasks import write_buckets

        # A partition of one bucket is held whole anyway; Spark's sort, which can spill, is for more.
        rows = (
            (bucket.as_py(), body.as_buffer())
            for batch in batches
            for bucket, body in zip(batch.column(1), batch.column(2), strict=True)
        )
        in_order = rows if buckets > partitions else iter(sorted(rows, key=lambda row: row[0]))
        for body in write_buckets(in_order, task, writer, tell, size, exchange):
            yield _result_batch(task.number, [body])

    split = spark.range(0, len(pieces), 1, decoders).mapInArrow(decode, "partition int, bucket int, body binary")
    shuffled = split.repartitionById(partitions, "partition")
    if buckets > partitions:
        shuffled = shuffled.sortWithinPartitions("bucket")
    return shuffled.mapInArrow(write, "task int, body binary")


def _bucket_batch(partitions: Sequence[int], bucket: int, body: bytes) -> pa.RecordBatch:
    count = len(partitions)
    columns = [pa.array(partitions, pa.int32()), pa.array([bucket] * count, pa.int32()), pa.array([body] * count)]
    return pa.record_batch(columns, names=["partition", "bucket", "body"])


def _result_batch(task: int, bodies: Sequence[bytes]) -> pa.RecordBatch:
    numbers = pa.array([task] * len(bodies), pa.int32())
    return pa.record_batch([numbers, pa.array(bodies, pa.binary())], names=["task", "body"])
