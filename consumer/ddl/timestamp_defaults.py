"""Literal defaults of TIMESTAMP columns. A statement has them in its session's zone, which TiCDC does not record; the
schema file has them in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from consumer.ddl.definitions import ParsedStatement
from consumer.ddl.tokens import Edits, TokenKind, string_value
from consumer.model.columns import Column
from consumer.model.names import same_name


def in_session_zone(statement: ParsedStatement, edits: Edits, columns: Sequence[Column], offset: timedelta) -> None:
    """Write TIMESTAMP literals as a session with this offset means them; `columns` are the schema file's."""
    defaults = {same_name(column.name): column.default for column in columns if column.type == "TIMESTAMP"}
    for column in statement.columns if any(defaults.values()) else ():
        at = column.find("DEFAULT")
        utc = _moment(defaults.get(same_name(column.name)))
        literal = column.tokens[at + 1 : at + 3] if at is not None else ()
        token = next((token for token in literal if token.kind is TokenKind.STRING), None)
        if utc is not None and token is not None and _moment(string_value(token)) != utc + offset:
            edits.replace(token.start, token.end, f"'{utc + offset}'")


def _moment(text: str | None) -> datetime | None:
    """None for what is no moment: CURRENT_TIMESTAMP, '0000-00-00 00:00:00'."""
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None
