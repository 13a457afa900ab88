"""Loads whole tables in one task, from their files to the target: the next ones are read while those before are
written. This is executor code: no pyspark, no driver code."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from consumer.changes.folding import decode_files, decode_folded, net_changes
from consumer.codec.rows import refuse_late
from consumer.model.load import LoadTarget, LoadTask, Receipt
from consumer.ports import RangeReader
from consumer.spark import quarantine
from consumer.spark.tasks import Result, of_task
from consumer.target import Writer, WriteSession

TOGETHER_TABLES, TOGETHER_BYTES, SMALL_BYTES = 16, 4 << 20, 1 << 20
"""The limits of folded changes of tables that are written together: their bytes, the number of tables, and the bytes of
one of them."""
_ONE_THREAD = partial(ThreadPoolExecutor, 1, "writes")


class _Table(NamedTuple):
    """The state of a table: `results` so far, and the folded `changes` to be written, of so many `bytes` (None: there
    are none, or, with `keyless`, nothing was read yet)."""

    task: LoadTask
    results: list[Result]
    changes: pa.Table | None = None
    bytes: int = 0
    keyless: bool = False

    @property
    def is_small(self) -> bool:
        """Whether it can wait for others, and be in memory together with them."""
        return not self.keyless and self.bytes <= SMALL_BYTES


def load_share(
    tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, thread: Callable[[], Executor] = _ONE_THREAD
) -> Iterator[tuple[int, list[Result]]]:
    """Loads whole tables on one connection. Yields ``(task number, its results)``, in the order of `tasks`. Only one
    `thread` uses the session: while the server works, this one reads."""
    left = list(tasks)
    try:
        with writer.session() as session, thread() as writing:
            ahead: deque[Future[list[list[Result]]]] = deque()
            for tables in _groups(tasks, reader):
                ahead.append(writing.submit(write_some, tables, session, reader))
                may_wait = 1 if tables[-1].is_small else 0
                while len(ahead) > may_wait:
                    for results in ahead.popleft().result():
                        yield left.pop(0).number, results
            for written in ahead:
                for results in written.result():
                    yield left.pop(0).number, results
    except Exception as error:
        for task in left:
            yield task.number, [of_task(error, task)]


def _groups(tasks: Sequence[LoadTask], reader: RangeReader) -> Iterator[list[_Table]]:
    """Yields tables that are written together. One that is not small ends its group."""
    some: list[_Table] = []
    size = 0
    for task in tasks:
        table = _read(task, reader)
        some.append(table)
        size += table.bytes
        if len(some) == TOGETHER_TABLES or size > TOGETHER_BYTES or not table.is_small:
            yield some
            some, size = [], 0
    if some:
        yield some


def _read(task: LoadTask, reader: RangeReader) -> _Table:
    try:
        if not task.target.key:
            return _Table(task, [], keyless=True)
        stats, folded = decode_folded(task.slices, task, reader, final=True)
        refuse_late(stats, task)
        return _Table(task, [*stats], folded, folded.nbytes) if folded.num_rows else _Table(task, [*stats])
    except Exception as error:
        return _Table(task, [of_task(error, task)])


def write_some(tables: Sequence[_Table], session: WriteSession, reader: RangeReader) -> list[list[Result]]:
    """Yields the results of each table: the small ones are written together."""
    small = [table for table in tables if table.is_small and table.changes is not None]
    receipts = _written_packed([(table.task.target, table.changes) for table in small], session)
    known = {table.task.number: receipt for table, receipt in zip(small, receipts, strict=True)}
    return [_written(table, known.get(table.task.number), session, reader) for table in tables]


def _written(table: _Table, receipt: Receipt | None, session: WriteSession, reader: RangeReader) -> list[Result]:
    """Returns all results of a table; `receipt` is that of what was written together with others."""
    task = table.task
    if receipt is not None:
        return [*table.results, receipt]
    try:
        if table.keyless:
            return _load_keyless(task, session, reader)
        if table.changes is None:
            return table.results
        return [*table.results, *quarantine.write(session, task.target, table.changes)]
    except Exception as error:
        return [*table.results, of_task(error, task)]


def _written_packed(parts: Sequence[tuple[LoadTarget, pa.Table]], session: WriteSession) -> Sequence[Receipt | None]:
    """Returns the receipts; None for what is not written."""
    nothing: list[Receipt | None] = [None] * len(parts)
    if len(parts) < 2:
        return nothing
    began = time.monotonic()
    try:
        receipts = session.write_packed(parts)
    except Exception:
        return nothing  # whose fault it is shows where each is written by itself
    seconds = (time.monotonic() - began) / len(parts)
    return [receipt and replace(receipt, seconds=seconds) for receipt in receipts]


def _load_keyless(task: LoadTask, session: WriteSession, reader: RangeReader) -> list[Result]:
    """Reads, compares and writes a table without a key by itself."""
    files, stats = decode_files(task, reader)
    refuse_late(stats, task)
    if task.target.load.quarantine is not None:
        task.target.load.quarantine.check_kept([row for stat in stats for row in stat.quarantined])
    results: list[Result] = [*stats]
    net = net_changes(files, task)
    if net.num_rows:
        results += quarantine.write_multiset(session, task.target, net, task.window)
    return results
