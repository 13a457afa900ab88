"""The session time zone that a statement runs in."""

from __future__ import annotations

from datetime import timedelta

from consumer.ddl.declared import read_definitions
from consumer.ddl.tokens import significant, tokenize
from consumer.model.actions import Action
from consumer.model.clock import zone_of
from consumer.model.columns import Column
from consumer.model.names import tso_to_time
from consumer.model.steps import ApplyDdl

UTC = "+00:00"
UNKNOWN_ZONE = 1298
_FUNCTIONS = frozenset({"UNIX_TIMESTAMP", "FROM_UNIXTIME"})
_CONVERTING = (Action.MODIFY_COLUMN, Action.MULTI_SCHEMA_CHANGE)


def offset_at(step: ApplyDdl, zone: str) -> timedelta:
    """What the changefeed's clock was ahead of UTC when the statement ran."""
    return tso_to_time(step.file.version).astimezone(zone_of(zone)).utcoffset() or timedelta()


def session_zone(step: ApplyDdl, zone: str) -> str:
    """`zone` as ``SET time_zone`` takes it for this statement.

    Its offset then is right for the time of the statement itself, on servers without zone tables too; only what turns
    times of the rows from one type to another needs the zone by its name.
    """
    if _needs_name(step):
        return UTC if zone == "UTC" else zone
    minutes = round(offset_at(step, zone).total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _needs_name(step: ApplyDdl) -> bool:
    if any(token.word in _FUNCTIONS for token in significant(tokenize(step.file.query))):
        return True
    if step.file.type not in _CONVERTING:
        return False
    times = [c for c in (*step.file.columns, *(step.columns_before or ())) if _is_time(c)]
    if not times or step.columns_before is None:
        return bool(times)
    renamed = read_definitions(step.file.query).renamed
    before = {column.name.lower(): column for column in step.columns_before}
    pairs = ((before.get(renamed.get(name := column.name.lower(), name)), column) for column in step.file.columns)
    return any(old is not None and _is_time(old) != _is_time(new) for old, new in pairs)


def _is_time(column: Column) -> bool:
    return column.type == "TIMESTAMP"  # a view's columns have no type of a table's
