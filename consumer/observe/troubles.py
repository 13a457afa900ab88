"""Failures that are retried: logged at the first one, from time to time, and when they are over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from consumer.errors import (
    CheckpointMissing,
    ConsumerError,
    JobBroken,
    NoExecutors,
    StorageChanged,
    StorageUnavailable,
    TargetBusy,
    TargetUnavailable,
)
from consumer.model.events import Event, Retrying, RetryPassed, StepFinished, TableStopped
from consumer.observe.logs import Log

SAY_AGAIN_AFTER = 60.0
"""Seconds after which lasting trouble is logged again."""


@dataclass(frozen=True, slots=True)
class Places:
    """The systems that the program works with, as they are printed: without secrets."""

    upstream: str = "the storage"
    target: str = "the target"
    spark: str = "Spark"

    def of(self, error: ConsumerError) -> str:
        """The system that the error comes from."""
        if isinstance(error, StorageUnavailable | StorageChanged | CheckpointMissing):
            return self.upstream
        return self.spark if isinstance(error, JobBroken | NoExecutors) else self.target


@dataclass(slots=True)
class _Trouble:
    place: str
    since: float
    reported: float
    whats: set[str] = field(default_factory=set)


class Troubles:
    """An outage is one trouble for all who meet it. Trouble of one table belongs to that table."""

    def __init__(self, log: Log, places: Places, clock: Callable[[], float]) -> None:
        self._log, self._places, self._clock = log, places, clock
        self._known: dict[str, _Trouble] = {}

    def tell(self, event: Event) -> None:
        match event:
            case Retrying(what, error, seconds):
                self._failed(what, error, seconds)
            case RetryPassed(what):
                self._passed(what)
            case StepFinished(row):
                self._passed(str(row.table))
            case TableStopped(table):
                self._known.pop(str(table), None)  # it is no longer tried

    def _failed(self, what: str, error: ConsumerError, seconds: float | None) -> None:
        now, place = self._clock(), self._places.of(error)
        outage = isinstance(error, TargetUnavailable | StorageUnavailable | CheckpointMissing)
        key = place if outage else error.table or what
        trouble = self._known.get(key)
        line = "trying again" if trouble is None else "still trying"
        if trouble is None:
            trouble = self._known[key] = _Trouble(place, now, now)
        elif now - trouble.reported < SAY_AGAIN_AFTER:
            trouble.whats.add(what)
            return
        trouble.reported = now
        trouble.whats.add(what)
        values: dict[str, object] = {"what": what, "at": place, "error": error.sentence(), "until": _until(seconds)}
        if error.hint and not isinstance(error, TargetUnavailable | TargetBusy):
            values["hint"] = error.hint
        if line == "still trying":
            values["seconds"] = round(now - trouble.since)
        self._log.warning(line, **values)

    def _passed(self, what: str) -> None:
        """`what` succeeded, or a step of the table of that name did."""
        for key in [key for key, trouble in self._known.items() if key == what or what in trouble.whats]:
            trouble = self._known.pop(key)
            seconds = round(self._clock() - trouble.since, 1)
            self._log.warning("goes on again", what=what, at=trouble.place, seconds=seconds)


def _until(seconds: float | None) -> str:
    if seconds is None:
        return "it goes through"
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
