"""What does not go through now: told at its first failure, from time to time, and when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from consumer.errors import (
    CheckpointMissing,
    ConsumerError,
    JobBroken,
    StorageChanged,
    StorageUnavailable,
    TargetBusy,
    TargetUnavailable,
)

SAY_AGAIN_AFTER = 60.0
"""Seconds after which trouble that goes on is told again."""


@dataclass(frozen=True, slots=True)
class Places:
    """Whom the program works with, as it tells of them: without secrets."""

    upstream: str = "the storage"
    target: str = "the target"
    spark: str = "Spark"

    def of(self, error: ConsumerError) -> str:
        """Who keeps it waiting."""
        if isinstance(error, StorageUnavailable | StorageChanged | CheckpointMissing):
            return self.upstream
        return self.spark if isinstance(error, JobBroken) else self.target


@dataclass(slots=True)
class _Trouble:
    since: float
    said: float
    whats: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Told:
    """A line about trouble: `event`, and what belongs to it."""

    event: str
    values: dict[str, object]


class Troubles:
    """An outage is one trouble, whatever meets it; what befalls one table is one of that table."""

    def __init__(self, places: Places, clock: Callable[[], float] = time.monotonic) -> None:
        self._places, self._clock = places, clock
        self._known: dict[str, _Trouble] = {}

    def failed(self, what: str, error: ConsumerError, seconds: float | None) -> Told | None:
        """What to say of another failure of `what`, which is tried for `seconds` more; None: nothing, it was said."""
        now, place = self._clock(), self._places.of(error)
        outage = isinstance(error, TargetUnavailable | StorageUnavailable | CheckpointMissing)
        key = place if outage else error.table or what
        trouble = self._known.get(key)
        event = "trying again" if trouble is None else "still trying"
        if trouble is None:
            trouble = self._known[key] = _Trouble(now, now)
        elif now - trouble.said < SAY_AGAIN_AFTER:
            trouble.whats.add(what)
            return None
        trouble.said = now
        trouble.whats.add(what)
        values: dict[str, object] = {"what": what, "at": place, "error": error.sentence(), "until": _until(seconds)}
        if error.hint and not isinstance(error, TargetUnavailable | TargetBusy):
            values["hint"] = error.hint
        if event == "still trying":
            values["seconds"] = round(now - trouble.since)
        return Told(event, values)

    def passed(self, what: str) -> list[Told]:
        """What to say now that `what` went through, or a step of the table of that name."""
        over = [key for key, trouble in self._known.items() if key == what or what in trouble.whats]
        found = [(key, self._known.pop(key)) for key in over]
        return [
            Told("goes on again", {"what": what, "at": key, "seconds": round(self._clock() - trouble.since, 1)})
            for key, trouble in found
        ]

    def forget(self, table: str) -> None:
        """The table of that name is stopped: it is no longer tried."""
        self._known.pop(table, None)


def _until(seconds: float | None) -> str:
    if seconds is None:
        return "it goes through"
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
