"""Runs loads: all tables that are ready, in parallel with one another and with statements. Decides where the rows of
each go, or why its table stops."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from consumer.codec import protocol_of
from consumer.errors import (
    CannotBeExact,
    Code,
    ConsumerError,
    JobBroken,
    LeaseHeld,
    LoadFailed,
    ProgressMoved,
    Retryable,
)
from consumer.model.bad_rows import ROW_DIGITS, Quarantine
from consumer.model.columns import Family
from consumer.model.events import NowDoing, Retrying, WorkEnded, WorkMoved, WorkStarted, WorkUnit
from consumer.model.load import LoadOutcome, LoadTarget, LoadTask, Purpose
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.rules import Consistency, hide_masked_values
from consumer.model.steps import LoadRows
from consumer.model.times import MAX_TSO, now
from consumer.pipeline import quarantine
from consumer.pipeline.context import RoundContext
from consumer.pipeline.files import learn_bounds, wait_for_file
from consumer.pipeline.load_results import LoadResults
from consumer.pipeline.missing_tables import missing_table_error
from consumer.pipeline.snapshot import publish_size_error
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.pipeline.waiting import InFlight, waits_for_target
from consumer.plan.late import Stretches
from consumer.plan.options import FileOptions
from consumer.ports import Moved
from consumer.target import LoadRequest, Writer

SINGLE_TASK_BYTES = 128 << 20
"""The round size, in bytes, of tables that only one task can load: what one task may hold in memory."""


@dataclass(slots=True)
class _Load:
    """Tables that are loaded by one call of the loader. If `alone`, no other load runs at the same time."""

    tasks: list[LoadTask]
    alone: bool = False

    def work(self) -> WorkUnit:
        """Returns the load as it is reported to the observer."""
        paths = {piece.path for task in self.tasks for piece in task.slices}
        return WorkUnit(tuple(task.target.table for task in self.tasks), len(paths), self.bytes)

    @property
    def bytes(self) -> int:
        """The bytes of its change files."""
        return sum(task.bytes for task in self.tasks)


class LoadRunner:
    """Prepares loads at the sink, runs them through Spark in parallel, and commits the receipts of each when it
    ends."""

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._results = LoadResults(context)
        self._numbers = count()
        self._waiting: deque[_Load] = deque()
        self._in_flight = InFlight(context.ports.loader.connections, context.options.batches.memory_limit)
        self._breaks: Counter[TableName] = Counter()
        self._draining = False

    def stop_starting(self) -> bool:
        """Stops starting loads, unless the cause of a failed load is being searched. Tables whose load has not begun
        keep their state. Returns whether it stops."""
        self._draining = not (self._breaks or self._results.planned_again)
        return self._draining

    def begin(self) -> bool:
        """Starts what is ready, as far as there are connections for it. Returns True if some of it is already done."""
        if self._waiting:
            return False  # tables that become ready meanwhile are packed into common jobs
        context = self._context
        before = context.round.changes
        learn_bounds(context)
        replan = self.start(context.round.ready_loads())
        return replan or context.round.changes != before

    def start(self, loads: Sequence[LoadRows]) -> bool:
        """Starts `loads`. Returns True if one of them must be planned again."""
        context = self._context
        replan = False
        tasks: list[LoadTask] = []
        for version, target in _targets_of(context, loads):
            if _too_large(context, version.load, target):
                context.round.release(version.load.table)
                replan = True
                continue
            table = version.load.table
            grown = context.consumers[table].state.round_bytes
            too_long = publish_size_error(context.options, version.load, context.memory.bounds, grown)
            if too_long is not None:
                context.stop(table, too_long)
                continue
            try:
                task = version.task(next(self._numbers), target, version.mode_load(target))
            except ConsumerError as error:
                context.stop(table, error)
                continue
            self._results.expect(task, version.load)
            tasks.append(task)
        if tasks:
            context.tell(NowDoing("prepares loads"))
            groups = context.ports.loader.split(tasks)
            self._waiting += [_Load(part) for group in groups for part in self._in_flight.parted(group)]
            self._launch()
        return replan

    def publish(self) -> bool:
        """Commits the rows that wait to become visible together; called when nothing runs and nothing can begin.
        Returns whether there were some. Raises the error of a table without which they must not become visible."""
        context = self._context
        if context.options.batches.consistency is not Consistency.SNAPSHOT:
            return False
        if (error := context.deferred.first()) is not None:
            raise error
        return self._results.publish()

    def is_finished(self) -> bool:
        """Returns whether no load remains to be started."""
        return not (self._waiting or self._context.round.ready_loads())

    def _launch(self) -> None:
        context = self._context
        while self._waiting and not self._draining:
            load = self._waiting[0]
            all_of_them = context.ports.loader.connections
            width = all_of_them if load.alone else min(context.ports.loader.width(load.tasks), all_of_them)
            if not self._in_flight.take(width, load.bytes):
                return
            self._waiting.popleft()
            writer = context.ledger.patiently("begin a load", context.ports.sink.writer)
            work = load.work()
            context.tell(WorkStarted(work))
            ranges, moved = context.ports.reader.range_reader(), self._moved(work)
            call = partial(quarantine.load_with_lines, context.ports.loader, load.tasks, writer, ranges, moved)
            ended = partial(self._ended, load, work, writer, width, now())
            context.calls.start("load", call, ended)

    def _moved(self, work: WorkUnit) -> Moved:
        return lambda part: self._context.tell(WorkMoved(work, part))

    def _ended(
        self,
        load: _Load,
        work: WorkUnit,
        writer: Writer,
        width: int,
        started: float,
        result: Sequence[LoadOutcome] | BaseException,
    ) -> None:
        context = self._context
        context.tell(WorkEnded(work))
        self._in_flight.give_back(width, load.bytes)
        if isinstance(result, BaseException):
            raise result
        # Attempts that Spark has given up may still run somewhere. After this nothing of them is written.
        context.ledger.patiently("end a load", partial(context.ports.sink.end, writer))
        seconds = now() - started
        self._results.record(result, seconds)
        for outcome in result:
            if waits_for_target(outcome.error) and not context.deferred.blocked(outcome.table):
                context.add_target_seconds(outcome.table, seconds)
        self._again([outcome for outcome in result if isinstance(outcome.error, Retryable)], load)
        self._launch()

    def _again(self, busy: Sequence[LoadOutcome], load: _Load) -> None:
        """Handles the tables whose load failed for now."""
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
                self._results.forget(outcome.task)
                wait_for_file(self._context, outcome.table, error)
        self._run_broken(broken, busy, load)

    def _run_broken(self, tasks: list[LoadTask], busy: Sequence[LoadOutcome], load: _Load) -> None:
        """Runs a job again that broke. If it breaks again, its tables are loaded one at a time with nothing else
        running, to find the table that breaks it. That table stops."""
        if load.alone and tasks:
            target = tasks[0].target
            self._results.forget(tasks[0])
            self._context.stop(target.table, hide_masked_values(_breaks_jobs(target.table, busy), target.load.shaping))
        elif any(self._breaks[task.target.table] > 1 for task in tasks):
            self._waiting.extend(_Load([task], alone=True) for task in tasks)
        elif tasks:
            self._waiting.append(_Load(tasks))


def _targets_of(context: RoundContext, loads: Sequence[LoadRows]) -> list[tuple[TableVersionConsumer, LoadTarget]]:
    """Returns the target of each load that can run. The other tables are stopped."""
    versions = _versions(context, loads)
    if not versions:
        return []
    requests = [request for _, request in versions]
    loads_with_target = []
    targets = context.ledger.patiently("look at the target", lambda: context.ports.sink.prepare(requests))
    for (version, _), target in zip(versions, targets, strict=True):
        table = version.load.table
        if isinstance(target, ConsumerError):
            why = missing_table_error(
                table, target, context.ports.sink, context.assembly, context.progress, context.options
            )
            context.stop(table, why)
            continue
        if (refusal := _refusal(context, version, target)) is not None:
            context.stop(table, refusal)
        else:
            loads_with_target.append((version, target))
    return loads_with_target


def _too_large(context: RoundContext, load: LoadRows, target: LoadTarget) -> bool:
    """Returns whether a table that only one task can load must be planned again, in smaller rounds."""
    state = context.consumers[load.table].state
    most = max(SINGLE_TASK_BYTES, context.memory.collisions.bytes_for(load))
    if (target.key and not target.in_one_call) or load.bytes <= most:
        return False
    smaller = state.round_bytes > most
    state.round_bytes = most
    return smaller


def _versions(context: RoundContext, loads: Sequence[LoadRows]) -> list[tuple[TableVersionConsumer, LoadRequest]]:
    """Returns the version consumer of each load with its request to the sink. Tables that another consumer has, or
    whose columns do not fit, are stopped."""
    foreign = context.ownership.taken_by_others([load.table for load in loads])
    for table, error in foreign.items():
        context.stop(table, error)
    options, lessons, versions = context.options, context.memory, []
    for load in (load for load in loads if load.table not in foreign):
        _accept_old_keys(context, load)
        version = TableVersionConsumer(
            load,
            context.assembly.catalog,
            options.files.dialect,
            options.rules,
            _seen(context, load),
            {row.path for row in context.progress.bad_rows.get(load.table, {}).values()},
        )
        lessons.absent.begin(load.table, version.made)
        try:
            purpose = Purpose.LOAD_COLLIDED if lessons.collisions.has(load) else None
            request = version.request(lessons.absent.of(load), purpose, _quarantine(context, load))
            versions.append((version, request))
        except ConsumerError as error:
            context.stop(load.table, error)
    return versions


def _seen(context: RoundContext, load: LoadRows) -> Mapping[str, Stretches]:
    """Returns by partition the commit-ts that rows of `load` may have. It is empty if rows have no commit-ts, or if it
    was accepted that some came late."""
    if context.options.files.dialect.timeless or context.memory.came_late(load):
        return {}
    roots = {planned.file.folder.root for planned in load.files}
    return context.assembly.accounted_commit_ts(load.table, roots, context.progress, load.window.after)


def _refusal(context: RoundContext, version: TableVersionConsumer, target: LoadTarget) -> ConsumerError | None:
    """Returns why rows of this table cannot be applied exactly, None if they can."""
    load = version.load
    if not target.key and load.window.end == MAX_TSO:
        return _keyless_without_checkpoint(load.table)
    try:
        version.check_rules(version.source(target))
    except CannotBeExact as error:
        return error
    column = ambiguous_column(context.options.files, target)
    if column is not None and context.options.files.accept_timestamp_key:
        context.accept(load.table, [Loss(_AMBIGUOUS.format(column), "", load.window.after, 0)])
        return None
    return None if column is None else ambiguous_key(load.table, column)


def ambiguous_column(files: FileOptions, target: LoadTarget) -> str | None:
    """Returns a column of the key whose values can mean two moments each, None if there is none."""
    if not files.dialect.clock.doubled:
        return None
    names = (target.names[n] for n in target.key if target.columns[n].family is Family.TIMESTAMP)
    return next(names, None)


def _quarantine(context: RoundContext, load: LoadRows) -> Quarantine | None:
    """Returns how many bad rows may be quarantined, None if the table does not quarantine."""
    action = context.options.rules.bad_row_action(load.table)
    if context.options.rules.naming.mode(load.table) is not None:
        return None  # a dead letter names a row by upstream's key, of which such a table has many
    if context.ports.dead_letters is None or not action.quarantines:
        return None
    recorded_ids = frozenset(row[:ROW_DIGITS] for row in context.progress.bad_rows.get(load.table, ()))
    return Quarantine(action.most, context.memory.absent.uneven(load), recorded_ids=recorded_ids)


_AMBIGUOUS = (
    "its key holds the TIMESTAMP `{}`, and the changefeed's clock shows one hour of the year twice: two rows could have"
    " one key"
)
_OLD_KEYS = (
    "the rows do not show the old keys of updates: where a key was changed upstream and TiCDC did not split the update"
    " (output-raw-change-event=true, or an old release), the row under its old key stays, or a row that took the key"
    " is lost"
)


def _accept_old_keys(context: RoundContext, load: LoadRows) -> None:
    dialect = context.options.files.dialect
    if context.options.files.accept_key_loss and protocol_of(dialect).key_loss(dialect, "", "") is not None:
        context.accept(load.table, [Loss(_OLD_KEYS, "", load.window.after, 0)])


def ambiguous_key(table: TableName, column: str) -> CannotBeExact:
    """Returns the error of a table whose key's `column` can hold values that mean two moments each."""
    return CannotBeExact(
        _AMBIGUOUS.format(column),
        hint="where no key is in that hour, set accept-timestamp-key = true in [consumer] of the file of --config; else"
        " run TiCDC under --tz UTC, have it write to a new prefix, and load that under a new --name with --tz UTC",
        table=str(table),
        code=Code.AMBIGUOUS_TIME,
    )


def _keyless_without_checkpoint(table: TableName) -> CannotBeExact:
    """Returns the error of a table without a key in a storage without a checkpoint."""
    return CannotBeExact(
        "a table with no key needs the checkpoint: without `metadata`, rows that were sent again cannot be recognized",
        hint="run again once TiCDC has written `metadata`, or leave the table out with --tables",
        table=str(table),
        code=Code.NO_KEY,
    )


def _breaks_jobs(table: TableName, busy: Sequence[LoadOutcome]) -> LoadFailed:
    error = next(outcome.error for outcome in busy if isinstance(outcome.error, JobBroken))
    return LoadFailed(
        f"its load ends Spark's job every time, even when it runs alone: {error.message}",
        hint="give Spark's workers more memory, or set a smaller round-bytes, then run again",
        table=str(table),
    )
