"""Finds every table name in a statement, with its position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from consumer.ddl.tokens import Token, TokenKind, Tokens, closing, starts
from consumer.model.names import TableName, same_name

Role = Literal["table", "old", "new", "like", "exchange", "foreign", "from"]
"""The statement's own table; a rename's two names; what LIKE, EXCHANGE, REFERENCES and a view's body name."""
_DATABASE_OPTIONS = frozenset({"CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "PLACEMENT"})


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table name as written: ``text[start:end]`` is all of it, including the database if it is written."""

    start: int
    end: int
    database: str | None
    table: str
    role: Role

    def within(self, database: str) -> TableName:
        """Returns the table that is meant if a name without a database is one of `database`."""
        return TableName(self.database or database, self.table)


def references(tokens: Tokens) -> list[TableReference]:
    """Returns every table name of a statement, in the order of the text; no column, alias or index name."""
    match tokens[0].word if tokens else "":
        case "CREATE":
            return _create(tokens)
        case "ALTER":
            return _alter(tokens)
        case "DROP":
            return _drop(tokens)
        case "TRUNCATE":
            return _names(tokens, 1 + starts(tokens, "TABLE", at=1), "table")
        case "RENAME":
            return _rename(tokens)
        case "RECOVER" | "FLASHBACK":
            return _recover(tokens)
    return []


def ambiguous_names(names: Sequence[TableReference], own: TableName) -> list[TableReference]:
    """Returns the names without a database if the text does not show to which one they are relative. They were written
    in a session that uses one database. `own` is the name of the statement's own table: if that stands without a
    database, too, its database is that of all."""
    alone = [name for name in names if name.database is None]
    if any(name.role in ("table", "new") and same_name(name.table) == same_name(own.table) for name in alone):
        return []
    return [name for name in alone if name.role != "new"]


def name_at(tokens: Tokens, at: int, role: Role) -> tuple[TableReference | None, int]:
    """Returns the table name at position `at`, and the position after it."""
    if at >= len(tokens) or not tokens[at].is_name:
        return None, at
    first = tokens[at]
    if at + 2 < len(tokens) and tokens[at + 1].text == "." and tokens[at + 2].is_name:
        last = tokens[at + 2]
        return TableReference(first.start, last.end, first.name, last.name, role), at + 3
    return TableReference(first.start, first.end, None, first.name, role), at + 1


def skip_if_exists(tokens: Tokens, at: int) -> int:
    """Returns the position after ``IF [NOT] EXISTS``, if that stands at `at`."""
    if starts(tokens, "IF", "NOT", "EXISTS", at=at):
        return at + 3
    return at + 2 if starts(tokens, "IF", "EXISTS", at=at) else at


def created_object(tokens: Tokens) -> int:
    """Returns the position of the word for what a CREATE creates (the end if there is no known one)."""
    kinds = ("TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA")
    return next((at for at, token in enumerate(tokens) if token.word in kinds), len(tokens))


def database_at(tokens: Tokens) -> Token | None:
    """Returns the name in a statement about a database; None if it has none, which ALTER DATABASE need not have."""
    at = skip_if_exists(tokens, 2)
    has_name = at < len(tokens) and tokens[at].is_name and tokens[at].word not in _DATABASE_OPTIONS
    return tokens[at] if has_name else None


def _names(tokens: Tokens, at: int, role: Role) -> list[TableReference]:
    """Returns a list of names, separated by commas."""
    names: list[TableReference] = []
    while True:
        name, at = name_at(tokens, at, role)
        names += [name] if name is not None else []
        if name is None or not starts(tokens, ",", at=at):
            return names
        at += 1


def _create(tokens: Tokens) -> list[TableReference]:
    at = created_object(tokens)
    if starts(tokens, "INDEX", at=at):
        return _indexed(tokens, at)
    if starts(tokens, "DATABASE", at=at) or starts(tokens, "SCHEMA", at=at):
        return []
    own, after = name_at(tokens, skip_if_exists(tokens, at + 1), "table")
    if own is None:
        return []
    if starts(tokens, "VIEW", at=at):
        return [own, *_view_tables(tokens, after)]
    parenthesis = starts(tokens, "(", "LIKE", at=after)
    if parenthesis or starts(tokens, "LIKE", at=after):
        return [own, *_names(tokens, after + 1 + parenthesis, "like")]
    return [own, *_foreign(tokens, after)]


def _indexed(tokens: Tokens, at: int) -> list[TableReference]:
    """Returns the table of CREATE INDEX and DROP INDEX; the index's parts follow it."""
    on = next((p for p in range(at, len(tokens)) if tokens[p].word == "ON"), len(tokens))
    return _names(tokens, on + 1, "table")


_AHEAD = 8
"""A list in parentheses begins at most this many tokens after the words before it."""


def _opening(tokens: Tokens, at: int) -> int:
    """Returns the next opening parenthesis (`at` if there is none)."""
    return next((p for p in range(at, min(at + _AHEAD, len(tokens))) if tokens[p].text == "("), at)


def _foreign(tokens: Tokens, at: int) -> list[TableReference]:
    """Returns the tables of foreign keys; ``REFERENCES`` in a column's definition makes none (see
    `inline_references`)."""
    tables: list[TableReference] = []
    for key in (p for p in range(at, len(tokens)) if tokens[p].word == "FOREIGN" and starts(tokens, "KEY", at=p + 1)):
        opening = _opening(tokens, key)
        after = closing(tokens, opening) + 1
        if starts(tokens, "REFERENCES", at=after) and (name := name_at(tokens, after + 1, "foreign")[0]) is not None:
            tables.append(name)
    return tables


def _alter(tokens: Tokens) -> list[TableReference]:
    if not starts(tokens, "TABLE", at=1):
        return []
    own_at = skip_if_exists(tokens, 2)
    own, after = name_at(tokens, own_at, "table")
    if own is None:
        return []
    for at in range(after, len(tokens)):
        if starts(tokens, "EXCHANGE", "PARTITION", at=at) and starts(tokens, "WITH", "TABLE", at=at + 3):
            return [own, *_names(tokens, at + 5, "exchange")]
        if tokens[at].word == "RENAME" and not _renames_a_part(tokens, at + 1):
            preposition = any(starts(tokens, word, at=at + 1) for word in ("TO", "AS", "="))
            old, _ = name_at(tokens, own_at, "old")
            return [name for name in (old, name_at(tokens, at + 1 + preposition, "new")[0]) if name]
    return [own, *_foreign(tokens, after)]


def _renames_a_part(tokens: Tokens, at: int) -> bool:
    return any(starts(tokens, word, at=at) for word in ("COLUMN", "INDEX", "KEY", "CONSTRAINT", "PARTITION"))


def _drop(tokens: Tokens) -> list[TableReference]:
    at = next((p for p, token in enumerate(tokens) if token.word in ("TABLE", "VIEW", "INDEX")), len(tokens))
    if starts(tokens, "INDEX", at=at):
        return _indexed(tokens, at)
    return _names(tokens, skip_if_exists(tokens, at + 1), "table")


def _rename(tokens: Tokens) -> list[TableReference]:
    names: list[TableReference] = []
    at = 2
    while starts(tokens, "TABLE", at=1) and at < len(tokens):
        old, after_old = name_at(tokens, at, "old")
        new, after_new = name_at(tokens, after_old + 1, "new")
        if old is None or new is None or not starts(tokens, "TO", at=after_old):
            break
        names += [old, new]
        at = after_new + 1
    return names


def _recover(tokens: Tokens) -> list[TableReference]:
    if not starts(tokens, "TABLE", at=1) or starts(tokens, "BY", "JOB", at=2):
        return []
    own, after = name_at(tokens, 2, "table")
    if own is not None and starts(tokens, "TO", at=after):
        return [name for name in (name_at(tokens, 2, "old")[0], name_at(tokens, after + 1, "new")[0]) if name]
    return [own] if own else []


_ENDS_FROM = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "SELECT"}
)


def _view_tables(tokens: Tokens, at: int) -> list[TableReference]:
    """Returns the tables in the FROM lists of a view's body, without common table expressions."""
    body = next((p + 1 for p in range(at, len(tokens)) if tokens[p].word == "AS"), len(tokens))
    return _query_tables(tokens[body:])


def _cte_body(tokens: Tokens, at: int) -> int:
    """Returns the AS before the query of the common table expression that is named at `at`; 0 if none is."""
    after = closing(tokens, at + 1) + 1 if starts(tokens, "(", at=at + 1) else at + 1
    return after if tokens[at].kind is TokenKind.QUOTED and starts(tokens, "AS", "(", at=after) else 0


def _hint_end(tokens: Tokens, at: int) -> int:
    """Returns the last token of the index hint that begins at `at`, as ``USE INDEX FOR ORDER BY (`i`)``; 0 if none
    does."""
    if tokens[at].word not in ("USE", "FORCE", "IGNORE") or at + 1 >= len(tokens):
        return 0
    if tokens[at + 1].word not in ("INDEX", "KEY"):
        return 0
    return closing(tokens, _opening(tokens, at))


@dataclass(slots=True)
class _Level:
    """The inside of a parenthesis: a query, a table list in its FROM, or neither. Without a query a FROM means
    nothing, as in ``EXTRACT(YEAR FROM d)``. `expecting`: a table may come next. `own` are the common table
    expressions that are known from here on. `defines` is the one whose query this is: it is known after it, or if
    `recursive` inside, too."""

    is_query: bool
    in_from: bool = False
    expecting: bool = False
    defines: str = ""
    own: set[str] = field(default_factory=set)
    recursive: bool = False


def _define(level: _Level, name: str, own: Counter[str]) -> None:
    if name and name not in level.own:
        level.own.add(name)
        own[name] += 1


def _query_tables(tokens: Tokens) -> list[TableReference]:
    """Returns the tables of a query, and of the queries inside it, however deep."""
    tables: list[TableReference] = []
    levels, at, defines = [_Level(is_query=True)], 0, ""
    own: Counter[str] = Counter()  # of all open levels: a search of each for each table would be too slow
    while at < len(tokens):
        token, level = tokens[at], levels[-1]
        if token.text == "(":
            query = starts(tokens, "SELECT", at=at + 1) or starts(tokens, "WITH", at=at + 1)
            listed = level.expecting and not query
            level.expecting = False
            levels.append(_Level(query or starts(tokens, "(", at=at + 1), listed, listed, defines))
            defines = ""
        elif token.text == ")" and len(levels) > 1:
            inner = levels.pop()
            own.subtract(inner.own)
            _define(levels[-1], inner.defines, own)
        elif token.word == "WITH":
            level.recursive = starts(tokens, "RECURSIVE", at=at + 1)
        elif not level.in_from and level.is_query and (body := _cte_body(tokens, at)):
            defines, at = same_name(token.name), body
            _define(level, defines if level.recursive else "", own)
        elif token.word == "FROM" and level.is_query:
            level.expecting = level.in_from = True
        elif level.in_from and (end := _hint_end(tokens, at)):
            at = end
        elif token.word in _ENDS_FROM:
            level.expecting = level.in_from = False
        elif level.in_from and (token.word in ("JOIN", "STRAIGHT_JOIN") or token.text == ","):
            level.expecting = True
        elif level.expecting and token.is_name and token.word != "DUAL":
            reference, after = name_at(tokens, at, "from")
            if reference and (reference.database or not own[same_name(reference.table)]):
                tables.append(reference)
            level.expecting, at = False, after - 1
        at += 1
    return tables
