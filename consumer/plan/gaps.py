"""Finds missing file numbers between the files that were read and those that exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from consumer.errors import GapFound
from consumer.layout.paths import directory_of
from consumer.model.files import DataFile, Folder, known_bounds
from consumer.model.hints import Hint, Instead, accept_command
from consumer.model.names import TableName
from consumer.model.progress import NOT_READ, FolderProgress, OpenFile
from consumer.plan.unread import rewritten_files, rows_gone_up_to

_NEVER_READ = FolderProgress()
_NONE: Mapping[Folder, int] = {}


class _Hole(NamedTuple):
    """Numbers of a folder that are missing, from `first` to `last`. `before` is the file after them, None if only other
    files show that they were written."""

    folder: Folder
    first: int
    last: int
    before: DataFile | None


def find_gaps(
    table: TableName,
    files: Iterable[DataFile],
    folders: Mapping[Folder, FolderProgress],
    start_ts: int = 0,
    written: Mapping[Folder, int] = _NONE,
) -> Iterator[GapFound]:
    """Yields the holes in the numbers of each folder above its last done file; a folder never read must begin at 1.
    `written` are the numbers up to which all files of a folder were written.

    A folder that is older than `start_ts`, up to which the target already held everything, may have lost its first
    files: TiCDC's clean-up removes whole date folders, others remove files by their age. `files` are sorted.
    """
    for hole in _holes(files, folders, start_ts, written):
        if hole.before is None:
            text = (
                f"file number {hole.first} is missing, and the index file or the name of another file there tells that"
            )
            yield _gap(table, f"{text} it was written", directory_of(hole.folder), hole.first)
        else:
            is_single = hole.first == hole.last
            which = f"file number {hole.first} is" if is_single else f"file numbers {hole.first} to {hole.last} are"
            yield _gap(table, f"{which} missing before number {hole.before.index}", hole.before.path, hole.first)


def accept_gaps(
    files: Iterable[DataFile],
    folders: Mapping[Folder, FolderProgress],
    start_ts: int = 0,
    written: Mapping[Folder, int] = _NONE,
) -> dict[Folder, FolderProgress]:
    """Returns the folders with such files once these are accepted as lost: they are missing no more, whatever becomes
    of later files."""
    changed: dict[Folder, FolderProgress] = {}
    for hole in _holes(files, folders, start_ts, written):
        place = changed.get(hole.folder) or folders.get(hole.folder) or _NEVER_READ
        if hole.first == place.done + 1:
            later_entries = (entry for entry in place.open if entry.index > hole.last)
            changed[hole.folder] = place.done_to(OpenFile(hole.last, 0, 0, ""), later_entries)
        else:
            numbers = range(hole.first, hole.last + 1)
            kept = (entry for entry in place.open if entry.index not in numbers)
            lost = (OpenFile(number, 0, NOT_READ, "") for number in numbers)
            changed[hole.folder] = replace(place, open=tuple(sorted([*kept, *lost])))
    return changed


def _holes(
    files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress], start_ts: int, written: Mapping[Folder, int]
) -> Iterator[_Hole]:
    listed = {folder: list(group) for folder, group in groupby(files, key=lambda file: file.folder)}
    for folder in sorted({*listed, *written}):
        place = folders.get(folder)
        headless = place is None and folder.version <= start_ts
        place = place or _NEVER_READ
        expected = 0 if headless else place.done + 1
        read = {entry.index for entry in place.open if not entry.next_ts}
        for file in listed.get(folder, ()):
            while expected in read:
                expected += 1
            if file.index < expected:
                continue
            if file.index > expected > 0:
                last = next(number for number in range(file.index - 1, 0, -1) if number not in read)
                yield _Hole(folder, expected, last, file)
            expected = file.index + 1
        while expected in read:
            expected += 1
        if 0 < expected <= (last := written.get(folder, 0)):
            yield _Hole(folder, expected, last, None)


def _gap(table: TableName, message: str, path: str, missing: int) -> GapFound:
    hint = "restore the missing file, or continue without its rows: " + accept_command(table)
    return GapFound(message, hint=hint, table=str(table), path=path, missing=missing)


def renamed_file_gap(gap: GapFound, unknown: Iterable[str]) -> GapFound:
    """Returns `gap`, or another error if the missing file exists under a longer name: nothing is lost then. `unknown`
    are the paths of no known form."""
    same_folder = (path for path in unknown if path.rpartition("/")[0] == gap.path)
    longer = next((p for p in same_folder if (match := _LONGER.search(p)) and int(match[1]) == gap.missing), None)
    if longer is None:
        return gap
    return GapFound(
        f"file number {gap.missing} is not there, and {longer} has its number",
        hint=Hint(
            Instead(
                "wait until the tool that packs or copies the file has finished, or put the unpacked file there under"
                " its own name, and run again; if the file with the longer name is not the changefeed's, move it away"
            )
        ),
        table=gap.table,
        path=gap.path,
        missing=gap.missing,
    )


_LONGER = re.compile(r"(\d+)\.[a-z]+\.[^/]+$")


def lost_rows_up_to(
    files: Collection[DataFile],
    folders: Mapping[Folder, FolderProgress],
    position: int,
    bounds: Callable[[Collection[DataFile]], Mapping[str, object]],
) -> int:
    """Returns the commit-ts up to which rows of a table that were read may be gone from the storage, 0 if none is:
    files were written again, or the last ones of a folder are gone. The table is at `position`. `folders` are its own.
    `bounds` returns the first and the last commit-ts of files."""
    gone_ts, listed = max((place.gone_ts for place in folders.values()), default=0), _numbers(files)
    for folder, place in folders.items():
        read = {entry.index for entry in place.open if entry.size != NOT_READ} | ({place.done} if place.size else set())
        if not listed.get(folder, set()).issuperset(read):
            gone_ts = max(gone_ts, min(last_row(folder, place), position))
    changed = {file for file, _ in rewritten_files(files, folders)}
    changed |= {file for file in files if file.index == 1 and file.folder in folders and folders[file.folder].head_ts}
    ends = bounds(changed) if changed else {}
    first = {path: end.first for path, end in known_bounds(ends).items()}
    for folder, group in groupby(sorted(changed), key=lambda file: file.folder):
        gone_ts = max(gone_ts, min(rows_gone_up_to(group, first, folders[folder], position), folders[folder].last_ts))
    return gone_ts


def last_row(folder: Folder, place: FolderProgress) -> int:
    """Returns a commit-ts that no row which was read of the folder exceeds, 0 if there were none. Rows without a time
    are those of their folder's version: rows after a later statement are in a later folder."""
    read = place.done or place.open
    return place.last_ts or (folder.version + 1 if read else 0)


def missing_file_below(files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress]) -> str:
    """Returns a file that is missing between others that were read, "" for none. It may have been read, or accepted as
    lost."""
    for folder, numbers in sorted(_numbers(files).items()):
        done = folders[folder].done if folder in folders else 0
        for number in range(min(numbers), done):
            if number not in numbers:
                return f"file number {number} of {directory_of(folder)}"
    return ""


def _numbers(files: Iterable[DataFile]) -> dict[Folder, set[int]]:
    numbers: dict[Folder, set[int]] = {}
    for file in files:
        numbers.setdefault(file.folder, set()).add(file.index)
    return numbers


def find_lost_remainders(
    table: TableName,
    files: Iterable[DataFile],
    folders: Mapping[Folder, FolderProgress],
    applied_ts: int,
) -> Iterator[GapFound]:
    """Yields the files that are gone although rows of them above `applied_ts` were seen and are still to be read.
    `folders` are those of the table."""
    for folder, entry in _lost_rests(files, folders, applied_ts):
        text = f"file number {entry.index} is gone before its rows from commit-ts {entry.next_ts} on were applied"
        yield _gap(table, text, directory_of(folder), entry.index)


def accept_lost_remainders(
    files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress], applied_ts: int
) -> dict[Folder, FolderProgress]:
    """Returns the folders of which these files are accepted as lost: their numbers are missing no more, whatever comes
    after them."""
    changed: dict[Folder, FolderProgress] = {}
    for folder, lost in _lost_rests(files, folders, applied_ts):
        place = changed.get(folder, folders[folder])
        entries = (replace(entry, next_ts=0) if entry == lost else entry for entry in place.open)
        changed[folder] = replace(place, open=tuple(entries))
    return changed


def _lost_rests(
    files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress], applied_ts: int
) -> Iterator[tuple[Folder, OpenFile]]:
    opened = sorted((folder, place) for folder, place in folders.items() if place.open)
    listed = {(file.folder, file.index) for file in files} if opened else set()
    for folder, place in opened:
        for entry in place.open:
            if entry.next_ts > applied_ts and (folder, entry.index) not in listed:
                yield folder, entry
