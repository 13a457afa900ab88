"""What the progress need not remember any longer: folders that TiCDC's clean-up, or somebody else, has deleted."""

from __future__ import annotations

from collections.abc import Collection

from consumer.layout.paths import date_level
from consumer.model.files import Folder, Listing
from consumer.model.progress import Progress


def forgotten_folders(listing: Listing, progress: Progress, roots: Collection[str]) -> set[Folder]:
    """Those that are gone with nothing left to read. `roots` are what the storage still knows.

    Of each version of a table, divided by partitions, the newest folder stays: its absence tells that the clean-up was
    there, and its rows are the last that were read.
    """
    gone = [folder for folder in listing.gone if not progress.folders[folder].open]
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


def cleaned_up(forgotten: Collection[Folder], listing: Listing, progress: Progress) -> set[Folder]:
    """Folders that the listing left out and that can be gone too, as `forgotten` ones of that date or a later one are:
    the clean-up deletes the oldest dates of all tables."""
    last = max((folder.date for folder in forgotten if date_level(folder.date) == "day"), default="")
    known = {*listing.gone, *(file.folder for files in listing.files.values() for file in files)}
    return {folder for folder in progress.folders if "" < folder.date <= last and folder not in known}
