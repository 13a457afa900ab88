"""Runs all statements that are ready, in parallel with one another and with loads where the target can do that. No two
that run at the same time touch the same table."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from consumer.errors import ConsumerError, DdlRefused, LeaseHeld, ProgressMoved, Retryable
from consumer.model.actions import Action
from consumer.model.ddl_policy import DdlPolicy
from consumer.model.events import Note, NoteKind, StepFinished, WorkEnded, WorkStarted, WorkUnit
from consumer.model.hints import skip_ddl_command
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, DdlId, DdlKind, DdlRecord, ProgressChange, State, TableProgress
from consumer.model.steps import ApplyDdl, ddl_id
from consumer.model.table_rules import TableRules
from consumer.model.texts import count_text, one_line
from consumer.model.times import now
from consumer.pipeline.context import RoundContext
from consumer.pipeline.ownership import reason_left_to
from consumer.pipeline.session_refusal import session_refusal
from consumer.plan.ddl_step import ddl_step, statement_refusal
from consumer.plan.shaping import shaping_refusal
from consumer.plan.statement import Statement
from consumer.target import DdlOutcome

_LARGEST_CHUNK = 32
_Chunk = list[tuple[Statement, ApplyDdl]]
"""Statements that the target gets in one call."""


class StatementRunner:
    """Runs statements through the sink, and reports the results to the round and the table consumers."""

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._withdrawn = False

    def stop_starting(self) -> None:
        """Drops what is still queued. `begin` must not be called after it."""
        self._withdrawn = self._context.calls.withdraw()

    def is_finished(self) -> bool:
        """Returns whether no statement remains to be started. After it `begin` starts none."""
        return not (self._withdrawn or self._context.round.ready_statements())

    def begin(self) -> bool:
        """Starts what is ready. Returns True if some of it is already done."""
        context, at_a_time = self._context, self._context.ports.sink.statements
        steps: _Chunk = []
        done = False
        ready = context.round.ready_statements()
        # Thousands of short statements run faster in chunks; a slow one holds up the others of its chunk.
        size = min(_LARGEST_CHUNK, -(-len(ready) // (2 * at_a_time))) if at_a_time else 0
        context.ownership.take_tables_of(ready)
        for statement in ready:
            try:
                self._check(statement)
                if (
                    other := context.ownership.other_owner_of_database(statement)
                ) or statement.policy is DdlPolicy.IGNORE:
                    self._ignore(statement, other)
                else:
                    step = self._step(statement)
                    if at_a_time and step.id in context.progress.ddls:
                        self._start([(statement, step)], at_a_time)  # begun before: it may wait for a lock
                        continue
                    steps.append((statement, step))
                    steps += () if at_a_time else self._run_along(statement)
                    if len(steps) == size:
                        self._start(steps, at_a_time)
                        steps = []
                    continue
            except DdlRefused as error:
                self._refused(statement, error)
            done = True
        if steps and at_a_time:
            self._start(steps, at_a_time)
        elif steps:
            self._ended(steps, *self._worked_at(steps)())
            done = True
        return done

    def _run_along(self, statement: Statement) -> Iterator[tuple[Statement, ApplyDdl]]:
        """Yields the statements that can run in the same call after `statement`: a table can have thousands, one after
        another."""
        following = deque(self._context.round.followers_of(statement, _LARGEST_CHUNK))
        try:
            while following:
                self._check(following[0])
                yield following[0], self._step(following[0])
                following.popleft()
        except DdlRefused:  # the same is found again when its turn comes
            for other in following:
                self._context.round.requeue(other)

    def _start(self, chunk: _Chunk, at_a_time: int) -> None:
        """Runs `chunk` in parallel to the rest. The first chunks begin while later ones are being prepared."""
        then = partial(self._came_back, chunk)
        self._context.calls.start("statement", self._worked_at(chunk), then, at_a_time)

    def _worked_at(self, chunk: _Chunk) -> Callable[[], tuple[float, Sequence[DdlOutcome]]]:
        """Returns a function that runs `chunk` and reports its begin and its end, on any thread: the thread that drives
        the round can be busy for long, with the start of Spark. The function returns the seconds and the outcomes."""
        names = tuple(dict.fromkeys(statement.file.name for statement, _ in chunk))
        work = WorkUnit(names, statement=one_line(chunk[0][0].file.query))
        unfinished = self._unfinished(chunk)

        def run() -> tuple[float, Sequence[DdlOutcome]]:
            started = now()
            self._context.tell(WorkStarted(work))
            try:
                outcomes = self._applied(chunk, unfinished)
                return now() - started, outcomes
            finally:
                self._context.tell(WorkEnded(work))

        return run

    def _applied(self, chunk: _Chunk, unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        """Runs the statements in the target. A Retryable of the whole call becomes the outcome of each. Runs on any
        thread."""
        steps = [step for _, step in chunk]
        try:
            return self._context.ports.sink.apply_ddls(steps, unfinished)
        except Retryable as error:
            return [DdlOutcome(step, error) for step in steps]

    def _came_back(self, chunk: _Chunk, result: tuple[float, Sequence[DdlOutcome]] | BaseException) -> None:
        if isinstance(result, BaseException):
            raise result
        self._ended(chunk, *result)

    def _ended(self, chunk: _Chunk, taken: float, outcomes: Sequence[DdlOutcome]) -> None:
        context = self._context
        seconds = taken / len(chunk)
        context.ledger.believe(ProgressChange().merged(*(o.recorded for o in outcomes)))
        tried = self._tried(chunk, outcomes)
        for statement, outcome in tried:
            if not context.deferred.blocked(statement.touches[0]):  # `settled` adds a deferred one's
                context.add_target_seconds(statement.file.name, seconds)
            if not isinstance(outcome.error, Retryable):
                self._follow(statement, outcome, seconds)
        for statement, outcome in tried:
            if isinstance(outcome.error, LeaseHeld | ProgressMoved):
                raise outcome.error
            if isinstance(outcome.error, Retryable):
                what = f"execute a statement of {statement.file.name}"
                context.defer(statement.touches, what, outcome.error, partial(context.round.requeue, statement))

    def _tried(self, chunk: _Chunk, outcomes: Sequence[DdlOutcome]) -> list[tuple[Statement, DdlOutcome]]:
        """Returns the outcomes except those after a failed statement of the same table: these statements are tried
        again."""
        tried: list[tuple[Statement, DdlOutcome]] = []
        failed: set[TableName] = set()
        for (statement, _), outcome in zip(chunk, outcomes, strict=True):
            if failed.isdisjoint(statement.touches):
                tried.append((statement, outcome))
            else:
                self._context.round.requeue(statement)
            failed.update(statement.touches if outcome.error is not None else ())
        return tried

    def _unfinished(self, chunk: _Chunk) -> dict[DdlId, DdlRecord]:
        records = self._context.progress.ddls
        return {step.id: records[step.id] for _, step in chunk if step.id in records}

    def _check(self, statement: Statement) -> None:
        """Raises DdlRefused for a statement that must not run."""
        context = self._context
        refused = (
            refusal_before_target(statement, context.options.rules)
            or context.ownership.refusal(statement)
            or context.ledger.patiently(
                "look at the target",
                lambda: session_refusal(statement, context.assembly, context.ports.sink, context.options.rules.hides),
            )
        )
        if refused is not None:
            raise refused

    def _step(self, statement: Statement) -> ApplyDdl:
        renames = self._context.round.overtaken_renames(statement)
        return ddl_step(
            statement,
            *self._changes(statement, renames),
            called=renames[0].old_name if renames else None,
            complete=not renames and not self._context.round.incomplete(statement),
        )

    def _changes(self, statement: Statement, renames: Sequence[Statement]) -> tuple[ProgressChange, ProgressChange]:
        """Returns what is recorded with the intent of `statement`, and with its fact. `renames` are those that it
        overtakes."""
        # Tables that are excluded keep their place: nobody read the rows under their names.
        changes = (statement.before(self._context.progress), statement.after())
        before, after = map(self._of_wanted, changes)
        if not statement.heals:
            before, after = map(self._still_stopped, (before, after))
        overtaken = tuple(
            DdlRecord.skipped(ddl_id(other.file), DdlKind.OVERTAKEN, f"overtaken by {statement.file.query}")
            for other in self._context.round.overtaken(statement)
        )
        if renames:
            # Until the table under its old name has been dropped, the RENAMEs stay pending.
            dropped = {o.old_name: TableProgress(o.version, State.DROPPED) for o in renames if o.old_name is not None}
            of_renames = ProgressChange(tables=dropped, ddls=overtaken, moved_lacks=dict.fromkeys(dropped, ()))
            before, after = ProgressChange(), of_renames.merged(after)
        else:
            # With W at this version the overtaken statements no longer count, so both become durable at once.
            before = before.merged(ProgressChange(ddls=overtaken))
        return before, after.merged(*self._never_read_changes(statement))

    def _never_read_changes(self, statement: Statement) -> Iterator[ProgressChange]:
        """Yields the changes for the files of its tables that will never be read."""
        for name in sorted(self._context.round.touched_tables(statement)) if statement.heals else ():
            if name.table:
                files = self._context.round.never_read_files(name, statement.until(name))
                lost = self._context.consumers[name].without_files(files, self._context.progress)
                yield ProgressChange(folders=lost)

    def _of_wanted(self, change: ProgressChange) -> ProgressChange:
        return replace(change, tables={n: p for n, p in change.tables.items() if self._context.options.rules.wanted(n)})

    def _still_stopped(self, change: ProgressChange) -> ProgressChange:
        """Keeps a table stopped that passes a statement without its rows, because it is emptied later."""
        consumers = self._context.consumers
        held = {
            n: consumers[n].stopped_at(place.applied_ts)
            for n, place in change.tables.items()
            if place and n in consumers
        }
        return replace(change, tables={name: held.get(name) or place for name, place in change.tables.items()})

    def _ignore(self, statement: Statement, other: str) -> None:
        """Records the statement as skipped, because its policy says so or because it is left to the consumer `other`.
        If a CREATE is ignored, the table that was made by hand must be empty."""
        context, name = self._context, statement.file.name
        creates = statement.action in (Action.CREATE_TABLE, Action.CREATE_TABLES) and not statement.temporary
        if creates and context.ports.sink.has_rows([statement.naming.target(name)]):
            raise DdlRefused(
                f"the policy for create-table is ignore, but the target's table holds rows: {statement.file.query}",
                hint="empty the target's table and run again, or accept its rows as the upstream's with:"
                " " + skip_ddl_command(name, statement.version),
                table=str(name),
                version=statement.version,
            )
        self._skip(statement, *((DdlKind.LEFT, reason_left_to(other)) if other else statement.ignored))

    def _skip(self, statement: Statement, kind: DdlKind, reason: str) -> None:
        context, name = self._context, statement.file.name
        row = AuditRow("ignore-ddl", name, statement.version, statement.version, statement=statement.file.query)
        record = DdlRecord.skipped(ddl_id(statement.file), kind, reason)
        before, after = self._changes(statement, context.round.overtaken_renames(statement))
        context.ledger.record(before.merged(after, ProgressChange(ddls=(record,), audit=(row,))))
        self._done(statement, row, 0.0)
        text = f"{name}: not executed, as {reason}: {statement.file.query}"
        context.tell(Note(NoteKind.STATEMENT, text, name))

    def _follow(self, statement: Statement, outcome: DdlOutcome, seconds: float) -> None:
        context, name = self._context, statement.file.name
        if outcome.error is not None:
            # The table stops at this version. Unless they are recorded too, overtaken statements would count as late.
            context.ledger.record(outcome.step.before)
            # Another consumer can have created the table since this round looked.
            late = context.ownership.refusal_now(statement) if isinstance(outcome.error, DdlRefused) else None
            self._refused(statement, late or outcome.error)
            return
        self._tell_lost(statement)
        if name in context.consumers:
            context.consumers[name].result.ddl += 1
        self._done(statement, outcome.step.row, seconds)
        if outcome.note:
            context.tell(Note(NoteKind.STATEMENT, f"{name}: {outcome.note}", name))

    def _done(self, statement: Statement, row: AuditRow, seconds: float) -> None:
        """The statement is recorded: the round continues after it."""
        context = self._context
        moved = [name for other in context.round.overtaken_renames(statement) for name in other.drops]
        context.round.applied(statement)
        context.ownership.release_dropped(statement)
        context.settled(statement.touches)
        self._check_files(statement)
        for dropped in (*moved, *statement.drops):
            if dropped in context.consumers:
                context.consumers[dropped].drop(statement.version)
        context.tell(StepFinished(row, seconds))

    def _tell_lost(self, statement: Statement) -> None:
        for table in sorted(self._context.round.touched_tables(statement)) if statement.heals else ():
            lost = self._context.round.never_read_files(table, statement.until(table))
            if lost:
                files = count_text(len(lost), "file was", "files were")
                text = f"{table}: {files} never read, whose rows this statement removed: {statement.file.query}"
                self._context.tell(Note(NoteKind.UNREAD_FILES, text, table, len(lost)))

    def _check_files(self, statement: Statement) -> None:
        """A table that begins with `statement` must have all of its files before the first of them is read: stops it,
        or accepts the losses."""
        context, name = self._context, statement.begins
        if name is not None and context.options.rules.accept_gap(name):
            losses = context.assembly.losses_after(statement, context.progress)
            context.accept(name, losses, context.assembly.without_losses(name, context.progress, statement.version))
        elif name is not None and (gap := context.assembly.gap_after(statement, context.progress)) is not None:
            context.stop(name, gap)

    def _refused(self, statement: Statement, error: ConsumerError) -> None:
        """Stops every table that a refused statement touches: none of them may pass it. A view has no rows: the
        statement is skipped and stops no table, unless another consumer has its name."""
        if statement.may_fail and self._context.ownership.refusal(statement) is None:
            self._skip(statement, DdlKind.NO_ROWS, error.message)
            return
        self._context.round.refused(statement, error)
        for name in statement.touches:
            self._context.stop(name, error)


def refusal_before_target(statement: Statement, rules: TableRules) -> DdlRefused | None:
    """Returns why `statement` must not run, as far as that is known without the target."""
    return statement_refusal(statement) or shaping_refusal(statement, rules.shaping_of)
