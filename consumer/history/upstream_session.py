"""Determines the database of the session in which upstream ran a statement. TiCDC leaves names as typed and does not
write the database, and names without one are relative to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consumer.ddl.changes import statement_changes
from consumer.ddl.references import TableReference, ambiguous_names
from consumer.ddl.tokens import closing, tokenize
from consumer.history.incarnations import Incarnation, LiveTables
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name, same_names


@dataclass(frozen=True, slots=True)
class UpstreamSession:
    """What the storage shows of the session."""

    databases: tuple[str, ...]
    """The databases that the session can have used."""
    having: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By each name without a database, the databases with a table that it can mean. It is empty if the text determines
    them."""

    @property
    def database(self) -> str | None:
        return self.databases[0] if len(self.databases) == 1 else None

    def meant(self, reference: TableReference, live: LiveTables) -> TableName | None:
        """Returns the existing table that a name of the statement means; None if there is none, or if it is not
        known."""
        database = reference.database or self.database
        return None if database is None else next(iter(live.called(reference.table, database)), None)


def upstream_session(file: SchemaFile, live: LiveTables) -> UpstreamSession:
    """Returns the session of the statement of `file`. `live` are the tables before it. A database is possible if it has
    all tables that the statement names without a database:

    1. A table that is copied must have the columns in the file, one that is referred to the columns that are named.
       Copies of tables that began alike are the same.
    2. A table that is renamed must have the columns in the file, or have had some of them, or more: an event filter can
       have excluded statements.
    """
    unsure = ambiguous_names(statement_changes(file).names, file.name)
    if not unsure:
        return UpstreamSession((file.database,))
    having: dict[str, frozenset[str]] = {}
    for reference in unsure:
        candidates = {
            name.database for name in live.called(reference.table) if _can_be(reference, file, name, live[name])
        }
        if reference.role == "old" and candidates:
            candidates |= {
                name.database for name in live.called(reference.table) if _can_have_been(live[name], file, name)
            }
        if reference.role == "foreign" and same_name(reference.table) == same_name(file.table):
            candidates.add(file.database)  # a key of the new table to itself
        having[reference.table] = having.get(reference.table, frozenset(candidates)) & candidates
    databases = sorted(frozenset.intersection(*having.values()), key=lambda name: (name != file.database, name))
    if len(databases) > 1 and all(reference.role == "like" for reference in unsure):
        sources = [live[name] for database in databases for name in live.called(unsure[0].table, database)]
        declared = [_declared_statements(table) for table in sources]
        databases = (
            databases[:1] if declared[0] is not None and all(other == declared[0] for other in declared) else databases
        )
    return UpstreamSession(tuple(databases), having)


def _can_be(reference: TableReference, file: SchemaFile, name: TableName, table: Incarnation) -> bool:
    match reference.role:
        case "old" | "like":
            return table.columns == file.columns and name.folded != file.name.folded
        case "foreign":
            tokens = tokenize(file.query[reference.end :])
            columns = same_names(token.name for token in tokens[: closing(tokens, 0)] if token.is_name)
            return columns <= same_names(column.name for column in table.columns)
    return True


def _can_have_been(table: Incarnation, file: SchemaFile, name: TableName) -> bool:
    had, has = (same_names(column.name for column in columns) for columns in (table.columns, file.columns))
    return (had <= has or has <= had) and name.folded != file.name.folded


def _declared_statements(table: Incarnation) -> list[tuple[str, bool, str]] | None:
    """Returns all that the table's statements declare, without its name; None if they do not begin with its
    creation."""
    texts, declared = [], table.declared
    while declared is not None:
        query, own_name = declared.file.query, next(iter(statement_changes(declared.file).names), None)
        text = query if own_name is None else query[: own_name.start] + query[own_name.end :]
        texts.append((text, declared.fate.skipped, declared.collation))
        if declared.file is table.birth:
            return None if declared.copy else texts
        declared = declared.before
    return None
