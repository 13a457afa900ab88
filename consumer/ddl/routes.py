"""A statement in the target's names: of its own table or database, and of all others in its text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.references import TableReference
from consumer.ddl.resolve import Names, meant_tables, spell_database, write_name
from consumer.ddl.tokens import Edits, Tokens, starts
from consumer.errors import DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, quote
from consumer.model.naming import Naming

_BEHIND_A_TABLE = frozenset(
    {"WHERE", "JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "NATURAL", "STRAIGHT_JOIN", "ON", "USING", "GROUP", "HAVING"}
    | {"ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "USE", "FORCE", "IGNORE", "FOR", "LOCK", "WITH"}
)
"""Words that can stand behind a table of a query that has no alias."""


def routed(
    file: SchemaFile, naming: Naming, tables: Collection[TableName], old_name: TableName | None
) -> SchemaFile | None:
    """`file` in the target's names, None where these are the upstream's. `tables` are the upstream's that the statement
    can mean, `old_name` is a RENAME's. Raises DdlRefused where its text cannot be said in the target's names."""
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
        names = Names(others, file.name, file.database, old_name, others)
        found = [(at, meant, naming.target(meant)) for at, meant in _tables(statement, names)]
        if own == file.name and all(meant == target for _, meant, target in found):
            return None
        if own not in (targets := [target for _, _, target in found]):
            raise DdlRefused("the statement does not say which table it means, and the target calls that otherwise")
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
    """What is done to a database is done to all of its tables."""
    if others := sorted({table.database for table in tables} - {own.database}):
        raise DdlRefused(
            f"the tables of the database are not all in {own} of the target, but in {', '.join(others)} too"
        )


def _tables(statement: ParsedStatement, names: Names) -> Iterator[tuple[TableReference, TableName]]:
    for reference, meant in meant_tables(statement, names):
        yield reference, meant or reference.within(names.database)


def _write(statement: ParsedStatement, reference: TableReference, target: TableName, edits: Edits) -> None:
    """With its database: the statement runs in another one than upstream's. FLASHBACK TABLE's new name has none."""
    if reference.role == "new" and starts(statement.tokens, "FLASHBACK"):
        edits.replace(reference.start, reference.end, quote(target.table))
    else:
        write_name(reference, target, edits, qualified=True)


def _keep_qualifiers(
    statement: ParsedStatement, body: Sequence[tuple[TableReference, TableName, TableName]], edits: Edits
) -> None:
    """Columns of a view's body can be named with their table: a table that gets another name has its own as its alias.
    Where they are named with the database too, that is the target's."""
    tokens, places = statement.tokens, {reference.start for reference, _, _ in body}
    databases = {meant.folded: target.database for _, meant, target in body}
    for reference, meant, target in body:
        if meant.table != target.table and not _has_alias(tokens, reference):
            edits.insert(reference.end, f" AS {quote(reference.table)}")
    for at, token in enumerate(tokens):
        if not _is_qualified_column(tokens, at) or token.start in places:
            continue
        known = databases.get(TableName(token.name, tokens[at + 2].name).folded)
        if known is not None and known != token.name:
            edits.replace(token.start, token.end, quote(known))


def _has_alias(tokens: Tokens, reference: TableReference) -> bool:
    behind = next((token for token in tokens if token.start >= reference.end), None)
    if behind is None or not behind.is_name:
        return False
    if behind.word in ("PARTITION", "TABLESAMPLE"):
        raise DdlRefused(f"a view over a part of `{reference.table}`, which the target calls otherwise")
    return behind.word not in _BEHIND_A_TABLE


def _is_qualified_column(tokens: Tokens, at: int) -> bool:
    """Whether ``database.table.column`` begins there; the column can be a star."""
    chained = starts(tokens, ".", at=at + 1) and starts(tokens, ".", at=at + 3)
    return chained and tokens[at].is_name and tokens[at + 2].is_name and (at == 0 or tokens[at - 1].text != ".")
