"""Folders whose files TiCDC has rewritten: what was read of them is not all that they hold.

After a restart TiCDC goes on behind the number that a folder's index file names. If the index file is stale (TiCDC
ignores errors in writing it) or gone, existing files are rewritten one after the other, below the last one. Only the
last one is looked at in every round. But then the index file has changed, and names a number that was read long ago.
Writing it can fail again, though. So the number behind the one that it names is the last one that counts as done, and
what was read of the files above it is recorded file by file. Where there is none, that number is 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from consumer.ddl.changes import takes_rows
from consumer.errors import CannotBeExact, Code
from consumer.model.files import DataFile, Folder, Listing, SchemaFile, StoredFile
from consumer.model.hints import RESYNC
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress
from consumer.plan.unread import rewritten_files

_NEVER_READ = FolderProgress()


@dataclass(frozen=True, slots=True)
class WrittenAnew:
    """`whole` are folders to be looked at from their first file on. The index files of those in `unproven` are asked
    again by the next round. `goes_on` are the numbers from which on files may still be written again."""

    whole: Collection[Folder]
    unproven: Collection[Folder]
    goes_on: Mapping[Folder, int]


@dataclass(frozen=True, slots=True)
class Doubts:
    """Folders whose index files must be read: `doubtful_indexes` of the tables that exist, and `old_indexes` of all
    tables of a round, and `ahead_indexes`; and `lost_indexes` of those that exist."""

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


def written_anew(
    doubts: Doubts,
    names: Mapping[Folder, int],
    files: Sequence[DataFile],
    listing: Listing,
    progress: Progress,
    timeless: bool,
) -> WrittenAnew:
    """What `progress` does not know of folders. `names` are the numbers that the index files in doubt name, as far as
    they are still there, `files` those of tables that exist."""
    named = {folder: names.get(folder, 0) for folder in {*doubts.doubtful, *doubts.lost}}
    goes_on = {folder: names.get(folder, 0) + 1 for folder in {*doubts.old, *named}}
    changed = rewritten_folders(files, progress) | stale(named, progress) | behind(goes_on, progress)
    whole = with_later_ones(changed, progress) if timeless and changed else changed
    return WrittenAnew(whole, unproven(named, files, listing, progress), goes_on)


def rewritten_folders(files: Iterable[DataFile], progress: Progress) -> set[Folder]:
    """Folders whose last done file has changed: the files below it may have changed too."""
    changed = rewritten_files(files, progress.folders)
    return {file.folder for file, _ in changed if file.index == progress.folders[file.folder].done}


def check_places(
    table: TableName, files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress], history: Sequence[SchemaFile]
) -> CannotBeExact | None:
    """Why the rows of a file that is another than was read, and that have no time, cannot be put in their place any
    more: a statement has changed the table's columns or taken rows since. `history` has those that have run."""
    for file, _ in rewritten_files(files, folders):
        then: SchemaFile | None = None
        for said in history:
            other = takes_rows(said) or (then is not None and said.columns != then.columns)
            if other and said.version > file.folder.version:
                # No path: the file counts as read, as it was.
                return CannotBeExact(
                    f"{file.path} is another file than was read, and rows without a commit-ts cannot be put in front of"
                    f" the statement of version {said.version}, which came behind it",
                    hint="empty and reload the table: " + RESYNC,
                    table=str(table),
                    code=Code.NO_COMMIT_TS,
                )
            then = said
    return None


def doubtful_indexes(
    files: Iterable[DataFile], read: Iterable[Folder], listing: Listing, progress: Progress
) -> dict[Folder, StoredFile]:
    """Index files that changed or appeared after their folders were read, although there is no new file that explains
    it. `files` are the files to look at, `read` the folders that the progress has of their tables: one of which no
    file is listed can have been emptied, and hold its first files again."""
    newest: dict[Folder, int | None] = dict.fromkeys(read)
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


def ahead_indexes(
    files: Iterable[DataFile], roots: Collection[str], listing: Listing, progress: Progress
) -> dict[Folder, StoredFile]:
    """Index files that may name files which are not there: they are not as when their folders were read, and no file
    is younger. `files` are those of the tables whose rows lie below `roots`."""
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
    """Folders whose index file is gone: TiCDC begins again with the first file. `files` are the files to look at."""
    folders = {file.folder for file in files}.difference(listing.indexes)
    return {folder for folder in folders if folder in progress.folders and progress.folders[folder].index}


def old_indexes(files: Iterable[DataFile], listing: Listing, progress: Progress) -> dict[Folder, StoredFile | None]:
    """The index files of folders with several listed files that may name none of the last two: they are not younger
    than the last but one, or named none when the folder was read. None where there is none although TiCDC writes them
    into a folder ``meta``, as it does the schema files: before that, a restart began a folder of its own."""
    found: dict[Folder, StoredFile | None] = {}
    for folder, group in groupby(files, key=lambda file: file.folder):
        last = deque(group, 2)
        index = listing.indexes.get(folder)
        follows = index is not None and 0 < last[0].modified < index.modified
        if len(last) == 2 and (not follows or _is_watched(folder, progress)):
            found[folder] = index
    lacking = [folder for folder, index in found.items() if index is None]
    if lacking:
        in_meta = {(schema.root, schema.version) for schema in listing.schemas if "/meta/" in schema.path}
        for folder in lacking:
            if (folder.root, folder.version) not in in_meta:
                del found[folder]
    return found


def behind(goes_on: Mapping[Folder, int], progress: Progress) -> set[Folder]:
    """The folders of which more counts as done than what cannot be written again."""
    places = ((folder, number, progress.folders.get(folder)) for folder, number in goes_on.items())
    return {f for f, number, place in places if place and number < place.done and not _is_watched(f, progress)}


def _is_watched(folder: Folder, progress: Progress) -> bool:
    """Whether what was read of files above the last that counts as done is known file by file."""
    place = progress.folders.get(folder)
    return bool(place and place.open and (place.open[0].index, place.open[0].next_ts) == (place.done + 1, 0))


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
    folders = stale(named, progress).intersection(listing.indexes)
    wanted = {(folder, named[folder]): listing.indexes[folder].modified for folder in folders}
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
