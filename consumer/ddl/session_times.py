"""What hangs on the time zone of a statement's session: generated columns that read TIMESTAMPs, and literal defaults of
TIMESTAMP columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from consumer.ddl.definitions import ColumnDefinition, ParsedStatement
from consumer.ddl.tokens import Edits, TokenKind, Tokens, closing, starts, string_value
from consumer.model.columns import Column
from consumer.model.names import same_name, same_names


def hanging(times: Collection[str], expressions: Mapping[str, Tokens]) -> set[str]:
    """Those of the generated columns, by name, that read one of `times` (TIMESTAMP columns), be it through another;
    not to ask for its place on the line of time."""
    found = {name for name, tokens in expressions.items() if _reads(tokens, times, but="UNIX_TIMESTAMP")}
    return found | reading(found, expressions)


def reading(columns: Collection[str], expressions: Mapping[str, Tokens]) -> set[str]:
    """Those of the generated columns, by name, that read one of `columns`, be it through another."""
    found: set[str] = set()
    while more := {n for n, tokens in expressions.items() if n not in found and _reads(tokens, {*columns, *found})}:
        found |= more
    return found


def plain_columns(statement: ParsedStatement, edits: Edits) -> Iterator[tuple[ColumnDefinition, str]]:
    """Make STORED columns that read TIMESTAMPs plain ones, in a CREATE TABLE: rows carry the values of upstream's
    sessions. Gives the columns, and why."""
    if statement.is_alter or not (statement.has_word("AS") and statement.has_word("TIMESTAMP")):
        return
    places = {column.name: place for column in statement.columns if (place := generated_at(column))}
    times = [column.name for column in statement.columns if starts(column.tokens, "TIMESTAMP", at=1)]
    if not times or not places:
        return
    expressions = {c.name: c.tokens[slice(*places[c.name])] for c in statement.columns if c.name in places}
    found = hanging(times, expressions)
    for column in statement.columns:
        start, end = places.get(column.name, (0, 0))
        if column.name in found and starts(column.tokens, "STORED", at=end + 1):
            edits.remove(column.tokens[start - 1].end, column.tokens[end + 1].end)
            yield (
                column,
                f"column {column.name} is generated from a TIMESTAMP upstream and a plain column here, because its"
                " values depend on the time zone of upstream's sessions",
            )


def generated_at(column: ColumnDefinition) -> tuple[int, int] | None:
    """Positions of the first token of ``[GENERATED ALWAYS] AS (..)`` and of its closing parenthesis."""
    at = column.find("AS", "(")
    if at is None:
        return None
    return (at - 2 if starts(column.tokens, "GENERATED", "ALWAYS", at=at - 2) else at), closing(column.tokens, at + 1)


def _reads(tokens: Tokens, names: Collection[str], but: str = "") -> bool:
    """Whether the expression names one of the columns, `but` as the argument of that function."""
    folded = same_names(names)
    return any(
        token.kind is TokenKind.QUOTED
        and same_name(token.name) in folded
        and not (but and starts(tokens, but, "(", at=max(number - 2, 0)))
        for number, token in enumerate(tokens)
    )


def in_session_zone(statement: ParsedStatement, edits: Edits, columns: Sequence[Column], offset: timedelta) -> None:
    """Write TIMESTAMP literals as a session with this offset means them. A statement has them in its session's zone,
    which TiCDC does not record; `columns`, the schema file's, have them in UTC."""
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
