"""Builds what a command consists of, its ports and its manager, by the settings; and what the commands share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

from consumer.codec import protocol_of
from consumer.config.clocks import resolved_zone
from consumer.config.settings import Settings
from consumer.errors import (
    BadConfig,
    CheckpointMissing,
    ConsumerError,
    Interrupted,
    NeedsPerson,
    ProgressMoved,
    WrongUpstream,
)
from consumer.model.bad_rows import first_row_text
from consumer.model.combinations import COMBINATIONS, Feature
from consumer.model.events import Note, NoteKind, NowDoing, Retrying, RetryPassed
from consumer.model.files import Listing
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.progress import Progress, ProgressChange, State
from consumer.model.times import MAX_TSO, now
from consumer.pipeline.context import Ports
from consumer.pipeline.manager import ConsumerManager
from consumer.pipeline.resync import reloadable_tables
from consumer.pipeline.waiting import with_observed_retries
from consumer.plan.options import RoundOptions
from consumer.plan.starting import check_moment
from consumer.ports import Loader, Observer, StorageReader
from consumer.results import AcceptedLoss, RunResult, TableResult
from consumer.sink import sink_for, spark_properties
from consumer.sink.progress_sql import check_time_zone, check_upstream
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.spark.shared import SharedSpark
from consumer.storage.dead_letters import LetterFolder
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings
from consumer.storage.together import TogetherReader
from consumer.target import Sink

READS_CHECKPOINT = "reads the storage's `metadata`"


@contextmanager
def open_ports(
    settings: Settings,
    observer: Observer,
    loader: Loader | None = None,
    reader: StorageReader | None = None,
    letters_of: str = "",
) -> Iterator[Ports]:
    """Opens what a command works with. `loader` is one that several commands share, and stays open; with None the
    command has one of its own. With `reader` it reads another storage than the settings'. With `letters_of` bad rows
    are kept as those of another consumer."""
    reader = reader or reader_of(settings)
    spark = loader or loader_of(settings)
    with closing(sink_of(settings, spark)) as sink:
        letters = None
        if settings.dead_letters is not None:
            letters = LetterFolder(StorageSettings.from_uri(settings.dead_letters), letters_of or settings.name)
        with _at_work(spark, is_own=loader is None):
            yield Ports(reader, spark, sink, observer, letters, spark.start_seconds)


@contextmanager
def loader_for(settings: Settings, shared: Loader | None) -> Iterator[Loader]:
    """Yields `shared`, which stays open, or a loader that is closed here. A signal abandons its work."""
    spark = shared or loader_of(settings)
    with _at_work(spark, is_own=shared is None):
        yield spark


@contextmanager
def _at_work(spark: Loader, is_own: bool) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        spark.abandon()
        raise
    finally:
        if is_own:
            spark.close()


def reader_of(settings: Settings) -> StorageReader:
    storage = StorageSettings.from_uri(settings.upstream_uri)
    reader = ChangefeedReader(storage, settings.date_separator, settings.dialect, bool(settings.peers))
    if not settings.peers:
        return reader
    uris = {name: StorageSettings.from_uri(uri) for name, uri in settings.peers.items()}
    peers = {name: ChangefeedReader(peer, together=True) for name, peer in uris.items()}
    return TogetherReader(settings.upstream_name, reader, peers, settings.together_max_wait)


def loader_of(settings: Settings) -> Loader:
    """Returns Spark, not yet started."""
    return SparkLoader(_spark_settings(settings))


def _spark_settings(settings: Settings) -> SparkSettings:
    needed = spark_properties(settings.downstream_uri)
    return replace(settings.spark, conf=(*needed.items(), *settings.spark.conf))


def sink_of(settings: Settings, loader: Loader | None = None) -> Sink:
    """Returns the target, not yet connected. A target that Spark writes shares the Spark of `loader`, if it is
    given."""
    options = settings.target_options
    if spark_properties(settings.downstream_uri):
        options = replace(options, spark=SharedSpark(_spark_settings(settings), loader))
    return sink_for(settings.downstream_uri, options)


def manager_of(
    settings: Settings,
    ports: Ports,
    options: RoundOptions,
    wait: float | None = None,
    before: ConsumerManager | None = None,
) -> ConsumerManager:
    """Becomes the target's consumer, with retries for `wait` seconds (None: as the settings say) while it does not
    answer. `before` is the last manager of this run, which has released the target."""
    progress = acquire_progress(ports, options.max_wait if wait is None else wait)
    manager = ConsumerManager(ports, options, progress)
    if progress.is_empty and settings.tz.lower() == "system" and before is None:
        ports.observer.tell(_own_zone(settings))
    if before is not None:
        manager.continue_from(before)
    manager.ledger.begin(partial(start_change, settings, ports.reader))
    return manager


def _own_zone(settings: Settings) -> Note:
    text = (
        f"--tz is System, this machine's zone {resolved_zone(settings.tz)}, and {settings.name!r} is bound to it"
        " once something is applied: if the changefeed has another one, TIMESTAMPs become wrong; give that with --tz"
    )
    return Note(NoteKind.SETTING, text)


def acquire_progress(ports: Ports, wait: float) -> Progress:
    """Returns the progress, after this process has become its one writer; bad rows can be kept. Retried for `wait`
    seconds."""
    identity, observer = ports.reader.identity, ports.observer
    if ports.dead_letters is not None:
        with_observed_retries("reach dead-letters", partial(ports.dead_letters.check, identity), observer, wait)
    observer.tell(NowDoing("asks the target for its progress"))
    return with_observed_retries("reach the target", partial(ports.sink.acquire, identity), observer, wait)


def warn_of_others(ports: Ports) -> None:
    """Reports warnings about the upstreams that hold up this one, or that it does not wait for any more."""
    for text in ports.reader.warnings:
        ports.observer.tell(Note(NoteKind.TOGETHER, text))


def start_change(settings: Settings, reader: StorageReader, progress: Progress) -> ProgressChange | None:
    """Returns what the first run with --start-ts records: the target already holds every table. Raises BadConfig for
    any later run that begins elsewhere, and what `check_moment` raises."""
    start_ts = settings.start_tso
    if settings.start_ts.rules:
        _check_times(settings.dialect)
    if not start_ts or start_ts == progress.start_ts:
        return None
    _check_times(settings.dialect)
    if not progress.is_empty:
        began = f"began at --start-ts {progress.start_ts}" if progress.start_ts else "began without --start-ts"
        raise BadConfig(
            f"--start-ts is {start_ts}, but the replica of name {settings.name!r} {began}",
            hint="leave --start-ts out to continue, or fill a new target under another --name",
        )
    check_moment("--start-ts", start_ts, checkpoint_of(settings, reader))
    return ProgressChange(applied_ts=start_ts, start_ts=start_ts)


def _check_times(dialect: Dialect) -> None:
    if dialect.timeless:
        raise COMBINATIONS[Feature.START, Feature.NO_TIMES].of(option=protocol_of(dialect).commit_ts).refusal()


def one_round(manager: ConsumerManager, listing: Listing, started: float, again: bool = True) -> RunResult:
    """Brings every table to the listing's checkpoint. `again` means to run another round if the target loses what it
    had. A signal ends it early; the result has what was applied."""
    try:
        _run_round(manager, listing, again)
        manager.stop_dropped()
    except KeyboardInterrupt as came:
        interrupted = Interrupted.by(came)
        return interrupted_result(manager, listing.checkpoint, 0, started).ended_by(interrupted)
    return result_of(manager, listing.checkpoint, 1, started)


def _run_round(manager: ConsumerManager, listing: Listing, again: bool) -> None:
    """Runs a round. It is started again if the target's progress is not the expected one: another server may have
    replaced it."""
    wait, until = manager.options.max_wait, 0.0
    while True:
        began = now()
        try:
            manager.run_round(listing, wait)
        except ProgressMoved as error:
            if not until or now() - began > wait:  # a round that ran for so long has met another trouble
                until = now() + wait
            if not again or now() >= until:
                raise
            manager.ports.observer.tell(Retrying("round", error, until - now()))
            progress = manager.ledger.patiently("read the progress again", manager.ledger.confirmed)
            latest = manager.ports.reader.listing(listing.checkpoint, progress)
            listing = replace(latest, settled=listing.settled, reached=listing.reached)
            continue
        if until:
            manager.ports.observer.tell(RetryPassed("round"))
        return


def interrupted_result(manager: ConsumerManager, checkpoint: int, rounds: int, started: float) -> RunResult:
    """Returns the result of a round that a signal ended in the middle."""
    manager.ports.loader.abandon()
    manager.reset_watermarks()
    return result_of(manager, checkpoint, rounds, started).model_copy(update={"unfinished": True})


def listing_of(settings: Settings, reader: StorageReader, progress: Progress | None = None) -> Listing:
    """Returns the listing. C is read before it, so it holds every file with rows at or below C. Files that `progress`
    is done with are not listed again; without it everything is listed."""
    return listing_at_checkpoint(settings, reader, checkpoint_of(settings, reader), progress)


def listing_at_checkpoint(
    settings: Settings, reader: StorageReader, checkpoint: int, progress: Progress | None = None
) -> Listing:
    """Returns the listing at `checkpoint`, or at an earlier one if `metadata` went back meanwhile: files with rows
    between the two may be replaced already, by others that do not hold all of them yet."""
    listing = reader.listing(checkpoint, progress)
    reached = max(checkpoint, listing.reached)
    return replace(listing, checkpoint=min(checkpoint, checkpoint_of(settings, reader)), reached=reached)


def checkpoint_of(settings: Settings, reader: StorageReader) -> int:
    configured = settings.checkpoint_ts
    if configured is None:
        return reader.checkpoint()
    try:
        reader.checkpoint()
    except CheckpointMissing:
        return MAX_TSO if configured == "max" else int(configured)
    raise BadConfig(
        "--checkpoint-ts is for storage without `metadata`, and this storage has one",
        hint="leave --checkpoint-ts out",
    )


def result_of(manager: ConsumerManager, checkpoint: int, rounds: int, started: float) -> RunResult:
    context, progress = manager.context, manager.ledger.progress
    for name in progress.quarantined_rows | progress.accepted_losses:
        result = manager.results.setdefault(name, TableResult(watermark=progress.table(name).applied_ts))
        if rows := progress.bad_rows.get(name):
            result.quarantined, result.bad_row = len(rows), first_row_text(rows.values())
        result.accepted = AcceptedLoss.of(progress.losses.get(name, {}).values())
    again = [name for name, result in manager.results.items() if result.state == "stopped" or result.accepted]
    if again and context is not None:
        reloadable = reloadable_tables(manager.ports.sink, again, context.assembly, context.progress, manager.options)
        for name in again:
            manager.results[name].resync = name in reloadable
    for name, result in manager.results.items():
        result.target_table = manager.options.rules.naming.other_name(name)
    reasons = {} if context is None else context.deferred.reasons()
    for name in reasons.keys() & manager.results.keys():  # also for a round that broke off
        if (result := manager.results[name]).state == "ok":
            result.becomes("waits", reasons[name])
    short = any(result.quarantined for result in manager.results.values())
    waits = any(result.state == "waits" for result in manager.results.values())
    person = next((error for _, error in sorted(manager.stopped.items()) if isinstance(error, NeedsPerson)), None)
    run_result = RunResult(
        checkpoint_ts=checkpoint,
        tables=dict(sorted(manager.results.items())),
        seconds=now() - started,
        spark_seconds=manager.ports.spark_seconds,
        rounds=rounds,
        ended=int(time.time() * 1000),
        exit_code=4 if reasons else 3 if manager.stopped or waits or short else 0,
    )
    return run_result if person is None else run_result.ended_by(person)


def unloaded_tables(loading: Progress) -> list[TableName]:
    """Returns the tables of an export that do not continue with the storage's changes yet. `loading` is the progress
    under the export's own name."""
    names = {*loading.tables, *(TableName(ddl.database, ddl.table) for ddl in loading.ddls)}
    return sorted(name for name in names if name.table and loading.table(name).state is not State.EXCLUDED)


def upstream_refusal(settings: Settings, reader: StorageReader, progress: Progress) -> ConsumerError | None:
    """Returns the error of every run if the target's progress belongs to another upstream or time zone, else None."""
    if progress.upstream is None:
        return None
    try:
        check_upstream(settings.name, progress.upstream, reader.identity)
        if not progress.is_empty:
            check_time_zone(settings.name, progress.time_zone, resolved_zone(settings.tz))
    except (WrongUpstream, BadConfig) as error:
        return error
    return None
