"""The only place that joins storage, pipeline, Spark and sink. One function per command."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from consumer.config.settings import Settings
from consumer.errors import BadConfig, CheckpointMissing, ConsumerError, LeaseHeld, NeedsPerson, Retryable
from consumer.model.files import Listing
from consumer.model.load import Dialect
from consumer.model.names import MAX_TSO, TableName
from consumer.model.result import PlanResult, RunResult, StatusResult, TableStatus
from consumer.pipeline.manager import ConsumerManager, ManagerOptions
from consumer.pipeline.preview import preview
from consumer.pipeline.repair import record_as_done, start_over
from consumer.plan.assembly import Assembly
from consumer.ports import Loader, Observer, Sink, StorageReader
from consumer.sink import sink_for
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.storage.reader import FsspecReader
from consumer.storage.settings import StorageSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """What a command works with."""

    reader: StorageReader
    sink: Sink
    loader: Loader
    options: ManagerOptions


def once(settings: Settings, observer: Observer, loader: Loader | None = None) -> RunResult:
    """Apply everything up to the checkpoint that is read at the start."""
    started = time.monotonic()
    with _parts(settings, loader) as parts:
        listing = _listing(settings, parts.reader)
        return _one_round(parts, _manager(parts, observer), listing, started)


def backfill(settings: Settings, observer: Observer, loader: Loader | None = None) -> RunResult:
    """`once`, into a target that has neither progress nor rows of these tables."""
    started = time.monotonic()
    with _parts(settings, loader) as parts:
        manager = _manager(parts, observer)
        progress = manager.progress
        if progress.applied_ts or progress.ddls or progress.folders or progress.tables:
            raise BadConfig(
                f"the target already has progress under the name {settings.name!r}",
                hint="go on with `once`, or choose another --name and an empty target",
            )
        listing = _listing(settings, parts.reader)
        full = parts.sink.has_rows(Assembly.of(listing, progress, parts.options.wanted).tables)
        if full:
            raise BadConfig(
                f"backfill needs an empty target, and {full[0]} has rows"
                + (f" (and {len(full) - 1} more tables)" if len(full) > 1 else ""),
                hint="empty the target, or use `once` to apply on top of what is there",
            )
        return _one_round(parts, manager, listing, started)


def run(settings: Settings, observer: Observer, stop: threading.Event, loader: Loader | None = None) -> RunResult:
    """Round after round until `stop` is set. What may pass by itself is waited for."""
    started = time.monotonic()
    with _parts(settings, loader) as parts:
        manager = _manager(parts, observer)
        rounds, checkpoint = 0, 0
        while not stop.is_set():
            try:
                listing = _listing(settings, parts.reader)
                manager.run_round(listing)
                rounds, checkpoint = rounds + 1, listing.checkpoint
            except LeaseHeld:
                raise
            except Retryable as error:
                observer.retrying("round", error, rounds)
            stop.wait(settings.flush_interval)
        return _result(manager, parts, checkpoint, rounds, started)


def plan(settings: Settings, observer: Observer) -> PlanResult:
    """What `once` would do now. Changes nothing, starts no Spark."""
    with _parts(settings, None) as parts:
        listing = _listing(settings, parts.reader)
        return preview(parts.reader, listing, parts.sink.progress(), parts.options)


def status(settings: Settings, observer: Observer) -> StatusResult:
    """What the target has, beside the storage's checkpoint."""
    with _parts(settings, None) as parts:
        progress = parts.sink.progress()
        checkpoint: int | None = None
        notes: list[str] = []
        try:
            checkpoint = parts.reader.checkpoint()
        except ConsumerError as error:
            notes.append(error.sentence())
        tables = tuple(
            TableStatus(name, table.applied_ts, str(table.state), table.reason, table.hint)
            for name, table in sorted(progress.tables.items())
        )
        return StatusResult(progress.upstream, progress.applied_ts, checkpoint, tables, tuple(notes))


def resync(settings: Settings, observer: Observer, table: TableName, loader: Loader | None = None) -> RunResult:
    """Empty one table and load it again from its CREATE TABLE on; the others go on as in `once`."""
    started = time.monotonic()
    with _parts(settings, loader) as parts:
        manager = _manager(parts, observer)
        listing = _listing(settings, parts.reader)
        assembly = Assembly.of(listing, manager.progress, parts.options.wanted)
        change = start_over(table, assembly, manager.progress, settings.accept_gap)
        parts.sink.empty_table(table, change)
        manager.progress = manager.progress.after(change)
        return _one_round(parts, manager, listing, started)


def skip_ddl(settings: Settings, observer: Observer, table: TableName, version: int, reason: str) -> str:
    """Record a pending statement as done."""
    with _parts(settings, None) as parts:
        progress = parts.sink.acquire(parts.reader.identity)
        assembly = Assembly.of(_listing(settings, parts.reader), progress, parts.options.wanted)
        parts.sink.record(record_as_done(table, version, reason, assembly, progress))
        return f"statement {version} of {table} is recorded as done: {reason}"


@contextmanager
def _parts(settings: Settings, loader: Loader | None) -> Iterator[Parts]:
    storage = StorageSettings.from_uri(settings.upstream_uri)
    reader = FsspecReader(storage, settings.date_separator, terminator=settings.terminator)
    sink = sink_for(
        settings.downstream_uri,
        name=settings.name,
        time_zone=settings.tz,
        worker_count=settings.worker_count,
        allow_triggers=settings.accept_trigger,
    )
    spark = SparkSettings(settings.master, settings.spark_conf, settings.worker_count)
    options = ManagerOptions(
        Dialect(settings.protocol, settings.terminator),
        settings.table_filter.matches,
        settings.round_bytes,
        settings.accept_gap,
    )
    parts = Parts(reader, sink, loader or SparkLoader(spark), options)
    try:
        yield parts
    finally:
        parts.loader.close()
        sink.close()


def _manager(parts: Parts, observer: Observer) -> ConsumerManager:
    progress = parts.sink.acquire(parts.reader.identity)
    return ConsumerManager(parts.reader, parts.loader, parts.sink, observer, parts.options, progress)


def _one_round(parts: Parts, manager: ConsumerManager, listing: Listing, started: float) -> RunResult:
    manager.run_round(listing)
    return _result(manager, parts, listing.checkpoint, 1, started)


def _listing(settings: Settings, reader: StorageReader) -> Listing:
    """C is read before listing, so the listing holds every file with rows at or below it."""
    return reader.listing(_checkpoint(settings, reader))


def _checkpoint(settings: Settings, reader: StorageReader) -> int:
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


def _result(manager: ConsumerManager, parts: Parts, checkpoint: int, rounds: int, started: float) -> RunResult:
    waits = any(result.state == "waits" for result in manager.results.values())
    person = any(isinstance(error, NeedsPerson) for error in manager.stopped.values())
    spark_seconds = parts.loader.start_seconds if isinstance(parts.loader, SparkLoader) else 0.0
    return RunResult(
        checkpoint_ts=checkpoint,
        tables=dict(sorted(manager.results.items())),
        seconds=time.monotonic() - started,
        spark_seconds=spark_seconds,
        rounds=rounds,
        exit_code=NeedsPerson.exit_code if person else 3 if manager.stopped or waits else 0,
    )
