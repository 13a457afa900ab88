"""Where a round of `snapshot` ends: the next moment at which the rows of all tables are published together.

It ends in front of the next statement that readers would see beside rows of another moment, and where the rows would be
more than one transaction is to write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from consumer.model.actions import Action
from consumer.model.files import Bounds, DataFile
from consumer.model.names import TableName
from consumer.model.progress import Progress, State
from consumer.plan.statement import Statement
from consumer.plan.timeline import Timeline

_MAKING = frozenset({Action.CREATE_SCHEMA, Action.CREATE_TABLE, Action.CREATE_TABLES})


@dataclass(frozen=True, slots=True)
class Stretch:
    """A file of `size` bytes with rows from commit-ts `first` to `last`; none below `lowest` is left to apply."""

    table: TableName
    size: int
    first: int
    last: int
    lowest: int = 0

    @classmethod
    def of(cls, table: TableName, file: DataFile, bounds: Bounds, lowest: int = 0) -> Stretch:
        return cls(table, file.size, bounds.first, max(bounds.first, bounds.last), lowest)

    def bytes_in(self, after: int, last: int) -> int:
        """About how many bytes its rows above `after` and up to `last` have: as if they came evenly."""
        begin, end = max(self.first, after + 1), min(self.last, last)
        return self.size * (end - begin + 1) // (self.last - self.first + 1) if begin <= end else 0


def is_too_much(sizes: Collection[int], most: int, largest: int = sys.maxsize) -> bool:
    """Whether files of `sizes` are more than about `most` bytes: one file more is not, if it has `largest` at most."""
    return sum(sizes) - min(max(sizes, default=0), largest) > most


def reached(progress: Progress) -> int:
    """The moment from which on all tables go together: one that is behind it has to come there first."""
    ends = (place.applied_ts for place in progress.tables.values() if place.state is State.OK)
    return max(progress.applied_ts, *ends, 0)


def seen_versions(timeline: Timeline, after: int) -> list[int]:
    """The versions above `after` of the pending statements that readers see, in order."""
    seen = {statement.version for statement in timeline.pending if not _only_makes(statement, timeline.live)}
    return sorted(version for version in seen if version > after)


def _only_makes(statement: Statement, live: Collection[TableName]) -> bool:
    """Whether it makes tables or a database, and touches no table that is there."""
    return statement.action in _MAKING and not any(name in live for name in statement.touches)


def next_moment(stretches: Sequence[Stretch], versions: Sequence[int], after: int, last: int, most: int) -> int:
    """The end of the round that begins at `after` and may go to `last`. It has one of the statements `versions` at
    most, and that before all rows. The rows have about `most` bytes; the end is `after` itself where the very next
    transaction has more."""
    rows = [stretch for stretch in stretches if stretch.last > after]
    first = min((max(stretch.first, stretch.lowest, after + 1) for stretch in rows), default=last + 1)
    behind = versions if versions and first < versions[0] else versions[1:]
    end = min([last, *(version - 1 for version in behind[:1])])

    def fits(moment: int) -> bool:
        return sum(stretch.bytes_in(after, moment) for stretch in rows) <= most

    return end if fits(end) else _greatest(fits, after, end)


def _greatest(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The greatest that fits, where `low` does and `high` does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
