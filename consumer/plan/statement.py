"""Describes a statement of upstream: its tables, what it waits for, and its change of the progress. `plan/ddl_step.py`
decides what it becomes in the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.ddl.changes import Shape
from consumer.ddl.text_check import passes_text_check
from consumer.history.upstream_session import UpstreamSession
from consumer.model.actions import (
    CREATE_ACTIONS,
    DATABASE_ACTIONS,
    DROP_ACTIONS,
    HEALING_ACTIONS,
    RENAME_ACTIONS,
    TAKING_ACTIONS,
    Action,
)
from consumer.model.ddl_policy import DdlPolicy, kind_of, trash_name
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import DdlKind, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import UNKNOWN_TABLE, TableBefore

BEGINNING_ACTIONS = CREATE_ACTIONS | RENAME_ACTIONS | {Action.TRUNCATE_TABLE}
_NAMING_ACTIONS = CREATE_ACTIONS | RENAME_ACTIONS
_NOT_ON_TABLES = CREATE_ACTIONS | DATABASE_ACTIONS
_NOT_PLAIN = BEGINNING_ACTIONS | DATABASE_ACTIONS | DROP_ACTIONS | TAKING_ACTIONS | {Action.RECOVER_TABLE}


class FormerName(NamedTuple):
    """A name that a table had from the statement at `since` on, up to the RENAME at `until`."""

    name: TableName
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class UnreadTable:
    """A table whose rows a statement moves, and which the target does not have as it was then."""

    name: TableName
    never_made: bool = False
    """Whether the table rules include it now, and excluded it while the table that had the name then existed."""
    begins_at: int = 0
    """The later commit-ts at which it begins in the target; 0 if it does not begin by --start-ts."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of upstream, with what it waits for. All names are upstream's except `trash`."""

    file: SchemaFile
    touches: tuple[TableName, ...]
    """The tables that must be complete up to its version first; the database itself for a statement about one."""
    old_name: TableName | None
    """The source of a rename; None if it is not known."""
    drops: tuple[TableName, ...] = ()
    """The names that no longer exist after it."""
    table_before: TableBefore = UNKNOWN_TABLE
    policy: DdlPolicy = DdlPolicy.EVOLVE
    trash: TableName | None = None
    """The name to which the target moves its table, or from which it restores one, in the target's names (see
    ApplyDdl)."""
    not_read: UnreadTable | None = None
    """A table whose rows it moves to or from a selected one, and that nobody read: the statement is refused."""
    temporary: bool = False
    """Whether its table is a global temporary one, which the target does not have."""
    session: UpstreamSession | None = None
    """What is known of the database to which names without one are relative; None if nobody has looked."""
    former: tuple[FormerName, ...] = ()
    """The names from which pending RENAMEs give a DROP its table, the last one first."""
    follows: tuple[TableName, ...] = ()
    """Those of `touches` that it does not name and only comes after."""
    naming: Naming = SAME
    shapes: Callable[[SchemaFile], tuple[Shape, Shape]] | None = field(default=None, compare=False, repr=False)
    """Returns the shapes of its table before a file's statement and after it."""

    @property
    def version(self) -> int:
        return self.file.version

    @property
    def action(self) -> Action:
        return self.file.action

    @property
    def lacks_old_name(self) -> bool:
        """Whether it is a rename whose source is unknown."""
        return self.action in RENAME_ACTIONS and self.old_name is None

    @property
    def creates(self) -> TableName | None:
        """The name that exists because of this statement, None if there is none."""
        return self.file.name if self.action in _NAMING_ACTIONS else None

    @property
    def ignored(self) -> tuple[DdlKind, str]:
        """Why it is not executed, by its policy or because its table never has rows."""
        if self.temporary:
            return DdlKind.NO_ROWS, "a global temporary table has no rows"
        keeps = self.action in (Action.DROP_TABLE, Action.DROP_SCHEMA)
        return DdlKind.KEPT if keeps else DdlKind.IGNORED, f"the policy for {kind_of(self.action)} is ignore"

    @property
    def may_fail(self) -> bool:
        """Whether everything else can continue if it cannot be executed: a view has no rows, and is skipped. A text
        that differs from what its file says proves no view."""
        return (
            self.table_before.is_view
            and self.policy is not DdlPolicy.FAIL
            and passes_text_check(self.file, self.action)
        )

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
        """The target's table, as a key, that gets its table's rows together with those of others; None if it creates no
        such table."""
        if self.action not in CREATE_ACTIONS or not self.naming.merges(self.file.name):
            return None
        return self.naming.target(self.file.name).folded

    @property
    def begins(self) -> TableName | None:
        """The table whose rows begin again with it, so that older folders no longer matter; None if there is none."""
        return self.file.name if self.action in BEGINNING_ACTIONS and not self._keeps_rows else None

    @property
    def _keeps_rows(self) -> bool:
        """Whether it is a TRUNCATE TABLE that only ends rows, because their table is no mirror."""
        return self.action == Action.TRUNCATE_TABLE and self.naming.keeps_ended(self.file.name)

    @property
    def only_alters(self) -> bool:
        """Whether it changes the one table that it touches, which has its name and its rows before and after it."""
        plain = self.executed and not (self.heals or self.ends or self.drops or self.trash or self.not_read)
        return plain and self.touches == (self.file.name,) and self.action not in _NOT_PLAIN and self.file.table != ""

    def overtakes(self, other: Statement) -> bool:
        """Returns whether a stuck `other` no longer matters after this statement, because its tables no longer exist
        then. After a RENAME whose source is unknown the target would keep that table, under its old name."""
        past = self.ends and other.version < self.version and not other.lacks_old_name
        return past and all(self._takes_away(other, name) for name in other.touches)

    def _takes_away(self, other: Statement, name: TableName) -> bool:
        """Returns whether `other`, by `name`, is about the table that this statement drops. While RENAMEs are pending
        that table has another name in the target, and older and later tables had its names too."""
        if not self.former:
            return name in self.touches
        own_name = FormerName(self.file.name, self.former[0].until, self.version)
        return any(name == former_name.name and other.about(former_name) for former_name in (own_name, *self.former))

    def about(self, former_name: FormerName) -> bool:
        """Returns whether it is about the table that had the name `former_name` then."""
        if self.version == former_name.since:
            return self.file.name == former_name.name
        return former_name.since < self.version < former_name.until or (
            self.version == former_name.until and self.old_name == former_name.name
        )

    def until(self, name: TableName) -> int:
        """Returns the version up to which `name` is the statement's own table."""
        until = {former_name.name: former_name.until for former_name in self.former}
        return self.version if name in self.touches else until.get(name, self.version)

    def changes(self) -> tuple[TableName, ...]:
        """Returns the tables that must have existed before it, as far as it shows. If no statement created one, the
        table is older than the changefeed."""
        if self.action in RENAME_ACTIONS:
            return (self.old_name,) if self.old_name is not None else ()
        return () if self.action in _NOT_ON_TABLES else (self.file.name,)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables in `touches`."""
        return tuple(name for name in self.touches if name.table)

    def kept_as(self, complete: bool = True) -> TableName:
        """Returns the target's name for its table, if that is to be kept."""
        return trash_name(self.version, self.naming.target(self.file.name), complete)

    def before(self, progress: Progress) -> ProgressChange:
        """Returns the progress that goes with its intent. A table that is already further (a statement of another table
        is applied again) keeps its place."""
        return ProgressChange(tables={name: self._at() for name in self.tables if self._moves(name, progress)})

    def after(self) -> ProgressChange:
        """Returns the progress that goes with its fact."""
        dropped = {name: TableProgress(self.version, State.DROPPED) for name in self.drops}
        own_place = {} if self.action in DATABASE_ACTIONS or self.file.name in dropped else {self.file.name: self._at()}
        return ProgressChange(tables={**own_place, **dropped}, moved_lacks=self._moved_lacks)

    @property
    def _moved_lacks(self) -> Mapping[TableName, tuple[TableName, ...]]:
        match self.action:
            case Action.RENAME_TABLE | Action.RENAME_TABLES:
                return {} if self.old_name is None else {self.old_name: (self.file.name,)}
            case Action.EXCHANGE_PARTITION:
                # It is not known which of the rows were in the partition.
                return dict.fromkeys(self.tables, self.tables)
            case Action.TRUNCATE_TABLE if self.policy is DdlPolicy.IGNORE:
                return {}  # the table stays as it is, and still lacks them
            case Action.DROP_TABLE | Action.TRUNCATE_TABLE:
                return {self.file.name: (self.kept_as(),)}
            case Action.RECOVER_TABLE:
                return {} if self.trash is None else {self.trash: (self.file.name,)}
            case _:
                # What is recorded under the name of a new table is what another table lacked.
                return dict.fromkeys((*self.drops, *filter(None, (self.creates,))), ())

    def _moves(self, name: TableName, progress: Progress) -> bool:
        place = progress.table(name)
        is_earlier = place.applied_ts <= self.version and place.state is not State.DROPPED
        return name == self.file.name or is_earlier

    def _at(self) -> TableProgress:
        return TableProgress(self.version)
