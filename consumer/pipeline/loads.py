"""One wave of loads: every table that can move, in one call of the loader."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from consumer.errors import CannotBeExact, ConsumerError, Retryable, RowsVary, TableError
from consumer.model.columns import Family
from consumer.model.files import Bounds
from consumer.model.load import LoadOutcome, LoadTarget, LoadTask
from consumer.model.names import MAX_TSO, TableName
from consumer.model.progress import ProgressChange
from consumer.model.steps import LoadRows
from consumer.pipeline.retry import patiently
from consumer.pipeline.unreadable import given_up, put_off, stop_for_files
from consumer.pipeline.version_consumer import TableVersionConsumer

if TYPE_CHECKING:
    from consumer.pipeline.manager import ConsumerManager

ATTEMPTS = 5
SINGLE_TASK_BYTES = 128 << 20
"""What one task may hold at once: the round size of tables that only one task can load."""

NO_COMMIT_TS = (
    "rows carry no commit-ts, only milliseconds: transactions of one millisecond are told apart by their place in the"
    " files, and a target read at a checkpoint may show part of its millisecond;"
    " enable-tidb-extension=true in the changefeed's sink URI sets commit-ts on"
)

NO_TIME = (
    "CSV rows carry no commit-ts: their place in the files is their order, and a file is applied wholly, its rows above"
    " the checkpoint too. After a restart of the changefeed, rows are for a while what they were before, and rows from"
    " before a TRUNCATE may come back; a key that is in the files of two dispatchers or partitions stops its table;"
    " include-commit-ts=true in the changefeed's [sink.csv] sets commit-ts on"
)
KEY_LOSS = (
    "CSV with output-raw-change-event=true and without old values or commit-ts does not tell the old keys of updates:"
    " where a key was changed upstream, the row under its old key stays, or a row that took the key is lost, as"
    " accept-key-loss allows; output-old-value=true and include-commit-ts=true in the changefeed's [sink.csv] tell them"
)


class LoadRunner:
    """Prepares loads at the sink, runs them through Spark, commits their receipts."""

    def __init__(self, manager: ConsumerManager) -> None:
        self._manager = manager

    def run_wave(self) -> bool:
        """False when no table moved or stopped. Raises Retryable when trying again did not help."""
        manager = self._manager
        before = manager.round.changes
        wanted = manager.round.wants_bounds()
        if wanted:
            self._learn(manager.reader.bounds(wanted))
        replan = self.run(manager.round.ready_loads())
        return replan or manager.round.changes != before

    def run(self, loads: Sequence[LoadRows]) -> bool:
        """Whether any of `loads` ran, or must be planned again."""
        manager = self._manager
        replan = False
        planned: list[LoadRows] = []
        tasks: list[LoadTask] = []
        for version, target in self._targets(loads):
            if self._too_large(version.load, target):
                replan = True
                continue
            try:
                tasks.append(version.task(len(tasks), target))
                planned.append(version.load)
            except ConsumerError as error:
                manager.stop(version.load.table, error)
        if tasks:
            self._run(tasks, planned)
        return bool(tasks) or replan

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
        for load in loads:
            dialect, never_split = manager.options.dialect, manager.options.never_split(load.table)
            seen = manager.seen(load)
            version = TableVersionConsumer(load, manager.assembly.catalog, dialect, never_split, seen)
            try:
                requests.append(version.request(manager.absent.of(load)))
                versions.append(version)
            except ConsumerError as error:
                manager.stop(load.table, error)
        if not requests:
            return []
        found = []
        targets = patiently("look at the target", lambda: manager.sink.prepare(requests), manager.observer)
        for version, target in zip(versions, targets, strict=True):
            if isinstance(target, ConsumerError):
                manager.stop(version.load.table, target)
            elif not target.key and version.load.window.upto == MAX_TSO:
                manager.stop(version.load.table, _keyless_without_checkpoint(version.load.table))
            elif (column := self._ambiguous(target)) is not None:
                manager.stop(version.load.table, _ambiguous_key(version.load.table, column))
            else:
                found.append((version, target))
        return found

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
        if (target.key and not target.ordered) or load.bytes <= SINGLE_TASK_BYTES:
            return False
        smaller = state.round_bytes > SINGLE_TASK_BYTES
        state.round_bytes = SINGLE_TASK_BYTES
        return smaller

    def _run(self, tasks: Sequence[LoadTask], loads: Sequence[LoadRows]) -> None:
        manager = self._manager
        started = time.monotonic()
        left = list(tasks)
        for attempt in range(1, ATTEMPTS + 1):
            writer = patiently("begin a load", manager.sink.writer, manager.observer)
            outcomes = manager.loader.load(left, writer, manager.reader.range_reader())
            # Attempts that Spark has given up may still be at work somewhere: nothing of them comes later than this.
            patiently("end a load", functools.partial(manager.sink.end, writer), manager.observer)
            self._record(outcomes, loads, time.monotonic() - started)
            busy = [outcome for outcome in outcomes if isinstance(outcome.error, Retryable)]
            if not busy:
                return
            error = busy[0].error
            assert isinstance(error, Retryable)
            if attempt == ATTEMPTS or not error.may_pass:
                self._give_up(busy, loads)
                return
            manager.observer.retrying(f"load {busy[0].table}", error, attempt)
            time.sleep(min(2**attempt, 30) / 2)
            left = [outcome.task for outcome in busy]

    def _give_up(self, busy: Sequence[LoadOutcome], loads: Sequence[LoadRows]) -> None:
        """Raises what all tables have to wait for; what is about one file stops its table, or is put off."""
        errors = [(loads[o.task.number], given_up(self._manager, o.error)) for o in busy if o.error is not None]
        for load, error in sorted(errors, key=lambda pair: isinstance(pair[1], Retryable)):
            if isinstance(error, Retryable) and not put_off(self._manager, load.table, error):
                raise error
            self._failed(load, error)

    def _record(self, outcomes: Sequence[LoadOutcome], loads: Sequence[LoadRows], seconds: float) -> None:
        manager = self._manager
        done = [outcome for outcome in outcomes if outcome.error is None]
        done = self._commit(done, loads)
        for outcome in done:
            load, consumer = loads[outcome.task.number], manager.consumers[outcome.table]
            manager.round.loaded(load, consumer.read(load, outcome))
            manager.observer.step_finished(consumer.count(load, outcome, seconds), seconds)
            if outcome.task.target.kept and outcome.puts:
                manager.observer.note(_kept_note(outcome))
        if any(stat.coarse_ts for outcome in done for stat in outcome.files):
            manager.observer.note(NO_COMMIT_TS)
        for outcome in done:
            for note in _doubts(outcome):
                manager.observer.note(note)
        if done and manager.options.dialect.timeless:
            manager.observer.note(NO_TIME)
        if done and manager.options.key_loss:
            manager.observer.note(KEY_LOSS)
        for outcome in outcomes:
            if outcome.error is not None and not isinstance(outcome.error, Retryable):
                self._failed(loads[outcome.task.number], outcome.error)

    def _failed(self, load: LoadRows, error: ConsumerError) -> None:
        """Stop the table, unless the error says what to do otherwise: then the next wave plans the load again."""
        learnt = isinstance(error, RowsVary) and self._manager.absent.learn(load, error)
        if not learnt and not isinstance(error, Retryable) and not put_off(self._manager, load.table, error):
            self._manager.stop(load.table, error)

    def _commit(self, done: list[LoadOutcome], loads: Sequence[LoadRows]) -> list[LoadOutcome]:
        """Publish and record; what the sink finds wrong with one table stops that table, and the rest is committed."""
        manager = self._manager
        while done:
            change = ProgressChange()
            for outcome in done:
                consumer = manager.consumers[outcome.table]
                change = change.merged(consumer.change(loads[outcome.task.number], outcome, manager.progress))
            try:
                patiently("commit", functools.partial(manager.sink.commit, done, change), manager.observer)
            except TableError as error:
                wrong = [outcome for outcome in done if str(outcome.table) == error.table]
                if not wrong:
                    raise
                manager.stop(wrong[0].table, error)
                done = [outcome for outcome in done if outcome is not wrong[0]]
                continue
            manager.progress = manager.progress.after(change)
            break
        return done


def _kept_note(outcome: LoadOutcome) -> str:
    return (
        f"{outcome.table}: the rows do not have the target's columns {', '.join(outcome.task.target.kept)}: rows that"
        " are there keep their values, new rows, also those whose key changed, get the columns' defaults"
    )


def _doubts(outcome: LoadOutcome) -> Iterator[str]:
    """Values that are in the target as the files have them, and may not be what upstream has."""
    if lost := sum(stat.lost_texts for stat in outcome.files):
        yield f"{outcome.table}: {lost} texts hold U+FFFD, TiCDC's text for bytes that are not UTF-8: look upstream"
    if doubled := sum(stat.doubled_times for stat in outcome.files):
        yield (
            f"{outcome.table}: {doubled} TIMESTAMP values are in an hour that the changefeed's clock shows twice, and"
            " can be an hour off; a changefeed under --tz UTC has none"
        )


def _ambiguous_key(table: TableName, column: str) -> CannotBeExact:
    return CannotBeExact(
        f"its key holds the TIMESTAMP `{column}`, and the changefeed's clock shows one hour of the year twice: two rows"
        " could have one key",
        hint="run TiCDC under --tz UTC and have the files written anew, or set accept-timestamp-key where no key is in"
        " that hour",
        table=str(table),
    )


def _keyless_without_checkpoint(table: TableName) -> CannotBeExact:
    return CannotBeExact(
        "a table with no key needs the checkpoint: without `metadata`, rows that were sent again cannot be told apart",
        hint="run again once TiCDC has written `metadata`, or leave the table out with --tables",
        table=str(table),
    )
