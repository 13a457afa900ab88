"""Whether a statement's text is what its schema file says that it is. Whoever can write to the storage can write any
text there, and a server would execute it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from consumer.ddl.references import references
from consumer.ddl.tokens import TokenKind, pieces, tokenize
from consumer.errors import DdlRefused
from consumer.model.actions import MULTI_FILE_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName

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
_EXECUTED = re.compile(r"/\*M?!\d*(.*)\*/", re.DOTALL)
_MEANS_OTHERS = MULTI_FILE_ACTIONS | {Action.RECOVER_TABLE}
"""Of these, text and file may speak of two tables."""


def check_said(file: SchemaFile, action: Action) -> None:
    """Raises DdlRefused for a text of another kind, about another table, with a query, or of several statements."""
    tokens = tokenize(_as_executed(file.query))
    words = " ".join(token.word or "?" for token in tokens) + " "
    if not re.match(_BEGINS.get(action, _ALTER), words):
        raise DdlRefused(f"its text is no statement of the kind that its schema file says ({_kind(action)})")
    if any(token.text == ";" for token in tokens[:-1]):
        raise DdlRefused("the schema file holds more than one statement")
    if action is not Action.CREATE_VIEW and any(token.word == "SELECT" for token in tokens):
        raise DdlRefused("its text holds a query, which no statement of TiDB's of this kind does")
    if action in _MEANS_OTHERS:
        return
    for name in references(tokens):
        meant = TableName(name.database or file.database, name.table)
        if name.role in ("old", "new") or (name.role == "table" and meant.folded != file.name.folded):
            raise DdlRefused(f"its text is about {meant}, and its schema file about {file.name}")


def _as_executed(text: str) -> str:
    """`text` with what servers execute in a comment as a part of it."""
    comments = [token for token in pieces(text) if token.kind is TokenKind.COMMENT]
    for comment in reversed(comments):
        if (found := _EXECUTED.fullmatch(comment.text)) is not None:
            text = f"{text[: comment.start]} {found[1]} {text[comment.end :]}"
    return text


def _kind(action: Action) -> str:
    return action.name.lower().replace("_", " ")
