"""The session time zone for a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from consumer.ddl.definitions import ColumnDefinition, ParsedStatement
from consumer.ddl.tokens import TokenKind, starts
from consumer.errors import DdlRefused
from consumer.model.steps import ApplyDdl
from consumer.model.times import tso_to_time, zone_of

UTC = "+00:00"
UNKNOWN_ZONE = 1298
_FUNCTIONS = frozenset({"UNIX_TIMESTAMP", "FROM_UNIXTIME"})
_CLOCK = frozenset(
    {"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_DATE", "CURDATE", "CURRENT_TIME", "CURTIME"}
)


def offset_at(step: ApplyDdl, zone: str) -> timedelta:
    """Returns how far the changefeed's clock was ahead of UTC when the statement ran."""
    return tso_to_time(step.file.version).astimezone(zone_of(zone)).utcoffset() or timedelta()


def session_zone(step: ApplyDdl, statement: ParsedStatement, zone: str) -> str:
    """Returns `zone` in the form for ``SET time_zone`` for this statement.

    The zone's offset at the time of the statement is right for its own time, and servers without zone tables accept it.
    Only a function that converts times of rows needs the zone by its name.
    """
    if _needs_name(statement):
        return UTC if zone == "UTC" else zone
    minutes = round(offset_at(step, zone).total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def agreed_zone(step: ApplyDdl, statement: ParsedStatement, zone: str, nodes_in_utc: Callable[[], bool | None]) -> str:
    """Returns the zone in which to run the statement: `zone`, but UTC on a Galera cluster. There the other nodes run it
    in their own zone, whatever this session's zone is. Raises DdlRefused if they would compute other values.

    `nodes_in_utc` returns None for a server in no cluster. It is only called if the statement depends on a zone.
    """
    added = list(_added(statement))
    turned = _needs_name(statement) or any(not _is_timestamp(c) and _reads_clock(c) for c in added)
    if not turned and not any(_is_timestamp(c) and _has_literal(c) for c in added):
        return zone
    in_utc = nodes_in_utc()
    if in_utc is None:
        return zone
    if not in_utc or (turned and offset_at(step, zone)):
        raise DdlRefused(
            "the other nodes of a Galera cluster run a statement in their own time zone: of this one, which turns times"
            f" of {zone} into others, they would make other values"
        )
    return "UTC"


def _added(statement: ParsedStatement) -> Iterator[ColumnDefinition]:
    names = set(statement.added_columns())
    return (column for column in statement.columns if column.name in names)


def _is_timestamp(column: ColumnDefinition) -> bool:
    return starts(column.tokens, "TIMESTAMP", at=1)


def _reads_clock(column: ColumnDefinition) -> bool:
    return any(token.word in _CLOCK for token in column.tokens)


def _has_literal(column: ColumnDefinition) -> bool:
    at = column.find("DEFAULT")
    return at is not None and any(token.kind is TokenKind.STRING for token in column.tokens[at + 1 : at + 3])


def _needs_name(statement: ParsedStatement) -> bool:
    return any(token.word in _FUNCTIONS for token in statement.tokens)
