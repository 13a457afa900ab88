"""What loads find out about tables, while the command runs. It is not recorded: the next run finds it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.errors import RowsVary
from consumer.model.files import Bounds, DataFile
from consumer.model.names import TableName
from consumer.model.steps import LoadRows


@dataclass(slots=True)
class _Left:
    """`after` is where the table's latest load begins. `found` are columns that its own rows lack, `guessed` those that
    rows of earlier loads lacked. `uneven`: other rows of the load have them."""

    after: int
    found: set[str] = field(default_factory=set)
    uneven: bool = False
    guessed: set[str] = field(default_factory=set)


class AbsentColumns:
    """Columns that the schema files list and the rows do not have. The decoder finds them, and the load is planned
    again without them."""

    def __init__(self) -> None:
        self._left: dict[TableName, _Left] = {}

    def of(self, load: LoadRows) -> tuple[str, ...]:
        """The columns to leave out of `load`."""
        left = self._left.get(load.table)
        return tuple(sorted(left.found | left.guessed)) if left else ()

    def begin(self, table: TableName, made: int) -> None:
        """`made` is when upstream last gave the table its name: what rows of another table lacked says nothing."""
        if table in self._left and self._left[table].after < made:
            del self._left[table]

    def uneven(self, load: LoadRows) -> bool:
        """Whether some rows of `load` have columns that others lack."""
        left = self._left.get(load.table)
        return left is not None and left.uneven and left.after == load.window.after

    def learn(self, load: LoadRows, error: RowsVary, quarantined: bool = False) -> bool:
        """Whether planning `load` again may help. This ends, because a column is found once and a guess dropped once.
        `quarantined`: rows that lack columns which others have may be."""
        left = self._of(load)
        if quarantined and not left.uneven and set(error.carried) & left.found:
            left.found, left.guessed, left.uneven = set(), set(), True
            return True
        new = set(error.absent) - left.found - left.guessed
        wrong = set(error.carried) & left.guessed
        left.found |= new
        left.guessed -= wrong
        return bool(new or wrong)

    def _of(self, load: LoadRows) -> _Left:
        left = self._left.setdefault(load.table, _Left(load.window.after))
        if left.after != load.window.after:
            left.guessed |= left.found
            left.found, left.after, left.uneven = set(), load.window.after, False
        return left


_STEP = 4


@dataclass(slots=True)
class _Met:
    """`after` is where the load begins, `bytes` what it may read: 0 for what one task takes."""

    after: int
    bytes: int = 0


class Collisions:
    """Loads whose rows collide at a unique key: which are planned again with all their rows in one task, and how
    large."""

    def __init__(self) -> None:
        self._met: dict[TableName, _Met] = {}

    def has(self, load: LoadRows) -> bool:
        """Whether one task must have all rows of `load`."""
        return self._of(load) is not None

    def bytes_for(self, load: LoadRows) -> int:
        """How many bytes of change files `load` may read, if that is more than one task should take; 0 if not."""
        found = self._of(load)
        return found.bytes if found else 0

    def learn(self, load: LoadRows, whole: bool, bounded: bool) -> bool:
        """Whether planning `load` again may help. `whole`: one task had all of its rows; `bounded`: the round leaves
        out rows that exist.

        A task with some of the rows may have collided with a row that another task moves. A task with all rows of a
        bounded round may have collided with a row from after the round's end, written by tasks of a larger round or in
        a snapshot. So the round grows until nothing is left out."""
        if not whole or bounded:
            self._met[load.table] = _Met(load.window.after, load.bytes * _STEP if whole else 0)
        return not whole or bounded

    def _of(self, load: LoadRows) -> _Met | None:
        found = self._met.get(load.table)
        return found if found is not None and found.after == load.window.after else None


@dataclass(frozen=True, slots=True)
class Lessons:
    """What loads have found out, for as long as the command runs."""

    absent: AbsentColumns = field(default_factory=AbsentColumns)
    collisions: Collisions = field(default_factory=Collisions)
    late: dict[TableName, int] = field(default_factory=dict)
    """Tables with rows that came late, which was accepted, and where the load begins that met them."""
    bounds: dict[DataFile, Bounds] = field(default_factory=dict)
    """Of the files that the last round had to separate."""
    checksums: dict[DataFile, int] = field(default_factory=dict)
    """Of files that are not as they were listed when they were read."""

    def came_late(self, load: LoadRows) -> bool:
        """Whether `load` may meet rows that came late."""
        return self.late.get(load.table) == load.window.after
