"""Table names of a statement, found among the known tables and given their true spelling."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from consumer.ddl.definitions import ParsedStatement
from consumer.ddl.references import TableReference, database_at
from consumer.ddl.tokens import Edits, TokenKind, starts
from consumer.errors import DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, Action
from consumer.model.names import TableName, quote, same_name


@dataclass(frozen=True, slots=True)
class Names:
    """The tables that a statement can mean beside its own. `database` is the one its schema file names; TiDB compares
    without case. `planned` are those that existed upstream then, and that it names as far as can be told; `known` are
    all tables of the target, where later statements, and others' databases, can be too.
    """

    known: Collection[TableName]
    own: TableName
    database: str
    old_name: TableName | None
    planned: Collection[TableName] = ()

    def spelled(self, database: str) -> str:
        """The true spelling of a database's name, or `database` as it is where it is not known."""
        own = (self.own.database, self.database)
        if database in own:
            return database  # most names are: the target's tables, which can be many, are not looked through for them
        return _closest(database, [*own, *sorted(table.database for table in self.known)]) or database

    def find(self, database: str, table: str) -> TableName | None:
        return _find(self.planned, database, table) or _find(self.known, database, table)

    def alone(self, table: str) -> list[TableName]:
        """The tables that a name without a database can mean: one of the own database goes first."""
        others: list[TableName] = []
        for tables in (self.planned, self.known):
            if (here := _find(tables, self.database, table)) is not None:
                return [here]
            others = others or sorted(name for name in tables if same_name(name.table) == same_name(table))
            if len(others) == 1:
                break
        return others

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


def resolve_names(statement: ParsedStatement, action: Action, names: Names, edits: Edits) -> None:
    """Give every table name its true spelling, and its database where the name alone would mean another table.

    Raises DdlRefused for a name that no table, or more than one, can be meant by.
    """
    if action in DATABASE_ACTIONS:
        spell_database(statement, names.own, edits)
        return
    for reference, meant in meant_tables(statement, names):
        if meant is not None:
            elsewhere = same_name(meant.database) != same_name(names.database)
            write_name(reference, meant, edits, qualified=elsewhere or reference.role in ("old", "new"))
    _spell_qualifiers(statement, statement.references, names, edits)


def meant_tables(statement: ParsedStatement, names: Names) -> Iterator[tuple[TableReference, TableName | None]]:
    """Every table name of the statement with the table that is meant; None where the name can stay as typed. Raises as
    `resolve_names`."""
    found = statement.references
    own_rename = _own_rename(found, names)
    for at, reference in enumerate(found):
        if reference.role in ("old", "new"):
            meant = names.own if reference.role == "new" else names.old_name
            meant = meant if at // 2 == own_rename else None
            yield reference, meant or _meant(reference, names)
        else:
            yield reference, _target(reference, names)


def _own_rename(found: Sequence[TableReference], names: Names) -> int:
    """Which of a RENAME's pairs is the own table's (pairs of references are old, new)."""
    new = [number for number, reference in enumerate(found[1::2]) if names.is_own(reference)]
    return new[0] if new else 0


def _target(reference: TableReference, names: Names) -> TableName | None:
    """The table that is meant; None: leave the name as typed."""
    if reference.role == "table":
        return names.own if names.is_own(reference) else _meant(reference, names)
    if reference.role == "foreign":
        if names.is_own(reference):
            return names.own
        if reference.database is None:
            meant = names.alone(reference.table)
            return meant[0] if len(meant) == 1 else None
    return _meant(reference, names)


def _meant(reference: TableReference, names: Names) -> TableName:
    if reference.database is not None:
        as_typed = TableName(names.spelled(reference.database), reference.table)
        return names.find(reference.database, reference.table) or as_typed
    if reference.role in ("table", "new", "exchange", "foreign"):
        as_typed = TableName(names.spelled(names.database), reference.table)
        return names.find(names.database, reference.table) or as_typed
    meant = names.alone(reference.table)
    if len(meant) == 1:
        return meant[0]
    who = f"it can be any of {', '.join(map(str, meant))}" if meant else "no known database has it"
    raise DdlRefused(
        f"the statement names `{reference.table}` without its database: {names.database} does not have it, and {who}",
        table=str(names.own),
    )


def write_name(reference: TableReference, target: TableName, edits: Edits, qualified: bool) -> None:
    if reference.database is None and not qualified:
        if reference.table != target.table:
            edits.replace(reference.start, reference.end, quote(target.table))
    elif (reference.database, reference.table) != (target.database, target.table):
        edits.replace(reference.start, reference.end, f"{quote(target.database)}.{quote(target.table)}")


def spell_database(statement: ParsedStatement, own: TableName, edits: Edits) -> None:
    """Name `own` in a statement about a database, also where it means the session's: ``ALTER DATABASE COLLATE = ..``"""
    name = database_at(statement.tokens)
    if name is None:
        edits.insert(statement.tokens[1].end, f" {quote(own.database)}")
    elif name.name != own.database:
        edits.replace(name.start, name.end, quote(own.database))


def _spell_qualifiers(statement: ParsedStatement, found: Sequence[TableReference], names: Names, edits: Edits) -> None:
    """In a view's body, columns are often named with their table: those follow the spelling of the table."""
    body = [reference for reference in found if reference.role == "from"]
    spellings = {reference.table: _meant(reference, names) for reference in body}
    places = {reference.start for reference in found}
    tokens = statement.tokens
    for at, token in enumerate(tokens):
        chained = token.kind is TokenKind.QUOTED and starts(tokens, ".", at=at + 1)
        if not chained or token.start in places or not body:
            continue
        is_first = at == 0 or tokens[at - 1].text != "."
        is_database = is_first and starts(tokens, ".", at=at + 3)
        spelling = names.spelled(token.name) if is_database else token.name
        if not is_database and token.name in spellings:
            spelling = spellings[token.name].table
        if spelling != token.name:
            edits.replace(token.start, token.end, quote(spelling))
