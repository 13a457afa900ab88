"""Decides which files still have rows to apply, computes a folder's progress after files were read, and holds the state
of a table in a round (`TableInRound`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from consumer.errors import ConsumerError
from consumer.model.files import Bounds, DataFile, Folder
from consumer.model.names import TableName
from consumer.model.progress import NOT_READ, FolderProgress, OpenFile


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that is not done. `next_ts` is its lowest commit-ts not yet applied if an earlier read found it, else 0.

    `read_to` is set for a file that was done and is read again because other files of its folder were rewritten: rows
    up to there were read.
    """

    file: DataFile
    next_ts: int
    read_to: int | None = None

    def needed(self, bounds: Bounds | None, after: int, end: int) -> bool:
        """Returns whether rows of the file are in the window, as far as is known."""
        lowest = max(self.next_ts, bounds.first if bounds else 0)
        old = self.read_to is not None and bounds is not None and bounds.ends_by(min(after, self.read_to))
        return lowest <= end and not old


def unread_files(
    files: Iterable[DataFile],
    folders: Mapping[Folder, FolderProgress],
    timeless: bool = False,
    relisted: Collection[Folder] = (),
) -> list[UnreadFile]:
    """Returns the files of one table that are not done, in file order; `files` are sorted.

    A done file is never read again, with three exceptions:

    1. The last one of a folder, if its size or stamp changed: TiCDC may rewrite it after a crash.
    2. All files of the folders in `relisted`. Rows at or below the table's progress are dropped as duplicates.
    3. If rows are `timeless` they cannot be dropped: the files after such a file in its series are read again too, so
       that the last row of a key is the last in the series.
    """
    unread: list[UnreadFile] = []
    opened: dict[Folder, dict[int, OpenFile]] = {}
    changed_series: set[tuple[str, str, str]] = set()
    for file in files:
        place = folders.get(file.folder, _NEVER_READ)
        if file.folder not in opened:
            opened[file.folder] = {entry.index: entry for entry in place.open}
        record = _record_of(file.index, place, opened[file.folder])
        changed = record is not None and not record.holds(file)
        if timeless and (changed or file.folder in relisted):
            changed_series.add(file.folder.series)
        if file.folder.series in changed_series or changed or (record is None and file.index > place.done):
            unread.append(UnreadFile(file, 0))
        elif record is None or record.next_ts == 0:
            if file.folder in relisted:
                # From file `done` on there is no `read_to`, so these are read whatever rows they have: that records the
                # present last file, and the next round no longer takes the folder for rewritten.
                unread.append(UnreadFile(file, 0, place.last_ts if file.index < place.done else None))
        else:
            unread.append(UnreadFile(file, record.next_ts))
    return unread


def _record_of(index: int, place: FolderProgress, opened: Mapping[int, OpenFile]) -> OpenFile | None:
    """Returns the record of a file that was read. Files below the last done one have none."""
    if index == place.done:
        return place.last
    return opened.get(index)


def _is_another(record: OpenFile, file: DataFile) -> bool:
    return record.size != NOT_READ and not record.holds(file)


def rewritten_files(
    files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress]
) -> Iterator[tuple[DataFile, OpenFile]]:
    """Yields files that are no longer what was read, each with the record of what was read. Of a folder's done files
    only the last has a record."""
    opened: dict[Folder, dict[int, OpenFile]] = {}
    for file in files:
        place = folders.get(file.folder)
        if place is None:
            continue
        if file.folder not in opened:
            opened[file.folder] = {entry.index: entry for entry in place.open}
        record = _record_of(file.index, place, opened[file.folder])
        if record is not None and _is_another(record, file):
            yield file, record


def rows_gone_up_to(files: Iterable[DataFile], first: Mapping[str, int], folder: FolderProgress, position: int) -> int:
    """Returns the commit-ts up to which rows that were read of `files` may be gone, 0 if none is. Rows may be gone if a
    rewritten file begins later than the one that was read: a changefeed that was set back writes files again from where
    it begins.

    `first` has the least commit-ts of the rows of today's files, by path; files that it does not name are skipped.
    `folder` is their folder's progress until now, and the table is at `position`. For file 1 the folder keeps
    `head_ts`, so the loss is found at any time. For another file it is found only until the file is read again, which
    replaces its record.
    """
    if not folder.last_ts:
        return 0
    opened = {entry.index: entry for entry in folder.open}
    gone = 0
    for file in files:
        if not (first_ts := first.get(file.path, 0)):
            continue
        record = _record_of(file.index, folder, opened)
        if file.index == 1 and folder.head_ts:
            is_later = folder.head_ts < first_ts and folder.head_ts <= position
        elif record is None:
            is_later = file.index < folder.done and first_ts > position
        else:
            before = max(record.first_ts, folder.first_ts)
            is_later = _is_another(record, file) and before < first_ts and before <= position
        if is_later:
            gone = max(gone, min(first_ts - 1, position))
    return gone


def was_rewritten(files: Collection[DataFile], folder: FolderProgress, is_relisted: bool) -> bool:
    """Returns whether one of `files`, whose rows have no time, was another file when it was read. If the folder
    `is_relisted`, the files before its last one, of which there is no record, may have been others."""
    return (is_relisted and folder.done > 1) or any(rewritten_files(files, {file.folder: folder for file in files}))


def loses_record(files: Collection[DataFile], folder: FolderProgress) -> bool:
    """Returns whether one of `files`, which are still to be read, was another file when it was read completely.
    `folder_after` drops that record, so nobody can find out later whether the file had the same rows."""
    changed = rewritten_files(files, {file.folder: folder for file in files})
    return any(not record.next_ts for _, record in changed)


def folder_after(
    folder: FolderProgress,
    files: Iterable[DataFile],
    read: Mapping[str, int],
    unread: Collection[str] = (),
    end: int | None = None,
    checksums: Mapping[str, int] | None = None,
    first: Mapping[str, int] | None = None,
) -> FolderProgress:
    """Returns `folder` once the paths in `read` were read. `read` maps a path to its lowest commit-ts not applied, 0
    for none, `checksums` to that of its content, `first` to the least commit-ts of its rows, as far as they are known.

    `files` are all listed files of the folder, in order. `unread` are the paths that this round must still read: files
    that were read must not hide those. The number `done` moves by these rules:

    1. It skips numbers that the storage no longer has.
    2. It steps back below a done file that was rewritten and has unapplied rows, or that is in `unread`.
    3. It is at most `end`, the first number whose file may still be written again, and steps back to it. If numbers are
       missing after `end` (an accepted hole), the first number after the last hole takes its place.
    """
    listed = list(files)
    last, sums, first = folder.last, checksums or {}, first or {}
    later = {file.index for file in listed if file.path in unread and file.path not in read}
    entries = {entry.index: entry for entry in folder.open if entry.next_ts or entry.index not in later}
    again = (file.index for file in listed if read.get(file.path) or file.index in later)
    first_again = next((index for index in again if index <= last.index), None)
    if end is not None and end < last.index:
        # A number that does not exist yet is not done: all files can have been removed, and the first ones be written
        # again.
        first_again = min(
            first_again or last.index, 1 + max((file.index for file in listed if file.index <= end), default=0)
        )
    if first_again is not None:
        below = next((file for file in listed if file.index == first_again - 1), None)
        passed = [
            f for f in listed if first_again <= f.index <= last.index and f.path not in read and f.index not in later
        ]
        entries |= {file.index: last if file.index == last.index else _as_listed(file) for file in passed}
        last = _as_listed(below) if below else OpenFile(first_again - 1, 0, 0, "")
    for file in listed:
        if file.path not in read or file.index < last.index:
            continue
        learned = (sums.get(file.path, 0), first.get(file.path, 0))
        record = OpenFile(file.index, read[file.path], file.size, file.stamp, *learned)
        if file.index == last.index:
            last = record
        else:
            entries[file.index] = record
    if end is not None:
        numbers = pairwise(sorted([last.index, *(index for index in entries if index > last.index)]))
        end = max([end, *(following for number, following in numbers if following > number + 1)])
    for file in listed:
        if file.index <= last.index:
            continue
        entry = entries.get(file.index)
        if entry is None or entry.next_ts or (end is not None and file.index > end):
            break
        last = entry
    heads = [first.get(file.path, 0) for file in listed[:1] if file.index == 1]
    folder = replace(folder, head_ts=min(filter(None, [folder.head_ts, *heads]), default=0))
    return folder.done_to(last, sorted(entry for entry in entries.values() if entry.index > last.index))


def _as_listed(file: DataFile) -> OpenFile:
    """Returns the record of a done file of which no more is known."""
    return OpenFile(file.index, 0, file.size, file.stamp)


def folder_without(folder: FolderProgress, files: Iterable[DataFile], unread: Collection[int]) -> FolderProgress:
    """Returns `folder` with the numbers in `unread` to be read again; `files` are all its listed files, in order."""
    listed = {file.index: file for file in files}
    done = min([folder.done, *(index - 1 for index in unread)])
    read = [_as_listed(file) for number, file in listed.items() if done < number <= folder.done]
    rest = tuple(entry for entry in sorted([*read, *folder.open]) if entry.index not in unread)
    if done == folder.done:
        return replace(folder, open=rest)
    return folder.done_to(_as_listed(listed[done]) if done in listed else OpenFile(done, 0, 0, ""), rest)


def folder_with_due(folder: FolderProgress, files: Iterable[DataFile], index: int, next_ts: int) -> FolderProgress:
    """Returns `folder`, whose file `index` was listed and not read: rows from `next_ts` on may be in it."""
    kept = folder_without(folder, files, {index})
    return replace(kept, open=tuple(sorted([*kept.open, OpenFile(index, next_ts, NOT_READ, "")])))


_NEVER_READ = FolderProgress()


@dataclass(slots=True)
class TableInRound:
    """The state of a table in a round. Every row up to `position` is in the target, or was found not to exist.

    `put_off` are the paths of files that this round leaves unread. `settled` are the folders whose last read row is
    exactly at the table's position, as `settle_moved` records it: their unread files were read up to there.
    """

    name: TableName
    position: int
    unread: list[UnreadFile]
    round_bytes: int
    error: ConsumerError | None = None
    boundaries: set[int] = field(default_factory=set)
    put_off: set[str] = field(default_factory=set)
    settled: Collection[Folder] = ()

    def passed_unread_rows(self, version: int) -> bool:
        """Returns whether a file from before `version` may have unread rows below it, although the table has passed
        `version`."""
        unread = (entry for entry in self.unread if entry.file.folder.version < version)
        return any(entry.next_ts < version and entry.file.folder not in self.settled for entry in unread)

    def begin(self, version: int) -> None:
        """The table's rows begin again at `version`: older folders hold none of them."""
        self.unread = [entry for entry in self.unread if entry.file.folder.version >= version]

    def accept_lost(self, lost: Collection[DataFile]) -> None:
        """Resumes the table, and takes `lost` off its files to be read."""
        lost_paths = {file.path for file in lost}
        self.unread = [entry for entry in self.unread if entry.file.path not in lost_paths]
        self.error = None
