"""The columns that a CREATE TABLE declares, as TiCDC's schema files describe them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from consumer.ddl.declared import declared
from consumer.ddl.definitions import ColumnDefinition, ParsedStatement
from consumer.ddl.tokens import TokenKind, Tokens, closing, starts
from consumer.errors import DdlRefused
from consumer.model.columns import Column, Family, known_type
from consumer.model.names import same_name, same_names

_LENGTHS = {
    "FLOAT": 12, "DOUBLE": 22, "DECIMAL": 10, "BIT": 1, "YEAR": 4, "CHAR": 1, "BINARY": 1,
    "TINYTEXT": 255, "TEXT": 65535, "MEDIUMTEXT": (1 << 24) - 1, "LONGTEXT": (1 << 32) - 1,
    "TINYBLOB": 255, "BLOB": 65535, "MEDIUMBLOB": (1 << 24) - 1, "LONGBLOB": (1 << 32) - 1,
}  # fmt: skip
"""Where the statement gives none."""
_UNSIGNED = frozenset({Family.BIT, Family.YEAR})
_TIMES = frozenset({Family.TIME, Family.DATETIME, Family.TIMESTAMP})


def created_columns(statement: ParsedStatement) -> tuple[Column, ...]:
    """In order. Their defaults are not told. Raises DdlRefused for a type that TiDB does not have."""
    parts = (part for index in statement.indexes if index.kind == "PRIMARY" for part in index.parts)
    primary = same_names(part.column for part in parts if part.column is not None)
    labels = {name: found.elements for name, found in declared(statement).columns.items()}
    return tuple(_column(column, primary, labels[same_name(column.name)]) for column in statement.columns)


def _column(definition: ColumnDefinition, primary: Collection[str], elements: tuple[str, ...]) -> Column:
    kind = definition.tokens[1].word
    if not known_type(kind):
        raise DdlRefused(f"column {definition.name} has the type {definition.tokens[1].text}, which TiDB does not have")
    sizes = _sizes(definition.tokens)
    column = Column(definition.name, kind, elements=elements)
    is_key = same_name(definition.name) in primary or definition.has("PRIMARY", "KEY")
    unsigned = column.family in _UNSIGNED or definition.has("UNSIGNED") or definition.has("ZEROFILL")
    if column.family in _TIMES:
        length, scale = None, next(iter(sizes), None)
    else:
        length, scale = next(iter(sizes), _LENGTHS.get(kind)), next(iter(sizes[1:]), None)
    length = None if column.family is Family.VECTOR else length
    nullable = not is_key and not definition.has("NOT", "NULL")
    return replace(column, unsigned=unsigned, length=length, scale=scale, nullable=nullable, is_pk=is_key)


def _sizes(tokens: Tokens) -> list[int]:
    """The numbers in parentheses behind the type."""
    inside = tokens[3 : closing(tokens, 2)] if starts(tokens, "(", at=2) else ()
    return [int(token.text) for token in inside if token.kind is TokenKind.NUMBER]
