"""Upstream's names, written into a statement that leaves them to the server: servers choose others."""

from __future__ import annotations

from consumer.ddl.definitions import ColumnDefinition, ParsedStatement
from consumer.ddl.indexes import IndexChanges, MadeIndex, made_foreign_keys, made_indexes, name_there
from consumer.ddl.tidb_syntax import is_global
from consumer.ddl.tokens import Edits, Tokens, closing, starts, top_level
from consumer.model.names import quote
from consumer.model.table_definition import TableIndexes

_LONG_ACTIONS = (("SET", "NULL"), ("SET", "DEFAULT"), ("NO", "ACTION"))


def name_indexes(statement: ParsedStatement, changes: IndexChanges, edits: Edits, before: TableIndexes) -> None:
    """Name every index that is defined as one; those of an ALTER TABLE where the table's others are known."""
    if statement.is_alter and not before.whole:
        return
    for index in made_indexes(changes, before):
        if index.source == "index" and not index.given and index.known.kind != "PRIMARY":
            edits.insert(statement.indexes[index.at].name_at, f" {quote(index.known.name)}")


def define_indexes(statement: ParsedStatement, changes: IndexChanges, edits: Edits, before: TableIndexes) -> None:
    """Define by itself, with its name, what is defined with its column, or made for a foreign key: MySQL and MariaDB
    make those at another time, under another name, and drop the latter unasked."""
    more = []
    for index in made_indexes(changes, before):
        if index.source == "column" and index.known.kind == "UNIQUE":
            more.append(_definition(index, _cut_unique(statement, statement.columns[index.at], edits)))
        elif index.source == "foreign key":
            more.append(_definition(index, "KEY"))
    if more and statement.members:
        add = ", ADD " if statement.is_alter else ", "
        edits.insert(statement.members[-1].end, "".join(add + text for text in more))


def name_foreign_keys(
    statement: ParsedStatement, changes: IndexChanges, edits: Edits, before: TableIndexes, version: int
) -> None:
    """Name every foreign key: unnamed ones by `name_there`, as on MySQL and MariaDB a database shares their names."""
    for key in made_foreign_keys(changes, before):
        if not key.given:
            tokens, name = statement.foreign_keys[key.at].tokens, quote(name_there(key.name, version))
            if starts(tokens, "CONSTRAINT"):
                edits.insert(tokens[0].end, f" {name}")
            else:
                edits.insert(tokens[0].start, f"CONSTRAINT {name} ")


def inline_references(statement: ParsedStatement, edits: Edits) -> None:
    """``REFERENCES ..`` in a column's definition: TiDB takes it and makes no foreign key of it."""
    for column in statement.columns:
        at = column.find("REFERENCES")
        if at is not None and at > 0:
            edits.remove(column.tokens[at - 1].end, column.tokens[_end_of_reference(column.tokens, at)].end)


def _end_of_reference(tokens: Tokens, at: int) -> int:
    """The last token of ``REFERENCES table (columns) [MATCH x] [ON DELETE x] [ON UPDATE x]``."""
    end = at + 3 if starts(tokens, ".", at=at + 2) else at + 1
    if starts(tokens, "(", at=end + 1):
        end = closing(tokens, end + 1)
    while True:
        if starts(tokens, "MATCH", at=end + 1):
            end += 2
        elif starts(tokens, "ON", "DELETE", at=end + 1) or starts(tokens, "ON", "UPDATE", at=end + 1):
            end += 3 + any(starts(tokens, *words, at=end + 3) for words in _LONG_ACTIONS)
        else:
            return end


def _definition(index: MadeIndex, kind: str) -> str:
    columns = ", ".join(quote(part.column or "") for part in index.known.parts)
    return f"{kind} {quote(index.known.name)} ({columns})"


def _cut_unique(statement: ParsedStatement, column: ColumnDefinition, edits: Edits) -> str:
    """Take ``UNIQUE [KEY] [GLOBAL | LOCAL]`` out of a column's definition; the kind of key to define instead."""
    tokens = column.tokens
    at = next(at for at in top_level(tokens) if tokens[at].word == "UNIQUE")
    last = at + starts(tokens, "KEY", at=at + 1)
    scope = any(starts(tokens, word, at=last + 1) for word in ("GLOBAL", "LOCAL"))
    behind = tokens[last + 1 + scope].start if last + 1 + scope < len(tokens) else None
    edits.remove(tokens[at - 1].end, tokens[last + scope].end)
    # As with the indexes that are defined as such: the servers take no unique key without the partitioning columns.
    return "KEY" if is_global(statement, tokens[at].start, behind) else "UNIQUE KEY"
