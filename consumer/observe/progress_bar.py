"""One line on a terminal with the current work and the state of the round. rich is loaded when it is shown."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from consumer.model.events import Event, Idle, Retrying
from consumer.model.texts import count_text, duration_text, printable, size_text
from consumer.model.times import tso_to_time
from consumer.observe.heartbeat import Activity
from consumer.observe.meter import Reading

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_WIDTH = 20
SHOWN_AFTER = 1.0
"""Seconds; shorter work shows no bar."""


class ProgressBar:
    """A bar on stderr; once stopped it does not return. `read` returns how far the running work is."""

    def __init__(self, activity: Activity, read: Callable[[], Reading], clock: Callable[[], float]) -> None:
        self._activity, self._read, self._clock = activity, read, clock
        self._up_to_date = ""
        self._live: Live | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def tell(self, event: Event) -> None:
        if isinstance(event, Idle):
            place = f"{tso_to_time(event.applied_ts):%Y-%m-%d %H:%M:%S} UTC"
            self._up_to_date = f"all is applied up to {place}, waits for new files"
        elif isinstance(event, Retrying):
            self._up_to_date = ""

    def beat(self) -> None:
        """Shows it if the work takes long enough. It may be called on any thread."""
        if self._clock() - self._activity.begun >= SHOWN_AFTER or self._read().oldest:
            self.show()

    def show(self) -> None:
        """Shows it if it is not shown. It may be called on any thread."""
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            if self._live is None and not self._stopped:
                self._live = Live(
                    console=Console(file=sys.stderr),
                    get_renderable=self._line,
                    refresh_per_second=2,
                    transient=True,
                    redirect_stdout=False,
                )
                self._live.start(refresh=True)

    def stop(self) -> None:
        """Clears the line."""
        with self._lock:
            self._stopped = True
            if self._live is not None:
                with contextlib.suppress(OSError):  # the terminal may be gone
                    self._live.stop()
                self._live = None

    def _doing(self) -> str:
        """Returns what to show if no work is running. The short reading of the storage by an idle `run` is not
        shown."""
        activity = self._activity
        quick = self._clock() - activity.since < SHOWN_AFTER
        return self._up_to_date if self._up_to_date and (quick or activity.applied_ts is not None) else activity.what

    def _line(self) -> RenderableType:
        from rich.progress_bar import ProgressBar as Bar
        from rich.table import Table
        from rich.text import Text

        reading = self._read()
        line = Table.grid(padding=(0, 1))
        texts = [Text(printable(line_text(self._doing(), reading)), no_wrap=True, overflow="ellipsis")]
        if reading.loads and reading.total:
            line.add_row(Bar(reading.total, reading.done.bytes, width=_WIDTH), *texts)
        else:
            line.add_row(*texts)
        return line


def line_text(doing: str, reading: Reading) -> str:
    """Returns the line without its bar."""
    if not reading.loads:
        return reading.oldest or doing
    done = reading.done
    parts = [
        f"{size_text(done.bytes)} of {size_text(reading.total)}",
        count_text(done.changes, "change"),
        count_text(done.rows, "row"),
    ]
    if reading.left is not None:
        parts += [f"{size_text(reading.rate)}/s", f"{duration_text(reading.left)} left"]
    return ", ".join([*parts, f"{duration_text(reading.seconds)} so far"])
