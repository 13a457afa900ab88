"""`status`: shows how far the target is, and how near unread files are to TiCDC's clean-up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing

from consumer.app.parts import open_ports, sink_of, unloaded_tables, upstream_refusal
from consumer.config.settings import Settings
from consumer.errors import ConsumerError, WrongUpstream
from consumer.model.events import NowDoing
from consumer.model.hints import Hint
from consumer.model.progress import Progress, State, is_export, is_resync_of
from consumer.pipeline.context import Ports
from consumer.pipeline.missing_tables import dropped_table_errors
from consumer.pipeline.opening import copied_files
from consumer.pipeline.resync import reloadable_tables
from consumer.plan.assembly import Assembly
from consumer.plan.notes import went_back
from consumer.plan.options import RoundOptions
from consumer.plan.retention import day_dates
from consumer.plan.routing import check_begun
from consumer.plan.statuses import table_statuses
from consumer.plan.unread import unread_files
from consumer.ports import Observer
from consumer.results import StatusResult, TableStatus, UnfinishedExport, UnfinishedResync, Unread


def status(settings: Settings, observer: Observer) -> StatusResult:
    """Returns what the target has, compared with the storage. It works without the storage: then `notes` say why. The
    storage of another upstream is not read: the error of every run with it is in the result."""
    options = settings.round_options
    with open_ports(settings, observer) as ports:
        observer.tell(NowDoing("asks the target for its progress"))
        progress = ports.sink.progress()
        consumers = ports.sink.consumers()
        refused = upstream_refusal(settings, ports.reader, progress)
        zone = () if refused is None or isinstance(refused, WrongUpstream) else (refused.sentence(),)
        lacking = [
            name
            for name in progress.quarantined_rows | progress.accepted_losses
            if progress.table(name).state is State.OK
        ]
        result = StatusResult(
            target_upstream=progress.upstream,
            applied_ts=progress.applied_ts,
            checkpoint_ts=None,
            tables=tuple(table_statuses(progress, set())),
            notes=(*zone, *_other_names(settings.name, list(consumers))),
            exports=tuple(_unfinished(settings, consumers, progress)),
            resyncs=tuple(_resyncs(settings, consumers)),
            tables_ok=max(0, consumers.get(settings.name, 0) - len(lacking)),
            asked=int(time.time() * 1000),
            time_zone=progress.time_zone,
        )
        if isinstance(refused, WrongUpstream):
            return result.ended_by(refused)
        try:
            observer.tell(NowDoing("looks for new files"))
            checkpoint = ports.reader.checkpoint()
            notes = (*result.notes, *ports.reader.holds)
            result = result.model_copy(update={"checkpoint_ts": checkpoint, "notes": notes})
            return result if progress.is_empty else _with_storage(result, ports, options, progress)
        except ConsumerError as error:
            return result.model_copy(update={"notes": (*result.notes, error.sentence())})


def _with_storage(result: StatusResult, ports: Ports, options: RoundOptions, progress: Progress) -> StatusResult:
    """Returns `result` with what the storage adds: files to be read, stopped tables that can be loaded again."""
    listing = ports.reader.listing(result.checkpoint_ts or 0, progress)
    progress = progress.after(copied_files(ports.reader, listing, progress, {}))
    assembly = Assembly.of(listing, progress, options.rules.wanted)
    check_begun(options.rules.naming, assembly, progress)
    again = [row.table for row in result.unwell if row.state == "stopped" or row.accepted]
    reloadable = reloadable_tables(ports.sink, again, assembly, progress, options)
    dropped = dropped_table_errors(ports.sink, assembly, progress, options)
    rows = [row for row in table_statuses(progress, reloadable) if row.table not in dropped]
    tables = [row.model_copy(update={"hint": assembly.advised(row.hint, row.table, options.replay)}) for row in rows]
    tables += [
        TableStatus(
            table=name,
            watermark=progress.table(name).applied_ts,
            state="missing",
            code=error.code,
            error=error.sentence(),
            hint=Hint.of(error.hint),
            target_table=options.rules.naming.other_name(name),
        )
        for name, error in dropped.items()
    ]
    every = tuple(sorted(tables, key=lambda row: row.table))
    fields = {
        "unread": _unread(options, assembly, progress),
        "tables": every,
        "went_back": went_back(assembly, progress),
    }
    return result.model_copy(update={**fields, "tables_ok": max(0, result.tables_ok - len(dropped))})


def _other_names(name: str, names: list[str]) -> list[str]:
    """Returns a note with the existing names if there is no progress under `name`, because --name may be wrong."""
    others = [other for other in names if not is_export(other, name) and not is_resync_of(other, name)]
    if name in names or not others:
        return []
    return [f"the target has no progress under the name {name!r}; it has some under {', '.join(others)} (--name)"]


def _unfinished(settings: Settings, names: Iterable[str], progress: Progress) -> Iterator[UnfinishedExport]:
    for name in names:
        if is_export(name, settings.name):
            loading = _progress_of(settings, name)
            tables = unloaded_tables(loading)
            places = ((table, loading.table(table)) for table in tables)
            reasons = {table: place.reason for table, place in places if place.state is State.STOPPED}
            named = () if progress.is_empty else tuple(tables)
            yield UnfinishedExport(export=loading.upstream or "", tables=named, reasons=reasons)


def _resyncs(settings: Settings, names: Iterable[str]) -> Iterator[UnfinishedResync]:
    for name in names:
        if is_resync_of(name, settings.name):
            tables = _progress_of(settings, name).tables
            loaded = (table for table in tables if is_resync_of(name, settings.name, table))
            yield from (UnfinishedResync(table=table, consumer=name) for table in loaded)


def _progress_of(settings: Settings, name: str) -> Progress:
    with closing(sink_of(settings.model_copy(update={"name": name}))) as sink:
        return sink.progress()


def _unread(options: RoundOptions, assembly: Assembly, progress: Progress) -> Unread:
    """Returns what is in the storage and not completely read."""
    retention, checkpoint = options.files.retention, assembly.checkpoint
    living = (assembly.files.get(name, ()) for name in assembly.tables if options.rules.wanted(name))
    unread = [entry.file for files in living for entry in unread_files(files, progress.folders)]
    dates = day_dates(file.folder for file in unread)
    oldest = min(dates, default="")
    days_left = retention.days_left(oldest, checkpoint) if oldest and retention.days else None
    return Unread(
        files=len(unread),
        bytes=sum(file.size for file in unread),
        oldest_date=oldest,
        expiration_days=retention.days or 0,
        days_left=days_left,
    )
