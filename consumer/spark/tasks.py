"""What runs in the tasks of a large table: the halves of its load, or of work that writes nothing. This is executor
code: no pyspark, no driver code.

A result is a pickled FileStat, Receipt or ConsumerError.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from consumer.changes.folding import Folding
from consumer.changes.keyed import split_by_bucket
from consumer.changes.table_modes import changes_to_write
from consumer.codec.rows import refuse_late
from consumer.errors import ConsumerError, LoadFailed
from consumer.model.load import FileSlice, FileStat, LoadOutcome, LoadPart, LoadTask, Receipt
from consumer.model.names import TableName
from consumer.model.process import lacking, words_of
from consumer.model.rules import Shaping, hide_masked_values
from consumer.ports import Moved, RangeReader, Work, unheard
from consumer.spark import quarantine
from consumer.spark.buckets import FAILED, RESULT, SHUFFLED, Exchange, Part
from consumer.spark.failures import first_error
from consumer.spark.sizes import Group
from consumer.target import Writer

Result = FileStat | Receipt | ConsumerError


@dataclass(frozen=True, slots=True)
class Loading:
    """A large table's load, as `consumer.spark.buckets.Halves`. A source is the groups of slices that one task decodes,
    one after the other."""

    task: LoadTask
    shares: Sequence[Sequence[Group]]
    buckets: int
    writer: Writer
    reader: RangeReader
    moved: Moved = unheard
    exchange: Exchange = SHUFFLED
    patience: float = 0.0
    """The seconds that each of its writers waits for a lock."""

    @property
    def sources(self) -> int:
        return len(self.shares)

    def parts(self, source: int) -> Iterator[Part]:
        return decode_to_buckets(self.shares[source], self.task, self.reader, self.buckets, self.moved, self.exchange)

    def results(self, rows: Iterator[tuple[int, pa.Buffer]], buckets: int) -> Iterator[bytes]:
        size = (self.task.bytes - self.task.bytes // 2) // max(buckets, 1)
        return write_buckets(rows, self.task, self.writer, self.moved, size, self.exchange, self.patience)


@dataclass(frozen=True, slots=True)
class Reading:
    """Work that writes nothing, as `consumer.spark.buckets.Halves`. A pickled result is what was made of a bucket, or a
    ConsumerError."""

    work: Work[object]
    pieces: Sequence[object]
    buckets: int = 1
    moved: Moved = unheard
    exchange: Exchange = SHUFFLED

    @property
    def sources(self) -> int:
        return len(self.pieces)

    def parts(self, source: int) -> Iterator[Part]:
        try:
            for bucket, rows in self.work.rows(self.pieces[source], self.buckets, self.moved):
                if bucket is None:
                    yield Part(RESULT, pickle.dumps(rows))
                else:
                    yield Part(bucket, self.exchange.put(rows), rows.nbytes)
        except Exception as error:
            yield Part(FAILED, pickle.dumps(self._error(error)))

    def results(self, rows: Iterator[tuple[int, pa.Buffer]], buckets: int) -> Iterator[bytes]:
        for bucket, group in groupby(rows, key=lambda row: row[0]):
            if bucket < 0:
                yield from (bytes(body) for _, body in group)
                if bucket == FAILED:
                    return
                continue
            try:
                yield pickle.dumps(self.work.made([self.exchange.get(body) for _, body in group]))
            except Exception as error:
                yield pickle.dumps(self._error(error))

    def _error(self, error: Exception) -> ConsumerError:
        shaping = next((task.target.load.shaping for task in self.work.tasks), None)
        return of_table(error, self.work.table, shaping)


def outcome_of(task: LoadTask, results: Sequence[Result]) -> LoadOutcome:
    """Returns the outcome of a load, from all results of its tasks."""
    return LoadOutcome(
        task,
        tuple(result for result in results if isinstance(result, FileStat)),
        tuple(result for result in results if isinstance(result, Receipt)),
        first_error(results),
    )


def made(results: Iterable[bytes]) -> Iterator[Any]:
    """Yields what was made of all buckets. Raises the first error among the results, and yields nothing after it."""
    errors: list[ConsumerError] = []
    for result in map(pickle.loads, results):
        if isinstance(result, ConsumerError):
            errors.append(result)
        elif not errors:
            yield result
    if (met := first_error(errors)) is not None:
        raise met


def decode_to_buckets(
    groups: Iterable[Sequence[FileSlice]],
    task: LoadTask,
    reader: RangeReader,
    buckets: int,
    moved: Moved = unheard,
    exchange: Exchange = SHUFFLED,
) -> Iterator[Part]:
    """The first half of the keyed shape: yields parts of buckets, the statistics of slices as results, and ``FAILED``.
    The remaining changes of several groups of slices are sent together if many of them are of the same keys."""
    folding = Folding(task)

    def parts() -> Iterator[Part]:
        stats, changes = folding.take()
        for stat in stats:
            yield Part(RESULT, pickle.dumps(stat))
        for bucket, rows in split_by_bucket(changes, task.source.key, buckets, task.source.in_runs):
            yield Part(bucket, exchange.put(rows), rows.nbytes)

    try:
        for pieces in groups:
            stats = folding.add(pieces, reader)
            refuse_late(stats, task)
            moved(LoadPart(sum(piece.length for piece in pieces) // 2, changes=sum(stat.rows for stat in stats)))
            if folding.is_full():
                yield from parts()
        yield from parts()
    except Exception as error:
        yield Part(FAILED, pickle.dumps(of_task(error, task)))


def write_buckets(
    rows: Iterator[tuple[int, pa.Buffer]],
    task: LoadTask,
    writer: Writer,
    moved: Moved = unheard,
    size: int = 0,
    exchange: Exchange = SHUFFLED,
    patience: float = 0.0,
) -> Iterator[bytes]:
    """The second half. `rows` are sorted by bucket; each bucket is folded and written as soon as it is complete. Yields
    pickled results, and reports each bucket as one of `size` bytes. If the first half failed anywhere, nothing is
    written."""
    try:
        with writer.session(patience) as session:
            for bucket, group in groupby(rows, key=lambda row: row[0]):
                if bucket < 0:
                    yield from (bytes(body) for _, body in group)
                    if bucket == FAILED:
                        return
                    continue
                tables = [exchange.get(body) for _, body in group]
                folded = changes_to_write(pa.concat_tables(tables), task)
                del tables
                for number, receipt in enumerate(quarantine.write(session, task.target, folded)):
                    yield _written(receipt, moved, 0 if number else size)
    except Exception as error:
        yield pickle.dumps(of_task(error, task))


def _written(receipt: Receipt, moved: Moved, size: int) -> bytes:
    moved(LoadPart(size, rows=receipt.puts + receipt.deletes))
    return pickle.dumps(receipt)


def of_task(error: Exception, task: LoadTask) -> ConsumerError:
    return of_table(error, task.target.table, task.target.load.shaping)


def of_table(error: Exception, table: TableName, shaping: Shaping | None) -> ConsumerError:
    """Returns any exception of a task as an error of its table. The other tables continue."""
    if not isinstance(error, ConsumerError):
        return hide_masked_values(_unexpected(error, str(table)), shaping)
    error.table = error.table or str(table)
    return hide_masked_values(error, shaping)


def _unexpected(error: Exception, table: str) -> LoadFailed:
    frames = traceback.extract_tb(error.__traceback__)
    own = next((frame for frame in reversed(frames) if "consumer" in frame.filename), None)
    place = f" ({Path(own.filename).name}:{own.lineno})" if own else ""
    if what := lacking(error):
        return LoadFailed(
            f"its load needs more {what} than a worker has: {words_of(error)}{place}",
            hint="give Spark's workers more of it, or set a smaller round-bytes, then run again",
            table=table,
        )
    return LoadFailed(
        f"its load fails because of a bug in the consumer: {type(error).__name__}: {error}{place}",
        hint="report it; the other tables continue",
        table=table,
    )
