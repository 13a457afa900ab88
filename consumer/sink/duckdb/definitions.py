"""What only the statement's text says of its columns: generated ones, ENUM and SET labels, old names, bit defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from consumer.ddl.definitions import ColumnDefinition, statement_of
from consumer.ddl.tokens import Kind, Token, Tokens, closing, starts

_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}


@dataclass(frozen=True, slots=True)
class Definition:
    """One column as a statement declares it. `bits` is its default where that is written as a number or bit string."""

    virtual: bool = False
    elements: tuple[str, ...] = ()
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Definitions:
    """All that one CREATE TABLE or ALTER TABLE declares. Column names are in lower case.

    `renamed` maps a column's new name to its old one.
    """

    columns: Mapping[str, Definition]
    renamed: Mapping[str, str]


def read_definitions(query: str) -> Definitions:
    """Read a CREATE TABLE or ALTER TABLE; any other statement declares nothing."""
    statement = statement_of(query)
    columns = {column.name.lower(): _definition(column) for column in statement.columns()}
    return Definitions(columns, dict(filter(None, (_renamed(member.tokens) for member in statement.members))))


def _renamed(spec: Tokens) -> tuple[str, str] | None:
    """The new and the old name, of ``CHANGE [COLUMN] [IF EXISTS] old new ..`` and ``RENAME COLUMN old TO new``."""
    if not (starts(spec, "CHANGE") or starts(spec, "RENAME", "COLUMN")):
        return None
    old, new, *_ = [token for token in spec[1:] if token.word not in ("COLUMN", "IF", "EXISTS", "TO")]
    return new.name.lower(), old.name.lower()


def _definition(column: ColumnDefinition) -> Definition:
    tokens = column.tokens
    elements: tuple[str, ...] = ()
    if len(tokens) > 1 and tokens[1].word in ("ENUM", "SET"):
        # TiDB keeps labels without their trailing blanks.
        labels = tokens[3 : closing(tokens, 2)]
        elements = tuple(_string(token).rstrip(" ") for token in labels if token.kind is Kind.STRING)
    generated = column.find("AS", "(")
    virtual = generated is not None and not (column.has("STORED") or column.has("PERSISTENT"))
    default = column.find("DEFAULT")
    return Definition(virtual, elements, None if default is None else _bits(tokens[default + 1 : default + 3]))


def _bits(tokens: Tokens) -> int | None:
    """``b'101'``, ``x'0f'``, ``0x0f``, ``0b11``, ``5`` as a number."""
    if not tokens:
        return None
    first = tokens[0].text.lower()
    if first in ("b", "x") and len(tokens) > 1 and tokens[1].kind is Kind.STRING:
        return int(_string(tokens[1]) or "0", 2 if first == "b" else 16)
    if re.fullmatch(r"0x[0-9a-f]+|0b[01]+", first):
        return int(first, 0)
    return int(first) if first.isdecimal() else None


def _string(token: Token) -> str:
    """What a string literal spells."""
    quote = token.text[0]
    inner = token.text[1:-1].replace(quote * 2, quote)
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner, flags=re.DOTALL)
