"""What holds statements up: stopped tables, refused statements, and rows that must be loaded first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from consumer.errors import ConsumerError
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.progress import DdlId
from consumer.model.steps import ddl_id
from consumer.plan.queue import Queue
from consumer.plan.statement import Statement
from consumer.plan.table_state import TableState


class Obstacles:
    """`live` are the tables that exist after what has run so far: the round keeps it."""

    def __init__(self, queue: Queue, tables: Mapping[TableName, TableState], live: Collection[TableName]) -> None:
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
        """`table` goes no further. True if statements wait for it."""
        self._ill.add(table)
        if self._queue.next_version(table) is None:
            return False
        self._stuck = None
        return True

    def heal(self, tables: Iterable[TableName]) -> None:
        """`tables` go on."""
        self._ill.difference_update(tables)
        self._stuck = None

    def stuck(self) -> Mapping[int, str]:
        """The numbers of the statements that cannot go past a stopped table, with what each waits for."""
        if self._stuck is None:
            self._stuck = {}
            names: dict[TableName, str] = {}
            for statement in self._queue if self._ill or self._refused else ():
                text = self._stop(statement) or self._queue.stuck_ahead(statement, self._stuck, names)
                if text is not None:
                    self._stuck[self._queue.number(statement)] = text
                    for name in statement.touches:
                        names.setdefault(name, text)
        return self._stuck

    def _stop(self, statement: Statement) -> str | None:
        """The stopped table that `statement` cannot go past."""
        if (refusal := self._refused.get(ddl_id(statement.file))) is not None:
            return f"{statement.file.name}: {refusal.message}"
        name = self.stopped(statement)
        error = None if name is None else self._tables[name].error
        return None if error is None else f"{name}: {error.message}"

    def stopped(self, statement: Statement) -> TableName | None:
        """A table that will be emptied needs its definition, not its rows."""
        if statement.heals or id(statement) in self._emptied:
            return None
        return next((name for name in statement.touches if self._tables[name].error is not None), None)

    def rows_left(self, statement: Statement) -> TableName | None:
        """The first table with rows below the statement's version that are left to load. Those in front of it were
        found complete, which they stay."""
        touches, key = statement.touches, id(statement)
        while self._complete_up_to[key] < len(touches):
            name = touches[self._complete_up_to[key]]
            if not self._complete(self._tables[name], statement):
                return name
            self._complete_up_to[key] += 1
        return None

    def _complete(self, state: TableState, statement: Statement) -> bool:
        """Whether no row of this table below the statement's version is left to load; none is of a table that does not
        exist, whatever its old files hold."""
        done = state.position >= statement.version or not state.unread
        return done or state.error is not None or state.name not in self._live


def _before_a_truncate(pending: Sequence[Statement]) -> set[int]:
    """The ids of the statements about one table alone that is truncated later: that table itself, not another that has
    its name by then, and with nothing in between that needs its rows beside another table."""
    found: set[int] = set()
    truncated: set[TableName] = set()
    for statement in reversed(pending):
        own = statement.file.name
        if own in truncated and statement.touches == (own,):
            found.add(id(statement))
        if statement.touches != (own,) or statement.creates is not None or statement.drops:
            truncated -= {own, *statement.touches, *statement.drops}
        elif statement.heals and statement.action == Action.TRUNCATE_TABLE:
            truncated.add(own)
    return found
