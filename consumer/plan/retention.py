"""Follows TiCDC's clean-up, which deletes whole date folders, oldest first: which of them may be gone with unread rows,
and what the progress no longer has to hold, because folders are gone or closed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from consumer.errors import Code, GapFound
from consumer.layout.paths import date_level
from consumer.model.files import Folder, Listing, SchemaFile
from consumer.model.hints import accept_command
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress
from consumer.model.times import MAX_TSO, tso_to_time
from consumer.plan.gaps import last_row

_FORMAT = "%Y-%m-%d"


@dataclass(frozen=True, slots=True)
class Retention:
    """What is known of the clean-up. `days` is the changefeed's ``file-expiration-days`` (0: it deletes none, None:
    unknown), `zone` that of its nodes' clocks."""

    days: int | None = None
    zone: tzinfo = UTC

    def date(self, tso: int, days_before: int = 0) -> str:
        """Returns the date folder that a node writes to at `tso`, or some days before."""
        return self._day(tso, days_before).strftime(_FORMAT)

    def days_left(self, date: str, checkpoint: int) -> int:
        """Returns after how many days of the checkpoint the clean-up deletes the folder `date`. Below 0 it may be
        gone."""
        return (datetime.strptime(date, _FORMAT).date() - self._day(checkpoint, self.days or 0).date()).days + 1

    def _day(self, tso: int, days_before: int) -> datetime:
        return tso_to_time(tso).astimezone(self.zone) - timedelta(days=days_before)


NOT_KNOWN = Retention()


def day_dates(folders: Iterable[Folder]) -> set[str]:
    """Returns the dates of the folders that the clean-up handles: it works only with ``date-separator = "day"``."""
    return {folder.date for folder in folders if _by_day(folder)}


def _by_day(folder: Folder) -> bool:
    return date_level(folder.date) == "day" and _on_calendar(folder.date)


@lru_cache(1 << 12)
def _on_calendar(date: str) -> bool:
    """Returns whether the date exists. No node's clock names a folder 2026-02-30, but people can."""
    try:
        datetime.strptime(date, _FORMAT)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CleanUp:
    """What a listing shows of the clean-up.

    `used` is true if there are, or were, folders by day, or if the clean-up may have deleted all of them. `oldest` is a
    date before which all of them may be gone, once any is. `daily_roots` are the roots that have folders by day,
    `lost_roots` those whose newest folder that was read is gone: the clean-up was there, but how far it went is
    unknown. `read` are the roots of which something was read, with the newest version of that. `folders` are those that
    have, or had, files, by root and version. `reached` is where the changefeed itself is, or was before `metadata` went
    back: its clean-up goes by that, even if a replay ends at an earlier `checkpoint`.
    """

    retention: Retention
    checkpoint: int
    reached: int
    used: bool
    oldest: str
    daily_roots: Collection[str]
    lost_roots: Collection[str]
    read: Mapping[str, int]
    folders: Collection[tuple[str, int]]

    @classmethod
    def of(cls, listing: Listing, progress: Progress, retention: Retention) -> CleanUp:
        listed = {file.folder for files in listing.files.values() for file in files}
        dates = day_dates(listed)
        newest: dict[tuple[str, int, str], Folder] = {}
        for folder in progress.folders:
            series = (folder.root, folder.version, folder.partition)
            if _by_day(folder) and folder.date >= newest.get(series, folder).date:
                newest[series] = folder
        listed_keys = {(folder.root, folder.version, folder.partition, folder.date) for folder in listed}
        roots_with_gaps = {
            f.root for f in newest.values() if (f.root, f.version, f.partition, f.date) not in listed_keys
        }
        # At least one day is kept, so what was written yesterday exists.
        reached = max(listing.checkpoint, listing.reached, progress.applied_ts)
        yesterday = retention.date(reached, 1)
        used = bool(dates or newest)
        return cls(
            retention,
            listing.checkpoint,
            reached,
            used or not (listed or progress.folders or retention.days == 0),
            min([*dates, yesterday]),
            {folder.root for folder in listed if _by_day(folder)},
            roots_with_gaps,
            {folder.root: folder.version for folder in sorted(progress.folders, key=lambda folder: folder.version)},
            {(folder.root, folder.version) for folder in (*listed, *progress.folders)},
        )

    def gap(self, table: TableName, history: Collection[SchemaFile], applied_ts: int) -> GapFound | None:
        """Returns the error of date folders that may be gone with rows of `table` above `applied_ts`, None if none may.
        `history` are its schema files since its rows began."""
        if not self.used or self.reached == MAX_TSO:
            return None
        needed = max(applied_ts, min((file.version for file in history), default=0))
        if not needed:
            return None
        limit = self._limit(history, needed)
        first = self.retention.date(needed)
        if first >= limit:
            return None
        last = (datetime.strptime(limit, _FORMAT) - timedelta(days=1)).strftime(_FORMAT)
        dates = first if first == last else f"{first} to {last}"
        return GapFound(
            f"it is complete up to {needed}, and TiCDC's clean-up may have deleted its date folders of {dates}",
            hint="file-expiration-days in the changefeed's TOML (--config) says what can be deleted (0: nothing); if"
            " the folders are gone, export the table with Dumpling and load that with `load-export` and its --table, or"
            " continue without their rows: " + accept_command(table),
            table=str(table),
            missing=first,
            code=Code.DATES_DELETED,
        )

    def _limit(self, history: Collection[SchemaFile], needed: int) -> str:
        """Returns the date before which folders may be gone, "" if there is no sign of that. For a table that was never
        read, only the changefeed's own setting can show that none is gone."""
        if self.retention.days:
            return self.retention.date(self.reached, self.retention.days)
        roots = {file.root for file in history}
        unseen = bool(self.lost_roots) and roots.isdisjoint(self.daily_roots)
        lost = any(file.version >= needed and self._lost_its_rows(file) for file in history)
        began = min((file.version for file in history), default=0)
        # Older rows can be in newer folders: what was read there shows nothing about the rows since it began.
        read = needed > began and any(self.read.get(root, -1) >= began for root in roots)
        untold = self.retention.days is None and not read
        return self.oldest if untold or unseen or lost or not roots.isdisjoint(self.lost_roots) else ""

    def _lost_its_rows(self, file: SchemaFile) -> bool:
        """Returns whether the rows of the file's version are lost: TiCDC writes a schema file without a statement only
        before rows."""
        return not file.query and file.version < self.checkpoint and (file.root, file.version) not in self.folders


def forgotten_folders(listing: Listing, progress: Progress, roots: Collection[str]) -> set[Folder]:
    """Returns the folders that are gone with nothing left to read. `roots` are those that the storage still has.

    Of each version of a table, divided by partitions, the newest folder stays: its absence shows that the clean-up was
    there, and its rows are the last that were read.
    """
    # An earlier part of the same round may have forgotten some.
    gone = [
        folder for folder in listing.empty_folders if folder in progress.folders and not progress.folders[folder].waits
    ]
    if not gone:
        return set()
    newest: dict[tuple[str, int, str], Folder] = {}
    for folder, place in progress.folders.items():
        key = (folder.root, folder.version, folder.partition)
        other = newest.get(key, folder)
        if (folder.date, place.last_ts) >= (other.date, progress.folders[other].last_ts):
            newest[key] = folder
    kept = {folder for folder in newest.values() if folder.root in roots}
    return {folder for folder in gone if folder not in kept}


def forget_folders(forgotten: Collection[Folder], progress: Progress) -> dict[Folder, FolderProgress | None]:
    """Returns what becomes of the folders once the `forgotten` ones are forgotten: the rows that were read of one count
    as read of the next one that stays, and as gone. They may be sent again at any time, if the checkpoint is set back
    by days."""
    if not forgotten:
        return {}
    changes: dict[Folder, FolderProgress | None] = dict.fromkeys(forgotten)
    roots = {folder.root for folder in forgotten}
    newest = max(progress.applied_ts, max((place.applied_ts for place in progress.tables.values()), default=0))
    alike: dict[tuple[str, int, str], list[Folder]] = {}
    for folder in progress.folders:
        if folder.root in roots:
            alike.setdefault((folder.root, folder.version, folder.partition), []).append(folder)
    for folders in alike.values():
        heir: Folder | None = None
        for folder in sorted(folders, key=lambda other: (other.date, progress.folders[other].last_ts), reverse=True):
            place = progress.folders[folder]
            if folder not in changes:
                heir = folder
            elif heir is not None:
                kept = changes.get(heir) or progress.folders[heir]
                gone_ts = max(kept.gone_ts, place.gone_ts, min(last_row(folder, place), newest))
                if place.last_ts:
                    first = min(place.first_ts, kept.first_ts) if kept.last_ts else place.first_ts
                    kept = replace(kept, first_ts=first, last_ts=max(kept.last_ts, place.last_ts))
                changes[heir] = replace(kept, gone_ts=gone_ts)
    return changes


def summarised_folders(listing: Listing, progress: Progress) -> dict[Folder, FolderProgress]:
    """Returns folders that are closed, without the records of each file that might have been rewritten."""
    closed = ((folder, progress.folders.get(folder, FolderProgress())) for folder in listing.closed)
    lasts = ((folder, place, place.open[-1]) for folder, place in closed if place.open and not place.waits)
    return {folder: place.done_to(last, ()) for folder, place, last in lasts}


def possibly_cleaned_up(forgotten: Collection[Folder], listing: Listing, progress: Progress) -> set[Folder]:
    """Returns the folders that the listing left out and that can be gone too, because `forgotten` ones of that date or
    a later one are: the clean-up deletes the oldest dates of all tables."""
    last = max((folder.date for folder in forgotten if date_level(folder.date) == "day"), default="")
    listed = {*listing.empty_folders, *(file.folder for files in listing.files.values() for file in files)}
    return {folder for folder in progress.folders if "" < folder.date <= last and folder not in listed}
