"""What a statement does, compiled once from its text and kept with its schema file (the text itself is only taken apart
again where it is rewritten); and what a table is after its statements, which no schema file says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from consumer.ddl.charsets import declared_charset
from consumer.ddl.declared import Definition, Definitions, declared
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.indexes import IndexChanges, after, copied, index_changes
from consumer.ddl.partitions import TAKES_ROWS, PartitionChanges, PartitionedTable, altered, created, partition_changes
from consumer.ddl.references import Role, TableReference, untold
from consumer.model.actions import CREATE_ACTIONS, PARTITION_ALTERS, TAKING_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name, same_names
from consumer.model.table_definition import UNTOLD, Charset, TableIndexes
from consumer.model.table_modes import TableMode


@dataclass(frozen=True, slots=True)
class Changes:
    """`names` are the tables that the statement names, in the order of its text; `charset` is what it declares for a
    database."""

    names: tuple[TableReference, ...]
    columns: Definitions
    indexes: IndexChanges
    partitions: PartitionChanges
    charset: Charset | None

    def named(self, role: Role) -> TableReference | None:
        """The first table in this role, as LIKE's source, or the plain table of EXCHANGE PARTITION."""
        return next((name for name in self.names if name.role == role), None)


def changes_of(file: SchemaFile) -> Changes:
    """Those of the file's statement; none where it holds no statement."""
    return file.once(_compiled)


def declared_columns(file: SchemaFile, mode: TableMode | None, before: Iterable[Column]) -> Definitions:
    """What the file's statement declares of columns, in the names that a table of `mode` has in the target; `before`
    are its columns before the statement, in these names."""
    found = changes_of(file).columns
    called = found if mode is None or mode.chosen is None else found.called(mode.chosen)
    return called.beside(column.name for column in before)


def compiled(statement: ParsedStatement) -> Changes:
    of_database = statement.kind.endswith("DATABASE")
    return Changes(
        statement.references,
        declared(statement),
        index_changes(statement),
        partition_changes(statement),
        declared_charset(statement.options) if of_database else None,
    )


def _compiled(file: SchemaFile) -> Changes:
    return compiled(statement_of(file.query))


def written_tables(file: SchemaFile) -> list[TableName]:
    """The tables that the statement names; a name without a database is one of the file's."""
    return [name.within(file.database) for name in changes_of(file).names]


def takes_rows(file: SchemaFile) -> bool:
    """Whether the statement takes rows away, or brings some, by partitions."""
    clauses = changes_of(file).partitions.clauses
    return file.type in TAKING_ACTIONS or any(clause.verb in TAKES_ROWS for clause in clauses)


def counts_partitions(file: SchemaFile) -> bool:
    """Whether the statement adds partitions, or takes some away, by their number."""
    return any(clause.count for clause in changes_of(file).partitions.clauses)


def recovered_table(file: SchemaFile) -> TableName | None:
    """The name under which a table was lost that RECOVER or FLASHBACK TABLE brings back; None where a job number
    tells."""
    lost = next(iter(changes_of(file).names), None)
    return None if lost is None else lost.within(file.database)


_Known = TypeVar("_Known")


@dataclass(frozen=True, slots=True)
class Fate:
    """The state of a statement in the target. `skipped`: it was not, or will not be, executed. `restored`: the target
    already had its effect at the start."""

    skipped: bool = False
    restored: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """`columns` are those that a statement declared, by their names in lower case. `leaves_rows`: a statement that took
    rows away upstream was not executed, so the target has them."""

    columns: Mapping[str, Definition] = field(default_factory=dict)
    indexes: TableIndexes = UNTOLD
    leaves_rows: bool = False

    def unique_keys(self, columns: Sequence[Column]) -> tuple[tuple[str, ...], ...]:
        """The NOT NULL unique keys (column names, the primary key left out) of the table while it has `columns`.

        Keys with the fewest columns come first, then in the order of their making. A key that the statements do not
        state beyond doubt is not in the answer.
        """
        required = {same_name(column.name): column.name for column in columns if not column.nullable}
        found = [
            tuple(required[column] for column in index.columns)
            for index in self.indexes.indexes
            if index.kind == "UNIQUE" and index.columns and not index.doubtful
            if all(column in required and not self._is_virtual(column) for column in index.columns)
        ]
        return tuple(sorted(dict.fromkeys(found), key=len))

    def handle_key(self, columns: Sequence[Column]) -> tuple[str, ...] | None:
        """The columns that tell the rows of the table apart while it has `columns`: of the primary key, or else of a
        NOT NULL unique key; () where it has neither. None where the statements do not tell whether it has one."""
        primary = tuple(column.name for column in columns if column.is_pk)
        unique = next(iter(self.unique_keys(columns)), ())
        whole = self.indexes.complete and not any(i.doubtful for i in self.indexes.indexes if i.kind == "UNIQUE")
        return primary or unique or (() if whole else None)

    @property
    def index_names(self) -> frozenset[str | frozenset[str]] | None:
        """Every index: its name, and of a unique one the set of its columns, all in lower case. None where the
        statements do not begin with the table's CREATE TABLE."""
        if not self.indexes.complete:
            return None
        names = (same_name(index.name) for index in self.indexes.indexes if index.kind != "PRIMARY")
        return frozenset([*names, *self.told_unique])

    @property
    def told_unique(self) -> frozenset[frozenset[str]]:
        """The column sets, in lower case, of the unique indexes that the statements tell beyond doubt."""
        unique = (index for index in self.indexes.indexes if index.kind == "UNIQUE" and not index.doubtful)
        return frozenset(frozenset(index.columns) for index in unique if index.columns)

    @property
    def told_names(self) -> frozenset[str]:
        """The names, in lower case, of which the statements tell what index has them, or that none has."""
        indexes = (index for index in self.indexes.indexes if not (index.automatic or index.doubtful))
        return same_names(index.name for index in indexes) | self.indexes.dropped_names

    @property
    def plain(self) -> frozenset[str]:
        """The columns, in lower case, of which a statement tells that upstream does not compute them."""
        return frozenset(name for name, column in self.columns.items() if not column.generated)

    def _is_virtual(self, column: str) -> bool:
        """Whether rows do not carry the column."""
        return column in self.columns and self.columns[column].virtual


@dataclass(slots=True, eq=False)
class Told:
    """A table once the statement of `file` has run. Its shape is only worked out when somebody asks for it: of few
    tables anybody does, and there can be thousands.

    `before` is the table before the statement (None: it made the table, or nothing is known of it), or what a `copy`
    was made of. `collation` is what its database gives to a new table, "" where that is not known.
    """

    file: SchemaFile
    fate: Fate
    before: Told | None = None
    copy: bool = False
    collation: str = ""
    known_shape: Shape | None = None
    known_partitioned: PartitionedTable | None = None

    def shape(self) -> Shape:
        shape, line = self._line(lambda told: told.known_shape)
        shape = shape or Shape()
        for each in line:
            shape = each.known_shape = _after(each, shape)
        return shape

    def partitioned(self) -> PartitionedTable:
        """Folded apart from the rest: it is long where a table has many partitions, and only what moves their rows
        asks for it."""
        found, line = self._line(lambda told: told.known_partitioned)
        found = found or PartitionedTable()
        for each in line:
            found = _partitioned_after(each, found)
        self.known_partitioned = found
        return found

    def _line(self, known: Callable[[Told], _Known | None]) -> tuple[_Known | None, list[Told]]:
        """What is known of the last table before this one of which it is, and those behind that one, in order."""
        line: list[Told] = []
        told: Told | None = self
        while told is not None and known(told) is None:
            line.append(told)
            told = told.before
        return (None if told is None else known(told)), line[::-1]


def _after(told: Told, before: Shape) -> Shape:
    changes, file, fate = changes_of(told.file), told.file, told.fate
    if told.copy:
        # Where the text does not tell of which database the source was, another table can have had the same columns.
        indexes, unsure = copied(before.indexes), bool(untold(changes.names, file.name))
        own = tuple(
            replace(
                index,
                skipped=index.skipped or fate.skipped,
                doubtful=index.doubtful or (unsure and index.kind == "UNIQUE"),
            )
            for index in indexes.indexes
        )
        return Shape(before.columns, replace(indexes, indexes=own))
    return Shape(
        changes.columns.after(before.columns),
        after(before.indexes, changes.indexes, file.version, skipped=fate.skipped, restored=fate.restored),
        fate.skipped
        if file.action is Action.TRUNCATE_TABLE
        else before.leaves_rows or (fate.skipped and takes_rows(file)),
    )


def _partitioned_after(told: Told, before: PartitionedTable) -> PartitionedTable:
    changes = changes_of(told.file)
    if told.copy:
        return before
    if told.file.type in CREATE_ACTIONS:
        return created(changes.partitions, told.collation)
    return altered(before, changes.partitions) if told.file.type in PARTITION_ALTERS else before
