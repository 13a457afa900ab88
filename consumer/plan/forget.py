"""What the progress no longer has to hold: folders that TiCDC's clean-up, or somebody else, has deleted, and the single
files of folders that are over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from consumer.layout.paths import date_level
from consumer.model.files import Folder, Listing
from consumer.model.progress import FolderProgress, Progress
from consumer.plan.gaps import last_row


def forgotten_folders(listing: Listing, progress: Progress, roots: Collection[str]) -> set[Folder]:
    """Those that are gone with nothing left to read. `roots` are what the storage still knows.

    Of each version of a table, divided by partitions, the newest folder stays: its absence tells that the clean-up was
    there, and its rows are the last that were read.
    """
    # An earlier part of the same round may have forgotten some.
    gone = [folder for folder in listing.gone if folder in progress.folders and not progress.folders[folder].waits]
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


def without(forgotten: Collection[Folder], progress: Progress) -> dict[Folder, FolderProgress | None]:
    """What becomes of the folders once the `forgotten` ones are: the rows that were read of one count as read of the
    next one that stays, and as gone. They may be sent again for ever, where the checkpoint is set back by days."""
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
        for folder in sorted(folders, key=lambda one: (one.date, progress.folders[one].last_ts), reverse=True):
            place = progress.folders[folder]
            if folder not in changes:
                heir = folder
            elif heir is not None:
                kept = changes.get(heir) or progress.folders[heir]
                gone = max(kept.gone_ts, place.gone_ts, min(last_row(folder, place), newest))
                if place.last_ts:
                    first = min(place.first_ts, kept.first_ts) if kept.last_ts else place.first_ts
                    kept = replace(kept, first_ts=first, last_ts=max(kept.last_ts, place.last_ts))
                changes[heir] = replace(kept, gone_ts=gone)
    return changes


def summed_up(listing: Listing, progress: Progress) -> dict[Folder, FolderProgress]:
    """Folders that are closed, without what is known of each file that might have been written anew."""
    closed = ((folder, progress.folders.get(folder, FolderProgress())) for folder in listing.closed)
    lasts = ((folder, place, place.open[-1]) for folder, place in closed if place.open and not place.waits)
    return {
        folder: replace(place, done=last.index, size=last.size, stamp=last.stamp, open=())
        for folder, place, last in lasts
    }


def cleaned_up(forgotten: Collection[Folder], listing: Listing, progress: Progress) -> set[Folder]:
    """Folders that the listing left out and that can be gone too, as `forgotten` ones of that date or a later one are:
    the clean-up deletes the oldest dates of all tables."""
    last = max((folder.date for folder in forgotten if date_level(folder.date) == "day"), default="")
    known = {*listing.gone, *(file.folder for files in listing.files.values() for file in files)}
    return {folder for folder in progress.folders if "" < folder.date <= last and folder not in known}
