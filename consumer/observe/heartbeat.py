"""What the driver does now, and a line about it if nothing was logged for long. It has a thread of its own, so that
nothing that blocks the driver is silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from consumer.model.events import Event, Idle, NowDoing, RoundStarted
from consumer.model.texts import duration_text
from consumer.model.times import seconds_behind
from consumer.observe.logs import Log
from consumer.observe.meter import Meter

SILENT_SECONDS = 10.0
"""Seconds without a line after which long work is reported."""
IDLE_SECONDS = 300.0
"""Seconds between lines of an idle `run`."""


class Activity:
    """The driver has been doing `what` since `since`. `applied_ts`: while idle, the commit-ts up to which everything is
    applied, else None. `begun` is when it first did something, 0.0 before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.what, self.since, self.begun = "", clock(), 0.0
        self.applied_ts: int | None = None

    def tell(self, event: Event) -> None:
        match event:
            case NowDoing(what):
                self._does(what)
            case RoundStarted():
                self._does("begins a round")
            case Idle(applied_ts):
                self._does("waits for new files")
                self.applied_ts = applied_ts

    def _does(self, what: str) -> None:
        self.what, self.since, self.applied_ts = what, self._clock(), None
        self.begun = self.begun or self.since


class Heartbeat:
    """Logs long work where there is no terminal. `beat` is called from time to time, on a thread of its own."""

    def __init__(self, log: Log, activity: Activity, meter: Meter, clock: Callable[[], float]) -> None:
        self._log, self._activity, self._meter, self._clock = log, activity, meter, clock
        self._told_idle = False

    def tell(self, event: Event) -> None:
        if isinstance(event, Idle) and not self._told_idle:
            self._told_idle = True
            self._tell_idle(event.applied_ts)

    def beat(self) -> None:
        now, applied, since = self._clock(), self._activity.applied_ts, self._activity.since
        if applied is not None:
            if now - self._log.written >= IDLE_SECONDS:
                self._tell_idle(applied)
        elif now - max(self._log.written, since) >= SILENT_SECONDS:
            self._tell_work(now - since)

    def _tell_idle(self, applied_ts: int) -> None:
        behind = seconds_behind(applied_ts, time.time() * 1000)
        self._log.info("nothing new, waits for new files", commit_ts=applied_ts, behind=duration_text(behind))

    def _tell_work(self, seconds: float) -> None:
        reading = self._meter.reading()
        if not reading.oldest:
            self._log.info("at work", doing=self._activity.what, seconds=round(seconds))
            return
        done, counts = reading.done, {"loads": reading.loads, "statements": reading.statements}
        fields: dict[str, object] = {name: count for name, count in counts.items() if count}
        if reading.loads:
            fields |= {"bytes": done.bytes, "of": reading.total, "changes": done.changes, "rows": done.rows}
        if reading.left is not None:
            fields |= {"bytes_per_second": round(reading.rate), "left": duration_text(reading.left)}
        self._log.info("at work", **fields, longest=reading.oldest)


class Pulse:
    """Calls `beat` every `seconds` on a thread of its own, from `start` to `stop`; the process does not wait for it."""

    def __init__(self, beat: Callable[[], None], seconds: float) -> None:
        self._beat, self._seconds = beat, seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._beat()
