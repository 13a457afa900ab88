"""SparkLoader: loads as jobs of two shapes, chosen by bytes.

packed   many tables in one job: a task takes whole tables from files to target, no shuffle
keyed    one large table: tasks decode and fold splits, repartition by key, fold again and write
"""

from __future__ import annotations

import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from consumer.errors import ConsumerError, Retryable, TargetUnavailable
from consumer.model.load import FileSlice, FileStat, LoadOutcome, LoadTask, Receipt
from consumer.ports import RangeReader, Writer
from consumer.spark.settings import SparkSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PACKED_BYTES = 64 << 20
"""A table with more change bytes than this is loaded by several tasks, when its target allows."""
SHARE_BYTES = 8 << 20
"""Change bytes that are worth a packed task of their own."""
DECODE_BYTES = 64 << 20
BUCKET_BYTES = 128 << 20
"""Change bytes whose folded rows one bucket holds: about a third of it in memory."""


class SparkLoader:
    """Starts Spark at the first load that needs it. `start_seconds` is what that took."""

    def __init__(self, settings: SparkSettings, session: SparkSession | None = None) -> None:
        self._settings = settings
        self._session = session
        self._owned = session is None
        self.start_seconds = 0.0

    def load(self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader) -> list[LoadOutcome]:
        """One outcome a task, in order. A job that breaks as a whole (a worker was killed, the master is gone) is
        TargetUnavailable for each of its tasks. Raises RuntimeError for an exception that a task does not expect."""
        keyed = [task for task in tasks if task.weight > PACKED_BYTES and task.target.key and not task.target.whole]
        packed = [task for task in tasks if task not in keyed]
        results: dict[int, list[FileStat | Receipt | ConsumerError]] = defaultdict(list)
        if packed:
            self._collect(packed, self._packed(packed, writer, reader), results)
        for task in keyed:
            self._collect([task], self._keyed(task, writer, reader), results)
        return [_outcome(task, results[task.number]) for task in tasks]

    def abandon(self) -> None:
        """Leave the job in hand: its writers are locked out by the next run."""
        if self._owned and "pyspark" in sys.modules:
            from consumer.spark.jvm import end_jvm

            end_jvm()
        self._session = None

    def close(self) -> None:
        if self._session is not None and self._owned:
            self._session.stop()
        self._session = None

    def _spark(self) -> SparkSession:
        if self._session is None:
            from consumer.spark.session import start_session

            started = time.monotonic()
            self._session = start_session(self._settings)
            self.start_seconds = time.monotonic() - started
        return self._session

    def _packed(self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader) -> DataFrame:
        shares = _shares(tasks, min(self._settings.max_connections, self._cores() * 2))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from consumer.spark.tasks import load_share

            for batch in batches:
                for share in batch.column(0).to_pylist():
                    for number, results in load_share(shares[share], writer, reader):
                        yield _result_batch(number, [pickle.dumps(result) for result in results])

        spark = self._spark()
        return spark.range(0, len(shares), 1, len(shares)).mapInArrow(run, "task int, body binary")

    def _keyed(self, task: LoadTask, writer: Writer, reader: RangeReader) -> DataFrame:
        pieces = _groups(task)
        buckets = max(-(-task.weight // BUCKET_BYTES), min(self._cores(), self._settings.max_connections))
        partitions = 1 if task.target.ordered else min(buckets, self._settings.max_connections)

        def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from consumer.spark.tasks import FAILED, decode_to_buckets

            for batch in batches:
                for group in batch.column(0).to_pylist():
                    for bucket, body in decode_to_buckets(pieces[group], task, reader, buckets):
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
            for body in write_buckets(in_order, task, writer):
                yield _result_batch(task.number, [body])

        spark = self._spark()
        split = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(decode, "partition int, bucket int, body binary")
        shuffled = split.repartitionById(partitions, "partition")
        if buckets > partitions:
            shuffled = shuffled.sortWithinPartitions("bucket")
        return shuffled.mapInArrow(write, "task int, body binary")

    def _cores(self) -> int:
        return int(self._spark().sparkContext.defaultParallelism)

    def _collect(
        self,
        tasks: Sequence[LoadTask],
        frame: DataFrame,
        results: dict[int, list[FileStat | Receipt | ConsumerError]],
    ) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException, PythonException

        try:
            rows = frame.collect()
        except PythonException as error:
            # What can go wrong in a task comes back as a result: an exception is a mistake in our own code.
            raise RuntimeError(f"a Spark task failed: {_cause(error)}") from error
        except (PySparkException, Py4JError) as error:
            broken = TargetUnavailable(f"the Spark job failed: {_cause(error)}")
            for task in tasks:
                results[task.number].append(broken)
            return
        for row in rows:
            results[row.task].append(pickle.loads(row.body))


def _bucket_batch(partitions: Sequence[int], bucket: int, body: bytes) -> pa.RecordBatch:
    import pyarrow as pa

    count = len(partitions)
    columns = [pa.array(partitions, pa.int32()), pa.array([bucket] * count, pa.int32()), pa.array([body] * count)]
    return pa.record_batch(columns, names=["partition", "bucket", "body"])


def _result_batch(task: int, bodies: Sequence[bytes]) -> pa.RecordBatch:
    import pyarrow as pa

    numbers = pa.array([task] * len(bodies), pa.int32())
    return pa.record_batch([numbers, pa.array(bodies, pa.binary())], names=["task", "body"])


def _outcome(task: LoadTask, results: Sequence[FileStat | Receipt | ConsumerError]) -> LoadOutcome:
    """A Retryable error counts before a fatal one: the fatal one may only follow from it."""
    errors = [result for result in results if isinstance(result, ConsumerError)]
    errors.sort(key=lambda error: not isinstance(error, Retryable))
    return LoadOutcome(
        task,
        tuple(result for result in results if isinstance(result, FileStat)),
        tuple(result for result in results if isinstance(result, Receipt)),
        errors[0] if errors else None,
    )


def _shares(tasks: Sequence[LoadTask], most: int) -> list[list[LoadTask]]:
    """Tables over Spark tasks, largest first onto the lightest, so that the tasks end at about the same time."""
    total = sum(task.weight for task in tasks)
    count = max(1, min(most, len(tasks), -(-total // SHARE_BYTES)))
    shares: list[list[LoadTask]] = [[] for _ in range(count)]
    weights = [0] * count
    for task in sorted(tasks, key=lambda task: -task.weight):
        lightest = weights.index(min(weights))
        shares[lightest].append(task)
        weights[lightest] += task.weight + 1
    return shares


def _groups(task: LoadTask) -> list[list[FileSlice]]:
    """Consecutive slices in groups of about DECODE_BYTES."""
    groups: list[list[FileSlice]] = [[]]
    size = 0
    for piece in task.slices:
        if groups[-1] and size + piece.length * task.density > DECODE_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.length * task.density
    return groups


def _cause(error: Exception) -> str:
    """The line of a Spark error that a person can use."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or [type(error).__name__])[-1][:500]
