"""The names that tables will have once the pending RENAMEs have run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from consumer.model.actions import RENAME_ACTIONS
from consumer.model.names import TableName
from consumer.plan.statement import Statement


class LaterName(NamedTuple):
    """A name that a RENAME of `version` gives to a table."""

    name: TableName
    version: int


_Later = dict[TableName, tuple[LaterName, ...]]


class LaterNames:
    """By table, the names that it will have, in their order: as `now`, and as `after` a pending statement."""

    def __init__(self, pending: Sequence[Statement] = ()) -> None:
        self.now: _Later = {}
        self._after: dict[str, _Later] = {}
        for statement in reversed(pending):
            self._go_back(statement)

    def after(self, statement: Statement) -> Mapping[TableName, Sequence[LaterName]]:
        """The later names of the tables of a pending `statement`."""
        return self._after.get(statement.file.path, {})

    def _go_back(self, statement: Statement) -> None:
        now, new = self.now, statement.file.name
        if known := {name: now[name] for name in {new, *statement.touches} if name in now}:
            self._after[statement.file.path] = known
        moved = now.pop(new, ()) if statement.creates is not None else ()
        for name in statement.drops:
            now.pop(name, None)
        if statement.action in RENAME_ACTIONS and statement.old_name is not None:
            now[statement.old_name] = (LaterName(new, statement.version), *moved)
