"""Runs one round over all tables. Statements and loads run in parallel, and progress is recorded after every step."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from heapq import nlargest
from operator import itemgetter

from consumer.errors import BadConfig, Code, ConsumerError, LeaseHeld, TableError, TableMissing, TargetBusy
from consumer.model.events import Note, NoteKind, RoundFinished, RoundStarted, TableResumed
from consumer.model.files import Listing
from consumer.model.names import TableName
from consumer.model.progress import OwnedTables, Progress, ProgressChange, State, TableProgress, Waits
from consumer.model.rules import NO_STARTS, Consistency
from consumer.model.steps import Barrier
from consumer.model.texts import one_line, shortened
from consumer.model.times import MAX_TSO, now, seconds_behind
from consumer.pipeline.context import Ports, RoundContext
from consumer.pipeline.files import check_ended_names, check_late_files
from consumer.pipeline.ledger import Ledger
from consumer.pipeline.loads import LoadRunner
from consumer.pipeline.missing_tables import dropped_table_errors, find_unbegun_tables
from consumer.pipeline.opening import assembly_of, copied_files, round_opening_change, table_starts_change
from consumer.pipeline.ownership import OwnershipGuard
from consumer.pipeline.resync import ended_loads
from consumer.pipeline.retry_memory import RetryMemory
from consumer.pipeline.snapshot import check_times, listing_at, next_part_end
from consumer.pipeline.statements import StatementRunner
from consumer.pipeline.table_consumer import TableConsumer
from consumer.pipeline.waiting import BackgroundCalls, DeferredTables
from consumer.plan.assembly import Assembly
from consumer.plan.combining import cannot_begin
from consumer.plan.date_order import check_dates
from consumer.plan.notes import notes, went_back
from consumer.plan.options import RoundOptions
from consumer.plan.routing import check_routes
from consumer.plan.starting import idle_notes, start_notes
from consumer.plan.survey import check_selected
from consumer.plan.windows import common_moment
from consumer.results import TableResult

_LONGEST_LINGER = 0.2
_STATEMENT_SHOWN = 200
_PLANNED = 20
"""The number of tables, and of statements, that an observer gets by name before a round."""


class ConsumerManager:
    """Builds rounds and runs them.

    `results` are summed over the rounds of a run. `stopped` holds the tables that this run no longer advances, with the
    reason. `context` is that of the last round, None before the first.
    """

    calls_factory: Callable[[], BackgroundCalls] = BackgroundCalls
    shortest_round = 4.0
    """The seconds for which a round starts steps at least, before the next round follows."""
    round_share = 10.0
    """A round also starts steps for this many times as long as its preparation took, so that preparing stays a small
    part."""

    def __init__(self, ports: Ports, options: RoundOptions, progress: Progress) -> None:
        self.ports, self.options = ports, options
        self.ledger = Ledger(ports.sink, ports.observer, options.max_wait, progress, options.rules.naming)
        self.results: dict[TableName, TableResult] = {}
        self.stopped: dict[TableName, ConsumerError] = {}
        self.context: RoundContext | None = None
        self._memory = RetryMemory()
        self._followed = self._loads_known = False
        self._replaced_by_none: Mapping[TableName, TableMissing] = {}
        """Tables that were to be replaced by a loaded table which the target no longer has."""

    def continue_from(self, before: ConsumerManager) -> None:
        """Takes over what `before`, an earlier manager of this run, has counted and learned."""
        self.results, self.stopped, self._memory = before.results, before.stopped, before._memory

    def run_round(self, listing: Listing, seconds: float = 0.0, since: float | None = None) -> bool:
        """Brings every table to ``listing.checkpoint``, or to where it must stop.

        A lock or an unreadable file holds up only its table. Its step is retried for `seconds`; then the table is
        `deferred`.

        `since` is when the listing began, if other rounds follow this one. The round then stops starting steps after a
        while, so that tables with little to do need not wait for a table with a backlog. Returns False if work remains:
        the state is then as if the run had been killed, except that nothing is under way.

        With consistency `snapshot` the round is made of parts, each of which ends at a moment that all tables share.

        Raises Retryable if something fails that all tables need. What was recorded until then stays recorded.
        """
        check_times(self.options, listing.checkpoint)
        self._followed = since is not None
        if self.options.batches.consistency is not Consistency.SNAPSHOT:
            return self._run_part(listing, seconds, since, None)
        return self._run_parts(listing, seconds, since)

    def _run_parts(self, listing: Listing, seconds: float, since: float | None) -> bool:
        began = now()
        if self.options.rules.starts != NO_STARTS:
            with self.ledger.round():
                self._begin_tables(listing)  # `now` is the checkpoint of the whole round
        while True:
            progress = self.ledger.confirmed()
            assembly = assembly_of(self.ports.reader, listing, progress, self.options)
            end = next_part_end(self.ports.reader, assembly, progress, self.options, self._memory.bounds)
            is_last = end >= listing.checkpoint
            if end > (after := common_moment(progress)) or is_last:
                self._run_part(listing_at(listing, end), seconds, None, after)
            if is_last:
                return True
            if since is not None and now() - began > self.shortest_round:
                return False  # the next listing goes further

    def _run_part(self, listing: Listing, seconds: float, since: float | None, snapshot_after: int | None) -> bool:
        """Runs one round. `snapshot_after` is the moment from which all tables go to the round's end together, None if
        no table has to be consistent with the others."""
        began, progress = now(), self.ledger.progress
        with self.ledger.round():
            context = self.context = self._round(listing, seconds)
            context.round.snapshot_after = snapshot_after
            statements, loads = StatementRunner(context), LoadRunner(context)
            completed = False
            try:
                self._begin(context)
                loads.start(check_late_files(context))
                until = None if since is None else now() + max(self.shortest_round, self.round_share * (now() - since))
                completed = _drive(context, statements, loads, until)
                if completed:
                    check_ended_names(context)
                    _keep_stopped(context)
            finally:
                context.calls.withdraw()  # where it broke off
                self._update_stopped(context, completed)
            for name in context.deferred.reasons():
                context.add_target_seconds(name, context.deferred.blocked(name))
            for name in _finish(context) if completed else ():
                del self.results[name]
            if completed:
                self._forget_ended_loads(context, progress)
                self._report_end(context, progress, now() - began)
            else:
                self.reset_watermarks()
        return completed

    def _update_stopped(self, context: RoundContext, completed: bool) -> None:
        """Updates `stopped`. A table that this round did not reach keeps its state. So does one whose start lies above
        the checkpoint, if the checkpoint went back."""
        states = {name: result.state for name, result in self.results.items()}
        before = {n: e for n, e in self.stopped.items() if states.get(n) == "stopped"}
        kept = {n: error for n, error in before.items() if not completed or n not in context.consumers}
        self.stopped = kept | {n: c.state.error for n, c in context.consumers.items() if c.state.error is not None}

    def _forget_ended_loads(self, context: RoundContext, before: Progress) -> None:
        """Drops what was loaded to replace a table (`resync`), if that table has ended. The target is asked in the
        first round, and after a round in which a table has ended."""
        progress, assembly = context.progress, context.assembly
        ended = {name for name, place in progress.tables.items() if place.state is State.DROPPED}
        if (self._loads_known and ended <= before.tables.keys()) or assembly.checkpoint < progress.applied_ts:
            return
        self._loads_known = True
        sink = self.ports.sink
        for name, table in ended_loads(sink.consumers(), self.options.name, assembly, progress).items():
            with suppress(LeaseHeld, TargetBusy, BadConfig):  # it is at work, and the next run looks again
                sink.forget(name)
                text = f"what a resync of {table} had loaded is dropped: the table was dropped or renamed upstream"
                context.tell(Note(NoteKind.EMPTIED_TABLE, text, table))

    def _report_end(self, context: RoundContext, before: Progress, seconds: float) -> None:
        states = {name: result.state for name, result in self.results.items()}
        for name in sorted(name for name, place in before.tables.items() if place.state is State.STOPPED):
            if states.get(name) == "ok":
                context.tell(TableResumed(name))
        waiting = sum(state == "waits" for state in states.values())
        context.tell(RoundFinished(context.assembly.checkpoint, seconds, len(self.stopped), waiting))

    def stop_dropped(self) -> None:
        """Stops the tables that somebody has dropped in the target. A round does not notice this for a table without
        work, so this is called after a round that completed."""
        context = self.context
        assert context is not None
        errors = self.ledger.patiently(
            "look at the target",
            lambda: dropped_table_errors(
                context.ports.sink, context.assembly, context.progress, context.options, context.loaded
            ),
        )
        for name, error in errors.items():
            context.stop(name, error)
        self.stopped |= errors

    def reset_watermarks(self) -> None:
        """The round ended early: sets the results' watermarks to what is recorded of each table."""
        for name, result in self.results.items():
            result.watermark = self.ledger.progress.table(name).applied_ts

    def _round(self, listing: Listing, seconds: float) -> RoundContext:
        ports, options, ledger = self.ports, self.options, self.ledger
        assembly = self._assembly(listing)
        idle = idle_notes(assembly, ledger.progress, options.rules.starts)
        for note in (*notes(assembly, ledger.progress, options.rules.naming, options.rules.named), *idle):
            ports.observer.tell(note)
        consumers = {name: self._consumer(name, assembly) for name in assembly.tables}
        states = {name: consumer.state for name, consumer in consumers.items()}
        return RoundContext(
            ports=ports,
            options=options,
            ledger=ledger,
            memory=self._memory,
            assembly=assembly,
            round=assembly.round(states, options.files, options.batches),
            consumers=consumers,
            deferred=DeferredTables(seconds),
            calls=self.calls_factory(),
            ownership=OwnershipGuard(
                self._foreign_tables,
                assembly,
                lambda: ledger.progress,
                options.rules.naming,
                self._tables_in,
                ledger.take,
            ),
        )

    def _begin(self, context: RoundContext) -> None:
        """Reports the round's start, and stops the tables that cannot begin."""
        options, assembly, progress = self.options, context.assembly, self.ledger.progress
        states = {name: consumer.state for name, consumer in context.consumers.items()}
        for name, losses in assembly.losses(progress, options.rules.accept_gap):
            context.accept(name, losses, assembly.without_losses(name, progress, progress.table(name).applied_ts))
        for name, missing in self._replaced_by_none.items():
            if name in context.consumers:
                context.stop(name, missing)
        for name, error in cannot_begin(assembly, progress, options):
            context.stop(name, error)
        self._look_at_beginning(context)
        if options.files.dialect.timeless:
            _check_order(context)
        unread = [entry.file for state in states.values() for entry in state.unread]
        for file in self._memory.bounds.keys() - set(unread):
            del self._memory.bounds[file]
        loads = [
            (name, len(state.unread), sum(entry.file.size for entry in state.unread))
            for name, state in states.items()
            if state.unread
        ]
        size = sum(of_table for _, _, of_table in loads)
        names = [name for name in assembly.tables if name.table and options.rules.wanted(name)]
        pending = assembly.timeline.pending
        first = [
            (statement.file.name, statement.version, shortened(one_line(statement.file.query), _STATEMENT_SHOWN))
            for statement in pending[:_PLANNED]
        ]
        largest = nlargest(_PLANNED, loads, key=itemgetter(2))
        back = went_back(assembly, progress)
        context.tell(
            RoundStarted(assembly.checkpoint, len(loads), len(unread), size, names, largest, len(pending), first, back)
        )

    def _look_at_beginning(self, context: RoundContext) -> None:
        """Decides, for tables that no statement of the storage creates, by what the target has under their names."""
        found = self.ledger.patiently(
            "look at the target",
            lambda: find_unbegun_tables(context.ports.sink, context.assembly, context.progress, context.options),
        )
        for name in found.absent:
            context.round.mark_missing(name)
        for name, error in found.filled.items():
            if context.consumers[name].state.error is None:
                context.stop(name, error)
        if ready := [name for name in found.ready if context.consumers[name].state.error is None]:
            # Recorded before the first rows are written: a load that breaks off leaves some rows there.
            places = {name: TableProgress(context.progress.table(name).applied_ts) for name in ready}
            self.ledger.record(ProgressChange(tables=dict(places)))

    def _foreign_tables(self) -> OwnedTables:
        return self.ledger.patiently("look at the target", self.ports.sink.of_others)

    def _tables_in(self, database: str) -> Collection[TableName]:
        return self.ledger.patiently("look at the target", lambda: self.ports.sink.tables_in(database))

    def _assembly(self, listing: Listing) -> Assembly:
        options, ledger, reader = self.options, self.ledger, self.ports.reader
        assembly = self._begin_tables(listing)
        if (change := round_opening_change(assembly, ledger.progress, options.rules)) is not None:
            ledger.record(change)
            self._replaced_by_none = ledger.finish_marked()
            assembly = assembly_of(reader, listing, ledger.progress, options)
        return assembly

    def _begin_tables(self, listing: Listing) -> Assembly:
        """Returns the assembly that the round of `listing` begins with, after it is recorded which tables begin at a
        moment of their own."""
        options, ledger, reader = self.options, self.ledger, self.ports.reader
        check_routes(options.rules.naming, ledger.progress, ledger.marked)
        if (copied := copied_files(reader, listing, ledger.progress, self._memory.checksums)).folders:
            ledger.record(copied)
        self._replaced_by_none = ledger.finish_marked()
        assembly = assembly_of(reader, listing, ledger.progress, options)
        check_selected(assembly, ledger.progress, options.rules, self._followed)
        if (change := table_starts_change(assembly, ledger.progress, options.rules)) is not None:
            ledger.record(change)
            for note in start_notes(change):
                self.ports.observer.tell(note)
            self._replaced_by_none = ledger.finish_marked()
            assembly = assembly_of(reader, listing, ledger.progress, options)
        return assembly

    def _consumer(self, name: TableName, assembly: Assembly) -> TableConsumer:
        wanted = self.options.rules.wanted(name)
        result = self.results.setdefault(name, TableResult()) if wanted else TableResult()
        return TableConsumer(name, assembly, self.ledger.progress, self.options, result)


def _check_order(context: RoundContext) -> None:
    """Stops the tables whose rows have no commit-ts and for which nothing shows where in time the rows are."""
    for name, consumer in context.consumers.items():
        if consumer.state.error is None and name in context.assembly.history.alive:
            unread, files = [entry.file for entry in consumer.state.unread], consumer.files
            error = context.assembly.check_places(name, files, context.progress)
            if error is None:
                error = check_dates(name, unread, files, context.progress.folders, context.options.files.date_order)
            if error is not None:
                context.stop(name, error)


def _drive(context: RoundContext, statements: StatementRunner, loads: LoadRunner, until: float | None) -> bool:
    """Starts each step when it is ready and handles it when it ends, until nothing is under way or due. Returns whether
    all work is done.

    After `until` no step is started, apart from the first ones. If one of these failed, the round continues: the next
    round would begin with the same failure, and never get past it.
    """
    draining, troubles, first = False, context.round.troubles, True
    while True:
        asked = now()
        time_is_up = until is not None and asked >= until and context.round.troubles == troubles
        if time_is_up and not (draining or first) and loads.stop_starting():
            statements.stop_starting()
            draining = True
        first = False
        if not draining:
            context.deferred.try_due()
            while statements.begin() or loads.begin():
                pass
        due = None if draining else context.deferred.next_due()
        if not context.calls.running and due is None:
            if loads.publish():
                continue
            return not draining or _is_over(context, statements, loads)
        # Asking for ready steps takes longer the more there is to do, so it is not done after every single step.
        context.calls.handle_results(due, linger=min(4 * (now() - asked), _LONGEST_LINGER))


def _is_over(context: RoundContext, statements: StatementRunner, loads: LoadRunner) -> bool:
    """Returns whether nothing remains to be done in a round that starts no more steps."""
    while True:
        before = context.round.changes
        if not (statements.is_finished() and loads.is_finished()):
            return False
        if context.round.changes == before:
            return True


def _keep_stopped(context: RoundContext) -> None:
    """Keeps tables stopped that stopped above the checkpoint. If `metadata` went back, a round sees nothing of such a
    table, and the reason could get lost."""
    places = context.progress.tables
    for name, consumer in context.consumers.items():
        place = places.get(name)
        if place is None or place.state is not State.STOPPED or consumer.state.error is not None:
            continue
        if consumer.state.position > context.assembly.checkpoint:
            context.stop(name, TableError(place.reason, hint=place.hint, code=place.code))


def _finish(context: RoundContext) -> list[TableName]:
    """Raises the global applied-ts to the checkpoint. A table that is not at the checkpoint keeps a row of its own.
    Returns the names that are not reported: databases whose statements are all done, and tables that had ended
    before."""
    assembly, progress = context.assembly, context.progress
    checkpoint = assembly.checkpoint
    waits = _waiting(context)
    applied = progress.applied_ts if checkpoint == MAX_TSO else max(progress.applied_ts, checkpoint)
    tables: dict[TableName, TableProgress | None] = {}
    unreported: list[TableName] = []
    for name, consumer in context.consumers.items():
        if not context.options.rules.wanted(name):
            continue
        if name in context.round.live or consumer.state.error is not None or name in waits:
            tables[name] = _place(name, consumer, applied, waits.get(name), checkpoint, progress)
        elif not name.table:
            # A database has a place only for its statements.
            unreported.append(name)
            tables[name] = None if checkpoint >= applied else TableProgress(checkpoint)
        elif consumer.result.state == "ok":
            unreported.append(name)  # The table had ended before, and only its files were checked.
    tables |= assembly.exclusions(progress)
    tables |= dict.fromkeys(assembly.forgotten_names(progress))
    changed = {name: place for name, place in tables.items() if progress.tables.get(name) != place}
    forgotten_folders = assembly.forgotten_changes(progress)
    change = ProgressChange(applied_ts=applied, tables=changed, folders=forgotten_folders)
    change = replace(change, late=_turns_late(progress, progress.after(change).slowest, context.options.late_after))
    if context.options.syncpoints and checkpoint == applied < MAX_TSO and progress.after(change).at_one_moment:
        change = replace(change, syncpoint=context.options.syncpoints)
    if applied > progress.applied_ts or changed or forgotten_folders or change.syncpoint or change.late is not None:
        context.ledger.record(change)
    return unreported


def _turns_late(progress: Progress, slowest: int, late_after: float | None) -> bool | None:
    """Returns whether the tables are late from now on, or no longer. Returns None if that did not change, or if no
    limit is set."""
    late = bool(slowest) and late_after is not None and seconds_behind(slowest, time.time() * 1000) > late_after
    return None if late_after is None or late is progress.late else late


def _waiting(context: RoundContext) -> dict[TableName, Waits]:
    """Returns by table what it waits for."""
    waits = context.deferred.reasons()
    for barrier in context.round.barriers():
        for name in barrier.tables:
            waits.setdefault(name, _at_barrier(barrier))
    return waits


def _at_barrier(barrier: Barrier) -> Waits:
    """Returns what a table waits for, and which statement holds it up until then."""
    query = one_line(barrier.file.query)
    shown = shortened(query, _STATEMENT_SHOWN)
    text = f"waits for {barrier.waits_for}; held up until then: {shown} (version {barrier.file.version})"
    return Waits(Code.WAITS_FOR_STATEMENT, text)


def _place(
    name: TableName, consumer: TableConsumer, applied: int, waits: Waits | None, checkpoint: int, progress: Progress
) -> TableProgress | None:
    place = consumer.finish(applied, waits)
    if checkpoint == MAX_TSO and (place is None or place.state is State.OK):
        return _ungated(name, progress)
    return place


def _ungated(name: TableName, progress: Progress) -> TableProgress | None:
    """Returns the place of a table of a storage without a checkpoint: where its last statement left it."""
    place = progress.tables.get(name)
    held = place is not None and place.state in (State.STOPPED, State.WAITS)
    return TableProgress(place.applied_ts) if place is not None and held else place
