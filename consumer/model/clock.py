"""The changefeed's clock: how the local times in its files are turned into UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo

_OFFSET = re.compile(r"([+-])(\d{1,2}):?(\d{2})")


@dataclass(frozen=True, slots=True)
class Clock:
    """A time zone between 1970 and 2038, the range of TIMESTAMP, with no need for zone tables where it is used.

    ``offsets[n]`` (seconds east of UTC) holds for local times, in seconds since 1970, below ``starts[n]``; the last
    offset holds for all later times. An offset is None where the clock was turned forward over those times. If the
    clock shows a time twice, the earlier of its two moments is used; `doubled` are these moments, as stretches (from,
    up to but not including) of UTC in the form of TIMESTAMP texts.
    """

    name: str = "UTC"
    starts: tuple[int, ...] = ()
    offsets: tuple[int | None, ...] = (0,)
    doubled: tuple[tuple[str, str], ...] = ()

    @property
    def is_utc(self) -> bool:
        return self.offsets == (0,)


UTC_CLOCK = Clock()


def zone_of(name: str) -> tzinfo:
    """The zone of a name (``Europe/Berlin``) or an offset (``+08:00``). Raises ValueError."""
    from zoneinfo import ZoneInfo  # it looks at the system's folders, which executors have no use for

    offset = _OFFSET.fullmatch(name)
    try:
        if offset:
            minutes = int(offset[2]) * 60 + int(offset[3])
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
        return ZoneInfo(name)
    except (ValueError, LookupError, OSError) as problem:
        raise ValueError(
            f"'{name}' is not a time zone; give System, a name such as Europe/Berlin or an offset such as +08:00"
        ) from problem
