"""The queue of pending statements in upstream order: which are at the front, and which statements are in front of the
others.

A statement is behind those on its tables, and behind those of the database its tables are in. The cost of a round grows
with the statements that run, not with those that wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from consumer.model.names import TableName
from consumer.plan.statement import Statement

_Numbers = dict[int, None]
"""Numbers of statements, in order."""


class Queue:
    """Statements have numbers, in upstream order. `stuck`, where it is given, are the numbers of those that wait for a
    stopped table, directly or behind another: some statements need not wait for some of these."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._pending = dict(enumerate(statements))
        self._numbers = {id(statement): number for number, statement in self._pending.items()}
        self._by_name: defaultdict[TableName, _Numbers] = defaultdict(dict)
        self._of_tables: defaultdict[str, _Numbers] = defaultdict(dict)
        self._merging: defaultdict[TableName, _Numbers] = defaultdict(dict)
        self._left: dict[int, int] = {}
        self._behind: defaultdict[int, list[int]] = defaultdict(list)
        self._fresh: list[int] = []
        for number, statement in self._pending.items():
            self._append(number, statement)

    def __iter__(self) -> Iterator[Statement]:
        return iter(self._pending.values())

    def __len__(self) -> int:
        return len(self._pending)

    def number(self, statement: Statement) -> int:
        return self._numbers[id(statement)]

    def take(self) -> list[Statement]:
        """The statements that came to the front since the last call, or were to be looked at again, in their order.
        Of those that can pass stuck statements `blocker` tells whether they are there."""
        fresh, self._fresh = self._fresh, []
        return [self._pending[number] for number in sorted(set(fresh)) if number in self._pending]

    def again(self, statements: Iterable[Statement]) -> None:
        """Have `take` answer with these too."""
        self._fresh += map(self.number, statements)

    def wait(self, statement: Statement, blocker: Statement) -> None:
        """Have `take` answer with `statement` once `blocker` is gone."""
        self._behind[self.number(blocker)].append(self.number(statement))

    def remove(self, statement: Statement) -> None:
        number = self.number(statement)
        del self._pending[number]
        for name in statement.touches:
            del self._by_name[name][number]
        for name in _tables(statement):
            self._of_tables[name.database].pop(number, None)
        if (merged := statement.joins) is not None:
            del self._merging[merged][number]
        for other in self._behind.pop(number, ()):
            self._left[other] -= 1
            if self._left[other] <= 0:
                self._fresh.append(other)

    def next_version(self, name: TableName) -> int | None:
        """The version of the first statement that touches the table."""
        first = next(iter(self._by_name[name]), None) if name in self._by_name else None
        return None if first is None else self._pending[first].version

    def blocker(self, statement: Statement, stuck: Collection[int]) -> Statement | None:
        """The first that must run before `statement`."""
        for number, passable in self._ahead_of(statement):
            if not (number in stuck and passable):
                return self._pending[number]
        return None

    def stuck_ahead(self, statement: Statement, stuck: Mapping[int, str], names: Mapping[TableName, str]) -> str | None:
        """What a statement in front of `statement` waits for; `names` maps each name to the reason of its first stuck
        statement."""
        if passes(statement):
            ahead = ((number, passable) for number, passable in self._ahead_of(statement) if number in stuck)
            return next((stuck[number] for number, passable in ahead if not passable), None)
        return next((names[name] for name in _scopes(statement) if name in names), None)

    def overtaken(self, statement: Statement) -> list[Statement]:
        """Those in front of `statement` that no longer matter once it has run."""
        own = self.number(statement)
        ahead = {number for name in statement.touches for number in _before(self._by_name[name], own)}
        ahead.update(self._on_former_names(statement))
        found = (self._pending[number] for number in sorted(ahead))
        return [other for other in found if statement.overtakes(other)]

    def _append(self, number: int, statement: Statement) -> None:
        if passes(statement):
            self._left[number] = 0
        else:
            scopes = (self._by_name.get(scope) for scope in _scopes(statement))
            ahead = {next(reversed(numbers)) for numbers in scopes if numbers}
            self._left[number] = len(ahead)
            for other in ahead:
                self._behind[other].append(number)
        if self._left[number] == 0:
            self._fresh.append(number)
        for name in statement.touches:
            self._by_name[name][number] = None
        for name in _tables(statement):
            self._of_tables[name.database][number] = None
        if (merged := statement.joins) is not None:
            self._merging[merged][number] = None

    def _ahead_of(self, statement: Statement) -> Iterator[tuple[int, bool]]:
        """The numbers in front, each with whether it can be passed while it is stuck."""
        own = self.number(statement)
        for name in _scopes(statement):
            for number in _before(self._by_name.get(name, {}), own):
                yield number, statement.overtakes(self._pending[number])
        for number in self._on_former_names(statement):
            yield number, statement.overtakes(self._pending[number])
        if (merged := statement.joins) is not None:
            # The first one upstream says what the table is like. The nearest comes first, so that each waits for one.
            for number in reversed(self._merging[merged]):
                if number < own:
                    yield number, True
        if not statement.file.table:
            # A stopped table does not hold up its database, unless that takes away what its statements still need.
            for number in _before(self._of_tables.get(statement.file.database, {}), own):
                yield number, not statement.heals or statement.overtakes(self._pending[number])

    def _on_former_names(self, statement: Statement) -> Iterator[int]:
        for had in statement.former:
            for number in self._by_name.get(had.name, {}):
                if self._pending[number].version > had.until:
                    break
                yield number


def passes(statement: Statement) -> bool:
    """Whether it can run in front of stuck statements that were before it."""
    return not statement.file.table or statement.ends or statement.joins is not None


def _tables(statement: Statement) -> Iterator[TableName]:
    """The tables that must not be gone with their database before the statement has run."""
    yield from statement.tables
    if statement.not_read is not None:
        yield statement.not_read.name


def _scopes(statement: Statement) -> Iterator[TableName]:
    for name in statement.touches:
        yield name
        if name.table:
            yield TableName(name.database, "")


def _before(numbers: _Numbers, own: int) -> Iterator[int]:
    for number in numbers:
        if number >= own:
            return
        yield number
