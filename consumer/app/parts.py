"""The parts of a command: storage, sink, loader and manager, made from the settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from consumer.codec import protocol_of
from consumer.config.clocks import clock_of, resolved_zone
from consumer.config.settings import Settings
from consumer.errors import BadConfig, CheckpointMissing, Interrupted, NeedsPerson, ProgressMoved
from consumer.model.bad_rows import first_of
from consumer.model.events import Note, NoteKind, NowDoing, Retrying, RetryPassed
from consumer.model.files import Listing
from consumer.model.load import Dialect
from consumer.model.progress import Progress, ProgressChange
from consumer.model.rules import Consistency
from consumer.model.times import MAX_TSO, now, zone_of
from consumer.pipeline.context import Ports
from consumer.pipeline.manager import ConsumerManager
from consumer.pipeline.options import FilesKnown, RoundOptions
from consumer.pipeline.resync import offered
from consumer.pipeline.waiting import patiently
from consumer.plan.retention import Retention
from consumer.ports import DeadLetters, Loader, Observer, StorageReader
from consumer.results import RunResult, TableResult
from consumer.sink import sink_for
from consumer.sink.progress_sql import is_replay
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.storage.dead_letters import LetterFolder
from consumer.storage.reader import FsspecReader
from consumer.storage.settings import StorageSettings
from consumer.storage.together import TogetherReader
from consumer.target import Sink, TargetOptions

READS_CHECKPOINT = "reads the storage's `metadata`"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a command works with."""

    reader: StorageReader
    sink: Sink
    loader: Loader
    options: RoundOptions
    letters: DeadLetters | None
    together: TogetherReader | None = None
    spark_before: float = 0.0
    """How long Spark had taken to start for other commands."""

    def tell_together(self, observer: Observer) -> None:
        """Warnings about the upstreams that hold up this one, or that it does not wait for any more."""
        for text in () if self.together is None else self.together.warnings:
            observer.tell(Note(NoteKind.TOGETHER, text))

    @property
    def alone(self) -> Parts:
        """With the storage up to its own checkpoint, whatever it goes together with: for who moves nothing further."""
        return self if self.together is None else replace(self, reader=self.together.own)

    @property
    def spark_seconds(self) -> float:
        """How long Spark took to start for this command."""
        return self.loader.start_seconds - self.spark_before

    def waits(self) -> list[str]:
        """What there is to say of the upstreams that this one goes together with, as of the last look at them."""
        return [] if self.together is None else self.together.holds


@contextmanager
def open_parts(settings: Settings, loader: Loader | None) -> Iterator[Parts]:
    """`loader` is one that several commands share, and stays open; None: the command has one of its own."""
    storage = StorageSettings.from_uri(settings.upstream_uri)
    tz = resolved_zone(settings.tz)
    dialect = replace(settings.dialect, clock=clock_of(tz))
    own = FsspecReader(storage, settings.date_separator, dialect=dialect, together=bool(settings.peers))
    together = _together(settings, own)
    sink = sink_of(settings)
    known = FilesKnown(
        dialect,
        Retention(settings.file_expiration_days, zone_of(tz)),
        settings.undecided,
        settings.date_order,
        settings.key_loss is not None,
        settings.accept_timestamp_key,
    )
    options = RoundOptions(
        known, settings.rules, settings.batches, settings.max_wait, settings.syncpoints, not is_replay(settings.name)
    )
    letters = None
    if settings.dead_letters is not None:
        letters = LetterFolder(StorageSettings.from_uri(settings.dead_letters), settings.name)
    spark = loader or loader_of(settings)
    parts = Parts(together or own, sink, spark, options, letters, together, spark.start_seconds)
    try:
        yield parts
    except KeyboardInterrupt:
        parts.loader.abandon()
        raise
    finally:
        if loader is None:
            spark.close()
        sink.close()


def _together(settings: Settings, own: StorageReader) -> TogetherReader | None:
    if not settings.peers:
        return None
    peers = {name: FsspecReader(StorageSettings.from_uri(uri), together=True) for name, uri in settings.peers.items()}
    return TogetherReader(settings.upstream_name, own, peers, settings.together_max_wait)


def loader_of(settings: Settings) -> Loader:
    """Spark, not yet started."""
    return SparkLoader(SparkSettings(settings.master, settings.spark_conf, settings.worker_count))


def sink_of(settings: Settings) -> Sink:
    """The target, not yet reached."""
    staged = settings.consistency is not Consistency.ROW
    zone, triggers = resolved_zone(settings.tz), settings.accept_trigger
    return sink_for(
        settings.downstream_uri, TargetOptions(settings.name, zone, settings.worker_count, triggers, staged)
    )


def manager_of(
    settings: Settings,
    parts: Parts,
    observer: Observer,
    wait: float | None = None,
    before: ConsumerManager | None = None,
) -> ConsumerManager:
    """Become the target's consumer, with retries for `wait` seconds (None: as the settings say) while it does not
    answer. `before`: the last one of this run, which has given the target back."""
    wait = settings.max_wait if wait is None else wait
    progress = acquired(parts, observer, wait)
    ports = Ports(parts.reader, parts.loader, parts.sink, observer, parts.letters)
    manager = ConsumerManager(ports, parts.options, progress)
    if before is not None:
        manager.follow(before)
    manager.ledger.begin(partial(start_of, settings, parts.options.files.dialect))
    return manager


def acquired(parts: Parts, observer: Observer, wait: float) -> Progress:
    """The progress, of which this process is the one writer now; bad rows can be kept. Retried for `wait` seconds."""
    if parts.letters is not None:
        patiently("reach dead-letters", partial(parts.letters.check, parts.reader.identity), observer, wait)
    observer.tell(NowDoing("asks the target for its progress"))
    return patiently("reach the target", partial(parts.sink.acquire, parts.reader.identity), observer, wait)


def start_of(settings: Settings, dialect: Dialect, progress: Progress) -> ProgressChange | None:
    """What the first run with --start-ts records: every table is there already. Raises BadConfig for any later run that
    begins elsewhere."""
    start_ts = settings.start_tso
    if settings.start_ts.rules:
        _check_times(dialect)
    if not start_ts or start_ts == progress.start_ts:
        return None
    _check_times(dialect)
    if not progress.is_empty:
        began = f"began at --start-ts {progress.start_ts}" if progress.start_ts else "began without --start-ts"
        raise BadConfig(
            f"--start-ts is {start_ts}, but the replica of name {settings.name!r} {began}",
            hint="leave --start-ts out to go on, or fill a new target under another --name",
        )
    return ProgressChange(applied_ts=start_ts, start_ts=start_ts)


def _check_times(dialect: Dialect) -> None:
    if dialect.timeless:
        raise BadConfig(
            "rows of this CSV changefeed do not say when they were committed: --start-ts cannot tell old from new ones",
            hint=f"set {protocol_of(dialect).commit_ts}, and have it write to a new prefix",
        )


def one_round(
    parts: Parts, manager: ConsumerManager, listing: Listing, started: float, again: bool = True
) -> RunResult:
    """Bring every table to the listing's checkpoint. `again`: run another round if the target loses what it had. A
    signal ends it early; the result says what was applied."""
    try:
        _run_round(parts, manager, listing, again)
        manager.stop_gone()
    except KeyboardInterrupt as came:
        interrupted = Interrupted.by(came)
        return left_behind(manager, parts, listing.checkpoint, 0, started).ended_by(interrupted)
    return result_of(manager, parts, listing.checkpoint, 1, started)


def _run_round(parts: Parts, manager: ConsumerManager, listing: Listing, again: bool) -> None:
    """A round. It is started again if the target's progress is not the expected one: another server may have taken its
    place."""
    wait, until = parts.options.max_wait, 0.0
    while True:
        began = now()
        try:
            manager.run_round(listing, wait)
        except ProgressMoved as error:
            if not until or now() - began > wait:  # a round that went on for so long has met another trouble
                until = now() + wait
            if not again or now() >= until:
                raise
            manager.ports.observer.tell(Retrying("round", error, until - now()))
            progress = manager.ledger.patiently("read the progress anew", manager.ledger.confirmed)
            found = parts.reader.listing(listing.checkpoint, progress)
            listing = replace(found, settled=listing.settled, reached=listing.reached)
            continue
        if until:
            manager.ports.observer.tell(RetryPassed("round"))
        return


def left_behind(manager: ConsumerManager, parts: Parts, checkpoint: int, rounds: int, started: float) -> RunResult:
    """The result of a round that a signal ended in the middle."""
    parts.loader.abandon()
    manager.left()
    return result_of(manager, parts, checkpoint, rounds, started).model_copy(update={"unfinished": True})


def listing_of(settings: Settings, reader: StorageReader, progress: Progress | None = None) -> Listing:
    """C is read before listing, so the listing holds every file with rows at or below it. What `progress` is done with
    is not looked at again; without it everything is listed."""
    return listed(settings, reader, checkpoint_of(settings, reader), progress)


def listed(settings: Settings, reader: StorageReader, checkpoint: int, progress: Progress | None = None) -> Listing:
    """The listing at `checkpoint`, or at an earlier one where `metadata` went back meanwhile: files with rows between
    the two may be replaced already, by others that do not hold all of them yet."""
    listing = reader.listing(checkpoint, progress)
    reached = max(checkpoint, listing.reached)
    return replace(listing, checkpoint=min(checkpoint, checkpoint_of(settings, reader)), reached=reached)


def checkpoint_of(settings: Settings, reader: StorageReader) -> int:
    given = settings.checkpoint_ts
    if given is None:
        return reader.checkpoint()
    try:
        reader.checkpoint()
    except CheckpointMissing:
        return MAX_TSO if given == "max" else int(given)
    raise BadConfig(
        "--checkpoint-ts is for storage without `metadata`, and this storage has one",
        hint="leave --checkpoint-ts out",
    )


def result_of(manager: ConsumerManager, parts: Parts, checkpoint: int, rounds: int, started: float) -> RunResult:
    stopped = [name for name, result in manager.results.items() if result.state == "stopped"]
    context = manager.context
    if stopped and context is not None:
        anew = offered(parts.sink, stopped, context.assembly, context.progress, parts.options)
        for name in stopped:
            manager.results[name].resync = name in anew
    for name, rows in manager.ledger.progress.lacking.items():
        result = manager.results.setdefault(name, TableResult(watermark=manager.ledger.progress.table(name).applied_ts))
        result.quarantined, result.bad_row = len(rows), first_of(rows.values())
    for name, result in manager.results.items():
        result.target_table = parts.options.rules.naming.other(name)
    reasons = {} if context is None else context.deferred.reasons()
    for name in reasons.keys() & manager.results.keys():  # of a round that broke off, too
        if (result := manager.results[name]).state == "ok":
            result.state, result.error = "waits", reasons[name]
    short = any(result.quarantined for result in manager.results.values())
    waits = any(result.state == "waits" for result in manager.results.values())
    person = any(isinstance(error, NeedsPerson) for error in manager.stopped.values())
    return RunResult(
        checkpoint_ts=checkpoint,
        tables=dict(sorted(manager.results.items())),
        seconds=now() - started,
        spark_seconds=parts.spark_seconds,
        rounds=rounds,
        ended=int(time.time() * 1000),
        exit_code=NeedsPerson.exit_code if person else 4 if reasons else 3 if manager.stopped or waits or short else 0,
    )


def other_upstream(settings: Settings, reader: StorageReader, progress: Progress) -> list[str]:
    """Notes if the target's progress belongs to another upstream or time zone: a run would refuse it."""
    zone = resolved_zone(settings.tz)
    if progress.time_zone not in ("", zone):
        return [f"the replica is filled under --tz {progress.time_zone}, not {zone}: a run is refused"]
    if progress.upstream in (None, reader.identity):
        return []
    return [
        f"the progress of consumer {settings.name!r} belongs to the upstream {progress.upstream}, not to"
        f" {reader.identity}: a run is refused; give each upstream a --name of its own"
    ]
