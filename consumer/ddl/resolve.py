"""Finds the table names of a statement among the known tables and gives them their true spelling, and writes them in
the target's names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.references import TableReference, ambiguous_names, database_at
from consumer.ddl.tokens import Edits, TokenKind, Tokens, starts
from consumer.errors import Code, DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, quote, same_name
from consumer.model.naming import Naming


@dataclass(frozen=True, slots=True)
class StatementNames:
    """The tables that a statement can mean. TiDB compares names without case."""

    known: Collection[TableName]
    """All tables of the target except its own; it can include databases of later statements, and of others."""
    own: TableName
    old_name: TableName | None
    planned: Collection[TableName] = ()
    """The tables that existed upstream then, and that the statement names as far as is known."""
    session: str = ""
    """The database to which names without one are relative, as far as the text shows it: `resolve_names` finds it."""

    def spelled(self, database: str) -> str:
        """Returns the true spelling of a database's name, or `database` as it is if it is not known."""
        if database == self.own.database:
            return database  # most names are: the target's tables, which can be many, are not searched for them
        return _closest(database, [self.own.database, *sorted(table.database for table in self.known)]) or database

    def find(self, database: str, table: str) -> TableName | None:
        return _find(self.planned, database, table) or _find(self.known, database, table)

    def alone(self, table: str) -> list[TableName]:
        """Returns the tables that a name without a database can mean. If nothing shows its database, only a table that
        is older than the changefeed remains."""
        if self.session:
            return [self.find(self.session, table) or TableName(self.session, table)]
        return sorted(name for name in self.known if same_name(name.table) == same_name(table))

    def is_own(self, reference: TableReference) -> bool:
        return reference.within(self.own.database).folded == self.own.folded


def _find(tables: Collection[TableName], database: str, table: str) -> TableName | None:
    here = [name for name in tables if same_name(name.database) == same_name(database)]
    spelling = _closest(table, sorted(name.table for name in here))
    return next((name for name in here if name.table == spelling), None)


def _closest(name: str, spellings: Collection[str]) -> str | None:
    if name in spellings:
        return name
    return next((spelling for spelling in spellings if same_name(spelling) == same_name(name)), None)


def resolve_names(statement: ParsedStatement, action: Action, names: StatementNames, edits: Edits) -> None:
    """Gives every table name its true spelling, and its database if the name alone would mean another table.

    Raises DdlRefused for a name that matches no table, or more than one.
    """
    if action in DATABASE_ACTIONS:
        spell_database(statement, names.own, edits)
        return
    names = _in_session(statement, names)
    for reference, meant in meant_tables(statement, names):
        if meant is not None:
            elsewhere = same_name(meant.database) != same_name(names.own.database)
            write_name(reference, meant, edits, qualified=elsewhere or reference.role in ("old", "new"))
    _spell_qualifiers(statement, statement.references, names, edits)


def _in_session(statement: ParsedStatement, names: StatementNames) -> StatementNames:
    return names if ambiguous_names(statement.references, names.own) else replace(names, session=names.own.database)


def meant_tables(
    statement: ParsedStatement, names: StatementNames
) -> Iterator[tuple[TableReference, TableName | None]]:
    """Yields every table name of the statement with the table that is meant; None if the name can stay as written.
    Raises the errors of `resolve_names`."""
    names_found = statement.references
    own_rename = _own_rename(names_found, names)
    for at, reference in enumerate(names_found):
        if reference.role in ("old", "new"):
            meant = names.own if reference.role == "new" else names.old_name
            meant = meant if at // 2 == own_rename else None
            yield reference, meant or _meant(reference, names)
        else:
            yield reference, _target(reference, names)


def _own_rename(found: Sequence[TableReference], names: StatementNames) -> int:
    """Returns which of a RENAME's pairs is the own table's (pairs of references are old, new)."""
    new = [number for number, reference in enumerate(found[1::2]) if names.is_own(reference)]
    return new[0] if new else 0


def _target(reference: TableReference, names: StatementNames) -> TableName | None:
    """Returns the table that is meant; None: the name stays as written."""
    if reference.role == "table":
        return names.own if names.is_own(reference) else _meant(reference, names)
    if reference.role == "foreign":
        if names.is_own(reference):
            return names.own
        if reference.database is None:
            meant = names.alone(reference.table)
            return meant[0] if len(meant) == 1 else None
    return _meant(reference, names)


def _meant(reference: TableReference, names: StatementNames) -> TableName:
    if reference.database is not None:
        as_typed = TableName(names.spelled(reference.database), reference.table)
        return names.find(reference.database, reference.table) or as_typed
    if reference.role in ("table", "new"):
        as_typed = TableName(names.spelled(names.own.database), reference.table)
        return names.find(names.own.database, reference.table) or as_typed
    meant = names.alone(reference.table)
    if len(meant) == 1:
        return meant[0]
    who = f"it can be any of {', '.join(map(str, meant))}" if meant else "no known database has it"
    raise DdlRefused(
        f"the statement names `{reference.table}` without its database, and {who}",
        table=str(names.own),
        code=Code.NAME_UNTOLD,
    )


def write_name(reference: TableReference, target: TableName, edits: Edits, qualified: bool) -> None:
    if reference.database is None and not qualified:
        if reference.table != target.table:
            edits.replace(reference.start, reference.end, quote(target.table))
    elif (reference.database, reference.table) != (target.database, target.table):
        edits.replace(reference.start, reference.end, f"{quote(target.database)}.{quote(target.table)}")


def spell_database(statement: ParsedStatement, own: TableName, edits: Edits) -> None:
    """Writes `own` into a statement about a database, also if it means the session's: ``ALTER DATABASE COLLATE =
    ..``"""
    name = database_at(statement.tokens)
    if name is None:
        edits.insert(statement.tokens[1].end, f" {quote(own.database)}")
    elif name.name != own.database:
        edits.replace(name.start, name.end, quote(own.database))


def _spell_qualifiers(
    statement: ParsedStatement, found: Sequence[TableReference], names: StatementNames, edits: Edits
) -> None:
    """In a view's body, columns are often named with their table: those follow the spelling of the table."""
    body = [reference for reference in found if reference.role == "from"]
    spellings = {reference.table: _meant(reference, names) for reference in body}
    table_starts = {reference.start for reference in found}
    tokens = statement.tokens
    for at, token in enumerate(tokens):
        chained = token.kind is TokenKind.QUOTED and starts(tokens, ".", at=at + 1)
        if not chained or token.start in table_starts or not body:
            continue
        is_first = at == 0 or tokens[at - 1].text != "."
        is_database = is_first and starts(tokens, ".", at=at + 3)
        spelling = names.spelled(token.name) if is_database else token.name
        if not is_database and token.name in spellings:
            spelling = spellings[token.name].table
        if spelling != token.name:
            edits.replace(token.start, token.end, quote(spelling))


_BEHIND_A_TABLE = frozenset(
    {"WHERE", "JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "NATURAL", "STRAIGHT_JOIN", "ON", "USING", "GROUP", "HAVING"}
    | {"ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "USE", "FORCE", "IGNORE", "FOR", "LOCK", "WITH"}
)
"""Words that can follow a table of a query that has no alias."""


def with_session(file: SchemaFile, session: str | None) -> SchemaFile:
    """Returns `file` with the session's database added to the names that are relative to it, if the text does not show
    which one it was."""
    unsure = ambiguous_names(statement_of(file.query).references, file.name) if session is not None else ()
    if session is None or not unsure:
        return file
    edits = Edits()
    for reference in unsure:
        edits.insert(reference.start, quote(session) + ".")
    return replace(file, query=edits.apply(file.query))


def routed_file(
    file: SchemaFile, naming: Naming, tables: Collection[TableName], old_name: TableName | None
) -> SchemaFile | None:
    """Returns `file` in the target's names, None if these are the upstream's. `tables` are the upstream's that the
    statement can mean, `old_name` is a RENAME's. Raises DdlRefused if its text cannot be written in the target's
    names."""
    if naming.rename is None:
        return None
    own, statement, edits = naming.target(file.name), statement_of(file.query), Edits()
    if file.type in DATABASE_ACTIONS:
        _check_tables(own, naming.targets(name for name in tables if name.table))
        if own == file.name:
            return None
        spell_database(statement, own, edits)
    else:
        others = {*tables} - {file.name}
        names = StatementNames(others, file.name, old_name, others)
        found = [(at, meant, naming.target(meant)) for at, meant in _tables(statement, names)]
        if own == file.name and all(meant == target for _, meant, target in found):
            return None
        if own not in (targets := [target for _, _, target in found]):
            raise DdlRefused(
                "the statement does not say which table it means, and the target calls that otherwise",
                code=Code.NAME_UNTOLD,
            )
        if starts(statement.tokens, "FLASHBACK") and {target.database for target in targets} != {own.database}:
            raise DdlRefused("the table is lost in another database of the target than the one that it comes back to")
        for at, _, target in found:
            _write(statement, at, target, edits)
        if file.type == Action.CREATE_VIEW:
            _keep_qualifiers(
                statement, [(at, meant, target) for at, meant, target in found if at.role == "from"], edits
            )
    return replace(file, database=own.database, table=own.table, query=edits.apply(file.query))


def _check_tables(own: TableName, tables: Sequence[TableName]) -> None:
    """Raises DdlRefused if the tables of a database are in several of the target: what is done to a database is done to
    all of its tables."""
    if others := sorted({table.database for table in tables} - {own.database}):
        raise DdlRefused(
            f"the tables of the database are not all in {own} of the target, but in {', '.join(others)} too"
        )


def _tables(statement: ParsedStatement, names: StatementNames) -> Iterator[tuple[TableReference, TableName]]:
    for reference, meant in meant_tables(statement, _in_session(statement, names)):
        yield reference, meant or reference.within(names.own.database)


def _write(statement: ParsedStatement, reference: TableReference, target: TableName, edits: Edits) -> None:
    """Writes the name with its database: the statement runs in another one than upstream's. FLASHBACK TABLE's new name
    has none."""
    if reference.role == "new" and starts(statement.tokens, "FLASHBACK"):
        edits.replace(reference.start, reference.end, quote(target.table))
    else:
        write_name(reference, target, edits, qualified=True)


def _keep_qualifiers(
    statement: ParsedStatement, body: Sequence[tuple[TableReference, TableName, TableName]], edits: Edits
) -> None:
    """Columns of a view's body can be named with their table: a table that gets another name gets its own as its alias.
    If they are named with the database too, that becomes the target's."""
    tokens, table_starts = statement.tokens, {reference.start for reference, _, _ in body}
    databases = {meant.folded: target.database for _, meant, target in body}
    for reference, meant, target in body:
        if meant.table != target.table and not _has_alias(tokens, reference):
            edits.insert(reference.end, f" AS {quote(reference.table)}")
    for at, token in enumerate(tokens):
        if not _is_qualified_column(tokens, at) or token.start in table_starts:
            continue
        database = databases.get(TableName(token.name, tokens[at + 2].name).folded)
        if database is not None and database != token.name:
            edits.replace(token.start, token.end, quote(database))


def _has_alias(tokens: Tokens, reference: TableReference) -> bool:
    following = next((token for token in tokens if token.start >= reference.end), None)
    if following is None or not following.is_name:
        return False
    if following.word in ("PARTITION", "TABLESAMPLE"):
        raise DdlRefused(f"a view over a part of `{reference.table}`, which the target calls otherwise")
    return following.word not in _BEHIND_A_TABLE


def _is_qualified_column(tokens: Tokens, at: int) -> bool:
    """Returns whether ``database.table.column`` begins there; the column can be a star."""
    chained = starts(tokens, ".", at=at + 1) and starts(tokens, ".", at=at + 3)
    return chained and tokens[at].is_name and tokens[at + 2].is_name and (at == 0 or tokens[at - 1].text != ".")
