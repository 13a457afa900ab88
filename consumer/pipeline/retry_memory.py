"""Remembers what loads learn about tables while the command runs. It is not recorded: the next run learns it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.errors import RowsVary
from consumer.model.files import Bounds, DataFile
from consumer.model.names import TableName
from consumer.model.steps import LoadRows


@dataclass(slots=True)
class _AbsentOfTable:
    """The columns that the rows of one table lack.

    `after` is where the table's latest load begins. `lacked` are the columns that its own rows lack, `guessed` those
    that rows of earlier loads lacked. `uneven` is true if other rows of the same load have the columns.
    """

    after: int
    lacked: set[str] = field(default_factory=set)
    uneven: bool = False
    guessed: set[str] = field(default_factory=set)


class AbsentColumns:
    """Keeps the columns that the schema files list and the rows do not have. The decoder finds them, and the load is
    planned again without them."""

    def __init__(self) -> None:
        self._columns: dict[TableName, _AbsentOfTable] = {}

    def of(self, load: LoadRows) -> tuple[str, ...]:
        """Returns the columns to leave out of `load`."""
        columns = self._columns.get(load.table)
        return tuple(sorted(columns.lacked | columns.guessed)) if columns else ()

    def begin(self, table: TableName, made: int) -> None:
        """Forgets what was learned of an earlier table of this name. `made` is the version at which upstream last gave
        the table its name."""
        if table in self._columns and self._columns[table].after < made:
            del self._columns[table]

    def uneven(self, load: LoadRows) -> bool:
        """Returns whether some rows of `load` have columns that others lack."""
        columns = self._columns.get(load.table)
        return columns is not None and columns.uneven and columns.after == load.window.after

    def learn(self, load: LoadRows, error: RowsVary, quarantined: bool = False) -> bool:
        """Returns whether planning `load` again may help. This ends, because a column is added once and a guess dropped
        once. `quarantined` means that rows may be quarantined if they lack columns which other rows have."""
        columns = self._of(load)
        if quarantined and not columns.uneven and set(error.carried) & columns.lacked:
            columns.lacked, columns.guessed, columns.uneven = set(), set(), True
            return True
        new = set(error.absent) - columns.lacked - columns.guessed
        wrong = set(error.carried) & columns.guessed
        columns.lacked |= new
        columns.guessed -= wrong
        return bool(new or wrong)

    def _of(self, load: LoadRows) -> _AbsentOfTable:
        columns = self._columns.setdefault(load.table, _AbsentOfTable(load.window.after))
        if columns.after != load.window.after:
            columns.guessed |= columns.lacked
            columns.lacked, columns.after, columns.uneven = set(), load.window.after, False
        return columns


_STEP = 4


@dataclass(slots=True)
class _Collision:
    """The collision of a load. `after` is where the load begins, `bytes` what it may read, 0 for as much as one task
    takes."""

    after: int
    bytes: int = 0


class Collisions:
    """Keeps the loads whose rows collide at a unique key. They are planned again with all their rows in one task."""

    def __init__(self) -> None:
        self._collisions: dict[TableName, _Collision] = {}

    def has(self, load: LoadRows) -> bool:
        """Returns whether one task must have all rows of `load`."""
        return self._of(load) is not None

    def bytes_for(self, load: LoadRows) -> int:
        """Returns how many bytes of change files `load` may read if that is more than one task should take, otherwise
        0."""
        collision = self._of(load)
        return collision.bytes if collision else 0

    def learn(self, load: LoadRows, in_one_task: bool, bounded: bool) -> bool:
        """Returns whether planning `load` again may help. `in_one_task` means that one task had all of its rows,
        `bounded` that the round leaves out rows that exist.

        A task with some of the rows may have collided with a row that another task moves. A task with all rows of a
        bounded round may have collided with a row from after the round's end, written by tasks of a larger round or in
        a snapshot. So the round grows until nothing is left out.
        """
        if not in_one_task or bounded:
            self._collisions[load.table] = _Collision(load.window.after, load.bytes * _STEP if in_one_task else 0)
        return not in_one_task or bounded

    def _of(self, load: LoadRows) -> _Collision | None:
        collision = self._collisions.get(load.table)
        return collision if collision is not None and collision.after == load.window.after else None


@dataclass(frozen=True, slots=True)
class RetryMemory:
    """What loads have learned, for as long as the command runs."""

    absent: AbsentColumns = field(default_factory=AbsentColumns)
    collisions: Collisions = field(default_factory=Collisions)
    late: dict[TableName, int] = field(default_factory=dict)
    """Tables with rows that came late, which was accepted, and where the load begins that met them."""
    bounds: dict[DataFile, Bounds] = field(default_factory=dict)
    """The bounds of the files that the last round had to separate."""
    checksums: dict[DataFile, int] = field(default_factory=dict)
    """The checksums of files that had changed between their listing and their reading."""

    def came_late(self, load: LoadRows) -> bool:
        """Returns whether `load` may meet rows that came late."""
        return self.late.get(load.table) == load.window.after
