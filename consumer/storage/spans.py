"""Computes from the progress alone which ranges of the path order hold nothing new.

A file's number is padded to the changefeed's ``file-index-digit``, at most 20 digits. Padded to 20, the last number
that was read sorts before every greater number, however that one is padded. So the range below it holds nothing new,
even if the width was changed or a number has outgrown it. (Folders with narrower numbers are therefore listed whole.)
The files of a dispatcher sort in a range of their own, so a new dispatcher lies outside the others'.

A date is over once its table, and the newest date of the same version and partition (of all its writers), are two days
past its end, and nothing in it waits to be read. TiCDC names it by the clock of the node that writes, in that node's
zone, and commit-ts can be far ahead of all of these clocks. What lies between two dates that are over is over too. Two
kinds of dates are never closed: the newest one of each version and partition, so that a listing always shows the last
file that was read; and the oldest of all that would be closed, whose absence shows that TiCDC's clean-up has run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby

from consumer.layout.paths import INDEX_WIDTH, date_level, directory_of
from consumer.layout.schema_file import is_table_id, root_of
from consumer.model.files import Folder
from consumer.model.progress import FolderProgress, Progress, State
from consumer.model.times import tso_to_time

GRACE = timedelta(days=2)
_Dates = dict[str, dict[Folder, FolderProgress]]
"""By date, the folders of its dispatchers."""
_NEVER = datetime.min.replace(tzinfo=UTC) + GRACE
_DATE_FORMATS = {"day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The paths from `first` up to but not including `end`; `count` is the approximate number of files in it."""

    first: str
    end: str
    count: int


class Spans:
    """Spans that do not overlap, in path order."""

    def __init__(
        self, spans: Iterable[Span] = (), closed: Collection[Folder] = (), looked_into: Iterable[str] = ()
    ) -> None:
        self.closed = closed
        """Folders that are not listed at all."""
        self.looked_into = sorted(looked_into)
        """The directories of the other known folders, each with a slash at its end, in path order."""
        self.all: list[Span] = []
        for span in sorted(spans):
            if self.all and span.first < self.all[-1].end:
                last = self.all.pop()
                span = Span(last.first, max(last.end, span.end), max(last.count, span.count))
            self.all.append(span)
        self._firsts = [span.first for span in self.all]

    def covering(self, path: str) -> Span | None:
        """Returns the span that `path` lies in."""
        index = bisect_right(self._firsts, path) - 1
        return self.all[index] if index >= 0 and path < self.all[index].end else None

    def after(self, path: str) -> Span | None:
        """Returns the first span that begins after `path`."""
        index = bisect_right(self._firsts, path)
        return self.all[index] if index < len(self.all) else None

    def covers_directory(self, directory: str) -> bool:
        """Returns whether everything below `directory` lies in one span."""
        span = self.covering(f"{directory}/")
        return span is not None and span.end >= _end_of_directory(directory)

    @property
    def count(self) -> int:
        return sum(span.count for span in self.all)


def read_spans(progress: Progress, whole: Collection[Folder] = ()) -> Spans:
    """Returns what a listing may skip: no file in it can change a round after `progress`. Nothing is skipped of the
    folders in `whole`."""
    by_version: defaultdict[tuple[str, int, str], _Dates] = defaultdict(dict)
    for folder, state in progress.folders.items():
        dates = by_version[folder.root, folder.version, folder.partition]
        dates.setdefault(folder.date, {})[folder] = state
    over_before = _over_before(progress)
    spans: list[Span] = []
    closed_dates: dict[tuple[str, int, str], set[str]] = {}
    for key, dates in by_version.items():
        open_dates = {date for date in dates if not dates[date].keys().isdisjoint(whole)}
        closed_dates[key] = _closed(dates, over_before(key[0])) - open_dates
    oldest = min(((min(closed), key) for key, closed in closed_dates.items() if closed), default=None)
    if oldest is not None:
        closed_dates[oldest[1]].remove(oldest[0])
    folders: set[Folder] = set()
    for key, dates in by_version.items():
        closed = _whole_stretches(dates, closed_dates[key])
        folders.update(folder for date in closed for folder in dates[date])
        for (over, _), run in groupby(sorted(dates, key=_in_path_order), partial(_neighbourhood, closed)):
            if over:
                spans.append(_closed_span([dates[date] for date in run]))
            else:
                open_folders = (pair for date in run for pair in dates[date].items())
                spans.extend(_below_done(folder, state) for folder, state in open_folders if folder not in whole)
    looked_into = (f"{directory_of(folder)}/" for folder in progress.folders if folder not in folders)
    return Spans((span for span in spans if span.count > 0), folders, looked_into)


def _below_done(folder: Folder, state: FolderProgress) -> Span:
    """Returns the files of a folder below its last one that was read, which may still be rewritten. The span begins
    with a digit, after an index file that lies next to the data files."""
    name = f"{directory_of(folder)}/CDC" + (f"_{folder.dispatcher}_" if folder.dispatcher else "")
    return Span(f"{name}0", f"{name}{state.done:0{INDEX_WIDTH}d}", state.done - 1)


def _closed(dates: _Dates, before: datetime) -> set[str]:
    """Returns the dates that are over."""
    before = min(before, max(map(_begin, dates)) - GRACE)
    over = (date for date in sorted(dates)[:-1] if date and date < before.strftime(_DATE_FORMATS[date_level(date)]))
    return {date for date in over if not any(state.waits for state in dates[date].values())}


def _begin(date: str) -> datetime:
    """Returns when a date begins. Without a date, and for one that no calendar has, it is the beginning of time."""
    try:
        return datetime.strptime(date, _DATE_FORMATS[date_level(date)]).replace(tzinfo=UTC)
    except (KeyError, ValueError):
        return _NEVER


def _whole_stretches(dates: _Dates, closed: set[str]) -> set[str]:
    """Returns `closed` without a month or year of which a day is listed, for a changefeed that has had both forms: some
    servers (not S3's own) list the days after their month, and a leap over it would skip them."""
    if len({len(date) for date in dates}) < 2:
        return closed
    looked_at = dates.keys() - closed
    return {date for date in closed if not any(other.startswith(f"{date}-") for other in looked_at)}


def _in_path_order(date: str) -> str:
    """Returns the sort key: a month's folder comes after those of its days, if a changefeed has had both."""
    return f"{date}/"


def _neighbourhood(closed: Set[str], date: str) -> tuple[bool, str]:
    """Returns what neighbours in path order must share for one span to cover them: being closed, and the year. All
    names that begin with a year and a dash are dates; between two plain years the id of a partition can lie."""
    return (date in closed, date[:4] if "-" in date else date)


def _closed_span(run: list[Mapping[Folder, FolderProgress]]) -> Span:
    """Returns everything from the first folder to the end of the last."""
    first, last = (directory_of(next(iter(folders))) for folders in (run[0], run[-1]))
    return Span(
        f"{first}/",
        _end_of_directory(last),
        sum(state.done + 1 for folders in run for state in folders.values()),
    )


def _end_of_directory(directory: str) -> str:
    """Returns the first name after all paths below `directory`: "0" follows "/"."""
    return f"{directory}0"


def _over_before(progress: Progress) -> Callable[[str], datetime]:
    """Returns by root the moment before which date folders are over, for the table with the greatest lag among those
    that the root may belong to."""
    tables = {name: table for name, table in progress.tables.items() if name.table}
    by_root = {root_of(name.database, name.table): table.applied_ts for name, table in tables.items()}
    alive = (
        table_progress.applied_ts for table_progress in tables.values() if table_progress.state is not State.DROPPED
    )
    least = min((progress.applied_ts, *alive))

    def before(root: str) -> datetime:
        table_ts = least if is_table_id(root) else by_root.get(root, progress.applied_ts)
        return tso_to_time(min(table_ts, progress.applied_ts)) - GRACE

    return before
