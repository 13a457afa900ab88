"""SparkLoader: runs loads as jobs of two shapes, chosen by bytes. Several jobs run at a time."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from consumer.errors import ConsumerError, JobBroken, NoExecutors
from consumer.model.load import LoadOutcome, LoadTask
from consumer.model.patience import WRITE_SECONDS
from consumer.ports import Made, Moved, RangeReader, Work, unheard
from consumer.spark.failures import error_of_job
from consumer.spark.settings import SparkSettings
from consumer.spark.sizes import (
    MOST_PARTS,
    buckets_of,
    groups_of,
    is_large,
    is_small,
    shared_out,
    shares_of,
    weight_of,
)
from consumer.target import Writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from consumer.spark.buckets import Exchange
    from consumer.spark.session import Session
    from consumer.spark.tasks import Result


_LEFT = "a signal has ended the command"


class SparkLoader:
    """Starts Spark at the first load that needs it, and again if it has died. `start_seconds` is how long that took.
    Loads of at most `in_process_bytes` together need no Spark: this process runs them, one at a time."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._session: Session | None = None
        self._starting, self._here = threading.Lock(), threading.Lock()
        self._left = False
        self.connections = settings.max_connections
        self.start_seconds = 0.0

    def split(self, tasks: Sequence[LoadTask]) -> list[list[LoadTask]]:
        """Returns a large table by itself and small ones packed; each list is a job. Those that this process runs come
        first."""
        few = [task for task in tasks if self._are_few([task])]
        few = few if self._are_few(few) else []
        numbers = {task.number for task in few}
        rest = [task for task in tasks if task.number not in numbers]
        keyed = [task for task in rest if is_large(task)]
        packed = [task for task in rest if not is_large(task)]
        shares = shares_of(packed, min(self.connections, self._cores() * 2)) if packed else []
        return [*(shares_of(few, 1) if few else []), *([task] for task in keyed), *shares]

    def _are_few(self, tasks: Sequence[LoadTask]) -> bool:
        """Returns whether this process runs them."""
        most = self._settings.in_process_bytes
        return bool(tasks) and most > 0 and sum(map(weight_of, tasks)) <= most

    def width(self, tasks: Sequence[LoadTask]) -> int:
        return min(self._partitions(tasks[0]), self._cores()) if is_large(tasks[0]) else 1

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        """Returns one outcome for each task, in order. Raises BadConfig and TargetUnavailable if Spark cannot be
        started, BadConfig if its settings do not let any job run, and NoExecutors."""
        from consumer.spark.tasks import outcome_of

        if self._are_few(tasks):
            return self._load_here(tasks, writer, reader, moved)
        session = self._started()
        results: dict[int, list[Result]] = defaultdict(list)
        try:
            # Within one pool the first job takes all cores: each thread has a pool of its own.
            session.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"load {threading.get_ident()}")
            with self._job(session, moved, is_large(tasks[0])) as (tell, exchange):
                for number, of_task in self._results(session.spark, tasks, writer, reader, tell, exchange):
                    results[number] += of_task
        except NoExecutors:
            raise
        except Exception as error:
            # What a task meets comes back as a result: here Spark itself, a worker or the JVM has ended.
            try:
                broken = error if isinstance(error, ConsumerError) else error_of_job(error, self._settings)
            finally:
                self._lose(session)
            results = {task.number: [broken] for task in tasks}
        return [outcome_of(task, results[task.number]) for task in tasks]

    def _load_here(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved
    ) -> list[LoadOutcome]:
        from consumer.spark.in_process import InProcessLoader

        with self._here:
            if self._left:
                raise JobBroken(_LEFT)
            return InProcessLoader().load(tasks, writer, reader, moved)

    def read(self, work: Work[Made], moved: Moved = unheard) -> Iterator[Made]:
        """Runs little work in this process, and much as a job. Raises the errors of `load`."""
        from consumer.spark.buckets import alone, shuffled
        from consumer.spark.tasks import Reading, made

        weight, pieces = sum(map(weight_of, work.tasks)), work.pieces(groups_of)
        if is_small(weight) and work.ranges == 1:
            yield from made(alone(Reading(work, pieces, moved=moved)))
            return
        session = self._started()
        buckets = max(buckets_of(weight, 1), work.ranges, session.cores)
        try:
            with self._job(session, moved) as (tell, exchange):
                reading = Reading(work, pieces, buckets, tell, exchange)
                yield from made(shuffled(session.spark, reading, buckets, buckets, lazily=work.is_large))
        except ConsumerError:
            raise
        except Exception as error:
            try:
                raise error_of_job(error, self._settings) from error
            finally:
                self._lose(session)

    def abandon(self) -> None:
        """Leaves the running jobs, or Spark's start: the next run locks the writers out. No more jobs are started, as
        other consumers of the process may still be at work."""
        self._left = True
        if "pyspark" in sys.modules:
            from consumer.spark.session import end_own

            end_own()
        self._session = None

    def session(self) -> SparkSession:
        """Returns Spark's own session, of the JVM that lives now. Raises the errors of `load`."""
        session = self._started()
        if not session.alive():
            self._lose(session)
            session = self._started()
        return session.spark

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _started(self) -> Session:
        with self._starting:
            if self._left:
                raise JobBroken(_LEFT)
            if self._session is None:
                from consumer.spark.session import start_session

                started = time.monotonic()
                self._session = start_session(self._settings)
                self.start_seconds += time.monotonic() - started
            return self._session

    def _lose(self, session: Session) -> None:
        """Drops a session whose JVM has ended, or cannot run jobs any more: the next load starts another. Its errors
        can only be read before that."""
        with self._starting:
            if self._session is session and not session.alive():
                session.close()
                self._session = None

    @contextmanager
    def _job(self, session: Session, moved: Moved, large: bool = True) -> Iterator[tuple[Moved, Exchange]]:
        """A context for the jobs of one load, or of work that writes nothing. Gives the function by which tasks report
        their parts, and the exchange of rows between the two halves. Raises NoExecutors."""
        try:
            with (
                _with_executors(session),
                session.parts.of_load(moved) as tell,
                _exchange(session, large) as exchange,
            ):
                yield tell, exchange
        except NoExecutors:
            self._give_up(session)
            raise

    def _give_up(self, session: Session) -> None:
        """A standalone master that was restarted does not know the session, which would wait for it without end. Other
        kinds of masters may still be starting executors."""
        with self._starting:
            if self._session is session and self._settings.master.startswith("spark://"):
                session.abandon()
                self._session = None

    def _results(
        self,
        spark: SparkSession,
        tasks: Sequence[LoadTask],
        writer: Writer,
        reader: RangeReader,
        tell: Moved,
        exchange: Exchange,
    ) -> Iterator[tuple[int, list[Result]]]:
        from consumer.spark.buckets import SHUFFLED, in_two_jobs, shuffled
        from consumer.spark.tasks import Loading

        if not is_large(tasks[0]):
            yield from _packed(spark, tasks, writer, reader)
            return
        (task,) = tasks
        shares, buckets, most = shared_out(groups_of(task), self._cores()), self._buckets(task), self._partitions(task)
        # Not to begin again for a lock of some seconds; the writers that wait one after the other share that time.
        patience = WRITE_SECONDS / -(-most // self._cores())
        load = Loading(task, shares, buckets, writer, reader, tell, exchange, patience)
        if exchange is SHUFFLED or len(shares) * buckets > MOST_PARTS:
            results = shuffled(spark, load, most, buckets)
        else:
            results = in_two_jobs(spark, load, min(most, self._cores()), most)
        yield task.number, list(map(pickle.loads, results))

    def _buckets(self, task: LoadTask) -> int:
        return buckets_of(weight_of(task), min(self._cores(), self.connections))

    def _partitions(self, task: LoadTask) -> int:
        # Half of the connections at most: another large table, and small ones, go on beside it.
        return min(self._buckets(task), max(1, self.connections // 2))

    def _cores(self) -> int:
        return self._started().cores


def _with_executors(session: Session) -> AbstractContextManager[None]:
    """Local executors exist from the start."""
    from consumer.spark.executors import with_executors

    context = session.spark.sparkContext
    return nullcontext() if context.master.startswith("local") else with_executors(context)


def _packed(
    spark: SparkSession, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader
) -> Iterator[tuple[int, list[Result]]]:
    """Loads many small tables: one Spark task takes them completely from files to target."""
    from consumer.spark.buckets import bodies, results, task_numbers

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from consumer.spark.packed import load_share

        for _ in batches:
            yield from bodies(pickle.dumps(found) for found in load_share(tasks, writer, reader))

    yield from map(pickle.loads, results(task_numbers(spark, 1), run))


def _exchange(session: Session, large: bool) -> AbstractContextManager[Exchange]:
    from consumer.spark.buckets import SHUFFLED, in_files

    return in_files() if session.one_machine and large else nullcontext(SHUFFLED)
