"""One load of one table: its window, its files, and the end of a bounded round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from consumer.model.files import Bounds, DataFile
from consumer.model.names import TableName
from consumer.model.steps import LoadRows, PlannedFile, Window
from consumer.model.times import ms_to_tso, tso_to_ms
from consumer.plan.date_order import place, unordered_dates
from consumer.plan.moments import Stretch, is_too_much, next_moment
from consumer.plan.unread import Unread


def plan_load(
    table: TableName,
    window: Window,
    unread: Sequence[Unread],
    bounds: Mapping[str, Bounds],
    boundaries: Collection[int],
    round_bytes: int,
    date_order: str = "",
    publish_bytes: int = 0,
) -> LoadRows:
    """The load that brings `table` towards ``window.end``: all files with rows in it, or what `round_bytes` allows.

    `boundaries` are the versions of the table's own statements. Where `bounds` does not know a file it is read.
    `date_order` is as in RoundOptions. `publish_bytes`: rows of the window are written in one transaction, of about so
    many bytes or `round_bytes`, and files can be read for several of them; 0: in any number of transactions.
    """
    needed = [e.file for e in unread if e.needed(bounds.get(e.file.path), window.after, window.end)]
    if sum(file.size for file in needed) > round_bytes and all(file.path in bounds for file in needed):
        bounded, end = _bounded(needed, window, bounds, round_bytes)
        most = max(publish_bytes, round_bytes)
        if publish_bytes and is_too_much([file.size for file in bounded], most, most):
            bounded, end = _divided(table, needed, window, bounds, most)
        needed, window = bounded, Window(window.after, end)
    return LoadRows(table, window, _planned(needed, window, boundaries, date_order))


def plan_timeless_load(
    table: TableName, window: Window, unread: Sequence[Unread], boundaries: Collection[int], date_order: str = ""
) -> LoadRows:
    """The load of rows that say nothing of their time: files are read wholly, and their folders alone say which.

    A statement's own folder holds rows behind it, the checkpoint's own folder is due. There are no bounded rounds:
    nothing tells where all series of files have come equally far. Whoever lets such files in has asked check_dates.
    """
    below = window.end if window.end in boundaries else window.end + 1
    files = [entry.file for entry in unread if entry.file.folder.version < below]
    return LoadRows(table, window, _planned(files, window, boundaries, date_order or "date"))


def _bounded(
    files: Sequence[DataFile], window: Window, bounds: Mapping[str, Bounds], round_bytes: int
) -> tuple[list[DataFile], int]:
    """The files that a bounded round reads, and where it ends: just below the first row of every file left out.

    So all rows up to its end are in the files read, whatever order files were written in. If that is no progress (one
    huge transaction, a restart that sends many rows again), more is read.
    """
    queue = sorted(files, key=lambda file: (bounds[file.path].first, file))
    size = 0
    for count, file in enumerate(queue[:-1], 1):
        size += file.size
        end = min(bounds[queue[count].path].first - 1, window.end)
        if size >= round_bytes and end > window.after:
            return queue[:count], end
    return queue, window.end


def _divided(
    table: TableName, files: Sequence[DataFile], window: Window, bounds: Mapping[str, Bounds], most: int
) -> tuple[list[DataFile], int]:
    """The files that have rows up to where they have about `most` bytes, and that moment; the next transaction alone,
    where that has more."""
    rows = [Stretch.of(table, file, bounds[file.path]) for file in files]
    end = max(next_moment(rows, (), window.after, window.end, most), window.after + 1)
    return [file for file in files if bounds[file.path].first <= end], end


def _planned(
    files: Sequence[DataFile], window: Window, boundaries: Collection[int], date_order: str
) -> tuple[PlannedFile, ...]:
    """Files in the order of writing, as far as it is known. If it is unknown, date folders are series of their own."""
    doubtful = set() if date_order else unordered_dates(files)
    ordinals: defaultdict[int, int] = defaultdict(int)
    numbers: dict[tuple[object, ...], int] = {}
    planned: list[PlannedFile] = []
    for file in sorted(files, key=place if date_order == "time" else None):
        date = file.folder.date if file.folder._replace(date="") in doubtful else ""
        number = numbers.setdefault((*file.folder.series, date), len(numbers))
        planned.append(PlannedFile(file, number, ordinals[number], window, coarse_window(window, file, boundaries)))
        ordinals[number] += 1
    return tuple(planned)


def coarse_window(window: Window, file: DataFile, boundaries: Collection[int]) -> Window:
    """The window for rows that only say ``es``, compared as ``es << 18``.

    A checkpoint's own millisecond is applied on both of its sides. A statement's own millisecond follows the folder:
    rows in folders of that version or later came after it.
    """
    first = ms_to_tso(tso_to_ms(window.after))
    last = ms_to_tso(tso_to_ms(window.end))
    below = window.after in boundaries and file.folder.version < window.after
    above = window.end in boundaries and file.folder.version >= window.end
    return Window(first if below or ends_with_millisecond(window.after) else first - 1, last - 1 if above else last)


def ends_with_millisecond(tso: int) -> bool:
    """Whether `tso` is the last of its millisecond, so that a window ending there splits no millisecond."""
    return ms_to_tso(tso_to_ms(tso + 1)) == tso + 1
