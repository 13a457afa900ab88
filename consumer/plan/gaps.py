"""Missing file numbers between the files that were read and those that exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from consumer.errors import GapFound
from consumer.layout.paths import directory_of
from consumer.model.files import DataFile, Folder
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress

_HINT = "restore the missing file, or accept the loss of its rows with --accept-gap"
_NEVER_READ = FolderProgress()


def find_gap(
    table: TableName,
    files: Iterable[DataFile],
    folders: Mapping[Folder, FolderProgress],
    start_ts: int = 0,
) -> GapFound | None:
    """The first hole in the numbers of a folder above its last done file; a folder never read must begin at 1.

    A folder that is older than `start_ts`, where the target was given as it was then, may have lost its head: TiCDC's
    clean-up removes whole date folders, others remove files by their age. `files` are sorted.
    """
    for folder, group in groupby(files, key=lambda file: file.folder):
        place = folders.get(folder)
        headless = place is None and folder.version <= start_ts
        place = place or _NEVER_READ
        expected = 0 if headless else place.done + 1
        read = {entry.index for entry in place.open if not entry.next_ts}
        for file in group:
            while expected in read:
                expected += 1
            if file.index < expected:
                continue
            if file.index > expected > 0:
                return GapFound(
                    f"file number {expected} is missing before number {file.index}",
                    hint=_HINT,
                    table=str(table),
                    path=file.path,
                )
            expected = file.index + 1
    return None


def find_lost_rest(
    table: TableName,
    files: Iterable[DataFile],
    folders: Mapping[Folder, FolderProgress],
    applied_ts: int,
) -> GapFound | None:
    """A file that is gone although rows of it above `applied_ts` were seen and are still to be read. `folders` are
    those of the table."""
    opened = sorted((folder, place) for folder, place in folders.items() if place.open)
    there = {(file.folder, file.index) for file in files} if opened else set()
    for folder, place in opened:
        for entry in place.open:
            if entry.next_ts > applied_ts and (folder, entry.index) not in there:
                return GapFound(
                    f"file number {entry.index} is gone before its rows from commit-ts {entry.next_ts} on were applied",
                    hint=_HINT,
                    table=str(table),
                    path=directory_of(folder),
                )
    return None
