"""The commands that apply or show something, one function for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from consumer.app.parts import (
    READS_CHECKPOINT,
    checkpoint_of,
    interrupted_result,
    listing_at_checkpoint,
    listing_of,
    loader_for,
    manager_of,
    one_round,
    open_ports,
    reader_of,
    result_of,
    sink_of,
    start_change,
    upstream_refusal,
    warn_of_others,
)
from consumer.config.settings import Settings
from consumer.errors import BadConfig, ConsumerError, LeaseHeld, Retryable
from consumer.model.events import CheckpointRead, Event, Idle, Note, NoteKind, NowDoing, Retrying, RetryPassed
from consumer.model.hints import forget_command
from consumer.model.names import TableName
from consumer.model.progress import DdlKind, DdlRecord, Progress, ProgressChange, State, is_export, is_resync
from consumer.model.steps import ddl_id
from consumer.model.texts import count_text
from consumer.model.times import now
from consumer.pipeline.loads import SINGLE_TASK_BYTES
from consumer.pipeline.manager import ConsumerManager
from consumer.pipeline.preview import preview_round
from consumer.pipeline.waiting import with_observed_retries
from consumer.plan.assembly import Assembly
from consumer.plan.routing import check_begun
from consumer.ports import Loader, Observer
from consumer.results import (
    ForgetResult,
    LakeAtResult,
    MaintainedTable,
    MaintainResult,
    PlanResult,
    RunResult,
    SkipDdlResult,
    TableAtMoment,
)
from consumer.target import Sink, Upkept, Versioned

LIVE_BYTES = SINGLE_TASK_BYTES
"""The most bytes that `run` reads of a table at a time: some seconds, for which the other tables may have to wait."""
_FAIR = 0.01
"""The seconds in which waiting consumers get their turn: a lock goes to the thread that asks first after its
release."""
_BACK_AND_FORTH = Note(
    NoteKind.CHECKPOINT,
    "checkpoint-ts in `metadata` has gone backwards more than once: check whether two changefeeds write to this prefix",
)


def once(settings: Settings, observer: Observer, loader: Loader | None = None) -> RunResult:
    """Applies everything up to the checkpoint that is read at the start."""
    started = now()
    options = settings.round_options
    with open_ports(settings, observer, loader) as ports:
        observer.tell(NowDoing(READS_CHECKPOINT))
        checkpoint = checkpoint_of(settings, ports.reader)
        observer.tell(CheckpointRead(checkpoint))
        manager = manager_of(settings, ports, options)
        observer.tell(NowDoing("looks for new files"))
        listing = listing_at_checkpoint(settings, ports.reader, checkpoint, manager.ledger.progress)
        warn_of_others(ports)
        return one_round(manager, listing, started)


def backfill(settings: Settings, observer: Observer, loader: Loader | None = None) -> RunResult:
    """Does what `once` does, for a target without progress, and without rows of these tables unless --start-ts says
    that it has some."""
    started = now()
    options = settings.round_options
    with open_ports(settings, observer, loader) as ports:
        observer.tell(NowDoing(READS_CHECKPOINT))
        checkpoint = checkpoint_of(settings, ports.reader)
        observer.tell(CheckpointRead(checkpoint))
        progress = with_observed_retries("reach the target", ports.sink.progress, observer, settings.max_wait)
        if not progress.is_empty:
            raise BadConfig(
                f"the target already has progress under the name {settings.name!r}",
                hint="continue with `once`, or choose another --name and an empty target",
            )
        manager = manager_of(settings, ports, options)
        observer.tell(NowDoing("looks for files"))
        listing = listing_at_checkpoint(settings, ports.reader, checkpoint)
        warn_of_others(ports)
        in_storage = Assembly.of(listing, manager.ledger.progress, options.rules.wanted).tables
        tables = [name for name in in_storage if options.rules.starts.of(name) is None]
        full = [] if settings.start_ts.whole else ports.sink.has_rows(options.rules.naming.targets(tables))
        if full:
            raise BadConfig(
                f"backfill needs an empty target, and {full[0]} has rows"
                + (f" (and {count_text(len(full) - 1, 'more table')})" if len(full) > 1 else ""),
                hint="empty the target; where it has an export that was loaded by hand, give the export's moment with"
                " --start-ts; `load-export` loads one and records its moment",
            )
        return one_round(manager, listing, started)


def run(
    settings: Settings,
    observer: Observer,
    stop: threading.Event,
    loader: Loader | None = None,
    turns: threading.Lock | None = None,
) -> RunResult:
    """Runs round after round until `stop` is set. Retryable errors are waited for. With `turns` others use the same
    target, one of them at a time; it is released after each round."""
    started, observer = now(), _Endless(observer)
    small = settings.model_copy(update={"round_bytes": min(settings.round_bytes, LIVE_BYTES)})
    options = small.round_options
    with open_ports(settings, observer, loader) as ports, CheckpointWatch(settings, observer) as watch:
        manager: ConsumerManager | None = None
        trouble: Retryable | None = None
        rounds, checkpoint, backwards, completed = 0, 0, 0, True
        try:
            while not stop.is_set():
                try:
                    with _turn(turns, ports.sink):
                        if manager is None or turns is not None:
                            manager = manager_of(settings, ports, options, 0.0, manager)
                        began = now()
                        observer.tell(NowDoing("looks for new files"))
                        listing = listing_of(settings, ports.reader, manager.ledger.confirmed())
                        watch.has_read(listing.checkpoint)
                        warn_of_others(ports)
                        backwards += listing.checkpoint < checkpoint and not settings.peers
                        checkpoint = listing.checkpoint
                        if backwards > 1:
                            observer.tell(_BACK_AND_FORTH)
                        completed = manager.run_round(listing, since=began)
                    trouble = None
                    rounds += 1
                    observer.tell(RetryPassed("round"))
                    if not completed:
                        continue
                    observer.tell(Idle(manager.ledger.progress.applied_ts))
                except Retryable as error:
                    if isinstance(error, LeaseHeld) and (turns is None or manager is None):
                        raise  # between turns another command can have it for a while
                    trouble = error
                    observer.tell(Retrying("round", error, None))
                    observer.tell(NowDoing("waits to try again"))
                stop.wait(settings.flush_interval)
        except KeyboardInterrupt:
            if manager is None:
                raise
            return _in_trouble(interrupted_result(manager, checkpoint, rounds, started), trouble)
        if manager is None:
            return _in_trouble(RunResult(seconds=now() - started, unfinished=True), trouble)
        with _turn(turns, ports.sink):
            result = result_of(manager, checkpoint, rounds, started)
            return _in_trouble(result.model_copy(update={"unfinished": not completed}), trouble)


@dataclass(frozen=True, slots=True)
class _Endless:
    """Observes a `run`: a round may end before a failing step succeeds, and the next round tries again."""

    observer: Observer

    def tell(self, event: Event) -> None:
        self.observer.tell(replace(event, seconds=None) if isinstance(event, Retrying) else event)


def _in_trouble(result: RunResult, trouble: Retryable | None) -> RunResult:
    """Returns the result of a `run` that was ended. `trouble` is what it was waiting for."""
    return result if trouble is None or result.exit_code else result.ended_by(trouble)


class CheckpointWatch:
    """Reads the storage's checkpoint on a thread of its own while `run` does not read it, because the target does not
    answer or a step takes long. So the age of the checkpoint depends only on the changefeed."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self._settings, self._observer = settings, observer
        self._reader = reader_of(settings)
        self._over, self._read = threading.Event(), now()

    def __enter__(self) -> CheckpointWatch:
        threading.Thread(target=self._watch, name="checkpoint", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def has_read(self, checkpoint: int) -> None:
        """The checkpoint was read right now."""
        self._read = now()
        self._observer.tell(CheckpointRead(checkpoint))

    def _watch(self) -> None:
        what, failed = "read the checkpoint", False
        while not self._over.wait(self._settings.flush_interval):
            if now() - self._read < 2 * self._settings.flush_interval:
                continue
            try:
                self.has_read(checkpoint_of(self._settings, self._reader))
            except Retryable as error:
                failed = True
                self._observer.tell(Retrying(what, error, None))
            except ConsumerError:
                continue  # the round reports it
            else:
                if failed:
                    self._observer.tell(RetryPassed(what))
                failed = False


@contextmanager
def _turn(turns: threading.Lock | None, sink: Sink) -> Iterator[None]:
    """Encloses the time in which no other consumer of this process has the target, which is released at the end. None:
    no other one uses it."""
    if turns is None:
        yield
        return
    with turns:
        try:
            yield
        finally:
            sink.close()
    time.sleep(_FAIR)


def plan(settings: Settings, observer: Observer, look_again: bool = False) -> PlanResult:
    """Returns what `once` would do now. Changes nothing, starts no Spark. `look_again` is as in `preview_round`."""
    options = settings.round_options
    with open_ports(settings, observer) as ports:
        observer.tell(NowDoing("asks the target for its progress"))
        progress = ports.sink.progress()
        if (change := start_change(settings, ports.reader, progress)) is not None:
            progress = progress.after(change)
        if (error := upstream_refusal(settings, ports.reader, progress)) is not None:
            raise error
        observer.tell(NowDoing("looks for new files"))
        listing = listing_of(settings, ports.reader, progress)
        preview_result = preview_round(ports.reader, ports.sink, listing, progress, options, look_again)
        return preview_result.model_copy(update={"notes": (*ports.reader.holds, *preview_result.notes)})


def skip_ddl(settings: Settings, observer: Observer, table: TableName, version: int, reason: str) -> SkipDdlResult:
    """Records a pending statement as done."""
    options = settings.round_options
    with open_ports(settings, observer) as ports:
        observer.tell(NowDoing("asks the target for its progress"))
        progress = ports.sink.acquire(ports.reader.identity)
        observer.tell(NowDoing("looks for files"))
        assembly = Assembly.of(listing_of(settings, ports.reader, progress), progress, options.rules.wanted)
        check_begun(options.rules.naming, assembly, progress)
        ports.sink.record(options.rules.naming.by_hand(_as_done(table, version, reason, assembly, progress)))
        done = f"statement {version} of {table} is recorded as done: {reason}"
        return SkipDdlResult(table=table, version=version, skipped=done)


def _as_done(table: TableName, version: int, reason: str, assembly: Assembly, progress: Progress) -> ProgressChange:
    """Returns the change of the progress after a person has done a pending statement by hand. Raises BadConfig if there
    is none, or if rows below it are not applied yet."""
    for statement in assembly.timeline.pending:
        if statement.file.name != table or statement.version != version:
            continue
        unapplied = [
            name
            for name in statement.touches
            if progress.table(name).applied_ts < version
            and (name == table or progress.table(name).state is not State.DROPPED)
        ]
        if unapplied:
            raise BadConfig(
                f"rows of {unapplied[0]} below version {version} are not applied yet, so the statement is not due",
                hint="run once first; skip-ddl is for a statement that a run has stopped at",
            )
        record = DdlRecord.skipped(ddl_id(statement.file), DdlKind.BY_HAND, reason)
        return replace(statement.before(progress).merged(statement.after()), ddls=(record,))
    for file in assembly.timeline.overdue:
        if file.name == table and file.version == version:
            return ProgressChange(ddls=(DdlRecord.skipped(ddl_id(file), DdlKind.BY_HAND, reason),))
    pending = sorted({f"{s.file.name} {s.version}" for s in assembly.timeline.pending})
    raise BadConfig(
        f"no statement of {table} with version {version} is pending",
        hint="pending: " + (", ".join(pending) or "none"),
    )


def forget(settings: Settings, observer: Observer, sure: bool) -> ForgetResult:
    """Removes the progress of a name. The target's tables stay, except those that it was loading. Raises BadConfig if
    there is none, or unless `sure`."""
    with closing(sink_of(settings)) as sink:
        names = with_observed_retries("reach the target", sink.consumers, observer, settings.max_wait)
        if settings.name not in names:
            raise BadConfig(
                f"the target has no progress under the name {settings.name!r}",
                hint=f"it has some under: {', '.join(names)}"
                if names
                else "it has none at all: check --downstream-uri",
            )
        loads = is_resync(settings.name) or is_export(settings.name)
        stay = "tables that it has not finished loading are dropped, too" if loads else "the tables stay as they are"
        what = f"the progress of consumer {settings.name!r}, with {count_text(names[settings.name], 'healthy table')}"
        if not sure:
            raise BadConfig(
                f"{what}, would be removed: the name could then only start from the beginning; {stay}",
                hint="if the name is no longer used: " + forget_command(settings.name),
            )
        sink.forget()
        return ForgetResult(forgotten=f"{what}, is removed; {stay}")


def maintain(settings: Settings, observer: Observer, keep: timedelta, loader: Loader | None = None) -> MaintainResult:
    """Keeps the target's tables small, also while a consumer works. Raises BadConfig for a target that keeps itself."""
    started = now()
    with loader_for(settings, loader) as spark, closing(sink_of(settings, spark)) as sink:
        if not isinstance(sink, Upkept):
            raise BadConfig(
                "there is nothing to maintain on this target: it keeps its tables small by itself",
                hint="maintain is for lakes",
            )
        observer.tell(NowDoing("maintains the tables"))
        rows = [
            MaintainedTable(
                table=done.called,
                files_before=done.before,
                files_after=done.after,
                removed=done.removed,
                left=done.left,
            )
            for done in sink.maintain(keep)
        ]
        return MaintainResult(tables=tuple(rows), seconds=now() - started)


def lake_at(
    settings: Settings,
    observer: Observer,
    moment: int,
    wanted: Callable[[TableName], bool],
    loader: Loader | None = None,
) -> LakeAtResult:
    """Returns which versions a lake's tables had at a moment. Raises BadConfig if that cannot be proved, or for no
    lake."""
    with loader_for(settings, loader) as spark, closing(sink_of(settings, spark)) as sink:
        if not isinstance(sink, Versioned):
            raise BadConfig("this target keeps no older versions of its tables", hint="lake-at is for lakes")
        observer.tell(NowDoing("looks for versions"))
        tables = sink.tables_at(moment, wanted)
        rows = (
            TableAtMoment(table=table.name, commit_ts=table.commit_ts, version_as_of=table.version, query=table.query)
            for table in tables
        )
        return LakeAtResult(moment_ts=moment, tables=tuple(rows))
