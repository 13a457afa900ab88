"""Columns that the schema files list and the rows do not have. The decoder finds them, and the load is planned again
without them."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.errors import RowsVary
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
    """What one run has found of its tables. It is not recorded: the next run finds it again."""

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
