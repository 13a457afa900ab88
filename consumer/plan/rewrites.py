"""Finds folders whose files TiCDC has rewritten: what was read of them is not all that they hold.

After a restart TiCDC continues after the number that a folder's index file names. If the index file is stale (TiCDC
ignores errors in writing it) or missing, existing files are rewritten one after the other, below the last one. A round
checks only the last file. But the index file has changed then, and names a number that was read long ago. Writing it
can fail again, though. So the number after the one that it names is the last one that counts as done, and what was read
of the files above it is recorded file by file. If there is no index file, that number is 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from consumer.ddl.changes import takes_rows
from consumer.errors import CannotBeExact, Code
from consumer.model.files import DataFile, Folder, Listing, SchemaFile, StoredFile
from consumer.model.hints import load_again
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress
from consumer.plan.unread import rewritten_files

_NEVER_READ = FolderProgress()


@dataclass(frozen=True, slots=True)
class RewrittenFolders:
    """What was found of rewritten folders.

    `relisted` are folders to be listed from their first file on. The index files of those in `unproven` are read again
    by the next round. `rewritable_from` are the numbers from which on files may still be rewritten.
    """

    relisted: Collection[Folder]
    unproven: Collection[Folder]
    rewritable_from: Mapping[Folder, int]


@dataclass(frozen=True, slots=True)
class Doubts:
    """Folders whose index files must be read: `doubtful_indexes` of the tables that exist, `old_indexes` and
    `ahead_indexes` of all tables of a round, and `lost_indexes` of those that exist."""

    doubtful: Mapping[Folder, StoredFile]
    old: Mapping[Folder, StoredFile | None]
    lost: Collection[Folder]
    ahead: Mapping[Folder, StoredFile]

    @property
    def asked(self) -> dict[Folder, StoredFile]:
        return {
            **self.ahead,
            **self.doubtful,
            **{folder: index for folder, index in self.old.items() if index is not None},
        }


def find_rewritten(
    doubts: Doubts,
    names: Mapping[Folder, int],
    files: Sequence[DataFile],
    listing: Listing,
    progress: Progress,
    timeless: bool,
) -> RewrittenFolders:
    """Returns what `progress` does not show of folders. `names` are the numbers that the index files in doubt name, as
    far as these files still exist. `files` are those of tables that exist."""
    named = {folder: names.get(folder, 0) for folder in {*doubts.doubtful, *doubts.lost}}
    goes_on = {folder: names.get(folder, 0) + 1 for folder in {*doubts.old, *named}}
    changed = (
        rewritten_folders(files, progress)
        | stale_index_folders(named, progress)
        | overcounted_folders(goes_on, progress)
    )
    relisted = with_later_folders(changed, progress) if timeless and changed else changed
    return RewrittenFolders(relisted, unproven_index_folders(named, files, listing, progress), goes_on)


def rewritten_folders(files: Iterable[DataFile], progress: Progress) -> set[Folder]:
    """Returns the folders whose last done file has changed: the files below it may have changed too."""
    changed = rewritten_files(files, progress.folders)
    return {file.folder for file, _ in changed if file.index == progress.folders[file.folder].done}


def check_places(
    table: TableName, files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress], history: Sequence[SchemaFile]
) -> CannotBeExact | None:
    """Returns why the order of rows without a time is lost, None if it is not: their file differs from what was read,
    and a statement has changed the table's columns or removed rows since. `history` has the statements that have
    run."""
    for file, _ in rewritten_files(files, folders):
        earlier: SchemaFile | None = None
        for statement in history:
            other = takes_rows(statement) or (earlier is not None and statement.columns != earlier.columns)
            if other and statement.version > file.folder.version:
                # The error has no path: the file counts as read, as it was.
                return CannotBeExact(
                    f"{file.path} is another file than was read, and rows without a commit-ts cannot be put in front of"
                    f" the statement of version {statement.version}, which came after it",
                    hint=load_again(),
                    table=str(table),
                    code=Code.NO_COMMIT_TS,
                )
            earlier = statement
    return None


def doubtful_indexes(
    files: Iterable[DataFile], read: Iterable[Folder], listing: Listing, progress: Progress
) -> dict[Folder, StoredFile]:
    """Returns the index files that changed or appeared after their folders were read, without a new file that explains
    it. `files` are the files to check. `read` are the folders that the progress has of their tables: one of which no
    file is listed can have been emptied, and hold its first files again."""
    newest: dict[Folder, int | None] = dict.fromkeys(read)
    for file in files:
        place = progress.folders.get(file.folder)
        if place is not None:
            above = file.index > max((place.done, *(entry.index for entry in place.open[-1:])))
            newest_modified = newest.setdefault(file.folder, None)
            newest[file.folder] = max(newest_modified or 0, file.modified) if above else newest_modified
    indexes = {folder: listing.indexes[folder] for folder in newest if folder in listing.indexes}
    return {
        folder: index
        for folder, index in indexes.items()
        if index.stamp != progress.folders[folder].index and not _before(index, newest[folder])
    }


def ahead_indexes(
    files: Iterable[DataFile], roots: Collection[str], listing: Listing, progress: Progress
) -> dict[Folder, StoredFile]:
    """Returns the index files that may name files which do not exist: they have changed since their folders were read,
    and no file is newer. `files` are those of the tables whose rows are below `roots`."""
    newest: dict[Folder, int] = {}
    for file in files:
        newest[file.folder] = max(newest.get(file.folder, 0), file.modified)
    return {
        folder: index
        for folder, index in listing.indexes.items()
        if folder.root in roots
        and folder.version <= listing.checkpoint
        and progress.folders.get(folder, _NEVER_READ).index != index.stamp
        and not _before(index, newest.get(folder))
    }


def lost_indexes(files: Iterable[DataFile], listing: Listing, progress: Progress) -> set[Folder]:
    """Returns the folders whose index file is gone: TiCDC begins again with the first file. `files` are the files to
    check."""
    folders = {file.folder for file in files}.difference(listing.indexes)
    return {folder for folder in folders if folder in progress.folders and progress.folders[folder].index}


def old_indexes(files: Iterable[DataFile], listing: Listing, progress: Progress) -> dict[Folder, StoredFile | None]:
    """Returns the index files of folders with several listed files that may name neither of the last two: they are not
    newer than the last but one, or named none when the folder was read. A folder maps to None if it has no index file
    although TiCDC writes these into a folder ``meta``, as it does the schema files: before that, a restart began a new
    folder."""
    indexes: dict[Folder, StoredFile | None] = {}
    for folder, group in groupby(files, key=lambda file: file.folder):
        last = deque(group, 2)
        index = listing.indexes.get(folder)
        follows = index is not None and 0 < last[0].modified < index.modified
        if len(last) == 2 and (not follows or _is_watched(folder, progress)):
            indexes[folder] = index
    lacking = [folder for folder, index in indexes.items() if index is None]
    if lacking:
        in_meta = {(schema.root, schema.version) for schema in listing.schemas if "/meta/" in schema.path}
        for folder in lacking:
            if (folder.root, folder.version) not in in_meta:
                del indexes[folder]
    return indexes


def overcounted_folders(goes_on: Mapping[Folder, int], progress: Progress) -> set[Folder]:
    """Returns the folders of which more counts as done than what cannot be rewritten."""
    places = ((folder, number, progress.folders.get(folder)) for folder, number in goes_on.items())
    return {f for f, number, place in places if place and number < place.done and not _is_watched(f, progress)}


def _is_watched(folder: Folder, progress: Progress) -> bool:
    """Returns whether the files above the last one that counts as done are recorded file by file."""
    place = progress.folders.get(folder)
    return bool(place and place.open and (place.open[0].index, place.open[0].next_ts) == (place.done + 1, 0))


def _before(index: StoredFile, newest: int | None) -> bool:
    """Returns whether an index file was written before a new file, as the old architecture does; False if no time is
    known."""
    return newest is not None and 0 < index.modified < newest


def stale_index_folders(named: Mapping[Folder, int], progress: Progress) -> set[Folder]:
    """Returns the folders whose index file names a number below the last one that is done."""
    return {folder for folder, number in named.items() if number < progress.folders[folder].done}


def unproven_index_folders(
    named: Mapping[Folder, int], files: Iterable[DataFile], listing: Listing, progress: Progress
) -> set[Folder]:
    """Returns the `stale_index_folders` whose index file is newer than the file that it names: TiCDC's old architecture
    writes the index file first, so that file may still be rewritten, and nothing else would show it."""
    folders = stale_index_folders(named, progress).intersection(listing.indexes)
    wanted = {(folder, named[folder]): listing.indexes[folder].modified for folder in folders}
    places = ((file, wanted.get((file.folder, file.index), 0)) for file in files)
    return {file.folder for file, index in places if 0 < file.modified < index}


def with_later_folders(folders: Collection[Folder], progress: Progress) -> set[Folder]:
    """Returns `folders` with those after them in their series: rows without a time become correct by reading on from
    there."""
    first: dict[tuple[str, str, str], Folder] = {}
    for folder in folders:
        first[folder.series] = min(folder, first.get(folder.series, folder))
    later = (
        folder for folder in progress.folders if folder >= first.get(folder.series, folder) and folder.series in first
    )
    return {*folders, *later}
