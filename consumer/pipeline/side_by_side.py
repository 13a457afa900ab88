"""Calls beside one another, each on a thread of its own, and one thread that is told what came of them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any


class SideBySide:
    """Runs what it is given at once: whoever uses it bounds how much that is. Threads that are left behind do not keep
    the process alive."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[Callable[[Any], None], Any]] = queue.SimpleQueue()
        self.running = 0

    def start(self, name: str, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Run `call` beside the rest; its result, or what it raised, goes to `then` by `follow`."""
        self.running += 1
        threading.Thread(target=self._run, args=(call, then), name=name, daemon=True).start()

    def follow(self, timeout: float | None, linger: float) -> None:
        """Wait until a call has ended, `timeout` seconds at most (None: however long), and `linger` more for others; on
        this thread, tell of each."""
        try:
            ended = [self._ended.get(timeout=timeout)]
        except queue.Empty:
            return
        deadline = time.monotonic() + linger
        while len(ended) < self.running:
            try:
                ended.append(self._ended.get(timeout=max(deadline - time.monotonic(), 0)))
            except queue.Empty:
                break
        for then, result in ended:
            self.running -= 1
            then(result)

    def _run(self, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        try:
            result = call()
        except BaseException as error:
            result = error
        self._ended.put((then, result))
