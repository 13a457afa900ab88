"""Notifications: a command or a webhook gets each change of state once. They are delivered on a thread of their own."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from consumer.errors import ConsumerError
from consumer.model.events import ConsumerFailed, Event, Recorded, RoundFinished, RoundStarted, TableStopped, WorkMoved
from consumer.model.hints import hint_with_options
from consumer.model.names import TableName
from consumer.model.process import words_of
from consumer.model.progress import Progress, State
from consumer.model.texts import receiver_text
from consumer.model.times import seconds_behind
from consumer.observe.live import Identity
from consumer.observe.logs import Log
from consumer.observe.troubles import Outage, Outages, System

WAITS = (0.0, 2.0, 10.0, 60.0)
"""Seconds before each attempt of a delivery."""
_ANSWERS_WITHIN = 30.0
_ENDS_WITHIN = 20.0
"""Seconds that a finished command waits for undelivered notifications."""
OUTAGE_SECONDS = 30.0
"""Seconds for which the target or the storage must be away before somebody is notified: a fail-over is shorter."""
_MOST = 1000
"""The most notifications that wait at a time; more are logged and dropped."""

Body = dict[str, Any]


class Notifier:
    """An observer. `to` are commands, which get JSON on stdin, and URLs, which get it by POST. The state that the
    target has recorded at the first reading is no change: what an earlier run reported is not reported again. `lasts`:
    the command continues while the target or the storage is away, and reports that; others end, and their exit code
    shows it."""

    def __init__(
        self,
        to: Sequence[str],
        identity: Identity,
        lasts: bool,
        scrub: Callable[[str], str],
        log: Log,
        clock: Callable[[], float] = time.time,
        waits: Sequence[float] = WAITS,
    ) -> None:
        self._to, self._identity, self._scrub, self._log = to, identity, scrub, log
        self._clock, self._waits = clock, waits
        self._progress: Progress | None = None
        self._stopped: dict[TableName, str] = {}
        self._lost: Mapping[TableName, int] = {}
        self._bad: Mapping[TableName, int] = {}
        self._late = self._failed = False
        self._outages = Outages(clock) if lasts else None
        self._down: set[System] = set()
        self._lock = threading.Lock()
        self._queue: queue.Queue[Body | None] = queue.Queue(_MOST)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, event: Event) -> None:
        if not isinstance(event, WorkMoved):
            with self._lock:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        if self._outages is not None:
            self._outages.tell(event)
            self._look_at(self._outages.away)
        match event:
            case Recorded(progress):
                if self._progress is None:
                    self._late = progress.late
                    self._stopped, self._lost, self._bad = _stopped(progress), _losses(progress), _bad(progress)
                self._progress = progress
            case TableStopped(table, error, parallel_load=True):
                self._put("load-stopped", table, error=error.sentence(), hint=error.hint)
            case TableStopped(table, error):
                self._stops(table, error.sentence(), error.hint)
            case RoundStarted() if self._failed:
                self._failed = False
                self._put("resumed")
            case RoundFinished():
                self._round_finished()
            case ConsumerFailed(error) if not self._failed:
                self._failed = True
                known = error if isinstance(error, ConsumerError) else None
                self._put("failed", error=known.sentence() if known else str(error), hint=known.hint if known else "")

    def _stops(self, table: TableName, error: str, hint: str) -> None:
        if self._stopped.get(table) != error:
            self._stopped[table] = error
            self._put("table-stopped", table, error=error, hint=hint)

    def _round_finished(self) -> None:
        progress = self._progress
        if progress is None:
            return
        stopped, lost, bad = _stopped(progress), _losses(progress), _bad(progress)
        for table in self._stopped.keys() - stopped.keys():
            self._put("table-resumed", table)
        self._stopped = {table: self._stopped.get(table, error) for table, error in stopped.items()}
        for table, count in lost.items():
            if count > self._lost.get(table, 0):
                self._put("loss-accepted", table, losses=count)
        for table, count in bad.items():
            if count > self._bad.get(table, 0):
                self._put("rows-quarantined", table, rows=count)
        self._lost, self._bad = lost, bad
        if progress.late is not self._late:
            self._late = progress.late
            lag = seconds_behind(progress.slowest, self._clock() * 1000)
            self._put("lag-above" if self._late else "lag-below", lag_seconds=round(lag, 3))

    def _look_at(self, away: Mapping[System, Outage]) -> None:
        for system, outage in away.items():
            if system not in self._down and self._clock() - outage.since >= OUTAGE_SECONDS:
                self._down.add(system)
                self._put(f"{system}-down", error=outage.error.sentence(), hint=outage.error.hint)
        for system in self._down - away.keys():
            self._down.remove(system)
            self._put(f"{system}-up")

    def _put(self, event: str, table: TableName | None = None, **more: object) -> None:
        body: Body = {"event": event, "consumer": self._identity.name, "upstream": self._identity.upstream}
        body |= {"target": self._identity.target, "time": round(self._clock(), 3)}
        body |= {} if table is None else {"table": str(table)}
        for key, value in more.items():
            text = (
                hint_with_options(value, self._identity.options) if key == "hint" and isinstance(value, str) else value
            )
            body[key] = self._scrub(text) if isinstance(text, str) else text
        if self._thread is None:
            self._thread = threading.Thread(target=self._deliver_all, name="notify", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(body)
        except queue.Full:
            self._log.warning("a notification was dropped: too many wait", notified=event)

    def close(self) -> None:
        """Delivers waiting notifications, for a while."""
        if self._thread is not None:
            self._over.set()
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                return
            self._thread.join(_ENDS_WITHIN)

    def _deliver_all(self) -> None:
        while (body := self._queue.get()) is not None:
            for to in self._to:
                self._deliver(to, body)

    def _deliver(self, to: str, body: Body) -> None:
        problem = ""
        for wait in self._waits:
            self._over.wait(wait)  # a command that is over tries at once
            try:
                send(to, json.dumps(body).encode())
                return
            except subprocess.CalledProcessError as error:  # its own words have the whole command
                problem = f"exit code {error.returncode}"
            except subprocess.TimeoutExpired as error:
                problem = f"it went on for more than {error.timeout:.0f} s"
            except OSError as error:
                problem = words_of(error)
        self._log.warning(
            "a notification was not delivered", notified=body["event"], to=receiver_text(to), error=problem
        )


def send(to: str, body: bytes) -> None:
    """Raises OSError or SubprocessError if it did not arrive."""
    if re.match("https?://", to):
        from urllib.request import Request, urlopen

        with urlopen(Request(to, body, {"Content-Type": "application/json"}), timeout=_ANSWERS_WITHIN):
            return
    quiet = subprocess.DEVNULL
    subprocess.run(to, shell=True, input=body, check=True, timeout=_ANSWERS_WITHIN, stdout=quiet, stderr=quiet)


def _stopped(progress: Progress) -> dict[TableName, str]:
    return {name: place.reason for name, place in progress.tables.items() if place.state is State.STOPPED}


def _losses(progress: Progress) -> Mapping[TableName, int]:
    return {name: len(found) for name, found in progress.accepted_losses.items()}


def _bad(progress: Progress) -> Mapping[TableName, int]:
    return {name: len(found) for name, found in progress.quarantined_rows.items()}
