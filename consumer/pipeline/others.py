"""Tables that another consumer of the same target replicates. Two consumers of one table would not know of each other's
changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from consumer.errors import DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, Action
from consumer.model.ddl_policy import is_kept
from consumer.model.hints import forget_command, skip_ddl_command, statement_refused
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import Owned, OwnedTables, Progress, ProgressChange, State, TableProgress
from consumer.plan.assembly import Assembly
from consumer.plan.ddl_step import refusal
from consumer.plan.routing import SharedNames, written
from consumer.plan.statement import Statement
from consumer.plan.timeline import LaterName, LaterNames


class Others:
    """The tables of other consumers, for one round: `look` is called once, for the first statement or load that asks.
    It has them under the target's names.

    A table is this consumer's own once a statement of it ran or rows of it were read under its name. With
    --start-ts the operator has said that the target holds the older tables as of then. That is true of a table that the
    other one left at or before that moment: this consumer continues it, and the other one no longer does. It is not
    true of one that is further by now.

    `takes_over`: whether this one can continue tables of others. A replay cannot: no table is its own, so the other one
    would do the same once more. Nor does anyone begin with a table below what a replay has applied of it.
    """

    def __init__(
        self,
        look: Callable[[], OwnedTables],
        assembly: Assembly,
        progress: Callable[[], Progress],
        naming: Naming = SAME,
        tables_in: Callable[[str], Collection[TableName]] = lambda database: (),
        takes_over: bool = True,
    ) -> None:
        self._look, self._assembly, self._progress, self._naming = look, assembly, progress, naming
        self._tables_in, self._takes_over = tables_in, takes_over
        self._shared = SharedNames(naming, assembly, progress())
        self._others: OwnedTables | None = None
        self._later = LaterNames(assembly.history, ())
        self._own: set[TableName] = set()

    def refusal(self, statement: Statement) -> DdlRefused | None:
        """Why `statement` is not to run: a table that it touches is another's, or goes on as one, or shares its name in
        the target."""
        if (shared := self._shared.refusal(statement)) is not None:
            return shared
        if statement.action == Action.DROP_SCHEMA:
            self._others = None  # another can have made a table there since this round looked
        others = self._of_others()
        if not statement.executed or self.leaves(statement):
            return None
        if statement.action != Action.CREATE_TABLE and (twice := self._replayed(statement.touches)):
            return twice[min(twice)]  # a table that is made twice shows itself
        unknown = self._unknown_in_database(statement) if statement.action == Action.DROP_SCHEMA else None
        if not others:
            return unknown
        if statement.begins is None:
            others = self._not_continued()
        names = {*statement.touches, *filter(None, (statement.begins, statement.old_name))}
        if statement.action == Action.DROP_SCHEMA and (there := self._there(statement, others)):
            return drops_database_of(there[0], others[there[0]].consumer, statement)
        later = self._later.after(statement)
        left = sorted(name for name in names if not self._is_own(name, others))
        found = (self._why_left(name, others, later.get(name, ())) for name in left)
        return next(filter(None, found), unknown)

    def look_again(self, statement: Statement) -> DdlRefused | None:
        """`refusal`, with the current tables of others."""
        self._others = None
        return self.refusal(statement)

    def leaves(self, statement: Statement) -> str:
        """The consumer to whom a statement about a database is left: it has tables there, and this one has none."""
        if statement.action not in DATABASE_ACTIONS or not statement.executed:
            return ""
        others = self._of_others()
        there = self._there(statement, others)
        return others[there[0]].consumer if there and not self._has_some_in(statement.file.name) else ""

    def loads(self, tables: Iterable[TableName]) -> dict[TableName, DdlRefused]:
        """Those of `tables` whose first rows are not to be loaded, and why."""
        others, tables = self._not_continued(), list(tables)
        refused = self._refused((name for name in tables if not self._is_own(name, others)), others)
        return self._replayed(tables) | refused

    def foreign(self, tables: Collection[TableName]) -> dict[TableName, DdlRefused]:
        """Those of `tables` under whose names the target has what is not theirs: another table's, or another
        consumer's; and why they are left alone."""
        shared = {name: error for name in tables if (error := self._shared.error(name)) is not None}
        return self.loads(tables) | shared

    def owned(self, tables: Iterable[TableName]) -> dict[TableName, DdlRefused]:
        """Those of `tables` that are another's as they are now, or go on as one, and why they are left alone."""
        return self._refused(tables, self._of_others())

    def take_older(self, statements: Iterable[Statement], record: Callable[[ProgressChange], None]) -> None:
        """`take` the tables that `statements` are about and that none of them makes, so that `refusal` of a statement
        knows who took them first. A table that is made twice shows itself."""
        runs = (statement for statement in statements if statement.executed and refusal(statement) is None)
        older = {name for statement in runs for name in statement.changes()}
        wanted, progress = self._assembly.wanted, self._progress()
        self.take([name for name in older if wanted(name) and progress.table(name).state is State.OK], record)

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

    def _is_own(self, name: TableName, others: OwnedTables) -> bool:
        """Whether it is this consumer's own, and none of `others` has gone on with it from a later moment."""
        there = others.get(self._naming.target(name))
        return name in self._own and (there is None or there.start_ts <= self._progress().start_of(name))

    def _unknown_in_database(self, statement: Statement) -> DdlRefused | None:
        """Why a DROP DATABASE does not run where routes lead to: the target has a table there that is none of those
        that it drops upstream. It can be an older one of another database of the upstream, of which the storage does
        not tell yet."""
        database = self._naming.target(statement.file.name).database
        if not self._naming.leads_to(database):
            return None
        known = {self._naming.target(name).folded for name in (*statement.drops, *statement.touches)}
        others = (name for name in self._tables_in(database) if name.folded not in known and not is_kept(name))
        other = min(others, default=None)
        return None if other is None else drops_unknown(other, statement)

    def _there(self, statement: Statement, others: OwnedTables) -> Sequence[TableName]:
        """Those of `others`, as the target calls them, in the statement's database."""
        return others.in_database(self._naming.target(statement.file.name).database)

    def _has_some_in(self, database: TableName) -> bool:
        wanted = self._naming.target(database).database
        return any(name.table and self._naming.target(name).database == wanted for name in self._own)

    def _not_continued(self) -> OwnedTables:
        progress, others = self._progress(), self._of_others()
        if not self._takes_over:
            return others
        starts = {self._naming.target(name): ts for name, ts in progress.starts.items()}
        return others.beyond(progress.start_ts, starts) if progress.start_ts or starts else others

    def _replayed(self, tables: Iterable[TableName]) -> dict[TableName, DdlRefused]:
        """Those of `tables` that a replay has brought further than where this consumer would begin with them."""
        replayed, progress = self._of_others().replayed, self._progress()
        found = ((name, replayed.get(self._naming.target(name))) for name in tables if name not in self._own)
        return {
            name: goes_twice(name, there, start, self._naming)
            for name, there in found
            if there is not None and (start := progress.start_of(name)) < there.applied_ts
        }

    def _refused(self, tables: Iterable[TableName], others: OwnedTables) -> dict[TableName, DdlRefused]:
        found = {
            name: self._shared.error(name) or self._why_left(name, others, self._later.now.get(name, ()))
            for name in tables
        }
        return {name: error for name, error in found.items() if error is not None}

    def _why_left(self, name: TableName, others: OwnedTables, later: Iterable[LaterName]) -> DdlRefused | None:
        """The error of a table that is one of `others`, or that another has already made one by the RENAMEs to
        `later`."""
        if (own := self._naming.target(name)) in others:
            return belongs_to(name, others[own], self._naming, taken=name in self._own)
        for new in later:
            if (there := self._naming.target(new.name)) in others and others[there].applied_ts >= new.version:
                return belongs_to(name, others[there], self._naming, new.name)
        return None

    def _of_others(self) -> OwnedTables:
        if self._others is None:
            self._others = self._look()
            self._own.update(written(self._assembly, self._progress()))
            self._later = LaterNames(self._assembly.history, self._assembly.timeline.pending if self._others else ())
        return self._others


def left_to(other: str) -> str:
    """What is recorded of a statement that `Others.leaves` to `other`."""
    return f"the tables of this database belong to the consumer {other!r} of this target"


def belongs_to(
    table: TableName, owned: Owned, naming: Naming, later: TableName | None = None, taken: bool = False
) -> DdlRefused:
    """Why this consumer must leave `table` alone, which becomes `later`. `taken`: it was this consumer's own."""
    own = naming.shown(later or table)
    what = f"{own} belongs" if later is None else f"{own}, to which {table} is renamed later, belongs"
    if taken and owned.start_ts:
        return DdlRefused(
            f"{what} to the consumer {owned.consumer!r} of this target, which took it over with --start-ts"
            f" {owned.start_ts}, and only one consumer may write to it",
            hint="leave the table out of this consumer with --tables, or `forget` its name where it is no longer used",
            table=str(table),
        )
    return DdlRefused(
        f"{what} to the consumer {owned.consumer!r} of this target, and only one consumer may write to it",
        hint="give this one another --downstream-uri, or leave the table out of one of the two with --tables; where"
        f" {owned.consumer!r} is no longer used, remove its progress: {forget_command(owned.consumer)}",
        table=str(table),
    )


def goes_twice(table: TableName, there: Owned, start: int, naming: Naming) -> DdlRefused:
    """Why this consumer must not begin with `table` at `start`, which the replay `there` has brought further."""
    return DdlRefused(
        f"the replay {there.consumer!r} has brought {naming.shown(table)} up to {there.applied_ts} in this target, and"
        f" this one would begin at {start}: what lies between would be applied twice",
        hint=f"begin at {there.applied_ts} or later; where the table was made anew since that replay, remove its"
        f" progress: {forget_command(there.consumer)}",
        table=str(table),
    )


def drops_database_of(table: TableName, other: str, statement: Statement) -> DdlRefused:
    """Why a DROP DATABASE does not run: it would also drop what belongs to another consumer."""
    database, version = statement.file.name, statement.version
    return statement_refused(
        statement.file,
        f"it would also drop {table}, which belongs to the consumer {other!r} of this target: {statement.file.query}",
        hint=f"drop this consumer's own tables in {database} by hand, then: {skip_ddl_command(database, version)}",
    )


def drops_unknown(table: TableName, statement: Statement) -> DdlRefused:
    """Why a DROP DATABASE does not run: it would also drop what routes may have brought there."""
    database, version = statement.file.name, statement.version
    return statement_refused(
        statement.file,
        f"routes lead to that database of the target, and it has {table}, which is no table of {database}:"
        f" {statement.file.query}",
        hint=f"drop the tables of {database} by hand in the target, then: {skip_ddl_command(database, version)}",
    )
