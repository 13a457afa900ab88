"""Jobs whose rows are results; and that of many small tables: one task takes them whole from files to target."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from consumer.model.load import LoadTask
from consumer.ports import RangeReader
from consumer.target import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pickled = tuple[int, bytes]
"""A result, with the number of the load that it is of."""


def packed(spark: SparkSession, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader) -> list[Pickled]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.packed import load_share

        for _ in batches:
            for number, results in load_share(tasks, writer, reader):
                yield result_batch(number, [pickle.dumps(result) for result in results])

    return results(numbers(spark, 1), run)


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """A number for each of so many tasks."""
    return spark.range(0, count, 1, count)


def numbers_in(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Those of one task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def parts_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
    """The parts that came to one task: each behind its partition and its bucket."""
    for batch in batches:
        for bucket, body in zip(batch.column(1), batch.column(2), strict=True):
            yield bucket.as_py(), body.as_buffer()


def results(rows: DataFrame, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> list[Pickled]:
    """Those that `run` makes of `rows` in tasks, by `result_batch`."""
    return [(row.task, row.body) for row in rows.mapInArrow(run, "task int, body binary").collect()]


def result_batch(task: int, bodies: Sequence[bytes]) -> pa.RecordBatch:
    columns = [pa.array([task] * len(bodies), pa.int32()), pa.array(bodies, pa.binary())]
    return pa.record_batch(columns, names=["task", "body"])
