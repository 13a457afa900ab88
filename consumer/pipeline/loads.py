"""Loads: every table that can move, beside one another and beside statements."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from consumer.errors import (
    ConsumerError,
    JobBroken,
    LeaseHeld,
    LoadFailed,
    ProgressMoved,
    Retryable,
    RowsCollide,
    RowsVary,
    TableError,
)
from consumer.model.columns import Family
from consumer.model.files import Bounds
from consumer.model.load import LoadOutcome, LoadTarget, LoadTask
from consumer.model.names import MAX_TSO, TableName
from consumer.model.progress import ProgressChange
from consumer.model.steps import LoadRows
from consumer.model.timekeeper import now
from consumer.model.work import Work
from consumer.pipeline import refused_rows
from consumer.pipeline.gone import gone
from consumer.pipeline.kept import new_and_kept
from consumer.pipeline.load_notes import ambiguous_key, keyless_without_checkpoint, notes_of
from consumer.pipeline.unreadable import put_off, stop_for_files, wait_for_file
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.ports import Writer

if TYPE_CHECKING:
    from consumer.pipeline.manager import ConsumerManager

SINGLE_TASK_BYTES = 128 << 20
"""What one task may hold at once: the round size of tables that only one task can load."""


@dataclass(slots=True)
class _Load:
    """Tables that are loaded by one call of the loader. `alone`: nothing is loaded beside it."""

    tasks: list[LoadTask]
    alone: bool = False

    def work(self) -> Work:
        """As the observer is told of it."""
        slices = [piece for task in self.tasks for piece in task.slices]
        names = tuple(task.target.table for task in self.tasks)
        return Work(names, len({piece.path for piece in slices}), sum(piece.length for piece in slices))


class LoadRunner:
    """Prepares loads at the sink, runs them through Spark beside one another, commits their receipts as each ends."""

    def __init__(self, manager: ConsumerManager) -> None:
        self._manager = manager
        self._loads: dict[int, LoadRows] = {}
        """By the number of its task, every load that has not ended."""
        self._numbers = count()
        self._waiting: deque[_Load] = deque()
        self._connections = 0
        """How many the loads that run take."""
        self._breaks: Counter[TableName] = Counter()

    def begin(self) -> bool:
        """Begin what is ready, as far as there are connections for it. True where some of it is done already."""
        if self._waiting:
            return False  # tables that get ready meanwhile are packed into common jobs
        manager = self._manager
        before = manager.round.changes
        wanted = manager.round.wants_bounds()
        if wanted:
            self._learn(manager.reader.bounds(wanted))
        replan = self.start(manager.round.ready_loads())
        return replan or manager.round.changes != before

    def start(self, loads: Sequence[LoadRows]) -> bool:
        """Run `loads` beside the rest. True where one of them must be planned again."""
        manager = self._manager
        replan = False
        tasks: list[LoadTask] = []
        for version, target in self._targets(loads):
            if self._too_large(version.load, target):
                manager.round.release(version.load.table)
                replan = True
                continue
            try:
                task = version.task(next(self._numbers), target)
            except ConsumerError as error:
                manager.stop(version.load.table, error)
                continue
            self._loads[task.number] = version.load
            tasks.append(task)
        if tasks:
            manager.observer.doing("prepares loads; the first ones start Spark")
            self._waiting += [_Load(list(group)) for group in manager.loader.split(tasks)]
            self._launch()
        return replan

    def _launch(self) -> None:
        manager = self._manager
        while self._waiting:
            load = self._waiting[0]
            all_of_them = manager.loader.connections
            width = all_of_them if load.alone else min(manager.loader.width(load.tasks), all_of_them)
            if self._connections and self._connections + width > all_of_them:
                return
            self._waiting.popleft()
            self._connections += width
            writer = manager.patiently("begin a load", manager.sink.writer)
            work = load.work()
            manager.observer.work_started(work)
            moved = partial(manager.observer.work_moved, work)
            call = partial(refused_rows.load, manager.loader, load.tasks, writer, manager.reader.range_reader(), moved)
            ended = partial(self._ended, load, writer, width, now())
            manager.side.start("load", call, manager.followed(work, ended))

    def _ended(
        self, load: _Load, writer: Writer, width: int, started: float, result: Sequence[LoadOutcome] | BaseException
    ) -> None:
        manager = self._manager
        self._connections -= width
        if isinstance(result, BaseException):
            raise result
        # Attempts that Spark has given up may still be at work somewhere: nothing of them comes later than this.
        manager.patiently("end a load", partial(manager.sink.end, writer))
        self._record(result, now() - started)
        self._again([outcome for outcome in result if isinstance(outcome.error, Retryable)], load)
        self._launch()

    def _again(self, busy: Sequence[LoadOutcome], load: _Load) -> None:
        """What to do with tables whose load did not go through."""
        broken: list[LoadTask] = []
        for outcome in busy:
            error = outcome.error
            if isinstance(error, LeaseHeld | ProgressMoved):
                raise error
            if isinstance(error, JobBroken):
                self._breaks[outcome.table] += 1
                self._manager.observer.retrying(f"load {outcome.table}", error, None)
                broken.append(outcome.task)
            elif isinstance(error, Retryable):
                self._loads.pop(outcome.task.number)
                wait_for_file(self._manager, outcome.table, error)
        self._run_broken(broken, busy, load)

    def _run_broken(self, tasks: list[LoadTask], busy: Sequence[LoadOutcome], load: _Load) -> None:
        """A job that broke is run again; if it breaks then too, its tables are loaded one after the other and nothing
        beside them, so that it shows which one breaks it: that one stops."""
        if load.alone and tasks:
            table = tasks[0].target.table
            self._loads.pop(tasks[0].number)
            self._manager.stop(table, _breaks_jobs(table, busy))
        elif any(self._breaks[task.target.table] > 1 for task in tasks):
            self._waiting.extend(_Load([task], alone=True) for task in tasks)
        elif tasks:
            self._waiting.append(_Load(tasks))

    def _learn(self, bounds: Mapping[str, Bounds | ConsumerError]) -> None:
        manager = self._manager
        manager.round.learned({path: found for path, found in bounds.items() if isinstance(found, Bounds)})
        failed = {path: found for path, found in bounds.items() if isinstance(found, ConsumerError)}
        if failed:
            stop_for_files(manager, failed)

    def _targets(self, loads: Sequence[LoadRows]) -> list[tuple[TableVersionConsumer, LoadTarget]]:
        """What the sink says of each table; tables it refuses are stopped."""
        manager = self._manager
        versions, requests = [], []
        kept = new_and_kept(manager, loads)
        for table, error in kept.items():
            manager.stop(table, error)
        for load in (load for load in loads if load.table not in kept):
            dialect, never_split = manager.options.dialect, manager.options.never_split(load.table)
            seen = manager.seen(load)
            version = TableVersionConsumer(load, manager.assembly.catalog, dialect, never_split, seen)
            try:
                requests.append(version.request(manager.absent.of(load), manager.collisions.has(load)))
                versions.append(version)
            except ConsumerError as error:
                manager.stop(load.table, error)
        if not requests:
            return []
        found = []
        targets = manager.patiently("look at the target", lambda: manager.sink.prepare(requests))
        for version, target in zip(versions, targets, strict=True):
            if isinstance(target, ConsumerError):
                table = version.load.table
                manager.stop(table, self._gone(table, target))
            elif not target.key and version.load.window.upto == MAX_TSO:
                manager.stop(version.load.table, keyless_without_checkpoint(version.load.table))
            elif (column := self._ambiguous(target)) is not None:
                manager.stop(version.load.table, ambiguous_key(version.load.table, column))
            else:
                found.append((version, target))
        return found

    def _gone(self, table: TableName, error: ConsumerError) -> ConsumerError:
        manager = self._manager
        return gone(table, error, manager.sink, manager.assembly, manager.progress, manager.options)

    def _ambiguous(self, target: LoadTarget) -> str | None:
        """A column of the key whose values can be two moments each."""
        options = self._manager.options
        if options.accept_timestamp_key or not options.dialect.clock.doubled:
            return None
        names = (target.names[n] for n in target.key if target.columns[n].family is Family.TIMESTAMP)
        return next(names, None)

    def _too_large(self, load: LoadRows, target: LoadTarget) -> bool:
        """Whether a table that only one task can load must be planned again, in smaller rounds."""
        state = self._manager.consumers[load.table].state
        most = max(SINGLE_TASK_BYTES, self._manager.collisions.bytes_for(load))
        if (target.key and not target.ordered) or load.bytes <= most:
            return False
        smaller = state.round_bytes > most
        state.round_bytes = most
        return smaller

    def _record(self, outcomes: Sequence[LoadOutcome], seconds: float) -> None:
        manager = self._manager
        done = [outcome for outcome in outcomes if outcome.error is None]
        done = self._commit(done)
        for outcome in done:
            load, consumer = self._loads.pop(outcome.task.number), manager.consumers[outcome.table]
            manager.deferred.settled([outcome.table])
            manager.round.loaded(load, consumer.read(load, outcome))
            manager.observer.step_finished(consumer.count(load, outcome, seconds), seconds, outcome.task.bytes)
        for note in notes_of(done, manager.options.dialect, manager.options.key_loss):
            manager.observer.note(note)
        for outcome in outcomes:
            if outcome.error is not None and not isinstance(outcome.error, Retryable):
                self._failed(self._loads.pop(outcome.task.number), outcome.task.target, outcome.error)

    def _failed(self, load: LoadRows, target: LoadTarget, error: ConsumerError) -> None:
        """Stop the table, unless the error says what to do otherwise: then the load is planned again."""
        if self._learnt(load, target, error) or put_off(self._manager, load.table, error):
            self._manager.round.release(load.table)
        else:
            self._manager.stop(load.table, error)

    def _learnt(self, load: LoadRows, target: LoadTarget, error: ConsumerError) -> bool:
        """Whether planning `load` again goes better: with other columns, or with more of the rows in one task."""
        manager = self._manager
        if isinstance(error, RowsVary):
            return manager.absent.learn(load, error)
        if not isinstance(error, RowsCollide):
            return False
        state = manager.consumers[load.table].state
        bounded = load.bytes >= state.round_bytes and not manager.options.dialect.timeless
        learnt = manager.collisions.learn(load, target.whole, bounded)
        state.round_bytes = max(state.round_bytes, manager.collisions.bytes_for(load))
        return learnt

    def _commit(self, done: list[LoadOutcome]) -> list[LoadOutcome]:
        """Publish and record; what the sink finds wrong with one table stops that table, and the rest is committed.
        What is too much together is committed table by table."""
        manager = self._manager
        while done:
            consumers = [manager.consumers[outcome.table] for outcome in done]
            change = ProgressChange().merged(
                *(
                    consumer.change(self._loads[outcome.task.number], outcome, manager.progress)
                    for consumer, outcome in zip(consumers, done, strict=True)
                )
            )
            try:
                manager.observer.doing("records what was loaded")
                manager.patiently("commit", partial(manager.sink.commit, done, change))
            except TableError as error:
                if isinstance(error, LoadFailed) and len(done) > 1:
                    return [kept for outcome in done for kept in self._commit([outcome])]
                wrong = [outcome for outcome in done if str(outcome.table) == error.table]
                if not wrong:
                    raise
                self._loads.pop(wrong[0].task.number)
                refused_rows.stop(manager, wrong[0].task, error)
                done = [outcome for outcome in done if outcome is not wrong[0]]
                continue
            manager.progress = manager.progress.after(change)
            break
        return done


def _breaks_jobs(table: TableName, busy: Sequence[LoadOutcome]) -> LoadFailed:
    error = next(outcome.error for outcome in busy if isinstance(outcome.error, JobBroken))
    return LoadFailed(
        f"its load ends Spark's job each time, the last time with nothing beside it: {error.message}",
        hint="give Spark's workers more memory, or set a smaller round-bytes, then run again",
        table=str(table),
    )
