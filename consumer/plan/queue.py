"""Keeps the pending statements in upstream order: which are at the front, which ones come before others, and what holds
them up: stopped tables, refused statements, and rows that must be loaded first.

A statement waits for the earlier ones on its tables, and for those of the database of its tables. The cost of a round
grows with the statements that run, not with those that wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from consumer.errors import ConsumerError
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.progress import DdlId
from consumer.model.steps import ddl_id
from consumer.plan.statement import Statement
from consumer.plan.unread import TableInRound

_Numbers = dict[int, None]
"""Numbers of statements, in order."""


class _Line:
    """The numbers of the statements that touch one name, in order. Each is linked to its neighbours, so that a
    statement finds the nearest earlier ones at once, however many there are."""

    def __init__(self) -> None:
        self._before: dict[int, int | None] = {}
        self._after: dict[int, int | None] = {}
        self.last: int | None = None

    def __bool__(self) -> bool:
        return self.last is not None

    def __iter__(self) -> Iterator[int]:
        return iter(self._before)

    def append(self, number: int) -> None:
        self._before[number], self._after[number] = self.last, None
        if self.last is not None:
            self._after[self.last] = number
        self.last = number

    def remove(self, number: int) -> None:
        before, after = self._before.pop(number), self._after.pop(number)
        if before is not None:
            self._after[before] = after
        if after is None:
            self.last = before
        else:
            self._before[after] = before

    def in_front_of(self, statement_number: int) -> Iterator[int]:
        """Yields the numbers before that statement's, the nearest first."""
        if statement_number not in self._before:
            yield from reversed(list(_before(self, statement_number)))
            return
        number = self._before[statement_number]
        while number is not None:
            yield number
            number = self._before[number]


_NONE = _Line()


class Queue:
    """Gives statements numbers, in upstream order. `stuck`, as an argument, are the numbers of those that wait for a
    stopped table, directly or after another statement: some statements need not wait for some of these."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._pending = dict(enumerate(statements))
        self._numbers = {id(statement): number for number, statement in self._pending.items()}
        self._by_name: defaultdict[TableName, _Line] = defaultdict(_Line)
        self._of_tables: defaultdict[str, _Numbers] = defaultdict(dict)
        self._merging: defaultdict[TableName, _Numbers] = defaultdict(dict)
        self._open_count: dict[int, int] = {}
        self._followers: defaultdict[int, list[int]] = defaultdict(list)
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
        """Returns, in order, the statements that came to the front since the last call, or are to be checked again.
        One that can pass stuck statements is returned at once: it is at the front only if `blocker` returns None."""
        fresh, self._fresh = self._fresh, []
        return [self._pending[number] for number in sorted(set(fresh)) if number in self._pending]

    def requeue(self, statements: Iterable[Statement]) -> None:
        """Makes the next `take` return these too."""
        self._fresh += map(self.number, statements)

    def followers_of(self, statement: Statement, most: int) -> Iterator[Statement]:
        """Yields up to `most` statements that wait only for `statement`, which touches one table and is at the front,
        and for the earlier ones of that table."""
        (name,) = statement.touches
        for number in islice(self._by_name[name], 1, 1 + most):
            if self._open_count[number] != 1:
                return
            yield self._pending[number]

    def is_at_front(self, statement: Statement) -> bool:
        """Always True for a statement that can pass stuck ones: `blocker` decides of that."""
        return self._open_count[self.number(statement)] <= 0

    def wait(self, statement: Statement, blocker: Statement) -> None:
        """Makes `take` return `statement` once `blocker` is removed."""
        self._followers[self.number(blocker)].append(self.number(statement))

    def remove(self, statement: Statement) -> None:
        number = self.number(statement)
        del self._pending[number]
        for name in statement.touches:
            self._by_name[name].remove(number)
        for name in _tables(statement):
            self._of_tables[name.database].pop(number, None)
        if (merged := statement.joins) is not None:
            del self._merging[merged][number]
        for other in self._followers.pop(number, ()):
            self._open_count[other] -= 1
            if self._open_count[other] <= 0:
                self._fresh.append(other)

    def next_version(self, name: TableName) -> int | None:
        """Returns the version of the first statement that touches the table."""
        first = next(iter(self._by_name.get(name, _NONE)), None)
        return None if first is None else self._pending[first].version

    def blocker(self, statement: Statement, stuck: Collection[int]) -> Statement | None:
        """Returns a statement that must run before `statement`, on each name the nearest, so that each waits for
        one."""
        for number, passable in self._ahead_of(statement):
            if not (number in stuck and passable):
                return self._pending[number]
        return None

    def stuck_ahead(self, statement: Statement, stuck: Mapping[int, str], names: Mapping[TableName, str]) -> str | None:
        """Returns what a statement before `statement` waits for. `names` maps each name to the reason of its first
        stuck statement."""
        if may_pass_stuck(statement):
            ahead = ((number, passable) for number, passable in self._ahead_of(statement) if number in stuck)
            return next((stuck[number] for number, passable in ahead if not passable), None)
        return next((names[name] for name in _scopes(statement) if name in names), None)

    def overtaken(self, statement: Statement) -> list[Statement]:
        """Returns those before `statement` that no longer matter once it has run."""
        number_of_statement = self.number(statement)
        ahead = {number for name in statement.touches for number in _before(self._by_name[name], number_of_statement)}
        ahead.update(self._on_former_names(statement))
        earlier = (self._pending[number] for number in sorted(ahead))
        return [other for other in earlier if statement.overtakes(other)]

    def _append(self, number: int, statement: Statement) -> None:
        if may_pass_stuck(statement):
            self._open_count[number] = 0
        else:
            scopes = (self._by_name.get(scope, _NONE) for scope in _scopes(statement))
            ahead = {line.last for line in scopes if line.last is not None}
            self._open_count[number] = len(ahead)
            for other in ahead:
                self._followers[other].append(number)
        if self._open_count[number] == 0:
            self._fresh.append(number)
        for name in statement.touches:
            self._by_name[name].append(number)
        for name in _tables(statement):
            self._of_tables[name.database][number] = None
        if (merged := statement.joins) is not None:
            self._merging[merged][number] = None

    def _ahead_of(self, statement: Statement) -> Iterator[tuple[int, bool]]:
        """Yields the numbers before `statement`, each with whether it can be passed while it is stuck."""
        own_number = self.number(statement)
        for name in _scopes(statement):
            for number in self._by_name.get(name, _NONE).in_front_of(own_number):
                yield number, statement.overtakes(self._pending[number])
        for number in self._on_former_names(statement):
            yield number, statement.overtakes(self._pending[number])
        if (merged := statement.joins) is not None:
            # The first one upstream decides what the table is like.
            for number in reversed(self._merging[merged]):
                if number < own_number:
                    yield number, True
        if not statement.file.table:
            # A stopped table does not hold up its database, unless the database removes what its statements still need.
            for number in _before(self._of_tables.get(statement.file.database, {}), own_number):
                yield number, not statement.heals or statement.overtakes(self._pending[number])

    def _on_former_names(self, statement: Statement) -> Iterator[int]:
        for former_name in statement.former:
            for number in self._by_name.get(former_name.name, _NONE):
                if self._pending[number].version > former_name.until:
                    break
                yield number


def may_pass_stuck(statement: Statement) -> bool:
    """Returns whether the statement can run before stuck statements that precede it."""
    return not statement.file.table or statement.ends or statement.joins is not None


def _tables(statement: Statement) -> Iterator[TableName]:
    """Yields the tables that must not be dropped with their database before the statement has run."""
    yield from statement.tables
    if statement.not_read is not None:
        yield statement.not_read.name


def _scopes(statement: Statement) -> Iterator[TableName]:
    for name in statement.touches:
        yield name
        if name.table:
            yield TableName(name.database, "")


def _before(numbers: Iterable[int], end: int) -> Iterator[int]:
    for number in numbers:
        if number >= end:
            return
        yield number


class Obstacles:
    """Finds what holds up statements. `live` are the tables that exist after what has run so far; the round updates
    it."""

    def __init__(self, queue: Queue, tables: Mapping[TableName, TableInRound], live: Collection[TableName]) -> None:
        self._queue = queue
        self._tables = tables
        self._live = live
        self._refused: dict[DdlId, ConsumerError] = {}
        self._ill: set[TableName] = set()
        self._stuck: dict[int, str] | None = {}
        self._complete_up_to: defaultdict[int, int] = defaultdict(int)
        self._emptied = _before_a_truncate(list(queue))

    def refuse(self, statement: Statement, error: ConsumerError) -> None:
        """`statement` cannot be executed."""
        self._refused[ddl_id(statement.file)] = error
        self._stuck = None

    def stop(self, table: TableName) -> bool:
        """`table` does not advance any more. Returns True if statements wait for it."""
        self._ill.add(table)
        if self._queue.next_version(table) is None:
            return False
        self._stuck = None
        return True

    def heal(self, tables: Collection[TableName], statements: int) -> bool:
        """`tables` resume, and so many `statements` were removed. Returns whether other statements can be stuck now."""
        changed = statements > 1 or not self._ill.isdisjoint(tables)
        self._ill.difference_update(tables)
        self._stuck = None if changed else self._stuck
        return changed

    def stuck(self) -> Mapping[int, str]:
        """Returns the numbers of the statements that cannot pass a stopped table, with what each waits for."""
        if self._stuck is None:
            self._stuck = {}
            names: dict[TableName, str] = {}
            for statement in self._queue if self._ill or self._refused else ():
                text = self._own_obstacle(statement) or self._queue.stuck_ahead(statement, self._stuck, names)
                if text is not None:
                    self._stuck[self._queue.number(statement)] = text
                    for name in statement.touches:
                        names.setdefault(name, text)
        return self._stuck

    def _own_obstacle(self, statement: Statement) -> str | None:
        """Returns why `statement` itself cannot run: its own refusal, or the stopped table that it cannot pass."""
        if (refusal := self._refused.get(ddl_id(statement.file))) is not None:
            return f"{statement.file.name}: {refusal.message}"
        name = self.stopped(statement)
        error = None if name is None else self._tables[name].error
        return None if error is None else f"{name}: {error.message}"

    def stopped(self, statement: Statement) -> TableName | None:
        """Returns a stopped table that `statement` needs, None for none. A table that will be emptied needs its
        definition, not its rows."""
        if statement.heals or id(statement) in self._emptied:
            return None
        return next((name for name in statement.touches if self._tables[name].error is not None), None)

    def rows_left(self, statement: Statement) -> TableName | None:
        """Returns the first table with unloaded rows below the statement's version. The tables before it were found
        complete, and stay complete."""
        touches, key = statement.touches, id(statement)
        while self._complete_up_to[key] < len(touches):
            name = touches[self._complete_up_to[key]]
            if not self._complete(self._tables[name], statement):
                return name
            self._complete_up_to[key] += 1
        return None

    def _complete(self, state: TableInRound, statement: Statement) -> bool:
        """Returns whether no row of this table below the statement's version remains to be loaded. A table that does
        not exist has none, whatever its old files hold."""
        done = state.position >= statement.version or not state.unread
        return done or state.error is not None or state.name not in self._live


def _before_a_truncate(pending: Sequence[Statement]) -> set[int]:
    """Returns the ids of the statements that touch only one table which is truncated later: that table itself, not
    another one that has its name by then, and with nothing in between that needs its rows together with another
    table's."""
    ids: set[int] = set()
    truncated: set[TableName] = set()
    for statement in reversed(pending):
        name = statement.file.name
        if name in truncated and statement.touches == (name,):
            ids.add(id(statement))
        if statement.touches != (name,) or statement.creates is not None or statement.drops:
            truncated -= {name, *statement.touches, *statement.drops}
        elif statement.heals and statement.action == Action.TRUNCATE_TABLE:
            truncated.add(name)
    return ids
