"""What depends on the time zone of a statement's session: generated columns that read TIMESTAMPs, and literal defaults
of TIMESTAMP columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from consumer.ddl.definitions import ColumnDefinition, ParsedStatement
from consumer.ddl.tokens import Edits, TokenKind, Tokens, closing, starts, string_value
from consumer.model.columns import Column
from consumer.model.names import same_name, same_names


def zone_dependent(times: Collection[str], expressions: Mapping[str, Tokens]) -> set[str]:
    """Returns the names of the generated columns that read one of `times` (TIMESTAMP columns), directly or through
    another column. Reading its number of seconds does not count."""
    names = {name for name, tokens in expressions.items() if _reads(tokens, times, but="UNIX_TIMESTAMP")}
    return names | columns_reading(names, expressions)


def columns_reading(columns: Collection[str], expressions: Mapping[str, Tokens]) -> set[str]:
    """Returns the names of the generated columns that read one of `columns`, directly or through another."""
    names: set[str] = set()
    while more := {n for n, tokens in expressions.items() if n not in names and _reads(tokens, {*columns, *names})}:
        names |= more
    return names


def plain_columns(statement: ParsedStatement, edits: Edits) -> Iterator[tuple[ColumnDefinition, str]]:
    """Turns STORED columns that read TIMESTAMPs into plain ones, in a CREATE TABLE: rows carry the values of upstream's
    sessions. Yields the columns, and why."""
    if statement.is_alter or not (statement.has_word("AS") and statement.has_word("TIMESTAMP")):
        return
    spans = {column.name: span for column in statement.columns if (span := generated_at(column))}
    times = [column.name for column in statement.columns if starts(column.tokens, "TIMESTAMP", at=1)]
    if not times or not spans:
        return
    expressions = {c.name: c.tokens[slice(*spans[c.name])] for c in statement.columns if c.name in spans}
    dependent = zone_dependent(times, expressions)
    for column in statement.columns:
        start, end = spans.get(column.name, (0, 0))
        if column.name in dependent and starts(column.tokens, "STORED", at=end + 1):
            edits.remove(column.tokens[start - 1].end, column.tokens[end + 1].end)
            yield (
                column,
                f"column {column.name} is generated from a TIMESTAMP upstream and a plain column here, because its"
                " values depend on the time zone of upstream's sessions",
            )


def generated_at(column: ColumnDefinition) -> tuple[int, int] | None:
    """Returns the positions of the first token of ``[GENERATED ALWAYS] AS (..)`` and of its closing parenthesis."""
    at = column.find("AS", "(")
    if at is None:
        return None
    return (at - 2 if starts(column.tokens, "GENERATED", "ALWAYS", at=at - 2) else at), closing(column.tokens, at + 1)


def _reads(tokens: Tokens, names: Collection[str], but: str = "") -> bool:
    """Returns whether the expression names one of the columns other than as the argument of the function `but`."""
    folded = same_names(names)
    return any(
        token.kind is TokenKind.QUOTED
        and same_name(token.name) in folded
        and not (but and starts(tokens, but, "(", at=max(number - 2, 0)))
        for number, token in enumerate(tokens)
    )


def shift_to_session_zone(
    statement: ParsedStatement, edits: Edits, columns: Sequence[Column], offset: timedelta
) -> None:
    """Writes TIMESTAMP literals as a session with this offset means them. A statement has them in its session's zone,
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
    """Returns None for what is no moment: CURRENT_TIMESTAMP, '0000-00-00 00:00:00'."""
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None
