"""Which tables upstream had under some names, each at a moment of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer.model.actions import CREATE_ACTIONS, RENAME_ACTIONS
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.times import MAX_TSO
from consumer.plan.lives import Life, Lives
from consumer.plan.statement import action_of


class UpstreamAt:
    """The tables that upstream has had. `at`: by name, the one that had it at its moment, none where there was none. A
    table that the storage tells of only later was there all along, unless that made it."""

    def __init__(
        self, moments: Mapping[TableName, int], files: Sequence[SchemaFile], origins: Mapping[str, TableName]
    ) -> None:
        self.at: dict[TableName, Life] = {}
        self._known: dict[int, Life] = {}
        told: set[TableName] = set()
        lives, waiting = Lives(), sorted(moments, key=lambda name: moments[name], reverse=True)
        for file in files:
            while waiting and moments[waiting[-1]] < file.version:
                self._take(waiting.pop(), lives)
            life, name = lives.follow(file, origins.get(file.path)), file.name
            if life is not None:
                self._known[id(life)] = life
            made = file.query and action_of(file) in CREATE_ACTIONS | RENAME_ACTIONS
            if name not in told and life is not None and not made and file.version > moments.get(name, MAX_TSO):
                self.at[name] = life
            told.add(name)
        for name in waiting:
            self._take(name, lives)

    def _take(self, name: TableName, lives: Lives) -> None:
        if name in lives.alive:
            self.at[name] = lives.alive[name]

    def had(self, name: TableName, ts: int) -> list[Life]:
        """The tables that have had `name` up to `ts`."""
        return [
            life
            for life in self._known.values()
            if any(own == name and since <= ts for own, since in zip(life.names, life.since, strict=True))
        ]
