"""The observer that commands use: it passes each event to all listeners."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from consumer.model.events import Event, NowDoing, RoundStarted
from consumer.model.names import TableName
from consumer.observe.heartbeat import Activity, Heartbeat, Pulse
from consumer.observe.lines import Lines
from consumer.observe.live import Live
from consumer.observe.logs import Log
from consumer.observe.meter import Meter
from consumer.observe.notes import Notes
from consumer.observe.notify import Notifier
from consumer.observe.progress_bar import ProgressBar
from consumer.observe.troubles import Places, Troubles
from consumer.ports import Observer


class CommandObserver:
    """Implements ports.Observer. `with_bar`: a person watches a bar, and only warnings are logged. `live`: the source
    of metrics and the page, if somebody asked for them. `options` and `summed_up` are explained at `Lines`."""

    def __init__(
        self,
        log: Log,
        with_bar: bool = False,
        places: Places | None = None,
        options: str = "",
        summed_up: bool = False,
        clock: Callable[[], float] = time.monotonic,
        pulse_seconds: float = 1.0,
        live: Live | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._log, self.live, self._notifier = log, live, notifier
        activity, meter = Activity(clock), Meter(clock)
        self._lines, self._notes = Lines(log, options, summed_up), Notes(log)
        self._bar = ProgressBar(activity, meter.reading, clock) if with_bar else None
        heartbeat = Heartbeat(log, activity, meter, clock)
        self.beat = heartbeat.beat if self._bar is None else self._bar.beat
        self._pulse = Pulse(self._beat, pulse_seconds)
        # In the order in which they write: trouble is over before the line of the step that ended it.
        trouble = Troubles(log, places or Places(), clock)
        self._all: list[Observer] = [activity, meter, heartbeat, trouble, self._lines, self._notes]
        self._all += [listener for listener in (self._bar, live, notifier) if listener is not None]

    def _beat(self) -> None:
        self.beat()
        if self.live is not None:
            self.live.beat()

    @property
    def stopped(self) -> Collection[TableName]:
        """The stopped tables whose reason is already in the stream of the summary."""
        return self._lines.stopped

    @property
    def notes(self) -> list[str]:
        """All notes of the run, each once."""
        return self._notes.texts

    def tell(self, event: Event) -> None:
        for observer in self._all:
            observer.tell(event)
        if isinstance(event, NowDoing | RoundStarted):
            self._pulse.start()

    def close_bar(self) -> None:
        """Clears the bar, so that other output can follow."""
        self._pulse.stop()
        if self._bar:
            self._bar.stop()

    def close(self) -> None:
        """Clears the bar, delivers notifications, closes the log."""
        self.close_bar()
        if self._notifier is not None:
            self._notifier.close()
        self._log.close()
