"""Which ranges of the path order hold nothing new, found from the progress alone.

A file's number is padded to the changefeed's ``file-index-digit``, at most 20 digits. Padded to 20, the last number
that was read sorts before every greater number, however that one is padded: the stretch below it holds nothing new even
where the width was changed or a number has outgrown it. (Folders with narrower numbers are therefore looked at whole.)
The files of a dispatcher sort in a stretch of their own, so a new dispatcher lies outside the others'.

A date folder is over once its table, and the newest date of its series, are two days past its end: TiCDC names it by
the clock of the node that writes, in that node's zone, and commit-ts can be far ahead of all of these clocks. What lies
between two folders that are over is over too. The newest one of a series of dates is never closed, so a listing always
shows the last file that was read; nor is the oldest of all, which tells by its absence that TiCDC's clean-up was there.
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
    """Paths from `first` up to but not `end`; `count` is about how many files lie there."""

    first: str
    end: str
    count: int


class Spans:
    """Spans that do not overlap, in path order."""

    def __init__(
        self, spans: Iterable[Span] = (), closed: Collection[Folder] = (), looked_into: Iterable[str] = ()
    ) -> None:
        self.closed = closed
        """Folders of which nothing at all is looked at."""
        self.looked_into = sorted(looked_into)
        """The directories of the other folders that are known, each with a slash at its end, in path order."""
        self.all: list[Span] = []
        for span in sorted(spans):
            if self.all and span.first < self.all[-1].end:
                last = self.all.pop()
                span = Span(last.first, max(last.end, span.end), max(last.count, span.count))
            self.all.append(span)
        self._firsts = [span.first for span in self.all]

    def covering(self, path: str) -> Span | None:
        """The span that `path` lies in."""
        at = bisect_right(self._firsts, path) - 1
        return self.all[at] if at >= 0 and path < self.all[at].end else None

    def after(self, path: str) -> Span | None:
        """The first span that begins behind `path`."""
        at = bisect_right(self._firsts, path)
        return self.all[at] if at < len(self.all) else None

    def covers_directory(self, directory: str) -> bool:
        """Whether everything below `directory` lies in one span."""
        span = self.covering(f"{directory}/")
        return span is not None and span.end >= _behind(directory)

    @property
    def count(self) -> int:
        return sum(span.count for span in self.all)


def read_spans(progress: Progress, whole: Collection[Folder] = ()) -> Spans:
    """What a listing may leave out: no file in it can change a round after `progress`. Nothing is left out of the
    folders in `whole`."""
    series: defaultdict[tuple[str, int, str], _Dates] = defaultdict(dict)
    for folder, place in progress.folders.items():
        dates = series[folder.root, folder.version, folder.partition]
        dates.setdefault(folder.date, {})[folder] = place
    over_before = _over_before(progress)
    found: list[Span] = []
    closed_dates: dict[tuple[str, int, str], set[str]] = {}
    for key, dates in series.items():
        open_dates = {date for date in dates if not dates[date].keys().isdisjoint(whole)}
        closed_dates[key] = _closed(dates, over_before(key[0])) - open_dates
    oldest = min(((min(closed), key) for key, closed in closed_dates.items() if closed), default=None)
    if oldest is not None:
        closed_dates[oldest[1]].remove(oldest[0])
    folders: set[Folder] = set()
    for key, dates in series.items():
        closed = _whole_stretches(dates, closed_dates[key])
        folders.update(folder for date in closed for folder in dates[date])
        for (over, _), run in groupby(sorted(dates, key=_in_path_order), partial(_neighbourhood, closed)):
            if over:
                found.append(_closed_span([dates[date] for date in run]))
            else:
                places = (pair for date in run for pair in dates[date].items())
                found.extend(_below_done(folder, place) for folder, place in places if folder not in whole)
    looked_into = (f"{directory_of(folder)}/" for folder in progress.folders if folder not in folders)
    return Spans((span for span in found if span.count > 0), folders, looked_into)


def _below_done(folder: Folder, place: FolderProgress) -> Span:
    """The files of a folder below its last one that was read: that one may still be written again. It begins with a
    digit, behind an index file that lies beside the data files."""
    name = f"{directory_of(folder)}/CDC" + (f"_{folder.dispatcher}_" if folder.dispatcher else "")
    return Span(f"{name}0", f"{name}{place.done:0{INDEX_WIDTH}d}", place.done - 1)


def _closed(dates: _Dates, before: datetime) -> set[str]:
    """The dates that are over."""
    before = min(before, max(map(_begin, dates)) - GRACE)
    over = (date for date in sorted(dates)[:-1] if date and date < before.strftime(_DATE_FORMATS[date_level(date)]))
    return {date for date in over if not any(place.waits for place in dates[date].values())}


def _begin(date: str) -> datetime:
    """When a date begins; of none, and of one that no calendar has, the beginning of time."""
    try:
        return datetime.strptime(date, _DATE_FORMATS[date_level(date)]).replace(tzinfo=UTC)
    except (KeyError, ValueError):
        return _NEVER


def _whole_stretches(dates: _Dates, closed: set[str]) -> set[str]:
    """`closed` without a month or year of which a day is looked at, where a changefeed has had both: some servers (not
    S3's own) list the days behind their month, and a leap over it would pass them."""
    if len({len(date) for date in dates}) < 2:
        return closed
    looked_at = dates.keys() - closed
    return {date for date in closed if not any(other.startswith(f"{date}-") for other in looked_at)}


def _in_path_order(date: str) -> str:
    """A month's folder comes behind those of its days, where a changefeed has had both."""
    return f"{date}/"


def _neighbourhood(closed: Set[str], date: str) -> tuple[bool, str]:
    """All names that begin with a year and a dash are dates; between two mere years a partition's id can lie."""
    return (date in closed, date[:4] if "-" in date else date)


def _closed_span(run: list[Mapping[Folder, FolderProgress]]) -> Span:
    """Everything from the first folder to the end of the last."""
    first, last = (directory_of(next(iter(folders))) for folders in (run[0], run[-1]))
    return Span(f"{first}/", _behind(last), sum(place.done + 1 for folders in run for place in folders.values()))


def _behind(directory: str) -> str:
    """The first name behind all paths below `directory`: "0" follows "/"."""
    return f"{directory}0"


def _over_before(progress: Progress) -> Callable[[str], datetime]:
    """By root: date folders before this moment are over, for the table that is furthest behind of those it may be."""
    behind = {name: place for name, place in progress.tables.items() if name.table}
    by_root = {root_of(name.database, name.table): place.applied_ts for name, place in behind.items()}
    alive = (place.applied_ts for place in behind.values() if place.state is not State.DROPPED)
    least = min((progress.applied_ts, *alive))

    def before(root: str) -> datetime:
        own = least if is_table_id(root) else by_root.get(root, progress.applied_ts)
        return tso_to_time(min(own, progress.applied_ts)) - GRACE

    return before
