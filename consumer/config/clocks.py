"""Returns the clocks of time zones by name, and the name of this machine's own zone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from pathlib import Path

from consumer.errors import BadConfig
from consumer.model.times import UTC_CLOCK, Clock, zone_of

_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2038, 1, 20, tzinfo=UTC)
"""The range of TIMESTAMP."""
_STEP = timedelta(days=5)
_FORMAT = "%Y-%m-%d %H:%M:%S"
_UTC_NAMES = frozenset({"UTC", "Z", "ZULU", "GMT", "UCT", "UNIVERSAL", "GREENWICH", "+00:00", "-00:00"})
_LOCALTIME, _ZONES = Path("/etc/localtime"), "zoneinfo"


def resolved_zone(name: str) -> str:
    """Returns the zone of `name` under one name for each zone: ``System`` becomes this machine's, every name of UTC
    ``UTC``.

    Raises BadConfig if this machine's zone has no name.
    """
    if name.lower() == "system":
        name = _own_zone()
    return "UTC" if name.upper().removeprefix("ETC/") in _UTC_NAMES else name


@lru_cache(maxsize=8)
def clock_of(zone_name: str) -> Clock:
    """Returns the clock of a zone with a name of its own, or an offset."""
    if zone_name == "UTC":
        return UTC_CLOCK
    zone = zone_of(zone_name)
    first = _seconds(_offset(_FIRST, zone))
    if isinstance(zone, timezone):
        return Clock(zone_name, (), (first,))
    starts: list[int] = []
    offsets: list[int | None] = [first]
    doubled = []
    for turn in _turns(zone):
        at = round(turn.moment.timestamp())
        before, after = _seconds(turn.before), _seconds(turn.after)
        if after > before:
            starts.append(at + before)
            offsets.append(None)
        else:
            doubled.append(((turn.moment + turn.after - turn.before).strftime(_FORMAT), turn.moment.strftime(_FORMAT)))
        starts.append(at + max(before, after))
        offsets.append(after)
    return Clock(zone_name, tuple(starts), tuple(offsets), tuple(doubled))


def _own_zone() -> str:
    """Returns the zone as the C library finds it: TZ, or else /etc/localtime, or else UTC. Raises BadConfig."""
    value = os.environ.get("TZ")
    if value is not None:
        name = value.removeprefix(":") or "UTC"
        name = name.partition(f"/{_ZONES}/")[2] or name
    elif not _LOCALTIME.exists():
        return "UTC"
    else:
        name = str(_LOCALTIME.resolve()).partition(f"/{_ZONES}/")[2]
    try:
        zone_of(name)
    except ValueError:
        name = ""
    if not name:
        raise BadConfig(
            f"--tz is System, and this machine's time zone has no name ({f'TZ is {value}' if value else _LOCALTIME})",
            hint="give --tz the changefeed's time zone by its name, as UTC, Europe/Berlin or +08:00",
        )
    return name


@dataclass(frozen=True, slots=True)
class _Turn:
    """A moment at which a zone's offset changes."""

    moment: datetime
    before: timedelta
    after: timedelta


def _turns(place: tzinfo) -> Iterator[_Turn]:
    moment, offset = _FIRST, _offset(_FIRST, place)
    while moment < _END:
        following = moment + _STEP
        before, offset = offset, _offset(following, place)
        if offset != before:
            turn = _turn(moment, following, place)
            yield _Turn(turn, _offset(turn - timedelta(seconds=1), place), _offset(turn, place))
        moment = following


def _turn(early: datetime, late: datetime, place: tzinfo) -> datetime:
    """The first second with the offset of `late`."""
    while late - early > timedelta(seconds=1):
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        if _offset(middle, place) == _offset(late, place):
            late = middle
        else:
            early = middle
    return late


def _offset(moment: datetime, place: tzinfo) -> timedelta:
    return moment.astimezone(place).utcoffset() or timedelta()


def _seconds(offset: timedelta) -> int:
    return round(offset.total_seconds())
