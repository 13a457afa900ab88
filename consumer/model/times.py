"""Times: TSOs, the changefeed's clock, and the clock of this process.

In all packages, whole numbers called ``.._ts``, `version`, `watermark`, `checkpoint`, `after` and `end` are TSOs (see
`tso_to_ms`), and `bytes` and `size` are bytes; `seconds` are seconds, and `modified` is in ns since 1970.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo

LOGICAL_BITS = 18
MAX_TSO = (1 << 63) - 1
"""A TSO above every commit-ts: "to the end of the storage"."""


def tso_to_ms(tso: int) -> int:
    """Returns the physical part of a TSO: milliseconds since 1970."""
    return tso >> LOGICAL_BITS


def ms_to_tso(milliseconds: int) -> int:
    """Returns the first TSO of a millisecond."""
    return milliseconds << LOGICAL_BITS


def seconds_behind(tso: int, milliseconds: float) -> float:
    """Returns by how many seconds a TSO lags a moment in milliseconds since 1970; 0 if it does not."""
    return max(0.0, (milliseconds - tso_to_ms(tso)) / 1000)


def tso_to_time(tso: int) -> datetime:
    """Returns the physical part of a TSO as a UTC time."""
    return datetime.fromtimestamp(tso_to_ms(tso) / 1000, UTC)


def time_text(tso: int) -> str:
    """Returns the moment of a TSO as a text, in UTC."""
    if tso >= MAX_TSO:
        return "the end of the storage"
    return f"{tso_to_time(tso):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z" if tso else "-"


def tso_to_text(tso: int) -> str:
    """Returns `tso_to_time` as SQL writes it, with microseconds."""
    return tso_to_time(tso).strftime("%Y-%m-%d %H:%M:%S.%f")


_OFFSET = re.compile(r"([+-])(\d{1,2}):?(\d{2})")


@dataclass(frozen=True, slots=True)
class Clock:
    """A time zone between 1970 and 2038, the range of TIMESTAMP, which needs no zone tables where it is used.

    ``offsets[n]`` (seconds east of UTC) holds for local times, in seconds since 1970, below ``starts[n]``; the last
    offset holds for all later times. An offset is None if the clock was turned forward over those times. If the clock
    shows a time twice, the earlier of its two moments is used. `doubled` are these moments, as stretches (from, up to
    but not including) of UTC in the form of TIMESTAMP texts.
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
    """Returns the zone of a name (``Europe/Berlin``) or an offset (``+08:00``). Raises ValueError."""
    from zoneinfo import ZoneInfo  # it reads the system's folders, which executors do not need

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


class Timekeeper:
    def now(self) -> float:
        """Returns seconds since some moment; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def between(self, least: float, most: float) -> float:
        """Returns a random number between the two."""
        return random.uniform(least, most)


keeper = Timekeeper()


def now() -> float:
    return keeper.now()


def sleep(seconds: float) -> None:
    keeper.sleep(seconds)


def between(least: float, most: float) -> float:
    return keeper.between(least, most)
