"""Work on one table whose rows meet in buckets by the hash of their keys. Part of this is executor code.

A load, the comparison of a table and the reading of a table's changes are such work. Tasks of the first half read and
send parts of buckets; tasks of the second half get all parts of a bucket. The rows get from the first half to the
second in one of two ways: through Spark's shuffle, in one job; or in files, in two jobs, where the rows that the first
half left decide how many tasks and batches the second has. Little work needs no job at all.

Spark's shuffle carries rows on any cluster, and copies each byte several times on its way through the JVM. If all tasks
run on the driver's machine, the rows are kept in files, and only the names of these go through the shuffle.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from consumer.spark.failures import cannot_be_written, own_room
from consumer.spark.sizes import batches_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAILED, RESULT = -2, -1
"""Numbers that stand in place of a bucket's: FAILED for an error that ends the work, RESULT for a finished result. They
sort before every bucket."""
Batches = Iterator[pa.RecordBatch]


class Part(NamedTuple):
    """A part of a bucket, or what stands in place of one: what the exchange made of its rows, which take `size`
    bytes."""

    bucket: int
    body: bytes
    size: int = 0


class Halves(Protocol):
    """One table's work, as it is sent to the tasks. A half does not raise. The first half yields its error as a FAILED
    part, the second half as a result."""

    @property
    def sources(self) -> int:
        """In how many pieces the first half is read."""

    def parts(self, source: int) -> Iterator[Part]:
        """Yields the parts of the first half of the work."""

    def results(self, rows: Iterator[tuple[int, pa.Buffer]], buckets: int) -> Iterator[bytes]:
        """Yields the pickled results of the second half, from bodies sorted by bucket. `buckets` is the number of
        buckets in all tasks."""


def alone(work: Halves) -> Iterator[bytes]:
    """Yields the results of both halves, in this process."""
    parts: list[Part] = []
    for part in (part for source in range(work.sources) for part in work.parts(source)):
        if part.bucket == FAILED:
            parts = [part]
            break
        parts.append(part)
    parts.sort(key=lambda part: part.bucket)
    yield from work.results(((part.bucket, pa.py_buffer(part.body)) for part in parts), len(parts))


def shuffled(spark: SparkSession, work: Halves, partitions: int, buckets: int, lazily: bool = False) -> Iterator[bytes]:
    """Yields the results: `partitions` tasks take the buckets, one after the other. With `lazily` the results come one
    by one."""

    def first(batches: Batches) -> Batches:
        for part in (part for source in numbers_of_task(batches) for part in work.parts(source)):
            goes_to = range(partitions) if part.bucket == FAILED else [part.bucket % partitions]
            columns = [pa.array(goes_to, pa.int32()), pa.array([part.bucket] * len(goes_to), pa.int32())]
            yield pa.record_batch(
                [*columns, pa.array([part.body] * len(goes_to))], names=["partition", "bucket", "body"]
            )

    parts = task_numbers(spark, work.sources).mapInArrow(first, "partition int, bucket int, body binary")
    several = buckets > partitions or not _can_repartition_by_id(parts)

    def second(batches: Batches) -> Batches:
        # A partition of one bucket is held whole anyway; Spark's sort, which can spill, is for more.
        rows = _parts_in(batches)
        sorted_rows = rows if several else iter(sorted(rows, key=lambda row: row[0]))
        yield from bodies(work.results(sorted_rows, buckets))

    by_partition = to_partitions(parts, partitions, "partition")
    if several:
        by_partition = by_partition.sortWithinPartitions("bucket")
    return results(by_partition, second, lazily)


def to_partitions(rows: DataFrame, count: int, number: str) -> DataFrame:
    """Partitions by the column `number`. PySpark 4.0 can only hash it: a task may get the rows of several numbers
    there, and another one none."""
    return rows.repartitionById(count, number) if _can_repartition_by_id(rows) else rows.repartition(count, number)


def _can_repartition_by_id(rows: DataFrame) -> bool:
    """Returns whether this PySpark can partition by numbers: 4.1 can."""
    return hasattr(rows, "repartitionById")


def in_two_jobs(spark: SparkSession, work: Halves, at_a_time: int, most: int) -> Iterator[bytes]:
    """Yields the results. The second half has `most` tasks, of which `at_a_time` run at a time."""

    def first(batches: Batches) -> Batches:
        for part in (part for source in numbers_of_task(batches) for part in work.parts(source)):
            columns = [pa.array([part.bucket], pa.int32()), pa.array([part.body]), pa.array([part.size], pa.int64())]
            yield pa.record_batch(columns, names=["bucket", "body", "size"])

    found: dict[int, list[Any]] = defaultdict(list)
    for row in task_numbers(spark, work.sources).mapInArrow(first, "bucket int, body binary, size long").collect():
        found[row.bucket].append(row)
    failed, done = found.pop(FAILED, []), found.pop(RESULT, [])
    for row in failed or done:
        yield row.body
    if failed or not found:
        return
    sizes = {bucket: sum(row.size for row in rows) for bucket, rows in found.items()}
    batches = [[row.body for bucket in batch for row in found[bucket]] for batch in batches_of(sizes, at_a_time)]
    count, shares = len(batches), [batches[number::most] for number in range(min(most, len(batches)))]

    def second(ranges: Batches) -> Batches:
        for share in numbers_of_task(ranges):
            rows = ((batch, pa.py_buffer(body)) for batch, held in enumerate(shares[share]) for body in held)
            yield from bodies(work.results(rows, count))

    yield from results(task_numbers(spark, len(shares)), second)


def task_numbers(spark: SparkSession, count: int) -> DataFrame:
    """Returns a DataFrame with the numbers 0 .. `count` - 1, one for each task."""
    return spark.range(0, count, 1, count)


def numbers_of_task(batches: Batches) -> Iterator[int]:
    """Yields the numbers of one task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def bodies(found: Iterable[bytes]) -> Batches:
    """Yields results in the form in which they are sent to the driver."""
    for body in found:
        yield pa.record_batch([pa.array([body], pa.binary())], names=["body"])


def results(rows: DataFrame, run: Callable[[Batches], Batches], lazily: bool = False) -> Iterator[bytes]:
    """Yields the results that `run` makes of `rows` in tasks, by `bodies`."""
    found = rows.mapInArrow(run, "body binary")
    for row in found.toLocalIterator(prefetchPartitions=True) if lazily else found.collect():
        yield row.body


def _parts_in(batches: Batches) -> Iterator[tuple[int, pa.Buffer]]:
    """Yields the parts that came to one task, each after its partition and its bucket."""
    for batch in batches:
        for bucket, body in zip(batch.column(1), batch.column(2), strict=True):
            yield bucket.as_py(), body.as_buffer()


class Exchange(Protocol):
    """How rows get from one half to the other. It is sent to the tasks with the load."""

    def put(self, rows: pa.Table) -> bytes:
        """Returns what goes through Spark for `rows`. Raises TargetUnavailable if the disk does not take them."""

    def get(self, body: pa.Buffer) -> pa.Table:
        """Returns the rows again, in any task."""


_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
"""Compression costs less than the JVM's copies of the same bytes, and the network carries less."""


class Shuffled:
    """Spark carries the rows, as an Arrow IPC stream."""

    def put(self, rows: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
            stream.write_table(rows)
        body: bytes = sink.getvalue().to_pybytes()
        return body

    def get(self, body: pa.Buffer) -> pa.Table:
        return pa.ipc.open_stream(body).read_all()


SHUFFLED = Shuffled()


@dataclass(frozen=True, slots=True)
class InFiles:
    """The rows are kept in files of `folder`, as uncompressed Arrow IPC streams. Each process has one file, because
    there can be very many parts."""

    folder: str

    def put(self, rows: pa.Table) -> bytes:
        path = os.path.join(self.folder, f"rows-{os.getpid()}")
        try:
            with pa.OSFile(path, "ab") as file:
                begin = file.tell()
                with pa.ipc.new_stream(file, rows.schema) as stream:
                    stream.write_table(rows)
        except OSError as error:
            raise cannot_be_written(error, self.folder) from error
        return b"%d " % begin + os.fsencode(path)

    def get(self, body: pa.Buffer) -> pa.Table:
        """The rows are read from the mapped file, so the system can drop their pages."""
        begin, _, path = body.to_pybytes().partition(b" ")
        with pa.memory_map(os.fsdecode(path)) as file:
            file.seek(int(begin))
            return pa.ipc.open_stream(file).read_all()


@contextmanager
def in_files() -> Iterator[Exchange]:
    """Uses a new folder for temporary files, which is removed with the load; if the process is killed, at the next
    start of Spark."""
    folder, lock = own_room()
    try:
        yield InFiles(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
