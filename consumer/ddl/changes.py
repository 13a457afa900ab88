"""What a statement does, compiled once from its text and kept with its schema file; the text itself is only taken apart
again where it is rewritten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from consumer.ddl.charsets import declared_charset
from consumer.ddl.declared import Definitions, declared
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.indexes import IndexChanges, index_changes
from consumer.ddl.partition_clauses import TAKES_ROWS
from consumer.ddl.partitions import PartitionChanges, partition_changes
from consumer.ddl.references import Role, TableReference
from consumer.model.actions import TAKING_ACTIONS
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.table_definition import Charset
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


def columns_said(file: SchemaFile, mode: TableMode | None, before: Iterable[Column]) -> Definitions:
    """What the file's statement declares of columns, in the names that a table of `form` has in the target; `before`
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
