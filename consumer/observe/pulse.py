"""A thread that looks at the driver from time to time, even if the driver is blocked."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Pulse:
    """Calls `beat` every `seconds` on a thread of its own, from `start` to `stop`; the process does not wait for it."""

    def __init__(self, beat: Callable[[], None], seconds: float) -> None:
        self._beat, self._seconds = beat, seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._beat()
