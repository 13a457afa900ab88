"""What a statement does, compiled once from its text and kept with its schema file (the text itself is only parsed
again where it is rewritten); and what a table is after its statements, which no schema file shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from consumer.ddl.charsets import declared_charset
from consumer.ddl.declared import Definition, Definitions, declared_definitions
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.indexes import IndexChanges, copied_indexes, index_changes, indexes_after
from consumer.ddl.partitions import (
    TAKES_ROWS,
    PartitionChanges,
    PartitionedTable,
    altered_table,
    created_table,
    partition_changes,
)
from consumer.ddl.references import Role, TableReference, ambiguous_names
from consumer.model.actions import CREATE_ACTIONS, PARTITION_ALTERS, TAKING_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name, same_names
from consumer.model.table_definition import UNTOLD, Charset, TableIndexes
from consumer.model.table_modes import TableMode


@dataclass(frozen=True, slots=True)
class StatementChanges:
    """What a statement does. `names` are the tables that it names, in the order of its text; `charset` is what it
    declares for a database."""

    names: tuple[TableReference, ...]
    columns: Definitions
    indexes: IndexChanges
    partitions: PartitionChanges
    charset: Charset | None

    def named(self, role: Role) -> TableReference | None:
        """Returns the first table in this role, as LIKE's source, or the plain table of EXCHANGE PARTITION."""
        return next((name for name in self.names if name.role == role), None)


def statement_changes(file: SchemaFile) -> StatementChanges:
    """Returns the changes of the file's statement; none if it has no statement."""
    return file.once(_compiled)


def declared_columns(file: SchemaFile, mode: TableMode | None, before: Iterable[Column]) -> Definitions:
    """Returns what the file's statement declares of columns, in the names that a table of `mode` has in the target;
    `before` are its columns before the statement, in these names."""
    definitions = statement_changes(file).columns
    called = definitions if mode is None or mode.chosen is None else definitions.called(mode.chosen)
    return called.beside(column.name for column in before)


def compile_statement(statement: ParsedStatement) -> StatementChanges:
    of_database = statement.kind.endswith("DATABASE")
    return StatementChanges(
        statement.references,
        declared_definitions(statement),
        index_changes(statement),
        partition_changes(statement),
        declared_charset(statement.options) if of_database else None,
    )


def _compiled(file: SchemaFile) -> StatementChanges:
    return compile_statement(statement_of(file.query))


def written_tables(file: SchemaFile) -> list[TableName]:
    """Returns the tables that the statement names; a name without a database is one of the file's."""
    return [name.within(file.database) for name in statement_changes(file).names]


def takes_rows(file: SchemaFile) -> bool:
    """Returns whether the statement removes rows, or brings some, by partitions."""
    clauses = statement_changes(file).partitions.clauses
    return file.type in TAKING_ACTIONS or any(clause.verb in TAKES_ROWS for clause in clauses)


def counts_partitions(file: SchemaFile) -> bool:
    """Returns whether the statement adds or removes partitions by their number."""
    return any(clause.count for clause in statement_changes(file).partitions.clauses)


def recovered_table(file: SchemaFile) -> TableName | None:
    """Returns the name under which a table was lost that RECOVER or FLASHBACK TABLE restores; None if a job number
    identifies it."""
    lost = next(iter(statement_changes(file).names), None)
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
    """The definition of a table. `columns` are those that a statement declared, by their names in lower case.
    `leaves_rows`: a statement that removed rows upstream was not executed, so the target has them."""

    columns: Mapping[str, Definition] = field(default_factory=dict)
    indexes: TableIndexes = UNTOLD
    leaves_rows: bool = False

    def unique_keys(self, columns: Sequence[Column]) -> tuple[tuple[str, ...], ...]:
        """Returns the NOT NULL unique keys (column names, without the primary key) of the table while it has `columns`.

        Keys with the fewest columns come first, then in the order of their creation. A key that the statements leave in
        doubt is not included.
        """
        required = {same_name(column.name): column.name for column in columns if not column.nullable}
        keys = [
            tuple(required[column] for column in index.columns)
            for index in self.indexes.indexes
            if index.kind == "UNIQUE" and index.columns and not index.doubtful
            if all(column in required and not self._is_virtual(column) for column in index.columns)
        ]
        return tuple(sorted(dict.fromkeys(keys), key=len))

    def handle_key(self, columns: Sequence[Column]) -> tuple[str, ...] | None:
        """Returns the columns that identify the rows of the table while it has `columns`: of the primary key, or
        else of a NOT NULL unique key; () if it has neither. Returns None if the statements do not show whether it
        has one."""
        primary = tuple(column.name for column in columns if column.is_pk)
        unique = next(iter(self.unique_keys(columns)), ())
        is_complete = self.indexes.complete and not any(i.doubtful for i in self.indexes.indexes if i.kind == "UNIQUE")
        return primary or unique or (() if is_complete else None)

    @property
    def index_names(self) -> frozenset[str | frozenset[str]] | None:
        """Every index: its name, and for a unique one the set of its columns, all in lower case. None if the statements
        do not begin with the table's CREATE TABLE."""
        if not self.indexes.complete:
            return None
        names = (same_name(index.name) for index in self.indexes.indexes if index.kind != "PRIMARY")
        return frozenset([*names, *self.known_unique_columns])

    @property
    def known_unique_columns(self) -> frozenset[frozenset[str]]:
        """The column sets, in lower case, of the unique indexes that the statements declare beyond doubt."""
        unique = (index for index in self.indexes.indexes if index.kind == "UNIQUE" and not index.doubtful)
        return frozenset(frozenset(index.columns) for index in unique if index.columns)

    @property
    def known_index_names(self) -> frozenset[str]:
        """The names, in lower case, of which the statements show what index has them, or that none has."""
        indexes = (index for index in self.indexes.indexes if not (index.automatic or index.doubtful))
        return same_names(index.name for index in indexes) | self.indexes.dropped_names

    @property
    def plain(self) -> frozenset[str]:
        """The columns, in lower case, of which a statement shows that upstream does not compute them."""
        return frozenset(name for name, column in self.columns.items() if not column.generated)

    @property
    def computed(self) -> frozenset[str]:
        """The columns, in lower case, that upstream computes, as a statement shows."""
        return frozenset(name for name, column in self.columns.items() if column.generated)

    def _is_virtual(self, column: str) -> bool:
        """Returns whether rows do not carry the column."""
        return column in self.columns and self.columns[column].virtual


@dataclass(slots=True, eq=False)
class TableState:
    """A table once the statement of `file` has run. Its shape is only computed when somebody needs it: that is so for
    few tables, and there can be thousands.

    `before` is the table before the statement (None: it created the table, or nothing is known of it), or the source of
    a `copy`. `collation` is what its database gives to a new table, "" if that is not known.
    """

    file: SchemaFile
    fate: Fate
    before: TableState | None = None
    copy: bool = False
    collation: str = ""
    known_shape: Shape | None = None
    known_partitioned: PartitionedTable | None = None

    def shape(self) -> Shape:
        shape, line = self._line(lambda told: told.known_shape)
        shape = shape or Shape()
        for state in line:
            shape = state.known_shape = _after(state, shape)
        return shape

    def partitioned(self) -> PartitionedTable:
        """Returns the partitioning. It is folded apart from the rest: it is long if a table has many partitions, and
        only what moves their rows needs it."""
        result, line = self._line(lambda told: told.known_partitioned)
        result = result or PartitionedTable()
        for state in line:
            result = _partitioned_after(state, result)
        self.known_partitioned = result
        return result

    def _line(self, known_part: Callable[[TableState], _Known | None]) -> tuple[_Known | None, list[TableState]]:
        """Returns what is known of the last table state of which something is known, and the states after that one, in
        order."""
        line: list[TableState] = []
        state: TableState | None = self
        while state is not None and known_part(state) is None:
            line.append(state)
            state = state.before
        return (None if state is None else known_part(state)), line[::-1]


def _after(state: TableState, before: Shape) -> Shape:
    changes, file, fate = statement_changes(state.file), state.file, state.fate
    if state.copy:
        # If the text does not show the database of the source, another table can have had the same columns.
        indexes, unsure = copied_indexes(before.indexes), bool(ambiguous_names(changes.names, file.name))
        copies = tuple(
            replace(
                index,
                skipped=index.skipped or fate.skipped,
                doubtful=index.doubtful or (unsure and index.kind == "UNIQUE"),
            )
            for index in indexes.indexes
        )
        return Shape(before.columns, replace(indexes, indexes=copies))
    return Shape(
        changes.columns.after(before.columns),
        indexes_after(before.indexes, changes.indexes, file.version, skipped=fate.skipped, restored=fate.restored),
        fate.skipped
        if file.action is Action.TRUNCATE_TABLE
        else before.leaves_rows or (fate.skipped and takes_rows(file)),
    )


def _partitioned_after(state: TableState, before: PartitionedTable) -> PartitionedTable:
    changes = statement_changes(state.file)
    if state.copy:
        return before
    if state.file.type in CREATE_ACTIONS:
        return created_table(changes.partitions, state.collation)
    return altered_table(before, changes.partitions) if state.file.type in PARTITION_ALTERS else before
