"""Checks whether a statement's text is what its schema file declares. Whoever can write to the storage can write any
text there, and a server would execute it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.ddl.references import Role, TableReference, database_at, references
from consumer.ddl.tokens import TokenKind, Tokens, tokenize, tokens_with_comments, without_comments
from consumer.errors import Code, DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import same_name

_DATABASE = "(?:DATABASE|SCHEMA) "
_VIEW = r"CREATE (?:(?:OR REPLACE|ALGORITHM|DEFINER|SQL SECURITY) .*)?VIEW "
_TABLE = "CREATE (?:GLOBAL )?(?:TEMPORARY )?TABLE "
_RENAME = "(?:RENAME|ALTER) TABLE "
_RECOVER = "(?:RECOVER|FLASHBACK) TABLE "
_ALTER = r"(?:ALTER (?:IGNORE )?TABLE |(?:CREATE|DROP) (?:\w+ )?INDEX )"
_BEGINS: Mapping[Action, str] = {
    Action.CREATE_SCHEMA: f"CREATE {_DATABASE}",
    Action.DROP_SCHEMA: f"DROP {_DATABASE}",
    Action.MODIFY_SCHEMA_CHARSET: f"ALTER {_DATABASE}",
    Action.CREATE_TABLE: _TABLE,
    Action.CREATE_TABLES: _TABLE,
    Action.CREATE_VIEW: _VIEW,
    Action.RECOVER_TABLE: _RECOVER,
    Action.DROP_TABLE: "DROP TABLE ",
    Action.DROP_VIEW: "DROP VIEW ",
    Action.TRUNCATE_TABLE: "TRUNCATE ",
    Action.RENAME_TABLE: _RENAME,
    Action.RENAME_TABLES: _RENAME,
    Action.NONE: f"(?:{_TABLE}|{_VIEW}|{_RECOVER}|{_RENAME}|{_ALTER}|DROP TABLE |DROP VIEW |TRUNCATE )",
}
_SERVERS_OWN = re.compile(r"/\*(?:M?!|T!)")
_EXECUTED = re.compile(r"/\*!(?:[0-4]\d{4}|50[0-6]\d\d)?(?!\d)(.*)\*/", re.DOTALL)
"""A comment that every server executes: without a version, or with one below that of any server."""
_OF_TIDB = re.compile(r"/\*T!(?:\[[\w,]*\])?(.*)\*/", re.DOTALL)
_NAMED: Mapping[Action, frozenset[Role]] = {
    **dict.fromkeys(RENAME_ACTIONS, frozenset({"old", "new"})),
    Action.EXCHANGE_PARTITION: frozenset({"table", "exchange"}),
    Action.RECOVER_TABLE: frozenset({"table", "old", "new"}),
}
"""The roles in which these name the tables that they change; all others use "table"."""
_CHANGED: frozenset[Role] = frozenset({"table", "old", "new", "exchange"})


def check_text(file: SchemaFile, action: Action) -> None:
    """Raises DdlRefused for a text of another kind, about another table, with a query, or of several statements."""
    file.once(_CheckedAs(action))


def passes_text_check(file: SchemaFile, action: Action) -> bool:
    """Returns whether `check_text` accepts the text of `file`."""
    try:
        check_text(file, action)
    except DdlRefused:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _CheckedAs:
    """A check that a file passes once."""

    action: Action

    def __call__(self, file: SchemaFile) -> None:
        for tokens in _readings(file.query):
            _check(tokens, file, self.action)


def _check(tokens: Tokens, file: SchemaFile, action: Action) -> None:
    words = " ".join(token.word or "?" for token in tokens) + " "
    if not re.match(_BEGINS.get(action, _ALTER), words):
        raise _of_another_kind(action)
    if any(token.text == ";" for token in tokens[:-1]):
        raise DdlRefused("the schema file holds more than one statement", code=Code.STATEMENT_TEXT)
    if action is not Action.CREATE_VIEW and any(token.word == "SELECT" for token in tokens):
        raise DdlRefused(
            "its text holds a query, which no statement of TiDB's of this kind does", code=Code.STATEMENT_TEXT
        )
    if action in DATABASE_ACTIONS:
        database = database_at(tokens)
        if database is not None and same_name(database.name) != same_name(file.database):
            raise DdlRefused(
                f"its text is about the database {database.name}, and its schema file about {file.database}",
                code=Code.STATEMENT_TEXT,
            )
    elif not words.startswith("RECOVER TABLE BY JOB "):
        _check_tables(references(tokens), file, action)


def _check_tables(found: Sequence[TableReference], file: SchemaFile, action: Action) -> None:
    """Raises DdlRefused unless the text names the file's table, and changes no other one except those of its kind."""
    roles, names_own = _NAMED.get(action, {"table"}), False
    for name in found:
        meant = name.within(file.database)
        same = meant.folded == file.name.folded
        may_differ = name.role == "old" or action is Action.EXCHANGE_PARTITION
        if name.role in _CHANGED - roles and same:
            raise _of_another_kind(action)
        if name.role in _CHANGED and (name.role not in roles or not (same or may_differ)):
            raise DdlRefused(
                f"its text is about {meant}, and its schema file about {file.name}", code=Code.STATEMENT_TEXT
            )
        names_own |= same and name.role in roles - {"old"}
    if not names_own:
        raise DdlRefused(
            f"its text does not name {file.name}, which its schema file is about", code=Code.STATEMENT_TEXT
        )


def _readings(text: str) -> Iterator[Tokens]:
    """Yields `text` as servers execute it, once without what only TiDB does. The content of an executed comment must be
    complete: else its end would not be where it seems."""
    plain = full = text
    everything = tokens_with_comments(text)
    for comment in reversed([token for token in everything if token.kind is TokenKind.COMMENT]):
        if not _SERVERS_OWN.match(comment.text):
            continue
        of_tidb = _OF_TIDB.fullmatch(comment.text)
        inner = of_tidb or _EXECUTED.fullmatch(comment.text)
        if inner is None or not _is_whole(inner[1]):
            raise DdlRefused(
                "its text holds a comment that servers do not all take for the same", code=Code.STATEMENT_TEXT
            )
        full = f"{full[: comment.start]} {inner[1]} {full[comment.end :]}"
        plain = f"{plain[: comment.start]} {'' if of_tidb else inner[1]} {plain[comment.end :]}"
    yield without_comments(everything) if plain == text else tokenize(plain)
    if full != plain:
        yield tokenize(full)


def _is_whole(text: str) -> bool:
    """Returns whether no quote and no comment that begins in it extends beyond it."""
    tokens = tokens_with_comments(f"{text} x")
    return tokens[-1].text == "x" and all(token.text != "`" for token in tokens)


def _of_another_kind(action: Action) -> DdlRefused:
    return DdlRefused(
        f"its text is no statement of the kind that its schema file says ({action.words})", code=Code.STATEMENT_TEXT
    )
