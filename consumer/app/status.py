"""`status`: how far the target is, and how near unread files are to TiCDC's clean-up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from consumer.app.parts import Parts, open_parts, other_upstream
from consumer.config.settings import Settings
from consumer.errors import ConsumerError
from consumer.model.progress import Progress
from consumer.model.result import StatusResult, TableStatus, UnreadStatus
from consumer.plan.assembly import Assembly
from consumer.plan.retention import day_dates
from consumer.plan.unread import unread_files
from consumer.ports import Observer


def status(settings: Settings, observer: Observer) -> StatusResult:
    """What the target has, beside what the storage holds. Works without the storage: then `notes` say why."""
    with open_parts(settings, None) as parts:
        progress = parts.sink.progress()
        consumers = parts.sink.consumers()
        other = other_upstream(settings, parts.reader, progress)
        found = StatusResult(
            progress.upstream,
            progress.applied_ts,
            None,
            tuple(_table_statuses(progress)),
            (*other, *_other_names(settings.name, list(consumers))),
            ok=consumers.get(settings.name, 0),
            asked=int(time.time() * 1000),
        )
        try:
            checkpoint = parts.reader.checkpoint()
            unread = None if other or progress.is_empty else _unread(parts, checkpoint, progress)
        except ConsumerError as error:
            return replace(found, notes=(*found.notes, error.sentence()))
        return replace(found, checkpoint_ts=checkpoint, unread=unread)


def _table_statuses(progress: Progress) -> Iterator[TableStatus]:
    for name, table in sorted(progress.tables.items()):
        yield TableStatus(name, table.applied_ts, str(table.state), table.reason, table.hint)


def _other_names(name: str, names: list[str]) -> list[str]:
    """Where nothing is kept under `name`: the names that there are, as --name may be wrong."""
    if name in names or not names:
        return []
    return [f"the target has no progress under the name {name!r}; it has some under {', '.join(names)} (--name)"]


def _unread(parts: Parts, checkpoint: int, progress: Progress) -> UnreadStatus:
    """What lies in the storage and is not read to its end."""
    retention = parts.options.retention
    assembly = Assembly.of(parts.reader.listing(checkpoint, progress), progress, parts.options.wanted)
    living = (assembly.files.get(name, ()) for name in assembly.tables if parts.options.wanted(name))
    unread = [entry.file for files in living for entry in unread_files(files, progress.folders)]
    dates = day_dates(file.folder for file in unread)
    oldest = min(dates, default="")
    days_left = retention.days_left(oldest, checkpoint) if oldest and retention.days else None
    return UnreadStatus(len(unread), sum(file.size for file in unread), oldest, retention.days, days_left)
