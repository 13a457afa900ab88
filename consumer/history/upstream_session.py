"""The database of the session in which upstream ran a statement. TiCDC leaves names as typed and does not write it, and
names without a database are relative to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consumer.ddl.changes import changes_of
from consumer.ddl.references import TableReference, untold
from consumer.ddl.tokens import closing, tokenize
from consumer.history.incarnations import Incarnation, LiveTables
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name, same_names


@dataclass(frozen=True, slots=True)
class Session:
    """What is known of it, as far as the storage tells."""

    databases: tuple[str, ...]
    """Those that it can be."""
    having: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By each name without a database, the databases with a table that it can mean; none where the text tells."""

    @property
    def database(self) -> str | None:
        return self.databases[0] if len(self.databases) == 1 else None

    def meant(self, reference: TableReference, live: LiveTables) -> TableName | None:
        """The table that exists and that a name of the statement means; None where there is none, or no telling."""
        database = reference.database or self.database
        return None if database is None else next(iter(live.called(reference.table, database)), None)


def session_of(file: SchemaFile, live: LiveTables) -> Session:
    """That of the statement of `file`, where the `live` tables are those before it. A database can be meant if it has
    all tables that the statement names alone: a table that is copied with the columns that the file tells, one that is
    referred to with the columns that are named. Copies of tables that began alike are the same. A table that is renamed
    has the columns that the file tells, or had some of them, or more: an event filter can have left out statements."""
    unsure = untold(changes_of(file).names, file.name)
    if not unsure:
        return Session((file.database,))
    having: dict[str, frozenset[str]] = {}
    for reference in unsure:
        found = {name.database for name in live.called(reference.table) if _can_be(reference, file, name, live[name])}
        if reference.role == "old" and found:
            found |= {name.database for name in live.called(reference.table) if _can_have_been(live[name], file, name)}
        if reference.role == "foreign" and same_name(reference.table) == same_name(file.table):
            found.add(file.database)  # a key of the new table to itself
        having[reference.table] = having.get(reference.table, frozenset(found)) & found
    databases = sorted(frozenset.intersection(*having.values()), key=lambda name: (name != file.database, name))
    if len(databases) > 1 and all(reference.role == "like" for reference in unsure):
        sources = [live[name] for database in databases for name in live.called(unsure[0].table, database)]
        told = [_told(table) for table in sources]
        databases = databases[:1] if told[0] is not None and all(one == told[0] for one in told) else databases
    return Session(tuple(databases), having)


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


def _told(table: Incarnation) -> list[tuple[str, bool, str]] | None:
    """All that the table's statements say of it, without its name; None where they do not begin with its making."""
    found, told = [], table.told
    while told is not None:
        query, own = told.file.query, next(iter(changes_of(told.file).names), None)
        text = query if own is None else query[: own.start] + query[own.end :]
        found.append((text, told.fate.skipped, told.collation))
        if told.file is table.birth:
            return None if told.copy else found
        told = told.before
    return None
