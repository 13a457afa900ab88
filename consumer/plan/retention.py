"""TiCDC's clean-up deletes whole date folders, oldest first: which of them may be gone with rows still to be read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from consumer.errors import GapFound
from consumer.layout.paths import date_level
from consumer.model.files import Folder, Listing, SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.model.times import MAX_TSO, tso_to_time

_FORMAT = "%Y-%m-%d"


@dataclass(frozen=True, slots=True)
class Retention:
    """`days` is the changefeed's ``file-expiration-days`` (0: it deletes none, None: unknown), `zone` that of its
    nodes' clocks."""

    days: int | None = None
    zone: tzinfo = UTC

    def date(self, tso: int, days_before: int = 0) -> str:
        """The date folder that a node writes to at `tso`, or some days before."""
        return self._day(tso, days_before).strftime(_FORMAT)

    def days_left(self, date: str, checkpoint: int) -> int:
        """After how many days of the checkpoint the clean-up deletes the folder `date`; below 0: it may be gone."""
        return (datetime.strptime(date, _FORMAT).date() - self._day(checkpoint, self.days or 0).date()).days + 1

    def _day(self, tso: int, days_before: int) -> datetime:
        return tso_to_time(tso).astimezone(self.zone) - timedelta(days=days_before)


NOT_KNOWN = Retention()


def day_dates(folders: Iterable[Folder]) -> set[str]:
    """The dates of the folders that the clean-up knows: it works with ``date-separator = "day"`` alone."""
    return {folder.date for folder in folders if _by_day(folder)}


def _by_day(folder: Folder) -> bool:
    return date_level(folder.date) == "day" and _on_calendar(folder.date)


@lru_cache(1 << 12)
def _on_calendar(date: str) -> bool:
    """No node's clock names a folder 2026-02-30, but people can."""
    try:
        datetime.strptime(date, _FORMAT)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CleanUp:
    """What a listing shows of the clean-up. `used`: there are, or were, folders by day, or it may have deleted all
    there were. `oldest` is a date before which all of them may be gone, once any is. `kept` are the roots that have
    folders by day, `gone` those whose newest folder that was read is gone: the clean-up was there, but how far it went
    is unknown. `read` are the roots of which something was read, with the newest version of that. `folders` are those
    that have, or had, files, by root and version. `reached` is where the changefeed itself is, or was before `metadata`
    went back: it deletes by that, also where a replay ends at an earlier `checkpoint`."""

    retention: Retention
    checkpoint: int
    reached: int
    used: bool
    oldest: str
    kept: Collection[str]
    gone: Collection[str]
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
        there = {(folder.root, folder.version, folder.partition, folder.date) for folder in listed}
        gone = {f.root for f in newest.values() if (f.root, f.version, f.partition, f.date) not in there}
        # At least one day is kept, so what was written yesterday is there.
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
            gone,
            {folder.root: folder.version for folder in sorted(progress.folders, key=lambda folder: folder.version)},
            {(folder.root, folder.version) for folder in (*listed, *progress.folders)},
        )

    def gap(self, table: TableName, history: Collection[SchemaFile], applied_ts: int) -> GapFound | None:
        """Date folders that may be gone with rows of `table` above `applied_ts`. `history` are its schema files since
        its rows began."""
        needed = max(applied_ts, min((file.version for file in history), default=0))
        if not self.used or not needed or self.reached == MAX_TSO:
            return None
        limit = self._limit(history, needed)
        first = self.retention.date(needed)
        if first >= limit:
            return None
        last = (datetime.strptime(limit, _FORMAT) - timedelta(days=1)).strftime(_FORMAT)
        dates = first if first == last else f"{first} to {last}"
        return GapFound(
            f"it is complete up to {needed}, and TiCDC's clean-up may have deleted its date folders of {dates}",
            hint="take the table from a snapshot (a new --name with --start-ts), or accept the loss with --accept-gap;"
            " file-expiration-days in the changefeed's TOML (--config) says what can be deleted (0: nothing)",
            table=str(table),
        )

    def _limit(self, history: Collection[SchemaFile], needed: int) -> str:
        """Folders before this date may be gone, "" if there is no sign of that. For a table that was never read, only
        the changefeed's own setting can show that none is gone."""
        if self.retention.days:
            return self.retention.date(self.reached, self.retention.days)
        roots = {file.root for file in history}
        unseen = bool(self.gone) and roots.isdisjoint(self.kept)
        lost = any(file.version >= needed and self._lost_its_rows(file) for file in history)
        began = min((file.version for file in history), default=0)
        # Older rows can be in newer folders: what was read there says nothing of the rows since it began.
        read = needed > began and any(self.read.get(root, -1) >= began for root in roots)
        untold = self.retention.days is None and not read
        return self.oldest if untold or unseen or lost or not roots.isdisjoint(self.gone) else ""

    def _lost_its_rows(self, file: SchemaFile) -> bool:
        """TiCDC writes a schema file without a statement only in front of rows."""
        return not file.query and file.version < self.checkpoint and (file.root, file.version) not in self.folders
