"""One table of `verify` as a Spark job: splits of its files and ranges of the target's rows go to buckets, where they
meet."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from consumer.errors import ConsumerError
from consumer.model.check import CheckTask, Counted
from consumer.ports import Found, Moved, RangeReader
from consumer.spark.failures import first_error
from consumer.spark.jobs import numbers, numbers_in, parts_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from consumer.model.load import FileSlice
    from consumer.spark.meeting import Meeting

_PART = "partition int, bucket int, body binary"
Group = tuple[int, "Sequence[FileSlice]"]
"""An era, and slices of it that one Spark task reads."""


def compared(
    spark: SparkSession,
    meeting: Meeting,
    groups: Sequence[Group],
    reader: RangeReader,
    at_a_time: int,
    tell: Moved,
) -> DataFrame:
    """Rows with a pickled result of `compare_parts` each."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.check_tasks import told_buckets

        for group in numbers_in(batches):
            number, pieces = groups[group]
            parts = told_buckets(number, pieces, meeting, reader, tell)
            yield from map(_part_batch, parts)

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.check_tasks import held_buckets

        for reading in numbers_in(batches):
            own = range(reading, comparer.ranges, readers)
            yield from map(_part_batch, held_buckets(own, meeting))

    def compare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.check_tasks import compare_parts

        if rows := list(parts_in(batches)):
            yield _body_batch(compare_parts(rows, meeting))

    comparer = meeting.comparer
    readers = max(1, min(at_a_time, comparer.ranges))
    parts = numbers(spark, readers).mapInArrow(held, _PART)
    if groups:
        parts = parts.union(numbers(spark, len(groups)).mapInArrow(told, _PART))
    shuffled = parts.repartitionById(meeting.buckets, "partition")
    return shuffled.mapInArrow(compare, "body binary")


def added(results: DataFrame, task: CheckTask, found: Found) -> Counted:
    """What all buckets of `compared` found together; `found` gets their rows to mend. Raises what a bucket met."""
    rows = results.toLocalIterator(prefetchPartitions=True) if task.mending else results.collect()
    counted, errors = Counted(), []
    for row in rows:
        result = pickle.loads(row.body)
        if isinstance(result, ConsumerError):
            errors.append(result)
            continue
        counted = counted.plus(result[0], task.show)
        if result[1] is not None and not errors:
            found(result[1])
    if (met := first_error(errors)) is not None:
        raise met
    return counted


def _part_batch(part: tuple[int, bytes]) -> pa.RecordBatch:
    """A part on its way to its partition, which has one bucket; one that failed goes to any."""
    import pyarrow as pa

    bucket, body = part
    places = [pa.array([number], pa.int32()) for number in (max(bucket, 0), bucket)]
    return pa.record_batch([*places, pa.array([body], pa.binary())], names=["partition", "bucket", "body"])


def _body_batch(result: object) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], names=["body"])
