"""Handles the results of ended loads: they are committed and recorded, or their table stops or is planned again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from consumer.codec import protocol_of
from consumer.errors import (
    CameLate,
    ConsumerError,
    LoadFailed,
    Retryable,
    RowsCollide,
    RowsQuarantined,
    RowsVary,
    StagingUnseen,
    TableError,
    TargetBusy,
    TooManyBadRows,
)
from consumer.model.bad_rows import BadRow
from consumer.model.events import Note, NoteKind, NowDoing, StepFinished
from consumer.model.load import Dialect, LoadOutcome, LoadTarget, LoadTask
from consumer.model.losses import Loss
from consumer.model.progress import ProgressChange
from consumer.model.rules import Consistency
from consumer.model.steps import LoadRows
from consumer.model.texts import count_text
from consumer.model.times import now
from consumer.pipeline import quarantine
from consumer.pipeline.context import RoundContext
from consumer.pipeline.files import leave_to_later_round, wait_for_file
from consumer.pipeline.snapshot import check_rows, target_size_error

NO_COMMIT_TS = Note(
    NoteKind.COMMIT_TS,
    "rows carry no commit-ts, only milliseconds: transactions of one millisecond are ordered by their place in the"
    " files, and a target read at a checkpoint may show part of its millisecond",
)
NO_TIME = Note(
    NoteKind.COMMIT_TS,
    "CSV rows carry no commit-ts: they are ordered by their place in the files, and each file is applied completely,"
    " including rows above the checkpoint. After a restart of the changefeed, rows temporarily go back to older"
    " values, and rows from before a TRUNCATE may come back; a key that is in the files of two dispatchers or"
    " partitions stops its table",
)


class LoadResults:
    """Keeps the loads that have not ended, by the number of their task, and handles the result of each."""

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._open: dict[int, LoadRows] = {}
        self._held: list[tuple[LoadOutcome, float]] = []
        """The loaded outcomes that wait to be published together with other tables, each with the seconds that its load
        ran."""
        self.planned_again = False
        """Whether a load failed and was planned again. Only this round may know what was learned from the failure."""

    def expect(self, task: LoadTask, load: LoadRows) -> None:
        """Registers that `task` is going to run for `load`."""
        self._open[task.number] = load

    def forget(self, task: LoadTask) -> None:
        """`task` does not run any more."""
        self._open.pop(task.number)

    def record(self, outcomes: Sequence[LoadOutcome], seconds: float) -> None:
        """Commits what is loaded, or keeps it for `publish`. The tables of the other outcomes stop or are planned
        again, except those that failed for now (Retryable): they stay expected. `seconds` is how long the loads ran."""
        done = [quarantine.without_untimed_rows(self._open[o.task.number], o) for o in outcomes if o.error is None]
        check_rows(self._context.options, done)
        timed = [(outcome, seconds) for outcome in done]
        if self._context.options.batches.consistency is Consistency.SNAPSHOT:
            self._context.settled([outcome.table for outcome in done], seconds)
            self._held += timed
        else:
            self._publish(timed)
        for outcome in outcomes:
            if isinstance(outcome.error, RowsQuarantined):
                self._quarantined_first(self._open.pop(outcome.task.number), outcome.task, outcome.error)
            elif outcome.error is not None and not isinstance(outcome.error, Retryable):
                self._failed(self._open.pop(outcome.task.number), outcome.task.target, outcome.error)

    def publish(self) -> bool:
        """Commits the kept outcomes that end at the earliest moment, in one transaction. Returns whether there were
        some."""
        if not self._held:
            return False
        end = min(outcome.task.window.end for outcome, _ in self._held)
        now = [held for held in self._held if held[0].task.window.end == end]
        self._held = [held for held in self._held if held[0].task.window.end != end]
        self._publish(now)
        return True

    def _publish(self, timed: Sequence[tuple[LoadOutcome, float]]) -> None:
        context, seconds = self._context, {outcome.task.number: taken for outcome, taken in timed}
        done = self._commit([outcome for outcome, _ in timed])
        for outcome in done:
            taken = seconds[outcome.task.number]
            context.settled([outcome.table], taken)
            load, consumer = self._open.pop(outcome.task.number), context.consumers[outcome.table]
            context.round.loaded(load, consumer.remaining_ts_by_path(load, outcome))
            context.loaded.add(outcome.table)
            context.tell(StepFinished(consumer.count(load, outcome, taken), taken, outcome.task.bytes))
        for note in notes_of(done, context.options.files.dialect):
            context.tell(note)

    def _quarantined_first(self, load: LoadRows, task: LoadTask, error: RowsQuarantined) -> None:
        """Records bad rows, then plans the load again."""
        try:
            quarantined = quarantine.outcome_of_bad_rows(self._context, task, error.rows)
            letters = quarantine.write_dead_letters(self._context, load, quarantined)
        except TooManyBadRows as too_many:
            self._context.stop(load.table, too_many)
            return
        self._context.ledger.record(ProgressChange(quarantined={load.table: letters}))
        self._release(load)

    def _failed(self, load: LoadRows, target: LoadTarget, error: ConsumerError) -> None:
        """Plans the load again if the error allows it; otherwise stops the table. Raises StagingUnseen: with it no
        table can be loaded."""
        if isinstance(error, StagingUnseen):
            raise error
        if self._learnt(load, target, error) or leave_to_later_round(self._context, load.table, error):
            self._release(load)
        else:
            self._context.stop(load.table, error)

    def _release(self, load: LoadRows) -> None:
        self.planned_again = True
        self._context.round.release(load.table)

    def _learnt(self, load: LoadRows, target: LoadTarget, error: ConsumerError) -> bool:
        """Returns whether planning `load` again helps: with other columns, with more of the rows in one task, or
        without rows that came late."""
        context = self._context
        if isinstance(error, CameLate) and context.options.rules.accept_gap(load.table):
            context.accept(load.table, [Loss.of(error, 0, load.window.after)])
            context.memory.late[load.table] = load.window.after
            return True
        if isinstance(error, RowsVary):
            return context.memory.absent.learn(load, error, target.load.quarantine is not None)
        if not isinstance(error, RowsCollide):
            return False
        state = context.consumers[load.table].state
        bounded = load.bytes >= state.round_bytes and not context.options.files.dialect.timeless
        learnt = context.memory.collisions.learn(load, target.in_one_call, bounded)
        state.round_bytes = max(state.round_bytes, context.memory.collisions.bytes_for(load))
        return learnt

    def _commit(self, done: list[LoadOutcome]) -> list[LoadOutcome]:
        """Publishes and records the outcomes. If the sink reports an error of one table, that table stops, and the rest
        is committed. If all is too much for one commit, it is committed table by table. Returns what is committed."""
        context = self._context
        while done:
            done, letters = self._keep(done)
            if not done:
                break
            consumers = [context.consumers[outcome.table] for outcome in done]
            change = ProgressChange().merged(
                *(
                    consumer.change(
                        self._open[outcome.task.number], outcome, context.progress, letters[outcome.task.number]
                    )
                    for consumer, outcome in zip(consumers, done, strict=True)
                )
            )
            try:
                context.tell(NowDoing("records what was loaded"))
                began = now()
                recorded = context.ledger.patiently("commit", partial(self._committed, done, change))
                for outcome in done:
                    context.add_target_seconds(outcome.table, (now() - began) / len(done))
                if isinstance(recorded, TargetBusy):
                    done = self._put_off(done, recorded)
                    continue
            except TableError as error:
                if isinstance(error, LoadFailed) and context.options.batches.consistency is Consistency.SNAPSHOT:
                    raise target_size_error(error) from error
                if isinstance(error, LoadFailed) and len(done) > 1:
                    return [kept for outcome in done for kept in self._commit([outcome])]
                wrong = [outcome for outcome in done if str(outcome.table) == error.table]
                if not wrong:
                    raise
                if (remaining := quarantine.without_refused_rows(context, wrong[0], error)) is not None:
                    done = [remaining if outcome is wrong[0] else outcome for outcome in done]
                    continue
                self._open.pop(wrong[0].task.number)
                quarantine.stop_with_line(context, wrong[0].task, error)
                done = [outcome for outcome in done if outcome is not wrong[0]]
                continue
            context.ledger.believe(recorded)
            quarantine.report_quarantined(context, done)
            break
        return done

    def _committed(self, done: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange | TargetBusy:
        """Returns what the sink has recorded; or the lock that one table waits for, if the others can continue without
        it."""
        try:
            return self._context.ports.sink.commit(done, change)
        except TargetBusy as error:
            apart = self._context.options.batches.consistency is not Consistency.SNAPSHOT
            if apart and any(str(outcome.table) == error.table for outcome in done):
                return error
            raise

    def _put_off(self, done: Sequence[LoadOutcome], error: TargetBusy) -> list[LoadOutcome]:
        """Returns all outcomes except that of the waiting table, which is loaded again."""
        for outcome in done:
            if str(outcome.table) == error.table:
                self.forget(outcome.task)
                wait_for_file(self._context, outcome.table, error)
        return [outcome for outcome in done if str(outcome.table) != error.table]

    def _keep(self, done: list[LoadOutcome]) -> tuple[list[LoadOutcome], dict[int, dict[str, BadRow]]]:
        """Keeps the rows that were quarantined. Returns the outcomes, and by task number what to record of these rows.
        Tables with too many of them are stopped, and are not among the returned outcomes."""
        kept, letters = [], {}
        for outcome in done:
            number = outcome.task.number
            try:
                letters[number] = quarantine.write_dead_letters(self._context, self._open[number], outcome)
                kept.append(outcome)
            except TooManyBadRows as error:
                self._open.pop(number)
                self._context.stop(outcome.table, error)
        return kept, letters


def notes_of(done: Sequence[LoadOutcome], dialect: Dialect) -> Iterator[Note]:
    """Yields what a person should know of loads that are recorded."""
    for outcome in done:
        if outcome.task.target.extra_columns and outcome.puts:
            yield _kept_note(outcome)
    dated = f"; {protocol_of(dialect).commit_ts} adds the commit-ts"
    if any(stat.coarse_ts for outcome in done for stat in outcome.files):
        yield replace(NO_COMMIT_TS, text=NO_COMMIT_TS.text + dated)
    for outcome in done:
        yield from _unproven(outcome)
    if done and dialect.timeless:
        yield replace(NO_TIME, text=NO_TIME.text + dated)


def _kept_note(outcome: LoadOutcome) -> Note:
    text = (
        f"{outcome.table}: the rows do not have the target's columns"
        f" {', '.join(outcome.task.target.extra_columns)}: existing rows keep their values; new rows, also those whose"
        " key changed, get the columns' defaults"
    )
    return Note(NoteKind.KEPT_COLUMNS, text, outcome.table)


def _unproven(outcome: LoadOutcome) -> Iterator[Note]:
    """Yields notes about values that are applied as the files have them and that may differ from the upstream's."""
    if lost := sum(stat.lost_texts for stat in outcome.files):
        text = (
            f"{outcome.table}: {count_text(lost, 'text contains', 'texts contain')} U+FFFD, which TiCDC writes for"
            " bytes that are not UTF-8; check these values upstream"
        )
        yield Note(NoteKind.LOST_TEXT, text, outcome.table, lost)
    if doubled := sum(stat.doubled_times for stat in outcome.files):
        text = (
            f"{outcome.table}: {doubled} TIMESTAMP values are in an hour that the changefeed's clock shows twice, and"
            " can be an hour off; a changefeed under --tz UTC has none"
        )
        yield Note(NoteKind.DOUBLED_TIME, text, outcome.table, doubled)
