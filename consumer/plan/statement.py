"""A statement to execute: its tables, what it waits for, and its change of the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from consumer.ddl.routes import routed
from consumer.ddl.said import check_said
from consumer.ddl.shape import Shape
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, HEALING_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import DdlPolicy, kind_of, trash_name
from consumer.model.files import SchemaFile
from consumer.model.hints import skip_ddl_command, statement_refused
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import UNTOLD, Charset, Partitioning, TableIndexes
from consumer.model.table_modes import FormedDdl
from consumer.model.texts import cut
from consumer.plan.table_modes import check_beside, formed

BEGINNING_ACTIONS = CREATE_ACTIONS | RENAME_ACTIONS | {Action.TRUNCATE_TABLE}
_NAMING_ACTIONS = CREATE_ACTIONS | RENAME_ACTIONS
_NOT_ON_TABLES = CREATE_ACTIONS | DATABASE_ACTIONS
_ACTIONS: Mapping[int, Action] = {int(action): action for action in Action}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement to execute. `touches` are the tables that must be complete up to its version first, and the database
    itself where the statement is about one. `drops` are the names that no longer exist after it. `trash` is where its
    table goes, or where a restored table comes from (see ApplyDdl). `left_out`: a table that the filter leaves out,
    whose rows it moves to or from a selected one; `never_made`: that table is selected now, but the target does not
    have the table that had the name then; `given`: or that began there at this later commit-ts. `former`: the names
    from which pending RENAMEs give a DROP its table, the last one first, each with its RENAME's version; `begun` is
    that of its CREATE, if that is pending. `shapes` is what the statements before it and up to it tell. `behind`,
    `indexes`, `charset`: see ApplyDdl. All names are the upstream's but `trash`, which is the target's as `naming` has
    it."""

    file: SchemaFile
    touches: tuple[TableName, ...]
    old_name: TableName | None
    columns_before: tuple[Column, ...] | None
    drops: tuple[TableName, ...] = ()
    policy: DdlPolicy = DdlPolicy.EVOLVE
    trash: TableName | None = None
    partitioning: Partitioning | None = None
    left_out: TableName | None = None
    never_made: bool = False
    given: int = 0
    former: tuple[tuple[TableName, int], ...] = ()
    begun: int = 0
    behind: tuple[TableName, ...] = ()
    indexes: TableIndexes = UNTOLD
    charset: Charset | None = None
    naming: Naming = SAME
    shapes: Callable[[SchemaFile], tuple[Shape, Shape]] | None = field(default=None, compare=False, repr=False)

    @property
    def version(self) -> int:
        return self.file.version

    @property
    def action(self) -> Action:
        return action_of(self.file)

    @property
    def lacks_old_name(self) -> bool:
        """Whether it is a rename whose source is unknown."""
        return self.action in RENAME_ACTIONS and self.old_name is None

    @property
    def creates(self) -> TableName | None:
        """The name that exists because of this statement."""
        return self.file.name if self.action in _NAMING_ACTIONS else None

    @property
    def executed(self) -> bool:
        """Whether its policy lets it run."""
        return self.policy in (DdlPolicy.EVOLVE, DdlPolicy.RENAME)

    @property
    def heals(self) -> bool:
        return self.executed and self.action in HEALING_ACTIONS and not self._keeps_rows

    @property
    def ends(self) -> bool:
        """Whether its tables no longer exist after it."""
        return self.heals and self.action != Action.TRUNCATE_TABLE

    @property
    def joins(self) -> TableName | None:
        """The target's table, as a key, that gets its table's rows beside those of others; None if it creates no such
        table."""
        if self.action not in CREATE_ACTIONS or not self.naming.merges(self.file.name):
            return None
        return self.naming.target(self.file.name).folded

    @property
    def begins(self) -> TableName | None:
        """The table whose rows begin again with it: older folders no longer matter."""
        return self.file.name if self.action in BEGINNING_ACTIONS and not self._keeps_rows else None

    @property
    def _keeps_rows(self) -> bool:
        """Whether it is a TRUNCATE TABLE that only ends rows, as their table is no mirror."""
        return self.action == Action.TRUNCATE_TABLE and self.naming.keeps_ended(self.file.name)

    def overtakes(self, other: Statement) -> bool:
        """Whether a stuck `other` no longer matters after this one, because its tables no longer exist then."""
        past = self.ends and other.version < self.version
        return past and all(self._takes_away(other, name) for name in other.touches)

    def _takes_away(self, other: Statement, name: TableName) -> bool:
        """Whether `other`, by `name`, is about the table that the statement takes away. While RENAMEs are pending that
        table stands under another name, and older and later tables had its names too."""
        if not self.former:
            return name in self.touches
        names = (self.file.name, *(former for former, _ in self.former))
        since = (*(version for _, version in self.former), self.begun)
        end = (self.version, *since)
        return any(name == own and other.within(own, *times) for own, *times in zip(names, since, end, strict=False))

    def within(self, name: TableName, since: int, end: int) -> bool:
        """Whether it is about the table that had `name` from the statement at `since` up to the RENAME at `end`."""
        if self.version == since:
            return self.file.name == name
        return since < self.version < end or (self.version == end and self.old_name == name)

    def until(self, name: TableName) -> int:
        """The version up to which `name` is the statement's own table."""
        return self.version if name in self.touches else dict(self.former).get(name, self.version)

    def changes(self) -> tuple[TableName, ...]:
        """The tables that must have existed before it, as far as it shows. If no statement created one, it is older
        than the changefeed."""
        if self.action in RENAME_ACTIONS:
            return (self.old_name,) if self.old_name is not None else ()
        return () if self.action in _NOT_ON_TABLES else (self.file.name,)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables in `touches`."""
        return tuple(name for name in self.touches if name.table)

    @property
    def routed(self) -> SchemaFile | None:
        """See ApplyDdl. Raises DdlRefused where the text is not what its file says, or cannot be said in the target's
        names."""
        try:
            check_said(self.file, self.action)
            named = {*self.touches, *self.drops} - {*self.behind}
            return routed(self.file, self.naming, named, self.old_name)
        except DdlRefused as error:
            raise cannot_be_executed(self, error) from error

    @property
    def formed(self) -> FormedDdl | None:
        """See ApplyDdl. Raises DdlRefused where it cannot be done to a table of that form."""
        try:
            check_beside(self)
            return formed(self)
        except DdlRefused as error:
            raise cannot_be_executed(self, error) from error

    def kept_as(self, complete: bool = True) -> TableName:
        """Where the target keeps its table, if that is to be kept."""
        return trash_name(self.version, self.naming.target(self.file.name), complete)

    def before(self, progress: Progress) -> ProgressChange:
        """The progress that goes with its intent. A table that is already further (a statement of another table is
        applied again) stays where it is."""
        return ProgressChange(tables={name: self._at() for name in self.tables if self._moves(name, progress)})

    def after(self) -> ProgressChange:
        """The progress that goes with its fact."""
        gone = {name: TableProgress(self.version, State.DROPPED) for name in self.drops}
        own = {} if self.action in DATABASE_ACTIONS or self.file.name in gone else {self.file.name: self._at()}
        return ProgressChange(tables={**own, **gone}, moved_bad=self._moved_bad)

    @property
    def _moved_bad(self) -> Mapping[TableName, tuple[TableName, ...]]:
        match self.action:
            case Action.RENAME_TABLE | Action.RENAME_TABLES:
                return {} if self.old_name is None else {self.old_name: (self.file.name,)}
            case Action.EXCHANGE_PARTITION:
                # Nobody knows which of the rows were in the partition.
                return dict.fromkeys(self.tables, self.tables)
            case Action.TRUNCATE_TABLE if self.policy is DdlPolicy.IGNORE:
                return {}  # the table stays as it is, and lacks them
            case Action.DROP_TABLE | Action.TRUNCATE_TABLE:
                return {self.file.name: (self.kept_as(),)}
            case Action.RECOVER_TABLE:
                return {} if self.trash is None else {self.trash: (self.file.name,)}
            case _:
                return dict.fromkeys(self.drops, ())

    def step(self, progress: Progress) -> ApplyDdl:
        """The statement as a step in the target's names. Raises DdlRefused as `routed`."""
        return ApplyDdl(
            self.file,
            self.naming.targets(self.tables),
            before=self.before(progress),
            after=self.after(),
            old_name=None if self.old_name is None else self.naming.target(self.old_name),
            columns_before=self.columns_before,
            policy=self.policy,
            trash=self.trash,
            partitioning=self.partitioning,
            indexes=self.indexes,
            charset=self.charset,
            behind=self.naming.targets(self.behind),
            routed=self.routed if self.executed else None,
            formed=self.formed if self.executed else None,
        )

    def _moves(self, name: TableName, progress: Progress) -> bool:
        place = progress.table(name)
        behind = place.applied_ts <= self.version and place.state is not State.DROPPED
        return name == self.file.name or behind

    def _at(self) -> TableProgress:
        return TableProgress(self.version)


def refusal(statement: Statement) -> DdlRefused | None:
    """The error of a statement that must not be executed; None if it is executed or ignored."""
    if statement.policy is DdlPolicy.FAIL:
        return refused_by_policy(statement)
    if statement.lacks_old_name:
        return lacks_old_name(statement)
    if statement.left_out is not None:
        return moves_left_out_rows(statement, statement.left_out)
    try:
        _ = (statement.routed, statement.formed) if statement.executed else None
    except DdlRefused as error:
        return error
    return None


def moves_left_out_rows(statement: Statement, left_out: TableName) -> DdlRefused:
    """The error of a statement that moves rows of a table that the filter leaves out: they were never read."""
    name = statement.file.name
    way = "copy the wanted table from upstream as of"
    if statement.given:
        return statement_refused(
            statement.file,
            f"{left_out} begins at --start-ts {statement.given}, so the target does not have it as it was before this"
            f" statement: {cut(statement.file.query)}",
            hint=f"{way} {statement.version} into the target, then: {skip_ddl_command(name, statement.version)}",
        )
    if statement.never_made:
        why = f"the table rules left out {left_out} when it was there, so the target has no such table"
    else:
        why = f"the table rules leave out {left_out}"
        way = f"let the table rules take {left_out} too and run again, or {way}"
    return statement_refused(
        statement.file,
        f"{why}, whose rows it moves and which were never read: {cut(statement.file.query)}",
        hint=f"{way} {statement.version} into the target, then: {skip_ddl_command(name, statement.version)}",
    )


def cannot_be_executed(statement: Statement, error: DdlRefused) -> DdlRefused:
    """The error of a statement that cannot be said in the target's names, or be done to tables of a form."""
    return statement_refused(
        statement.file,
        f"{error.message}; the statement: {cut(statement.file.query)}",
        hint=error.hint,
    )


def lacks_old_name(statement: Statement) -> DdlRefused:
    """The error of such a rename."""
    return DdlRefused(
        f"cannot tell which table was renamed to {statement.file.name}: {statement.file.query}",
        hint=f"rename it by hand, then: {skip_ddl_command(statement.file.name, statement.version)}",
        version=statement.version,
    )


def refused_by_policy(statement: Statement) -> DdlRefused:
    """The error of a statement whose policy is `fail`."""
    kind = kind_of(statement.action)
    return DdlRefused(
        f"the policy for {kind} is fail: {cut(statement.file.query)}",
        hint=f"set another action for {kind} in [consumer.ddl], or take it out of [[consumer.event-filters]], and run"
        " again, or do by hand what the statement means and then:"
        f" {skip_ddl_command(statement.file.name, statement.version)}",
        table=str(statement.file.name),
        version=statement.version,
    )


def action_of(file: SchemaFile) -> Action:
    """The file's action type; NONE for a number that no TiCDC lets through."""
    return _ACTIONS.get(file.type, Action.NONE)
