"""Orders files whose rows have no time. Such rows are ordered by their place, and nodes name date folders by the clocks
of their own zones.

So a table that moves to another node can have its newer rows in the folder of an earlier date. If files were modified
in another order than their folders' dates, one of the two is wrong: the nodes' zones differ, or the storage was copied.
Times outside of their folders' dates were made by a copy, and show nothing.

Rows that have their millisecond need a place only within one: the fold refuses a key whose last row depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise

from consumer.errors import CannotBeExact, Code
from consumer.model.files import DataFile, Folder
from consumer.model.hints import load_again
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress

_ZONES = tuple(timedelta(hours=hours) for hours in (-13, -6, 0, 8, 15))
_TOLD = (
    'date-order = "time" in [consumer] orders them by the times of their files (TiCDC nodes in several zones),'
    ' date-order = "date" by the dates of their folders (a copy of a storage)'
)
_Series = tuple[str, int, str, str]


def writing_order(file: DataFile) -> tuple[object, ...]:
    """Returns the key that sorts the files of a table by when they were written."""
    return (*_series(file), file.modified, file.folder.date, file.index)


def check_dates(
    table: TableName,
    unread: Iterable[DataFile],
    listed: Iterable[DataFile],
    folders: Mapping[Folder, FolderProgress],
    order: str = "",
) -> CannotBeExact | None:
    """Returns why the order of the `unread` files of a table is unknown, None if it is known. `listed` are all of its
    files, `order` is the operator's setting. A file that is older than files that were applied is late in any order."""
    waiting = {file.path for file in unread}
    by_series = groupby(sorted(listed, key=_by_date), key=_series)
    for _, group in by_series:
        every = list(group)
        files = [file for file in every if file.folder.date]
        mixed = None if order else _mixed([file for file in every if file.path in waiting])
        turned = None if order else _turned(files, waiting)
        for error in (mixed, turned, _came_late(files, waiting, folders, order)):
            if error is not None:
                error.table = str(table)
                return error
    return None


def unordered_dates(files: Iterable[DataFile]) -> set[Folder]:
    """Returns the folders (without their dates) whose files are not proven to have been written in the order of their
    dates.

    The proof is times that fit the dates and grow with them.
    """
    spans: defaultdict[Folder, list[tuple[bool, int, int]]] = defaultdict(list)
    for folder, group in groupby(sorted(files), key=lambda file: file.folder):
        of_date = list(group)
        times = [file.modified for file in of_date]
        spans[folder._replace(date="")].append((all(map(_fits, of_date)), min(times), max(times)))
    return {folder for folder, dates in spans.items() if len(dates) > 1 and not _rise(dates)}


def _rise(dates: Sequence[tuple[bool, int, int]]) -> bool:
    return all(fits for fits, _, _ in dates) and all(last < first for (_, _, last), (_, first, _) in pairwise(dates))


def _mixed(files: list[DataFile]) -> CannotBeExact | None:
    """Returns the error of unread files with several levels of dates that overlap: the changefeed's date-separator was
    changed."""
    if len({len(file.folder.date) for file in files}) < 2 or not unordered_dates(files):
        return None
    first, last = files[0], files[-1]
    return CannotBeExact(
        f"{last.path} has another level of dates (date-separator was changed), and rows without a commit-ts do not say"
        " which came first",
        hint=_TOLD,
        path=first.path,
        code=Code.NO_COMMIT_TS,
    )


def _turned(files: list[DataFile], waiting: set[str]) -> CannotBeExact | None:
    """Returns the error of two unread files whose times and dates are in opposite orders."""
    latest: DataFile | None = None
    new = [file for file in files if file.path in waiting and _fits(file)]
    for _, group in groupby(new, key=lambda file: file.folder.date):
        same = list(group)
        wrong = next((file for file in same if latest is not None and file.modified < latest.modified), None)
        if wrong is not None and latest is not None:
            return CannotBeExact(
                f"it was modified after {wrong.path}, whose date is later, and rows without a commit-ts do not say"
                " which came first",
                hint=_TOLD,
                path=latest.path,
                code=Code.NO_COMMIT_TS,
            )
        latest = max([*same, *([latest] if latest else [])], key=lambda file: file.modified)
    return None


def _came_late(
    files: list[DataFile], waiting: set[str], folders: Mapping[Folder, FolderProgress], order: str
) -> CannotBeExact | None:
    """Returns the error of an unread file whose date is before one that was read, unless its time shows that it was
    written later."""
    read = [file for file in files if file.path not in waiting and file.folder in folders]
    newest = max(read, key=lambda file: (file.folder.date, file.index), default=None)
    for file in files if newest is not None else ():
        old = file.path in waiting and file.folder.date < newest.folder.date  # type: ignore[union-attr]
        is_timed = order == "time" or (not order and _fits(file))
        if old and not (is_timed and file.modified > newest.modified):  # type: ignore[union-attr]
            date = newest.folder.date  # type: ignore[union-attr]
            return CannotBeExact(
                f"it was not there when files of {date} were applied, and rows without a commit-ts do not say whether"
                " they are older",
                hint=load_again(),
                path=file.path,
                code=Code.NO_COMMIT_TS,
            )
    return None


def _fits(file: DataFile) -> bool:
    """Returns whether the folder's date was that of some zone when the file was modified."""
    if not file.modified:
        return False
    moment = datetime.fromtimestamp(file.modified / 1e9, UTC)
    return any((moment + zone).isoformat().startswith(file.folder.date) for zone in _ZONES)


def _series(file: DataFile) -> _Series:
    folder = file.folder
    return folder.root, folder.version, folder.partition, folder.dispatcher


def _by_date(file: DataFile) -> tuple[object, ...]:
    return (*_series(file), file.folder.date, file.index)
