"""A large table: tasks decode and fold shares of its files into buckets by key; others fold these again and write.

Two ways lead from the first half to the second. Through Spark's shuffle the two are one job. Where the rows wait in
files they are two, and what the first half left of the changes says how many tasks and batches the second has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from consumer.model.load import LoadTask
from consumer.ports import Moved, RangeReader
from consumer.spark.exchange import Exchange
from consumer.spark.jobs import Pickled, numbers, numbers_in, parts_in, result_batch, results
from consumer.spark.sizes import Group, batches_of
from consumer.spark.tasks import FAILED, STATS, Part, decode_to_buckets, write_buckets
from consumer.target import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Large:
    """What goes to the tasks of both halves. A task decodes one of `shares`."""

    task: LoadTask
    shares: Sequence[Sequence[Group]]
    buckets: int
    writer: Writer
    reader: RangeReader
    tell: Moved
    exchange: Exchange

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        for share in numbers_in(batches):
            yield from decode_to_buckets(
                self.shares[share], self.task, self.reader, self.buckets, self.tell, self.exchange
            )

    def results(self, rows: Iterator[tuple[int, pa.Buffer]], buckets: int) -> Iterator[pa.RecordBatch]:
        """Of writing rows sorted by bucket, of which there are so many in all tasks."""
        size = (self.task.bytes - self.task.bytes // 2) // buckets
        for body in write_buckets(rows, self.task, self.writer, self.tell, size, self.exchange):
            yield result_batch(self.task.number, [body])


def shuffled(spark: SparkSession, load: Large, partitions: int) -> list[Pickled]:
    """Results: `partitions` tasks write the buckets, one after the other."""
    buckets = load.buckets

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in load.parts(batches):
            goes_to = range(partitions) if part.bucket == FAILED else [part.bucket % partitions]
            columns = [pa.array(goes_to, pa.int32()), pa.array([part.bucket] * len(goes_to), pa.int32())]
            yield pa.record_batch(
                [*columns, pa.array([part.body] * len(goes_to))], names=["partition", "bucket", "body"]
            )

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A partition of one bucket is held whole anyway; Spark's sort, which can spill, is for more.
        rows = parts_in(batches)
        yield from load.results(rows if buckets > partitions else iter(sorted(rows, key=lambda row: row[0])), buckets)

    parts = numbers(spark, len(load.shares)).mapInArrow(decode, "partition int, bucket int, body binary")
    by_partition = parts.repartitionById(partitions, "partition")
    if buckets > partitions:
        by_partition = by_partition.sortWithinPartitions("bucket")
    return results(by_partition, write)


def in_two_jobs(spark: SparkSession, load: Large, at_a_time: int, most: int) -> Iterator[Pickled]:
    """Results. The second half has `most` tasks, of which `at_a_time` run at a time."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in load.parts(batches):
            columns = [pa.array([part.bucket], pa.int32()), pa.array([part.body]), pa.array([part.size], pa.int64())]
            yield pa.record_batch(columns, names=["bucket", "body", "size"])

    found: dict[int, list[Any]] = defaultdict(list)
    for row in numbers(spark, len(load.shares)).mapInArrow(decode, "bucket int, body binary, size long").collect():
        found[row.bucket].append(row)
    failed, stats = found.pop(FAILED, []), found.pop(STATS, [])
    for row in failed or stats:
        yield load.task.number, row.body
    if failed or not found:
        return
    sizes = {bucket: sum(row.size for row in rows) for bucket, rows in found.items()}
    batches = [[row.body for bucket in batch for row in found[bucket]] for batch in batches_of(sizes, at_a_time)]
    count, shares = len(batches), [batches[number::most] for number in range(min(most, len(batches)))]

    def write(ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in numbers_in(ranges):
            rows = ((batch, pa.py_buffer(body)) for batch, bodies in enumerate(shares[share]) for body in bodies)
            yield from load.results(rows, count)

    yield from results(numbers(spark, len(shares)), write)
