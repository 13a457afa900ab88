"""Guards tables that another consumer of the same target replicates. Two consumers of one table would not see each
other's changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

from consumer.errors import Code, DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, Action
from consumer.model.ddl_policy import is_kept
from consumer.model.hints import forget_command, skip_ddl_command, statement_refused
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import Owned, OwnedTables, Progress, is_export, is_parallel_load, is_replay, is_resync
from consumer.plan.assembly import Assembly
from consumer.plan.ddl_step import statement_refusal
from consumer.plan.routing import SharedNames, written_names
from consumer.plan.statement import Statement
from consumer.plan.timeline import LaterName, LaterNames

_Later = Mapping[TableName, Sequence[LaterName]]


class OwnershipGuard:
    """Refuses statements and loads that would touch the tables of other consumers, for one round. `look` is called
    once, for the first statement or load that asks. Tables have the target's names.

    A table is this consumer's own once `take` has recorded it in the target: before a statement creates or changes the
    table, and before its first rows. Without `take` nothing is recorded, and what could be taken counts as its own.

    With --start-ts the operator has said that the target holds the older tables as of then. That is true of a table
    that another consumer brought no further than that moment: this consumer takes it, and the other one stops at it. It
    is not true of a table that is further by now.
    """

    def __init__(
        self,
        look: Callable[[], OwnedTables],
        assembly: Assembly,
        progress: Callable[[], Progress],
        naming: Naming = SAME,
        tables_in: Callable[[str], Collection[TableName]] = lambda database: (),
        take: Callable[[Mapping[TableName, int | None]], OwnedTables] | None = None,
    ) -> None:
        self._look, self._assembly, self._progress, self._naming = look, assembly, progress, naming
        self._tables_in, self._record = tables_in, take
        self._shared = SharedNames(naming, assembly, progress())
        self._others: OwnedTables | None = None

    def refusal(self, statement: Statement) -> DdlRefused | None:
        """Returns why `statement` must not run: a table that it touches belongs to another consumer, or becomes
        another's by a rename, or shares its name in the target. The tables that it touches were taken before."""
        if (shared := self._shared.refusal(statement)) is not None:
            return shared
        if statement.action == Action.DROP_SCHEMA:
            self._look_again()  # another consumer can have created a table there since
        if not statement.executed or self.other_owner_of_database(statement):
            return None
        unknown = self._unknown_in_database(statement) if statement.action == Action.DROP_SCHEMA else None
        others = self._of_others()
        if not others:
            return unknown
        if statement.action == Action.DROP_SCHEMA and (tables := self._tables_of_others(statement, others)):
            return drops_foreign_table_error(tables[0], others[tables[0]].consumer, statement)
        refused = self._refused(self._starts_of(statement), self._later.after(statement))
        return refused[min(refused)] if refused else unknown

    def refusal_now(self, statement: Statement) -> DdlRefused | None:
        """Returns `refusal`, with the current tables of others."""
        self._look_again()
        return self.refusal(statement)

    def other_owner_of_database(self, statement: Statement) -> str:
        """Returns the consumer to whom a statement about a database is left, because that one has tables in it and this
        one has none; "" if there is no such consumer."""
        if statement.action not in DATABASE_ACTIONS or not statement.executed:
            return ""
        others, database = self._of_others(), self._naming.target(statement.file.name).database
        tables = self._tables_of_others(statement, others)
        return others[tables[0]].consumer if tables and not others.has_own_in(database) else ""

    def taken_by_others(self, tables: Collection[TableName]) -> dict[TableName, DdlRefused]:
        """Returns, with the reason, those of `tables` whose names in the target are used by another table or another
        consumer. They are not touched."""
        return self.take({name: self._progress().start_of(name) for name in tables})

    def owned_by_others(self, tables: Iterable[TableName]) -> dict[TableName, DdlRefused]:
        """Returns, with the reason, those of `tables` that belong to another consumer now, or become another's by a
        rename."""
        names = dict.fromkeys(tables)
        return self._refused(names, self._later.now) | self._sharing(names)

    def take_tables_of(self, statements: Iterable[Statement]) -> None:
        """Takes the tables that `statements` create and change, so that `refusal` of each can see which consumer was
        first."""
        begins: dict[TableName, int | None] = {}
        later: dict[TableName, Sequence[LaterName]] = {}
        for statement in statements:
            if statement.executed and statement.action not in DATABASE_ACTIONS and statement_refusal(statement) is None:
                begins |= {n: start for n, start in self._starts_of(statement).items() if n not in statement.follows}
                later |= self._later.after(statement) if self._of_others() else {}
        self._take({name: start for name, start in begins.items() if name.table and self._assembly.wanted(name)}, later)

    def take(self, begins: Mapping[TableName, int | None]) -> dict[TableName, DdlRefused]:
        """Makes tables this consumer's own. `begins` has the commit-ts at which it begins with each, None if it creates
        the table again. Returns those that another consumer has, with the reason why they are not touched."""
        later = self._later.now if self._of_others() else {}
        self._take(begins, later)
        return self._refused(begins, later) | self._sharing(begins)

    def _sharing(self, tables: Iterable[TableName]) -> dict[TableName, DdlRefused]:
        return {name: error for name in tables if (error := self._shared.error(name)) is not None}

    def _take(self, begins: Mapping[TableName, int | None], later: _Later) -> None:
        others = self._of_others()
        wanted = {
            self._naming.target(name): start
            for name, start in begins.items()
            if self._shared.error(name) is None and self._renamed_to_others(name, later.get(name, ())) is None
        }
        if any(not others.is_own(target) for target in wanted):
            self._others = self._record(wanted) if self._record is not None else others.after_taking(wanted)

    def release_dropped(self, statement: Statement) -> None:
        """`statement` is done: the tables that it has dropped belong to nobody."""
        if statement.drops:
            self._others = self._of_others().after_release(map(self._naming.target, statement.drops))

    def _starts_of(self, statement: Statement) -> dict[TableName, int | None]:
        """Returns the tables of a statement, with the commit-ts at which this consumer begins with them, None for one
        that the statement creates."""
        names = {*statement.touches, *filter(None, (statement.begins, statement.old_name))}
        return {name: None if name == statement.creates else self._progress().start_of(name) for name in names}

    def _unknown_in_database(self, statement: Statement) -> DdlRefused | None:
        """Returns why a DROP DATABASE must not run where routes lead to: the target's database has a table that is none
        of those that the statement drops upstream. It can be an older table of another upstream database, which the
        storage does not show yet."""
        database = self._naming.target(statement.file.name).database
        if not self._naming.leads_to(database):
            return None
        own_tables = {self._naming.target(name).folded for name in (*statement.drops, *statement.touches)}
        others = (
            name
            for name in self._tables_in(database)
            if name.folded not in own_tables and not is_kept(name) and not is_parallel_load(name)
        )
        other = min(others, default=None)
        return None if other is None else drops_unknown_table_error(other, statement)

    def _tables_of_others(self, statement: Statement, others: OwnedTables) -> Sequence[TableName]:
        """Returns those of `others` in the statement's database, under the target's names. Tables that are being loaded
        to replace another one do not count."""
        tables = others.in_database(self._naming.target(statement.file.name).database)
        return [table for table in tables if not is_parallel_load(table)]

    def _refused(self, begins: Mapping[TableName, int | None], later: _Later) -> dict[TableName, DdlRefused]:
        errors = {name: self._why_left(name, start, later.get(name, ())) for name, start in begins.items()}
        return {name: error for name, error in errors.items() if error is not None}

    def _why_left(self, name: TableName, start: int | None, later: Iterable[LaterName]) -> DdlRefused | None:
        """Returns the error of a table that belongs to another consumer, or becomes another's by a rename."""
        owned = self._of_others().get(self._naming.target(name))
        if owned is None:
            return self._renamed_to_others(name, later)
        if is_replay(owned.consumer) and start is not None and start < owned.applied_ts:
            return applied_twice_error(name, owned, start, self._naming)
        return belongs_to_other_error(
            name, owned, self._naming, taken=name in written_names(self._assembly, self._progress())
        )

    def _renamed_to_others(self, name: TableName, later: Iterable[LaterName]) -> DdlRefused | None:
        """Returns the error of a table that another consumer already has under a name of `later`, to which it is
        renamed."""
        others = self._of_others()
        for new in () if others.is_own(self._naming.target(name)) else later:
            if (target := self._naming.target(new.name)) in others and others[target].applied_ts >= new.version:
                return belongs_to_other_error(name, others[target], self._naming, new.name)
        return None

    @cached_property
    def _later(self) -> LaterNames:
        return LaterNames(self._assembly.history, self._assembly.timeline.pending)

    def _look_again(self) -> None:
        if self._record is not None:  # otherwise only what is planned changes anything
            self._others = None

    def _of_others(self) -> OwnedTables:
        if self._others is None:
            self._others = self._look()
        return self._others


def reason_left_to(other: str) -> str:
    """Returns the reason that is recorded for a statement that `OwnershipGuard.other_owner_of_database` leaves to the
    consumer `other`."""
    return f"the tables of this database belong to the consumer {other!r} of this target"


def belongs_to_other_error(
    table: TableName, owned: Owned, naming: Naming, later: TableName | None = None, taken: bool = False
) -> DdlRefused:
    """Returns the error of `table`, which belongs to another consumer. `later` is a name that it gets by a rename.
    `taken` means that it was this consumer's own before."""
    shown_name = naming.shown(later or table)
    what = f"{shown_name} belongs" if later is None else f"{shown_name}, to which {table} is renamed later, belongs"
    if taken and owned.start_ts:
        return DdlRefused(
            f"{what} to the consumer {owned.consumer!r} of this target, which took it over with --start-ts"
            f" {owned.start_ts}, and only one consumer may write to it",
            hint="leave the table out of this consumer with --tables, or `forget` its name where it is no longer used",
            table=str(table),
            code=Code.OF_ANOTHER_CONSUMER,
        )
    if is_export(owned.consumer):
        return DdlRefused(
            f"{what} to an export that is not completely loaded (under {owned.consumer!r})",
            hint="let `load-export` end, or run it again with the same export; if it is not wanted any more: "
            + forget_command(owned.consumer),
            table=str(table),
            code=Code.OF_ANOTHER_CONSUMER,
        )
    if is_resync(owned.consumer):
        return DdlRefused(
            f"{what} to a resync that is not finished (under {owned.consumer!r})",
            hint="let `resync` end, or run it again; if it is not wanted any more: " + forget_command(owned.consumer),
            table=str(table),
            code=Code.OF_ANOTHER_CONSUMER,
        )
    ends = "end that one first, if this one is to continue with its tables; or " if owned.busy else ""
    return DdlRefused(
        f"{what} to the consumer {owned.consumer!r} of this target, and only one consumer may write to it",
        hint=f"{ends}give this one another --downstream-uri, or leave the table out of one of the two with --tables;"
        f" where {owned.consumer!r} is no longer used, remove its progress: " + forget_command(owned.consumer),
        table=str(table),
        code=Code.OF_ANOTHER_CONSUMER,
    )


def applied_twice_error(table: TableName, owned: Owned, start: int, naming: Naming) -> DdlRefused:
    """Returns the error of `table`, which this consumer must not begin at `start`, because a replay has brought it
    further."""
    return DdlRefused(
        f"the replay {owned.consumer!r} has brought {naming.shown(table)} up to {owned.applied_ts} in this target, and"
        f" this one would begin at {start}: what lies between would be applied twice",
        hint=f"begin at {owned.applied_ts} or later; where the table was made again since that replay, remove its"
        " progress: " + forget_command(owned.consumer),
        table=str(table),
        code=Code.OF_ANOTHER_CONSUMER,
    )


def drops_foreign_table_error(table: TableName, other: str, statement: Statement) -> DdlRefused:
    """Returns the error of a DROP DATABASE that would also drop a table of another consumer."""
    database, version = statement.file.name, statement.version
    return statement_refused(
        statement.file,
        f"it would also drop {table}, which belongs to the consumer {other!r} of this target: {statement.file.query}",
        hint=f"drop this consumer's own tables in {database} by hand, then: " + skip_ddl_command(database, version),
        code=Code.OF_ANOTHER_CONSUMER,
    )


def drops_unknown_table_error(table: TableName, statement: Statement) -> DdlRefused:
    """Returns the error of a DROP DATABASE that would also drop `table`, which routes may have put into that
    database."""
    database, version = statement.file.name, statement.version
    return statement_refused(
        statement.file,
        f"routes lead to that database of the target, and it has {table}, which is no table of {database}:"
        f" {statement.file.query}",
        hint=f"drop the tables of {database} by hand in the target, then: " + skip_ddl_command(database, version),
    )
