"""Takes a statement apart: ALTER specifications, CREATE TABLE members, and the columns and indexes they define."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from consumer.ddl.references import TableReference, created_object, name_at, references, skip_if_exists
from consumer.ddl.tokens import (
    Edits,
    Token,
    TokenKind,
    Tokens,
    closing,
    starts,
    tokens_with_comments,
    top_level,
    without_comments,
)
from consumer.model.names import same_name
from consumer.model.table_definition import PARTIAL, SHARD, IndexPart

_INDEX_WORDS = ("INDEX", "KEY")
_KEY_KINDS = ("PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "HYBRID")
_SHARDING = ("TIDB_SHARD", "VITESS_HASH")
_COLUMN_VERBS = ("ADD", "MODIFY", "CHANGE")
_NO_COLUMN = (*_KEY_KINDS, "CONSTRAINT", "FOREIGN", "CHECK", "PARTITION", "STATS_EXTENDED")


@dataclass(frozen=True, slots=True)
class Member:
    """One part of a comma separated list. ``text[start:end]`` reaches from comma to comma."""

    start: int
    end: int
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Index:
    """An index as defined. `kind` as in KnownIndex; `name_at` is where a name would stand."""

    kind: str
    name: str | None
    parts: tuple[IndexPart, ...]
    tokens: Tokens
    name_at: int

    @property
    def label(self) -> str:
        """The index's description in messages."""
        parts = ", ".join(part.column or "an expression" for part in self.parts)
        return f"index {self.name}" if self.name else f"the index on {parts}"

    @property
    def has_expression(self) -> bool:
        return any(part.column is None for part in self.parts)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key as defined; `columns` are its own, `tokens` begin with its CONSTRAINT or FOREIGN."""

    name: str | None
    columns: tuple[str, ...]
    tokens: Tokens


@dataclass(frozen=True)
class ColumnDefinition:
    """A column as defined; `tokens` begin with its (new) name."""

    name: str
    tokens: Tokens

    @cached_property
    def _outside(self) -> dict[str, list[int]]:
        """The positions of words and symbols outside of parentheses."""
        positions: dict[str, list[int]] = {}
        for at in top_level(self.tokens):
            token = self.tokens[at]
            positions.setdefault(token.word or token.text, []).append(at)
        return positions

    def has(self, *words: str) -> bool:
        """Returns whether the words stand next to one another, outside of parentheses."""
        return self.find(*words) is not None

    def find(self, *words: str) -> int | None:
        """Returns the position in `tokens` where the words stand next to one another, outside of parentheses."""
        return next((at for at in self._outside.get(words[0], ()) if starts(self.tokens, *words, at=at)), None)


@dataclass(frozen=True)
class ParsedStatement:
    """One statement. `members` are the parts of a CREATE TABLE's list, or the specifications of an ALTER TABLE.
    `options` are the tokens after a CREATE TABLE's list, or of a whole statement about a database. Many rules need its
    columns and keys, so these are parsed once."""

    text: str
    comments: Tokens
    tokens: Tokens
    kind: str
    members: tuple[Member, ...] = ()
    options: Tokens = ()

    @property
    def is_alter(self) -> bool:
        return self.kind == "ALTER TABLE"

    def has_word(self, *words: str) -> bool:
        """Returns whether one of `words` stands anywhere in it: most statements have nothing that most rules are
        about."""
        return not self._words.isdisjoint(words)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(token.word for token in self.tokens)

    def definitions(self) -> Iterator[Tokens]:
        """Yields the columns, indexes and constraints that the statement defines, each from its first own token."""
        for member in self.members:
            if not self.is_alter:
                yield member.tokens
            elif member.tokens and member.tokens[0].word in _COLUMN_VERBS:
                yield from _defined(member.tokens)

    def added_columns(self, unless_there: bool = False) -> list[str]:
        """Returns the names of the columns that an ALTER TABLE adds; `unless_there`: only those with IF NOT EXISTS."""
        adding = (member.tokens for member in self.members if self.is_alter and starts(member.tokens, "ADD"))
        specs = (spec for spec in adding if not unless_there or _unless_there(spec))
        return [name for spec in specs for name in _names(spec)]

    @cached_property
    def references(self) -> tuple[TableReference, ...]:
        return tuple(references(self.tokens))

    @cached_property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        return tuple(filter(None, map(_column, self.definitions())))

    @cached_property
    def foreign_keys(self) -> tuple[ForeignKey, ...]:
        return tuple(filter(None, map(_foreign_key, self.definitions())))

    @cached_property
    def indexes(self) -> tuple[Index, ...]:
        sources = [self.tokens[1:]] if self.kind == "CREATE INDEX" else self.definitions()
        return tuple(filter(None, map(_index, sources)))


def _unless_there(spec: Tokens) -> bool:
    """Returns whether it is ``ADD [COLUMN] IF NOT EXISTS ..``."""
    return starts(spec, "IF", "NOT", "EXISTS", at=1 + starts(spec, "COLUMN", at=1))


def statement_of(text: str) -> ParsedStatement:
    everything = tokens_with_comments(text)
    tokens = without_comments(everything)
    comments = [token for token in everything if token.kind is TokenKind.COMMENT]
    kind, at = _kind(tokens)
    if kind == "CREATE TABLE":
        _, after = name_at(tokens, skip_if_exists(tokens, at), "table")
        if starts(tokens, "(", at=after) and not starts(tokens, "(", "LIKE", at=after):
            end = closing(tokens, after)
            inside = (tokens[after].end, tokens[end].start if end < len(tokens) else len(text))
            members = tuple(members_of(tokens[after + 1 : end], *inside))
            return ParsedStatement(text, comments, tokens, kind, members, tokens[end + 1 :])
    elif kind == "ALTER TABLE":
        _, after = name_at(tokens, skip_if_exists(tokens, at), "table")
        if 0 < after <= len(tokens):
            ended = tokens[-1].text == ";"
            specs, end_of_text = (tokens[after:-1], tokens[-1].start) if ended else (tokens[after:], len(text))
            members = tuple(members_of(specs, tokens[after - 1].end, end_of_text))
            return ParsedStatement(text, comments, tokens, kind, members)
    elif kind.endswith("DATABASE"):
        return ParsedStatement(text, comments, tokens, kind, (), tokens[at:])
    return ParsedStatement(text, comments, tokens, kind)


def _kind(tokens: Tokens) -> tuple[str, int]:
    verb = tokens[0].word if tokens else ""
    at = created_object(tokens)
    thing = tokens[at].word if at < len(tokens) else ""
    thing = "DATABASE" if thing == "SCHEMA" else thing
    return f"{verb} {thing}", at + 1


def members_of(tokens: Tokens, start: int, end: int) -> Iterator[Member]:
    """Yields the parts between the commas that stand in no parentheses."""
    commas = [at for at in top_level(tokens) if tokens[at].text == ","]
    first = 0
    for at in commas:
        yield Member(start, tokens[at].start, tokens[first:at])
        start, first = tokens[at].end, at + 1
    yield Member(start, end, tokens[first:])


def remove_members(edits: Edits, members: Sequence[Member], removed: Sequence[Member]) -> bool:
    """Removes the members `gone`, each with one comma. Returns False, and removes nothing, if none would be left."""
    kept = [member for member in members if member not in removed]
    if not kept:
        return False
    for member in removed:
        if member.start > kept[0].start:
            edits.remove(member.start - 1, member.end)
        else:
            edits.remove(member.start, member.end + 1)
    return True


def name_in(tokens: Tokens, at: int) -> str:
    """Returns the name at position `at`, after an ``IF EXISTS``; "" for none."""
    name, _ = name_at(tokens, skip_if_exists(tokens, at), "table")
    return name.table if name else ""


def renamed_columns(members: Sequence[Member]) -> Iterator[tuple[str, str]]:
    """Yields old and new names, in lower case."""
    for member in members:
        tokens = member.tokens
        if starts(tokens, "RENAME", "COLUMN"):
            yield same_name(name_in(tokens, 2)), same_name(name_in(tokens, 4))
        elif starts(tokens, "CHANGE"):
            at = skip_if_exists(tokens, 1 + starts(tokens, "COLUMN", at=1))
            yield same_name(name_in(tokens, at)), same_name(name_in(tokens, at + 1))


def find_words(tokens: Tokens, *words: str) -> int | None:
    """Returns the first position outside of parentheses where `words` stand next to one another."""
    return next((at for at in top_level(tokens) if starts(tokens, *words, at=at)), None)


def _defined(spec: Tokens) -> Iterator[Tokens]:
    """Yields what an ADD, MODIFY or CHANGE specification defines."""
    at = skip_if_exists(spec, 1 + starts(spec, "COLUMN", at=1))
    if starts(spec, "(", at=at):
        yield from (member.tokens for member in listed_definitions(spec))
    else:
        yield spec[at:]


def listed_definitions(spec: Tokens) -> list[Member]:
    """Returns the definitions of ``ADD [COLUMN] (.., ..)``; none for another specification."""
    at = skip_if_exists(spec, 1 + starts(spec, "COLUMN", at=1))
    if not starts(spec, "ADD") or not starts(spec, "(", at=at):
        return []
    end = closing(spec, at)
    return list(members_of(spec[at + 1 : end], spec[at].end, spec[end].start if end < len(spec) else spec[-1].end))


def _names(spec: Tokens) -> list[str]:
    return [column.name for column in map(_column, _defined(spec)) if column]


def added_columns(member: Member) -> list[str]:
    """Returns the columns that one specification adds."""
    return _names(member.tokens) if starts(member.tokens, "ADD") else []


def _column(tokens: Tokens) -> ColumnDefinition | None:
    if len(tokens) < 2 or not tokens[0].is_name or tokens[0].word in _NO_COLUMN:
        return None
    if tokens[1].kind is TokenKind.QUOTED:
        return ColumnDefinition(tokens[1].name, tokens[1:])  # CHANGE COLUMN: the old name comes first
    return ColumnDefinition(tokens[0].name, tokens)


def _index(tokens: Tokens) -> Index | None:
    at = 0
    name: str | None = None
    if starts(tokens, "CONSTRAINT"):
        name = tokens[1].name if len(tokens) > 1 and tokens[1].kind is TokenKind.QUOTED else None
        at = 1 + (name is not None)
    if at >= len(tokens) or tokens[at].word not in _KEY_KINDS:
        return None
    kind = "INDEX" if tokens[at].word == "KEY" else tokens[at].word
    at += 1
    if at < len(tokens) and tokens[at].word in _INDEX_WORDS:
        at += 1
    at = skip_if_exists(tokens, at)
    stands_at = tokens[at - 1].end
    if at < len(tokens) and tokens[at].kind is TokenKind.QUOTED:
        name = tokens[at].name
        at += 1
    opening = next((p for p in range(at, len(tokens)) if tokens[p].text == "("), len(tokens))
    end = closing(tokens, opening)
    parts = [_part(member.tokens) for member in members_of(tokens[opening + 1 : end], 0, 0)]
    if find_words(tokens, "USING", "INVERTED") is not None:
        kind = "COLUMNAR"
    elif any(token.word in _SHARDING for token in tokens[opening:end]):
        kind = SHARD
    elif find_words(tokens[end:], "WHERE") is not None:
        kind = PARTIAL
    return Index(kind, name, tuple(part for part in parts if part), tokens, stands_at)


def _foreign_key(tokens: Tokens) -> ForeignKey | None:
    at = int(starts(tokens, "CONSTRAINT"))
    name = tokens[at].name if at < len(tokens) and at and tokens[at].kind is TokenKind.QUOTED else None
    at += name is not None
    if not starts(tokens, "FOREIGN", "KEY", at=at):
        return None
    at = skip_if_exists(tokens, at + 2)
    if at < len(tokens) and tokens[at].kind is TokenKind.QUOTED:
        name, at = name or tokens[at].name, at + 1
    inside = members_of(tokens[at + 1 : closing(tokens, at)], 0, 0)
    return ForeignKey(name, tuple(member.tokens[0].name for member in inside if member.tokens), tokens)


def _part(tokens: Sequence[Token]) -> IndexPart | None:
    if not tokens:
        return None
    if not tokens[0].is_name or (tokens[0].kind is TokenKind.WORD and starts(tokens, "(", at=1)):
        return IndexPart(None, False)
    return IndexPart(tokens[0].name, starts(tokens, "(", at=1))
