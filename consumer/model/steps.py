"""The plan as data: what a round does, in the order of its graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import DataFile, SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, DdlId, DdlRecord, DdlState, ProgressChange
from consumer.model.table_definition import UNTOLD, Charset, Partitioning, TableIndexes
from consumer.model.table_modes import ModeDdl


@dataclass(frozen=True, slots=True)
class Window:
    """The rows with `after` < commit-ts <= `end`."""

    after: int
    end: int


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of a load. `exact` is the window for rows with a commit-ts, `coarse` for rows that only have ``es``
    (compared as ``es << 18``; a DDL's own millisecond is inside or outside by the file's folder).

    `series` numbers the series within the load, `ordinal` the file within its series.
    """

    file: DataFile
    series: int
    ordinal: int
    exact: Window
    coarse: Window


@dataclass(frozen=True, slots=True)
class LoadRows:
    """Brings one table from ``window.after`` to ``window.end``. Without files only the progress advances."""

    table: TableName
    window: Window
    files: tuple[PlannedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(planned.file.size for planned in self.files)


@dataclass(frozen=True, slots=True)
class TableBefore:
    """What upstream's earlier statements declare of the table of a statement, as far as the statement needs it."""

    columns: tuple[Column, ...] | None = None
    """None if they are not known."""
    partitioning: Partitioning | None = None
    """For statements about partitions. None if the table has none, or if that is not known."""
    indexes: TableIndexes = UNTOLD
    """For statements about indexes."""
    charset: Charset | None = None
    """For a new table: the character set that its database gave it then."""
    is_view: bool = False
    """Whether the statement creates or renames a view. The target can lack it: a view that cannot be created there is
    skipped."""


UNKNOWN_TABLE = TableBefore()


@dataclass(frozen=True, slots=True)
class ApplyDdl:
    """What upstream's statement becomes in the target, once every table in `touches` is complete up to its version.
    `consumer.plan.statement.Statement` creates it. All names but those of `file` and of the progress are the
    target's."""

    file: SchemaFile
    """Upstream's statement."""
    touches: tuple[TableName, ...]
    before: ProgressChange = field(default_factory=ProgressChange)
    """Becomes durable with the intent: every touched table at W = version."""
    after: ProgressChange = field(default_factory=ProgressChange)
    """Becomes durable with the fact."""
    old_name: TableName | None = None
    """The source of a rename, or the name of the table that a DROP TABLE means, if the RENAME that gave it the
    statement's name never ran."""
    table_before: TableBefore = UNKNOWN_TABLE
    trash: TableName | None = None
    """The name to which a DROP or TRUNCATE moves the table (DROP DATABASE: its tables) instead of losing it; for
    RECOVER TABLE the name to which an earlier statement has moved it, if any."""
    follows: tuple[TableName, ...] = ()
    """Those of `touches` that the statement does not name and only comes after; upstream may not have them any more."""
    routed: SchemaFile | None = None
    """`file` with its query in the target's names; None if these are the upstream's."""
    mode_ddl: ModeDdl | None = None
    """What it does to a table that is no mirror; None if it is a mirror, or if the effect is the same."""

    @property
    def action(self) -> Action:
        """The statement's action. Raises DdlRefused for an unknown type: what it does to rows would be a guess."""
        try:
            return Action(self.file.type)
        except ValueError as error:
            text = f"a statement of the unknown type {self.file.type}"
            raise DdlRefused(text, table=str(self.table), version=self.file.version) from error

    @property
    def table(self) -> TableName:
        """The upstream's name of the statement's table or database: what messages name."""
        return self.file.name

    @property
    def statement(self) -> SchemaFile:
        """The statement to execute, in the target's names."""
        return self.routed or self.file

    @property
    def name(self) -> TableName:
        """The target's name of the statement's table or database."""
        return self.statement.name

    @property
    def name_before(self) -> TableName:
        """The name that the statement's table has in the target until then."""
        dropped = self.file.type == Action.DROP_TABLE
        return self.old_name if dropped and self.old_name is not None else self.name

    @property
    def merged(self) -> ModeDdl | None:
        """`mode_ddl` of a table that others are merged with, else None: the statement can be repeated until it is
        recorded."""
        return self.mode_ddl if self.mode_ddl is not None and self.mode_ddl.mode.merges else None

    @property
    def id(self) -> DdlId:
        return ddl_id(self.file)

    @property
    def row(self) -> AuditRow:
        """The audit row of the statement once it is executed."""
        return AuditRow("ddl", self.file.name, self.file.version, self.file.version, statement=self.file.query)

    def done(self, note: str = "") -> ProgressChange:
        """Returns the fact: what is recorded after the executed statement. `note` is what it could not do, if
        anything."""
        fact = ProgressChange(ddls=(DdlRecord(self.id, DdlState.DONE, reason=note),), audit=(self.row,))
        return self.after.merged(fact)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A statement that cannot run in this round, the tables that it holds up, and what it waits for."""

    file: SchemaFile
    tables: tuple[TableName, ...]
    waits_for: str


def ddl_id(file: SchemaFile) -> DdlId:
    """Returns the identity under which a schema file's statement is recorded."""
    return DdlId(file.database, file.table, file.version, file.checksum)


@dataclass(frozen=True, slots=True)
class TargetDdl:
    """A statement as it would run on the target as that is now: `statements` in order, or a plain description of what
    is done; none where there is nothing to execute. `note` is what the target does without, `error` why it would refuse
    the statement ("": it would not, as far as can be seen). `collations`: what `note` says of character sets and
    collations."""

    statements: tuple[str, ...] = ()
    note: str = ""
    error: str = ""
    collations: tuple[str, ...] = ()
