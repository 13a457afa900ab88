"""Loads whose rows collide at a unique key: which are planned again with all their rows in one task, and how large."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.model.names import TableName
from consumer.model.steps import LoadRows

_STEP = 4


@dataclass(slots=True)
class _Met:
    """`after` is where the load begins, `bytes` what it may read: 0 for what one task takes."""

    after: int
    bytes: int = 0


class Collisions:
    """What one run has found of its tables. It is not recorded: the next run finds it again."""

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
