"""Hours that a time zone's clock shows twice: its times there do not say which moment they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from consumer.config.values import zone

_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2038, 1, 20, tzinfo=UTC)
"""The range of TIMESTAMP."""
_STEP = timedelta(days=5)
_FORMAT = "%Y-%m-%d %H:%M:%S"


@lru_cache(maxsize=8)
def doubled_hours(zone_name: str) -> tuple[tuple[str, str], ...]:
    """The stretches of local time (from, up to but not including) that happen twice, as texts of TIMESTAMP values."""
    place = zone(zone_name)
    return () if isinstance(place, timezone) else tuple(_turned_back(place))


def _turned_back(place: tzinfo | None) -> Iterator[tuple[str, str]]:
    moment = _FIRST
    while moment < _END:
        following = moment + _STEP
        if _offset(following, place) < _offset(moment, place):
            turn = _turn(moment, following, place)
            before, after = _offset(turn - timedelta(seconds=1), place), _offset(turn, place)
            yield (turn + after).strftime(_FORMAT), (turn + before).strftime(_FORMAT)
        moment = following


def _turn(early: datetime, late: datetime, place: tzinfo | None) -> datetime:
    """The first second with the offset of `late`."""
    while late - early > timedelta(seconds=1):
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        if _offset(middle, place) == _offset(late, place):
            late = middle
        else:
            early = middle
    return late


def _offset(moment: datetime, place: tzinfo | None) -> timedelta:
    return moment.astimezone(place).utcoffset() or timedelta()
