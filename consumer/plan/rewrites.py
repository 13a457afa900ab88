"""Folders whose files TiCDC has rewritten: what was read of them is not all that they hold.

After a restart TiCDC goes on behind the number that a folder's index file names. If the index file is stale or lost
(TiCDC ignores errors in writing it), existing files are rewritten one after the other, below the last one. Only the
last one is looked at in every round. But then the index file has changed, and names a number that was read long ago.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from consumer.model.files import DataFile, Folder, Listing, StoredFile
from consumer.model.progress import Progress
from consumer.plan.unread import rewritten_files


@dataclass(frozen=True, slots=True)
class WrittenAnew:
    """`whole` are folders to be looked at from their first file on. The index files of those in `unproven` are asked
    again by the next round."""

    whole: Collection[Folder]
    unproven: Collection[Folder]


def rewritten_folders(files: Iterable[DataFile], progress: Progress) -> set[Folder]:
    """Folders whose last done file has changed: the files below it may have changed too."""
    changed = rewritten_files(files, progress.folders)
    return {file.folder for file, _ in changed if file.index == progress.folders[file.folder].done}


def doubtful_indexes(files: Iterable[DataFile], listing: Listing, progress: Progress) -> dict[Folder, StoredFile]:
    """Index files that changed or appeared after their folders were read, although there is no new file that explains
    it. `files` are the files to look at."""
    newest: dict[Folder, int | None] = {}
    for file in files:
        place = progress.folders.get(file.folder)
        if place is not None:
            above = file.index > max((place.done, *(entry.index for entry in place.open[-1:])))
            known = newest.setdefault(file.folder, None)
            newest[file.folder] = max(known or 0, file.modified) if above else known
    indexes = {folder: listing.indexes[folder] for folder in newest if folder in listing.indexes}
    return {
        folder: index
        for folder, index in indexes.items()
        if index.stamp != progress.folders[folder].index and not _before(index, newest[folder])
    }


def _before(index: StoredFile, newest: int | None) -> bool:
    """Whether an index file was written before a new file, as the old architecture does; False if no time is known."""
    return newest is not None and 0 < index.modified < newest


def stale(named: Mapping[Folder, int], progress: Progress) -> set[Folder]:
    """The folders whose index file names a number below the last one that is done."""
    return {folder for folder, number in named.items() if number < progress.folders[folder].done}


def unproven(
    named: Mapping[Folder, int], files: Iterable[DataFile], listing: Listing, progress: Progress
) -> set[Folder]:
    """The `stale` folders whose index file is younger than the file that it names: TiCDC's old architecture writes the
    index file first, so that file may still be rewritten, and nothing else would show it."""
    wanted = {(folder, named[folder]): listing.indexes[folder].modified for folder in stale(named, progress)}
    places = ((file, wanted.get((file.folder, file.index), 0)) for file in files)
    return {file.folder for file, index in places if 0 < file.modified < index}


def with_later_ones(folders: Collection[Folder], progress: Progress) -> set[Folder]:
    """`folders` with those after them in their series: rows without a time become correct by reading on from there."""
    first: dict[tuple[str, str, str], Folder] = {}
    for folder in folders:
        first[folder.series] = min(folder, first.get(folder.series, folder))
    later = (
        folder for folder in progress.folders if folder >= first.get(folder.series, folder) and folder.series in first
    )
    return {*folders, *later}
