"""The statements in front of a statement: those on its tables, and those of the database its tables are in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from consumer.model.names import TableName
from consumer.plan.statement import Statement


class Queue:
    """Pending statements in upstream order. A stuck one waits for a stopped table, directly or behind another."""

    def __init__(self) -> None:
        self._by_name: defaultdict[TableName, list[Statement]] = defaultdict(list)
        self._of_tables: defaultdict[str, list[Statement]] = defaultdict(list)
        self._stuck: dict[int, str] = {}

    def append(self, statement: Statement, stuck: str | None) -> None:
        """`stuck` says what a stuck statement waits for."""
        for name in statement.touches:
            self._by_name[name].append(statement)
            if name.table:
                self._of_tables[name.database].append(statement)
        if stuck is not None:
            self._stuck[id(statement)] = stuck

    def blocker(self, statement: Statement) -> Statement | None:
        """The first that must run before `statement`: not one that is stuck and would be overtaken."""
        ahead = self._ahead_of(statement)
        return next((other for other in ahead if not (id(other) in self._stuck and statement.overtakes(other))), None)

    def stuck(self, statement: Statement) -> str | None:
        """What a stuck statement waits for, None for one that is not stuck."""
        return self._stuck.get(id(statement))

    def _ahead_of(self, statement: Statement) -> Iterator[Statement]:
        for name in statement.touches:
            yield from self._by_name[name]
            if name.table:
                yield from self._by_name[TableName(name.database, "")]
        if not statement.file.table:
            # A stopped table does not hold up its database, unless that takes away what its statements still need.
            for other in self._of_tables[statement.file.database]:
                if statement.heals or id(other) not in self._stuck:
                    yield other
