"""Loads: all tables that are ready, in parallel with one another and with statements."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from consumer.errors import (
    ConsumerError,
    CorruptFile,
    JobBroken,
    LeaseHeld,
    LoadFailed,
    ProgressMoved,
    Retryable,
    RowsCollide,
    RowsSetAside,
    RowsVary,
    TableError,
    TooManyBadRows,
)
from consumer.model.bad_rows import ROW_DIGITS, Aside, BadRow
from consumer.model.columns import Family
from consumer.model.events import NowDoing, Retrying, StepFinished, Work, WorkMoved, WorkStarted
from consumer.model.files import Bounds
from consumer.model.load import LoadOutcome, LoadTarget, LoadTask
from consumer.model.names import MAX_TSO, TableName
from consumer.model.progress import ProgressChange
from consumer.model.steps import LoadRows
from consumer.model.timekeeper import now
from consumer.pipeline import refused_rows, set_aside
from consumer.pipeline.context import RoundContext
from consumer.pipeline.gone import gone
from consumer.pipeline.load_notes import ambiguous_key, keyless_without_checkpoint, notes_of
from consumer.pipeline.unreadable import put_off, stop_for_files, wait_for_file
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.ports import Moved
from consumer.target import Writer

SINGLE_TASK_BYTES = 128 << 20
"""The round size of tables that only one task can load: what one task may hold in memory."""


@dataclass(slots=True)
class _Load:
    """Tables that are loaded by one call of the loader. `alone`: no other load runs at the same time."""

    tasks: list[LoadTask]
    alone: bool = False

    def work(self) -> Work:
        """As the observer is told of it."""
        slices = [piece for task in self.tasks for piece in task.slices]
        names = tuple(task.target.table for task in self.tasks)
        return Work(names, len({piece.path for piece in slices}), sum(piece.length for piece in slices))


class LoadRunner:
    """Prepares loads at the sink, runs them through Spark in parallel, and commits the receipts of each when it
    ends."""

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._loads: dict[int, LoadRows] = {}
        """By the number of its task, every load that has not ended."""
        self._numbers = count()
        self._waiting: deque[_Load] = deque()
        self._connections = 0
        """How many the loads that run take."""
        self._breaks: Counter[TableName] = Counter()

    def begin(self) -> bool:
        """Start what is ready, as far as there are connections for it. True if some of it is already done."""
        if self._waiting:
            return False  # tables that get ready meanwhile are packed into common jobs
        context = self._context
        before = context.round.changes
        wanted = context.round.wants_bounds()
        if wanted:
            self._learn(context.ports.reader.bounds(wanted))
        replan = self.start(context.round.ready_loads())
        return replan or context.round.changes != before

    def start(self, loads: Sequence[LoadRows]) -> bool:
        """Start `loads`. True if one of them must be planned again."""
        context = self._context
        replan = False
        tasks: list[LoadTask] = []
        for version, target in self._targets(loads):
            if self._too_large(version.load, target):
                context.round.release(version.load.table)
                replan = True
                continue
            try:
                task = version.task(next(self._numbers), target)
            except ConsumerError as error:
                context.stop(version.load.table, error)
                continue
            self._loads[task.number] = version.load
            tasks.append(task)
        if tasks:
            context.tell(NowDoing("prepares loads; the first ones start Spark"))
            self._waiting += [_Load(list(group)) for group in context.ports.loader.split(tasks)]
            self._launch()
        return replan

    def _launch(self) -> None:
        context = self._context
        while self._waiting:
            load = self._waiting[0]
            all_of_them = context.ports.loader.connections
            width = all_of_them if load.alone else min(context.ports.loader.width(load.tasks), all_of_them)
            if self._connections and self._connections + width > all_of_them:
                return
            self._waiting.popleft()
            self._connections += width
            writer = context.ledger.patiently("begin a load", context.ports.sink.writer)
            work = load.work()
            context.tell(WorkStarted(work))
            ranges, moved = context.ports.reader.range_reader(), self._moved(work)
            call = partial(refused_rows.load, context.ports.loader, load.tasks, writer, ranges, moved)
            ended = partial(self._ended, load, writer, width, now())
            context.side.start("load", call, context.followed(work, ended))

    def _moved(self, work: Work) -> Moved:
        return lambda part: self._context.tell(WorkMoved(work, part))

    def _ended(
        self, load: _Load, writer: Writer, width: int, started: float, result: Sequence[LoadOutcome] | BaseException
    ) -> None:
        context = self._context
        self._connections -= width
        if isinstance(result, BaseException):
            raise result
        # Attempts that Spark has given up may still be at work somewhere: nothing of them comes later than this.
        context.ledger.patiently("end a load", partial(context.ports.sink.end, writer))
        self._record(result, now() - started)
        self._again([outcome for outcome in result if isinstance(outcome.error, Retryable)], load)
        self._launch()

    def _again(self, busy: Sequence[LoadOutcome], load: _Load) -> None:
        """Handle the tables whose load failed for now."""
        broken: list[LoadTask] = []
        for outcome in busy:
            error = outcome.error
            if isinstance(error, LeaseHeld | ProgressMoved):
                raise error
            if isinstance(error, JobBroken):
                self._breaks[outcome.table] += 1
                self._context.tell(Retrying(f"load {outcome.table}", error, None))
                broken.append(outcome.task)
            elif isinstance(error, Retryable):
                self._loads.pop(outcome.task.number)
                wait_for_file(self._context, outcome.table, error)
        self._run_broken(broken, busy, load)

    def _run_broken(self, tasks: list[LoadTask], busy: Sequence[LoadOutcome], load: _Load) -> None:
        """A job that broke is run again. If it breaks again, its tables are loaded one at a time with nothing else
        running, to find the one that breaks it. That one stops."""
        if load.alone and tasks:
            table = tasks[0].target.table
            self._loads.pop(tasks[0].number)
            self._context.stop(table, _breaks_jobs(table, busy))
        elif any(self._breaks[task.target.table] > 1 for task in tasks):
            self._waiting.extend(_Load([task], alone=True) for task in tasks)
        elif tasks:
            self._waiting.append(_Load(tasks))

    def _learn(self, bounds: Mapping[str, Bounds | ConsumerError]) -> None:
        context = self._context
        known = {path: found for path, found in bounds.items() if isinstance(found, Bounds)}
        failed = {path: found for path, found in bounds.items() if isinstance(found, ConsumerError)}
        context.round.learned(known | self._damaged(failed))
        if failed:
            stop_for_files(context, failed)

    def _damaged(self, failed: dict[str, ConsumerError]) -> dict[str, Bounds]:
        """Takes files out of `failed` whose first or last row is bad, and which go on without it: any row may be in
        them."""
        found = {}
        for name, consumer in self._context.consumers.items():
            paths = [entry.file.path for entry in consumer.state.unread if entry.file.path in failed]
            if not paths or not self._context.options.may_set_aside(name):
                continue
            for path in paths:
                error = failed[path]
                if isinstance(error, CorruptFile) and not put_off(self._context, name, error):
                    found[path] = Bounds(0, MAX_TSO, exact=True)
                    del failed[path]
        return found

    def _targets(self, loads: Sequence[LoadRows]) -> list[tuple[TableVersionConsumer, LoadTarget]]:
        """The sink's target of each table. Tables that it refuses are stopped."""
        context = self._context
        versions, requests = [], []
        owned = context.others.take([load.table for load in loads], context.ledger.record)
        for table, error in owned.items():
            context.stop(table, error)
        for load in (load for load in loads if load.table not in owned):
            dialect, never_split = context.options.dialect, context.options.never_split(load.table)
            seen = context.seen(load)
            version = TableVersionConsumer(
                load, context.assembly.catalog, dialect, never_split, seen, context.options.naming
            )
            try:
                requests.append(version.request(context.lessons.absent.of(load), context.lessons.collisions.has(load)))
                versions.append(version)
            except ConsumerError as error:
                context.stop(load.table, error)
        if not requests:
            return []
        found = []
        targets = context.ledger.patiently("look at the target", lambda: context.ports.sink.prepare(requests))
        for version, target in zip(versions, targets, strict=True):
            if isinstance(target, ConsumerError):
                table = version.load.table
                context.stop(table, self._gone(table, target))
            elif not target.key and version.load.window.upto == MAX_TSO:
                context.stop(version.load.table, keyless_without_checkpoint(version.load.table))
            elif (column := self._ambiguous(target)) is not None:
                context.stop(version.load.table, ambiguous_key(version.load.table, column))
            else:
                found.append((version, replace(target, aside=self._aside(version.load, target))))
        return found

    def _aside(self, load: LoadRows, target: LoadTarget) -> Aside | None:
        context = self._context
        most = context.options.may_set_aside(load.table) if context.ports.letters is not None else 0
        if not most:
            return None
        known = frozenset(row[:ROW_DIGITS] for row in context.progress.bad_rows.get(load.table, ()))
        return Aside(most, context.lessons.absent.uneven(load), kept=None if target.key else known)

    def _gone(self, table: TableName, error: ConsumerError) -> ConsumerError:
        context = self._context
        return gone(table, error, context.ports.sink, context.assembly, context.progress, context.options)

    def _ambiguous(self, target: LoadTarget) -> str | None:
        """A column of the key whose values can be two moments each."""
        options = self._context.options
        if options.accept_timestamp_key or not options.dialect.clock.doubled:
            return None
        names = (target.names[n] for n in target.key if target.columns[n].family is Family.TIMESTAMP)
        return next(names, None)

    def _too_large(self, load: LoadRows, target: LoadTarget) -> bool:
        """Whether a table that only one task can load must be planned again, in smaller rounds."""
        state = self._context.consumers[load.table].state
        most = max(SINGLE_TASK_BYTES, self._context.lessons.collisions.bytes_for(load))
        if (target.key and not target.ordered) or load.bytes <= most:
            return False
        smaller = state.round_bytes > most
        state.round_bytes = most
        return smaller

    def _record(self, outcomes: Sequence[LoadOutcome], seconds: float) -> None:
        context = self._context
        done = [outcome for outcome in outcomes if outcome.error is None]
        done = self._commit(done)
        for outcome in done:
            load, consumer = self._loads.pop(outcome.task.number), context.consumers[outcome.table]
            context.deferred.settled([outcome.table])
            context.round.loaded(load, consumer.read(load, outcome))
            context.tell(StepFinished(consumer.count(load, outcome, seconds), seconds, outcome.task.bytes))
        for note in notes_of(done, context.options.dialect, context.options.key_loss):
            context.tell(note)
        for outcome in outcomes:
            if isinstance(outcome.error, RowsSetAside):
                self._set_aside_first(self._loads.pop(outcome.task.number), outcome.task, outcome.error)
            elif outcome.error is not None and not isinstance(outcome.error, Retryable):
                self._failed(self._loads.pop(outcome.task.number), outcome.task.target, outcome.error)

    def _set_aside_first(self, load: LoadRows, task: LoadTask, error: RowsSetAside) -> None:
        """Record bad rows, then plan the load again."""
        try:
            aside = set_aside.of_task(self._context, task, error.rows)
            letters = set_aside.keep(self._context, load, aside)
        except TooManyBadRows as too_many:
            self._context.stop(load.table, too_many)
            return
        self._context.ledger.record(ProgressChange(set_aside={load.table: letters}))
        self._context.round.release(load.table)

    def _failed(self, load: LoadRows, target: LoadTarget, error: ConsumerError) -> None:
        """Stop the table, unless the error says what to do otherwise: then the load is planned again."""
        if self._learnt(load, target, error) or put_off(self._context, load.table, error):
            self._context.round.release(load.table)
        else:
            self._context.stop(load.table, error)

    def _learnt(self, load: LoadRows, target: LoadTarget, error: ConsumerError) -> bool:
        """Whether planning `load` again helps: with other columns, or with more of the rows in one task."""
        context = self._context
        if isinstance(error, RowsVary):
            return context.lessons.absent.learn(load, error, target.aside is not None)
        if not isinstance(error, RowsCollide):
            return False
        state = context.consumers[load.table].state
        bounded = load.bytes >= state.round_bytes and not context.options.dialect.timeless
        learnt = context.lessons.collisions.learn(load, target.whole, bounded)
        state.round_bytes = max(state.round_bytes, context.lessons.collisions.bytes_for(load))
        return learnt

    def _commit(self, done: list[LoadOutcome]) -> list[LoadOutcome]:
        """Publish and record. If the sink reports an error of one table, that table stops, and the rest is committed.
        If all is too much for one commit, it is committed table by table."""
        context = self._context
        while done:
            done, letters = self._keep(done)
            if not done:
                break
            consumers = [context.consumers[outcome.table] for outcome in done]
            change = ProgressChange().merged(
                *(
                    consumer.change(
                        self._loads[outcome.task.number], outcome, context.progress, letters[outcome.task.number]
                    )
                    for consumer, outcome in zip(consumers, done, strict=True)
                )
            )
            try:
                context.tell(NowDoing("records what was loaded"))
                recorded = context.ledger.patiently("commit", partial(context.ports.sink.commit, done, change))
            except TableError as error:
                if isinstance(error, LoadFailed) and len(done) > 1:
                    return [kept for outcome in done for kept in self._commit([outcome])]
                wrong = [outcome for outcome in done if str(outcome.table) == error.table]
                if not wrong:
                    raise
                if (left := set_aside.without(context, wrong[0], error)) is not None:
                    done = [left if outcome is wrong[0] else outcome for outcome in done]
                    continue
                self._loads.pop(wrong[0].task.number)
                refused_rows.stop(context, wrong[0].task, error)
                done = [outcome for outcome in done if outcome is not wrong[0]]
                continue
            context.ledger.believe(recorded)
            set_aside.tell(context, done)
            break
        return done

    def _keep(self, done: list[LoadOutcome]) -> tuple[list[LoadOutcome], dict[int, dict[str, BadRow]]]:
        """Keep the rows that were set aside; what to record of them by the tasks' numbers. Tables that have too many of
        them are stopped, and not among the outcomes any more."""
        kept, letters = [], {}
        for outcome in done:
            number = outcome.task.number
            try:
                letters[number] = set_aside.keep(self._context, self._loads[number], outcome)
                kept.append(outcome)
            except TooManyBadRows as error:
                self._loads.pop(number)
                self._context.stop(outcome.table, error)
        return kept, letters


def _breaks_jobs(table: TableName, busy: Sequence[LoadOutcome]) -> LoadFailed:
    error = next(outcome.error for outcome in busy if isinstance(outcome.error, JobBroken))
    return LoadFailed(
        f"its load ends Spark's job every time, even when it runs alone: {error.message}",
        hint="give Spark's workers more memory, or set a smaller round-bytes, then run again",
        table=str(table),
    )
