"""SparkLoader: loads as jobs of two shapes (`jobs`), chosen by bytes. Several jobs run at a time."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from consumer.codec.registry import protocol_of
from consumer.errors import ConsumerError, Retryable
from consumer.model.check import CheckTask, Counted
from consumer.model.load import FileSlice, FileStat, LoadOutcome, LoadTask, Receipt
from consumer.ports import Found, Moved, RangeReader, Told, unheard
from consumer.spark.failures import told
from consumer.spark.settings import SparkSettings
from consumer.target import Comparer, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from consumer.spark.exchange import Exchange
    from consumer.spark.session import Session

PACKED_BYTES = 64 << 20
"""A table with more change bytes than this is loaded by several tasks, when its target allows."""
SHARE_BYTES = 8 << 20
"""Change bytes that are worth a packed task of their own."""
LARGEST_SHARE_BYTES, LARGEST_SHARE_TABLES = 256 << 20, 2000
"""The most bytes of a packed task: nothing of it is recorded or reported before its end."""
DECODE_BYTES = 64 << 20
BUCKET_BYTES = 128 << 20
"""Change bytes whose folded rows one bucket holds: about a third of it in memory."""

Result = FileStat | Receipt | ConsumerError


class SparkLoader:
    """Starts Spark at the first load that needs it, and again if it has died. `start_seconds` is how long that took."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._session: Session | None = None
        self._starting = threading.Lock()
        self.connections = settings.max_connections
        self.start_seconds = 0.0

    def split(self, tasks: Sequence[LoadTask]) -> list[list[LoadTask]]:
        """A large table by itself, small ones packed; each is a job."""
        keyed = [task for task in tasks if _is_large(task)]
        packed = [task for task in tasks if not _is_large(task)]
        shares = _shares(packed, min(self.connections, self._cores() * 2)) if packed else []
        return [*([task] for task in keyed), *shares]

    def width(self, tasks: Sequence[LoadTask]) -> int:
        return min(self._partitions(tasks[0]), self._cores()) if _is_large(tasks[0]) else 1

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        """One outcome a task, in order. Raises BadConfig and TargetUnavailable where Spark cannot be started, BadConfig
        where it cannot run any job as it is set up."""
        session = self._started()
        results: dict[int, list[Result]] = defaultdict(list)
        try:
            # Within one pool the first job takes all cores: each thread has a pool of its own.
            session.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"load {threading.get_ident()}")
            with session.parts.of_load(moved) as tell, _exchange(session, tasks) as exchange:
                for row in self._job(session.spark, tasks, writer, reader, tell, exchange).collect():
                    results[row.task].append(pickle.loads(row.body))
        except Exception as error:
            # What a task meets comes back as a result: here Spark itself, a worker or the JVM has ended.
            self._lose(session)
            broken = error if isinstance(error, ConsumerError) else told(error, self._settings)
            results = {task.number: [broken] for task in tasks}
        return [_outcome(task, results[task.number]) for task in tasks]

    def compare(
        self,
        task: CheckTask,
        comparer: Comparer,
        reader: RangeReader,
        at_a_time: int,
        moved: Moved = unheard,
        found: Found = unheard,
        other: Told | None = None,
    ) -> Counted:
        """A small table in this process, a large one as a job. Raises BadConfig and TargetUnavailable as `load`."""
        from consumer.spark.check_tasks import compare_alone

        ranges = max(comparer.ranges, 0 if other is None else other.ranges)
        if sum(_weight(era.task) for era in task.eras) <= PACKED_BYTES and ranges == 1:
            return compare_alone(task, comparer, reader, moved=moved, found=found, other=other)
        from consumer.spark.check import added, compared

        session = self._started()
        keyed = bool(task.target.key)
        groups = [
            (n, group)
            for n, era in enumerate(task.eras)
            for group in (_groups(era.task) if keyed else [era.task.slices])
        ]
        weight = sum(_weight(era.task) for era in task.eras)
        buckets = max(-(-weight // BUCKET_BYTES), ranges, session.cores)
        try:
            with session.parts.of_load(moved) as tell:
                rows = compared(session.spark, task, groups, comparer, reader, buckets, at_a_time, tell, other)
                return added(rows, task, found)
        except ConsumerError:
            raise
        except Exception as error:
            self._lose(session)
            raise told(error, self._settings) from error

    def abandon(self) -> None:
        """Leave the jobs in hand, or Spark's start: writers are locked out by the next run."""
        if "pyspark" in sys.modules:
            from consumer.spark.session import end_own

            end_own()
        self._session = None

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _started(self) -> Session:
        with self._starting:
            if self._session is None:
                from consumer.spark.session import start_session

                started = time.monotonic()
                self._session = start_session(self._settings)
                self.start_seconds += time.monotonic() - started
            return self._session

    def _lose(self, session: Session) -> None:
        """Forget a session whose JVM is gone: the next load starts another."""
        with self._starting:
            if self._session is session and not session.alive():
                session.close()
                self._session = None

    def _job(
        self,
        spark: SparkSession,
        tasks: Sequence[LoadTask],
        writer: Writer,
        reader: RangeReader,
        tell: Moved,
        exchange: Exchange,
    ) -> DataFrame:
        from consumer.spark.jobs import keyed, packed

        if not _is_large(tasks[0]):
            return packed(spark, tasks, writer, reader)
        (task,) = tasks
        buckets, partitions = self._buckets(task), self._partitions(task)
        return keyed(spark, task, _groups(task), buckets, partitions, writer, reader, tell, exchange)

    def _buckets(self, task: LoadTask) -> int:
        return max(-(-_weight(task) // BUCKET_BYTES), min(self._cores(), self.connections))

    def _partitions(self, task: LoadTask) -> int:
        if task.target.ordered:
            return 1
        # Half of the connections at most: another large table, and small ones, go on beside it.
        return min(self._buckets(task), max(1, self.connections // 2))

    def _cores(self) -> int:
        return self._started().cores


def _exchange(session: Session, tasks: Sequence[LoadTask]) -> AbstractContextManager[Exchange]:
    from consumer.spark.exchange import SHUFFLED, in_files

    return in_files() if session.one_machine and _is_large(tasks[0]) else nullcontext(SHUFFLED)


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
    total = sum(_weight(task) for task in tasks)
    wanted = min(most, -(-total // SHARE_BYTES))
    needed = max(-(-total // LARGEST_SHARE_BYTES), -(-len(tasks) // LARGEST_SHARE_TABLES))
    count = max(1, min(len(tasks), max(wanted, needed)))
    shares: list[list[LoadTask]] = [[] for _ in range(count)]
    weights = [0] * count
    for task in sorted(tasks, key=_weight, reverse=True):
        lightest = weights.index(min(weights))
        shares[lightest].append(task)
        weights[lightest] += _weight(task) + 1
    return shares


def _groups(task: LoadTask) -> list[list[FileSlice]]:
    """Consecutive slices in groups of about DECODE_BYTES."""
    groups: list[list[FileSlice]] = [[]]
    size, most = 0, DECODE_BYTES // protocol_of(task.dialect).density
    for piece in task.slices:
        if groups[-1] and size + piece.length > most:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.length
    return groups


def _weight(task: LoadTask) -> int:
    """What the rows take in memory goes by this."""
    return task.bytes * protocol_of(task.dialect).density


def _is_large(task: LoadTask) -> bool:
    return _weight(task) > PACKED_BYTES and bool(task.target.key) and not task.target.whole
