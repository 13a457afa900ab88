"""What runs in a Spark task: read, decode, fold, write. Executor side: no pyspark, no driver code.

Results go back as rows ``(task int, body binary)``; `body` is a pickled FileStat, Receipt or ConsumerError.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.shaped import fitting
from consumer.codec.unproven import with_unproven
from consumer.codec.windows import refuse_late
from consumer.errors import ConsumerError, LoadFailed
from consumer.fold.forms import fold, formed, net_rows
from consumer.fold.keyed import split_by_bucket
from consumer.model.lacking import lacking, said
from consumer.model.load import FileSlice, FileStat, LoadPart, LoadTarget, LoadTask, Receipt
from consumer.ports import Moved, RangeReader, unheard
from consumer.spark import set_aside
from consumer.spark.exchange import SHUFFLED, Exchange
from consumer.spark.folding import Folding, decode_files, decode_folded
from consumer.spark.waiting import Waiting
from consumer.target import Writer, WriteSession

TOGETHER_TABLES, TOGETHER_BYTES, SMALL_BYTES = 16, 4 << 20, 1 << 20
"""Folded changes of tables that wait to be written together: how much, and of how many at most; and of one of them."""
FAILED, STATS = -2, -1
"""Instead of a bucket: they sort before every bucket."""
Result = FileStat | Receipt | ConsumerError


class Part(NamedTuple):
    """Of a bucket, or what stands instead of one: what the exchange made of its rows, which take `size` bytes."""

    bucket: int
    body: bytes
    size: int = 0


def load_share(tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader) -> Iterator[tuple[int, list[Result]]]:
    """Whole tables one after the other on one connection: ``(task number, its results)``."""
    left = list(tasks)
    try:
        with writer.session() as session:
            while left:
                some = load_some(left, session, reader)
                for results in some:
                    yield left.pop(0).number, results
    except Exception as error:
        for task in left:
            yield task.number, [of_table(error, task.target)]


def load_some(tasks: Sequence[LoadTask], session: WriteSession, reader: RangeReader) -> list[list[Result]]:
    """The packed shape: the first of `tasks`, one at least, each from its files to the target in this process. Returns
    the results of each."""
    found: list[list[Result]] = []
    small: list[tuple[LoadTask, list[Result], pa.Table]] = []
    size = 0
    for task in tasks[:TOGETHER_TABLES]:
        results, changes = _read(task, session, reader)
        found.append(results)
        if changes is None:
            continue
        if (own := changes.nbytes) > SMALL_BYTES:
            results += _written_alone(task, session, changes)
            continue
        small.append((task, results, changes))
        size += own
        if size > TOGETHER_BYTES:
            break
    receipts = _written_together([(task.target, changes) for task, _, changes in small], session)
    for (task, results, changes), receipt in zip(small, receipts, strict=True):
        results += _written_alone(task, session, changes) if receipt is None else [receipt]
    return found


def _read(task: LoadTask, session: WriteSession, reader: RangeReader) -> tuple[list[Result], pa.Table | None]:
    """What comes of reading a table, and the folded changes that are still to be written. One without a key is written
    with it."""
    try:
        if not task.target.key:
            return _load_keyless(task, session, reader), None
        stats, changes = decode_folded(task.slices, task, reader, final=True)
        folded = formed(changes, task)
        refuse_late(stats, task)
        return [*stats], folded if folded.num_rows else None
    except Exception as error:
        return [of_table(error, task.target)], None


def _written_together(parts: Sequence[tuple[LoadTarget, pa.Table]], session: WriteSession) -> Sequence[Receipt | None]:
    """The receipts; None for what is not written."""
    nothing: list[Receipt | None] = [None] * len(parts)
    if len(parts) < 2:
        return nothing
    began = time.monotonic()
    try:
        receipts = session.write_together(parts)
    except Exception:
        return nothing  # whose fault it is shows where each is written by itself
    seconds = (time.monotonic() - began) / len(parts)
    return [receipt and replace(receipt, seconds=seconds) for receipt in receipts]


def _written_alone(task: LoadTask, session: WriteSession, changes: pa.Table) -> list[Result]:
    try:
        return [*set_aside.write(session, task.target, changes)]
    except Exception as error:
        return [of_table(error, task.target)]


def _load_keyless(task: LoadTask, session: WriteSession, reader: RangeReader) -> list[Result]:
    files, stats = decode_files(task, reader)
    refuse_late(stats, task)
    if task.target.aside is not None:
        task.target.aside.check_kept([row for stat in stats for row in stat.aside])
    written = pa.concat_tables([table for _, _, table in files])
    results: list[Result] = [*with_unproven(stats, written, task.target, task.dialect.clock.doubled)]
    net = net_rows(files, task)
    net = fitting(net, task.target, task.dialect.clock)
    if net.num_rows:
        results += set_aside.write_multiset(session, task.target, net, task.window)
    return results


def decode_to_buckets(
    groups: Iterable[Sequence[FileSlice]],
    task: LoadTask,
    reader: RangeReader,
    buckets: int,
    moved: Moved = unheard,
    exchange: Exchange = SHUFFLED,
) -> Iterator[Part]:
    """The first half of the keyed shape: parts of buckets, of ``STATS`` and of ``FAILED``. What is left of several
    groups of slices goes together, where many of their changes are of the same keys."""
    folding = Folding(task)

    def parts() -> Iterator[Part]:
        stats, changes = folding.take()
        for stat in stats:
            yield Part(STATS, pickle.dumps(stat))
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
        yield Part(FAILED, pickle.dumps(of_table(error, task.target)))


def write_buckets(
    rows: Iterator[tuple[int, pa.Buffer]],
    task: LoadTask,
    writer: Writer,
    moved: Moved = unheard,
    size: int = 0,
    exchange: Exchange = SHUFFLED,
) -> Iterator[bytes]:
    """The second half: `rows` sorted by bucket; each bucket is folded and written as soon as it is complete, but for
    the puts of an ordered target, which wait in a temporary file for the deletes of all buckets.

    Yields pickled results, and tells of each bucket as one of `size` bytes. Where the first half failed anywhere,
    nothing is written.
    """
    try:
        with writer.session() as session, Waiting() as puts:
            for bucket, group in groupby(rows, key=lambda row: row[0]):
                if bucket < 0:
                    yield from (bytes(body) for _, body in group)
                    if bucket == FAILED:
                        return
                    continue
                tables = [exchange.get(body) for _, body in group]
                folded = formed(fold(pa.concat_tables(tables), task, final=True), task)
                del tables
                if task.target.ordered:
                    is_put = folded.column("put")
                    puts.add(folded.filter(is_put))
                    folded = folded.filter(pc.invert(is_put))
                for number, receipt in enumerate(set_aside.write(session, task.target, folded)):
                    yield _written(receipt, moved, 0 if number else size)
            for waiting in puts:
                for receipt in set_aside.write(session, task.target, waiting):
                    yield _written(receipt, moved, 0)
    except Exception as error:
        yield pickle.dumps(of_table(error, task.target))


def _written(receipt: Receipt, moved: Moved, size: int) -> bytes:
    moved(LoadPart(size, rows=receipt.puts + receipt.deletes))
    return pickle.dumps(receipt)


def of_table(error: Exception, target: LoadTarget) -> ConsumerError:
    """Any exception of a task is an error of its table. The others go on."""
    if not isinstance(error, ConsumerError):
        return _unexpected(error, str(target.table))
    error.table = error.table or str(target.table)
    return error


def _unexpected(error: Exception, table: str) -> LoadFailed:
    frames = traceback.extract_tb(error.__traceback__)
    own = next((frame for frame in reversed(frames) if "consumer" in frame.filename), None)
    place = f" ({Path(own.filename).name}:{own.lineno})" if own else ""
    if what := lacking(error):
        return LoadFailed(
            f"its load needs more {what} than a worker has: {said(error)}{place}",
            hint="give Spark's workers more of it, or set a smaller round-bytes, then run again",
            table=table,
        )
    return LoadFailed(
        f"its load fails because of a bug in the consumer: {type(error).__name__}: {error}{place}",
        hint="report it; the other tables go on",
        table=table,
    )
