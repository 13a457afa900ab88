"""Tables that another consumer of the same target replicates. Two consumers of one table would not know of each other's
changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.commands import forget_command
from consumer.model.names import TableName
from consumer.model.progress import DdlState, Kept, Progress, ProgressChange, TableProgress
from consumer.plan.assembly import Assembly
from consumer.plan.statement import Statement

_ON_DATABASES = frozenset({Action.CREATE_SCHEMA, Action.MODIFY_SCHEMA_CHARSET})


class Others:
    """The tables of other consumers, for one round: `look` is called once, for the first statement or load that asks.

    A table is this consumer's own once a statement of it ran or rows of it were read under its name. With
    --start-ts the operator has said that the target holds the older tables as of then. That is true of a table that the
    other one left at or before that moment: this consumer continues it. It is not true of one that is further by now.
    """

    def __init__(
        self, look: Callable[[], Mapping[TableName, Kept]], assembly: Assembly, progress: Callable[[], Progress]
    ) -> None:
        self._look, self._assembly, self._progress = look, assembly, progress
        self._others: Mapping[TableName, Kept] | None = None
        self._own: set[TableName] = set()

    def refusal(self, statement: Statement) -> DdlRefused | None:
        """Why `statement` is not to run: a table that it touches is another's."""
        others = self._of_others()
        if not others or not statement.executed or self.leaves(statement):
            return None
        if statement.begins is None:
            others = self._not_continued()
        names = {*statement.touches, *filter(None, (statement.begins, statement.old_name))}
        if not statement.file.table and not self._has_some_in(statement.file.database):
            names.update(name for name in others if name.database == statement.file.database)
        there = (name for name in sorted(names - self._own) if name in others)
        return next((belongs_to(name, others[name].consumer) for name in there), None)

    def look_again(self, statement: Statement) -> DdlRefused | None:
        """`refusal`, with the current tables of others."""
        self._others = None
        return self.refusal(statement)

    def leaves(self, statement: Statement) -> str:
        """The consumer to whom a statement about a database is left: it has tables there, and this one has none."""
        if statement.action not in _ON_DATABASES or not statement.executed:
            return ""
        database = statement.file.database
        there = (kept.consumer for name, kept in self._of_others().items() if name.database == database)
        other = next(there, "")
        return "" if self._has_some_in(database) else other

    def loads(self, tables: Iterable[TableName]) -> dict[TableName, DdlRefused]:
        """Those of `tables` whose first rows are not to be loaded, and why."""
        others = self._not_continued()
        wanted = [name for name in tables if name in others and name not in self._own]
        return {name: belongs_to(name, others[name].consumer) for name in wanted}

    def take(
        self, tables: Collection[TableName], record: Callable[[ProgressChange], None]
    ) -> dict[TableName, DdlRefused]:
        """`loads`, for tables whose rows are about to be loaded. It can be long until their first load is recorded, so
        they are recorded before it: of two consumers that begin at once, the later one sees it."""
        refused = self.loads(tables)
        new = set(tables) - self._own - refused.keys()
        if new:
            progress = self._progress()
            record(ProgressChange(tables={name: TableProgress(progress.table(name).applied_ts) for name in new}))
            self._others = None
            refused |= self.loads(new)
            self.took(new - refused.keys())
        return refused

    def took(self, tables: Iterable[TableName]) -> None:
        """`tables` are this consumer's own from now on."""
        self._own.update(tables)

    def _has_some_in(self, database: str) -> bool:
        return any(name.table and name.database == database for name in self._own)

    def _not_continued(self) -> Mapping[TableName, Kept]:
        start, others = self._progress().start_ts, self._of_others()
        return {name: kept for name, kept in others.items() if kept.applied_ts > start} if start else others

    def _of_others(self) -> Mapping[TableName, Kept]:
        if self._others is None:
            self._others = self._look()
            self._own.update(_begun(self._assembly, self._progress()))
        return self._others


def _begun(assembly: Assembly, progress: Progress) -> Collection[TableName]:
    ran = {TableName(i.database, i.table) for i, r in progress.ddls.items() if r.state is not DdlState.REFUSED}
    return ran.union(map(assembly.catalog.owner, progress.folders))


def left_to(other: str) -> str:
    """What is recorded of a statement that `Others.leaves` to `other`."""
    return f"the consumer {other!r} of this target keeps the tables of this database"


def belongs_to(table: TableName, other: str) -> DdlRefused:
    """Why this consumer must leave `table` alone."""
    return DdlRefused(
        f"the consumer {other!r} of this target keeps {table}, and only one consumer may write to it",
        hint="give this one another --downstream-uri, or leave the table out of one of the two with --tables; where"
        f" {other!r} is to apply nothing any more, remove its progress: {forget_command(other)}",
        table=str(table),
    )
