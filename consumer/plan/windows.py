"""Plans one load of one table: its window, its files, and the end of a bounded round.

A round of `snapshot` ends at the next moment at which the rows of all tables are published together: just before the
next statement that readers would see with rows of another moment, or where the rows would exceed one transaction's
size.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from consumer.model.actions import Action
from consumer.model.files import Bounds, DataFile
from consumer.model.names import TableName
from consumer.model.progress import Progress, State
from consumer.model.steps import LoadRows, PlannedFile, Window
from consumer.model.times import ms_to_tso, tso_to_ms
from consumer.plan.date_order import unordered_dates, writing_order
from consumer.plan.options import FileOptions
from consumer.plan.statement import Statement
from consumer.plan.timeline import Timeline
from consumer.plan.unread import UnreadFile


def plan_load(
    table: TableName,
    window: Window,
    unread: Sequence[UnreadFile],
    bounds: Mapping[str, Bounds],
    boundaries: Collection[int],
    settings: FileOptions,
    round_bytes: int = sys.maxsize,
    publish_bytes: int = 0,
) -> LoadRows:
    """Returns the load that brings `table` towards ``window.end``: all files with rows in it, or what `round_bytes`
    allows.

    `boundaries` are the versions of the table's own statements. A file is read if `bounds` does not have it.
    `publish_bytes` other than 0 means that rows of the window are written in one transaction, of about so many bytes or
    `round_bytes`, and that files can be read for several transactions; 0: in any number of transactions.

    If rows have no time, files are read completely, and only their folders decide which. A statement's own folder holds
    rows after it, and the checkpoint's own folder is due. There are no bounded rounds, because nothing shows up to
    where all series of files are complete. The caller has checked such files by check_dates.
    """
    if settings.dialect.timeless:
        below = window.end if window.end in boundaries else window.end + 1
        files = [entry.file for entry in unread if entry.file.folder.version < below]
        return LoadRows(table, window, _planned(files, window, boundaries, settings.date_order or "date"))
    needed = [e.file for e in unread if e.needed(bounds.get(e.file.path), window.after, window.end)]
    if sum(file.size for file in needed) > round_bytes and all(file.path in bounds for file in needed):
        bounded, end = _bounded(needed, window, bounds, round_bytes)
        most = max(publish_bytes, round_bytes)
        if publish_bytes and exceeds_size([file.size for file in bounded], most, most):
            bounded, end = _divided(table, needed, window, bounds, most)
        needed, window = bounded, Window(window.after, end)
    return LoadRows(table, window, _planned(needed, window, boundaries, settings.date_order))


def _bounded(
    files: Sequence[DataFile], window: Window, bounds: Mapping[str, Bounds], round_bytes: int
) -> tuple[list[DataFile], int]:
    """Returns the files that a bounded round reads, and where it ends: just below the first row of every other file.

    So all rows up to its end are in the files read, whatever order files were written in. If that is no progress (one
    huge transaction, a restart that sends many rows again), more is read.
    """
    queue = sorted(files, key=lambda file: (bounds[file.path].first, file))
    size = 0
    for count, file in enumerate(queue[:-1], 1):
        size += file.size
        end = bounds[queue[count].path].first - 1
        if size >= round_bytes and end > window.after:
            return queue[:count], end
    return queue, window.end


def _divided(
    table: TableName, files: Sequence[DataFile], window: Window, bounds: Mapping[str, Bounds], most: int
) -> tuple[list[DataFile], int]:
    """Returns the files that have rows up to the moment at which they have about `most` bytes, and that moment. If the
    next transaction alone has more, the moment is that of this transaction."""
    rows = [Stretch.of(table, file, bounds[file.path]) for file in files]
    end = max(next_moment(rows, (), window.after, window.end, most), window.after + 1)
    return [file for file in files if bounds[file.path].first <= end], end


def _planned(
    files: Sequence[DataFile], window: Window, boundaries: Collection[int], date_order: str
) -> tuple[PlannedFile, ...]:
    """Returns the files in the order of writing, as far as it is known. If it is unknown, date folders are series of
    their own."""
    doubtful = set() if date_order else unordered_dates(files)
    ordinals: defaultdict[int, int] = defaultdict(int)
    numbers: dict[tuple[object, ...], int] = {}
    planned: list[PlannedFile] = []
    for file in sorted(files, key=writing_order if date_order == "time" else None):
        date = file.folder.date if file.folder._replace(date="") in doubtful else ""
        number = numbers.setdefault((*file.folder.series, date), len(numbers))
        planned.append(PlannedFile(file, number, ordinals[number], window, coarse_window(window, file, boundaries)))
        ordinals[number] += 1
    return tuple(planned)


def coarse_window(window: Window, file: DataFile, boundaries: Collection[int]) -> Window:
    """Returns the window for rows that only have ``es``, compared as ``es << 18``.

    A checkpoint's own millisecond is applied on both of its sides. A statement's own millisecond follows the folder:
    rows in folders of that version or later came after it.
    """
    first = ms_to_tso(tso_to_ms(window.after))
    last = ms_to_tso(tso_to_ms(window.end))
    below = window.after in boundaries and file.folder.version < window.after
    above = window.end in boundaries and file.folder.version >= window.end
    return Window(first if below or ends_with_millisecond(window.after) else first - 1, last - 1 if above else last)


def ends_with_millisecond(tso: int) -> bool:
    """Returns whether `tso` is the last of its millisecond, so that a window ending there splits no millisecond."""
    return ms_to_tso(tso_to_ms(tso + 1)) == tso + 1


_MAKING = frozenset({Action.CREATE_SCHEMA, Action.CREATE_TABLE, Action.CREATE_TABLES})


@dataclass(frozen=True, slots=True)
class Stretch:
    """A file of `size` bytes with rows from commit-ts `first` to `last`; the rows below `lowest` are applied."""

    table: TableName
    size: int
    first: int
    last: int
    lowest: int = 0

    @classmethod
    def of(cls, table: TableName, file: DataFile, bounds: Bounds, lowest: int = 0) -> Stretch:
        return cls(table, file.size, bounds.first, max(bounds.first, bounds.last), lowest)

    def bytes_in(self, after: int, last: int) -> int:
        """Returns about how many bytes its rows above `after` and up to `last` have, as if they were evenly spread."""
        begin, end = max(self.first, after + 1), min(self.last, last)
        return self.size * (end - begin + 1) // (self.last - self.first + 1) if begin <= end else 0


def exceeds_size(sizes: Collection[int], most: int, largest: int = sys.maxsize) -> bool:
    """Returns whether files of `sizes` are more than about `most` bytes. One file may exceed this if it has at most
    `largest`."""
    return sum(sizes) - min(max(sizes, default=0), largest) > most


def common_moment(progress: Progress) -> int:
    """Returns the moment from which all tables go together: a table that is not there yet has to come there first."""
    ends = (place.applied_ts for place in progress.tables.values() if place.state is State.OK)
    return max(progress.applied_ts, *ends, 0)


def visible_versions(timeline: Timeline, after: int) -> list[int]:
    """Returns the versions above `after` of the pending statements that readers see, in order."""
    seen = {statement.version for statement in timeline.pending if not _only_makes(statement, timeline.live)}
    return sorted(version for version in seen if version > after)


def _only_makes(statement: Statement, live: Collection[TableName]) -> bool:
    """Returns whether the statement creates tables or a database, and touches no existing table."""
    return statement.action in _MAKING and not any(name in live for name in statement.touches)


def next_moment(stretches: Sequence[Stretch], versions: Sequence[int], after: int, last: int, most: int) -> int:
    """Returns the end of the round that begins at `after` and may go to `last`. The round has at most one of the
    statements `versions`, before all rows. The rows have about `most` bytes; the end is `after` itself if the very next
    transaction has more."""
    rows = [stretch for stretch in stretches if stretch.last > after]
    first = min((max(stretch.first, stretch.lowest, after + 1) for stretch in rows), default=last + 1)
    later_versions = versions if versions and first < versions[0] else versions[1:]
    end = min([last, *(version - 1 for version in later_versions[:1])])

    def fits(moment: int) -> bool:
        return sum(stretch.bytes_in(after, moment) for stretch in rows) <= most

    return end if fits(end) else _greatest(fits, after, end)


def _greatest(fits: Callable[[int], bool], low: int, high: int) -> int:
    """Returns the greatest moment that fits, given that `low` fits and `high` does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
