"""Which files still hold rows to apply, and what a folder's progress becomes once some of them were read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from consumer.model.files import DataFile, Folder
from consumer.model.progress import FolderProgress, OpenFile


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that is not done. `next_ts` is its lowest commit-ts not yet applied where an earlier read told, else 0."""

    file: DataFile
    next_ts: int


def unread_files(
    files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress], timeless: bool = False
) -> list[Unread]:
    """The files of one table that are not done, in file order.

    A done file is never read again, but the last one of a folder: TiCDC may write it anew after a crash, so another
    size or stamp makes it unread (its rows at or below the table's progress are dropped as duplicates). Of `timeless`
    rows none can be dropped: there it takes another size, as a copy of the file has another stamp too.
    """
    found: list[Unread] = []

    def same(size: int, stamp: str, file: DataFile) -> bool:
        return size == file.size and (timeless or stamp == file.stamp)

    for file in files:
        folder = folders.get(file.folder, _NEVER_READ)
        if file.index < folder.done:
            continue
        if file.index == folder.done:
            if not same(folder.size, folder.stamp, file):
                found.append(Unread(file, 0))
            continue
        known = next((entry for entry in folder.open if entry.index == file.index), None)
        if known is None or not same(known.size, known.stamp, file):
            found.append(Unread(file, 0))
        elif known.next_ts:
            found.append(Unread(file, known.next_ts))
    return found


def rewritten_files(
    files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress]
) -> Iterator[tuple[DataFile, int]]:
    """Files that are no longer what was read, each with its size then. Of a folder's done files the last is known."""
    for file in files:
        folder = folders.get(file.folder, _NEVER_READ)
        read = {entry.index: (entry.size, entry.stamp) for entry in folder.open} | {
            folder.done: (folder.size, folder.stamp)
        }
        size, stamp = read.get(file.index, (file.size, file.stamp))
        if (size, stamp) != (file.size, file.stamp):
            yield file, size


def folder_after(folder: FolderProgress, files: Iterable[DataFile], read: Mapping[str, int]) -> FolderProgress:
    """`folder` once the paths in `read` were read; `read` maps a path to its lowest commit-ts not applied, 0 for none.

    `files` are all listed files of the folder, in order: `done` moves over numbers that the storage no longer has.
    """
    entries = {entry.index: entry for entry in folder.open}
    done, size, stamp = folder.done, folder.size, folder.stamp
    listed = [file for file in files if file.index >= done]
    for file in listed:
        if file.path not in read:
            continue
        if file.index == done:
            size, stamp = file.size, file.stamp
        else:
            entries[file.index] = OpenFile(file.index, read[file.path], file.size, file.stamp)
    for file in listed:
        if file.index <= done:
            continue
        entry = entries.get(file.index)
        if entry is None or entry.next_ts:
            break
        done, size, stamp = file.index, file.size, file.stamp
    rest = tuple(sorted(entry for entry in entries.values() if entry.index > done))
    return FolderProgress(done, size, stamp, rest)


def folder_without(folder: FolderProgress, files: Iterable[DataFile], unread: Collection[int]) -> FolderProgress:
    """`folder` with the numbers in `unread` to be read again; `files` are all that are listed of it, in order."""
    listed = {file.index: file for file in files}
    done = min([folder.done, *(index - 1 for index in unread)])
    read = [OpenFile(at, 0, file.size, file.stamp) for at, file in listed.items() if done < at <= folder.done]
    rest = tuple(entry for entry in sorted([*read, *folder.open]) if entry.index not in unread)
    if done == folder.done:
        return FolderProgress(done, folder.size, folder.stamp, rest)
    last = listed.get(done)
    return FolderProgress(done, last.size if last else 0, last.stamp if last else "", rest)


_NEVER_READ = FolderProgress()
