"""Logs failures that are retried: the first one, again from time to time, and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from consumer.errors import (
    CheckpointMissing,
    ConsumerError,
    JobBroken,
    NoExecutors,
    StagedRowsGone,
    StorageChanged,
    StorageUnavailable,
    TargetBusy,
    TargetUnavailable,
)
from consumer.model.events import (
    CheckpointRead,
    Event,
    Recorded,
    Retrying,
    RetryPassed,
    RoundStarted,
    StepFinished,
    TableStopped,
)
from consumer.observe.logs import Log

SAY_AGAIN_AFTER = 60.0
"""Seconds after which lasting trouble is logged again."""


class System(StrEnum):
    """A system that the program works with."""

    STORAGE = "storage"
    TARGET = "target"
    SPARK = "Spark"

    @classmethod
    def of(cls, error: ConsumerError) -> System:
        """Returns the system to report for the error: the storage or Spark for their own errors, the target for all
        others."""
        if isinstance(error, StorageUnavailable | StorageChanged | CheckpointMissing):
            return cls.STORAGE
        return cls.SPARK if isinstance(error, JobBroken | NoExecutors) else cls.TARGET


def is_outage(error: ConsumerError) -> bool:
    """Returns whether the system that the error comes from is away, for all who need it."""
    away = isinstance(error, TargetUnavailable | StorageUnavailable | CheckpointMissing)
    return away and not isinstance(error, StagedRowsGone)


@dataclass(frozen=True, slots=True)
class Outage:
    """`since` is a time of the clock. `error` is the last one, `whats` are all activities that had it."""

    since: float
    error: ConsumerError
    whats: frozenset[str] = frozenset()


class Outages:
    """Which systems do not answer. An observer; its events come on any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._away: dict[System, Outage] = {}

    @property
    def away(self) -> Mapping[System, Outage]:
        with self._lock:
            return dict(self._away)

    def tell(self, event: Event) -> None:
        match event:
            case Retrying(what, error):
                self.record(error, what)
            case RetryPassed(what):
                for system in [system for system, outage in self.away.items() if what in outage.whats]:
                    self._answers(system)
            case CheckpointRead() | RoundStarted():
                self._answers(System.STORAGE)
            case Recorded() | StepFinished():
                self._answers(System.TARGET)

    def record(self, error: ConsumerError, what: str = "") -> None:
        """Records an outage, if `error` shows one. A storage error with a table is about one file: `metadata` may still
        be readable."""
        system = System.of(error)
        if is_outage(error) and not (system is System.STORAGE and error.table):
            with self._lock:
                first = self._away.get(system) or Outage(self._clock(), error)
                self._away[system] = Outage(first.since, error, first.whats | {what})

    def _answers(self, system: System) -> None:
        with self._lock:
            self._away.pop(system, None)


@dataclass(frozen=True, slots=True)
class Places:
    """The systems, as they are printed: without secrets."""

    upstream: str = "the storage"
    target: str = "the target"
    spark: str = "Spark"

    def of(self, error: ConsumerError) -> str:
        """Returns where the error comes from."""
        return {System.STORAGE: self.upstream, System.TARGET: self.target, System.SPARK: self.spark}[System.of(error)]


@dataclass(slots=True)
class _Trouble:
    place: str
    since: float
    reported: float
    whats: set[str] = field(default_factory=set)


class Troubles:
    """An outage has one entry for all activities. Any other failure has an entry for its table, or for its activity if
    it names no table."""

    def __init__(self, log: Log, places: Places, clock: Callable[[], float]) -> None:
        self._log, self._places, self._clock, self._lock = log, places, clock, threading.Lock()
        self._known: dict[str, _Trouble] = {}

    def tell(self, event: Event) -> None:
        with self._lock:
            self._tell(event)

    def _tell(self, event: Event) -> None:
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
        key = place if is_outage(error) else error.table or what
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
        """Notes that `what` succeeded, or a step of the table of that name."""
        for key in [key for key, trouble in self._known.items() if key == what or what in trouble.whats]:
            trouble = self._known.pop(key)
            seconds = round(self._clock() - trouble.since, 1)
            self._log.warning("succeeded after retries", what=what, at=trouble.place, seconds=seconds)


def _until(seconds: float | None) -> str:
    if seconds is None:
        return "it succeeds"
    if not seconds:
        return "the next run"
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
