"""Calls beside one another, each on a thread of its own, and one thread that is told what came of them."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

_Call = tuple[Callable[[], Any], Callable[[Any], None]]


class SideBySide:
    """Runs what it is given at once, or where it has its turn. Threads that are left behind do not keep the process
    alive."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[Callable[[Any], None], Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._in_line: defaultdict[str, deque[_Call]] = defaultdict(deque)
        self.running = 0
        """Calls of which nobody was told yet, with those in line."""

    def start(
        self, name: str, call: Callable[[], Any], then: Callable[[Any], None], at_most: int | None = None
    ) -> None:
        """Run `call` beside the rest; its result, or what it raised, goes to `then` by `follow`.

        `at_most` of one name run at a time (None: any number). The others stand in line, and the thread of a call that
        has ended goes on with the first of them: whoever follows can be busy for long.
        """
        self.running += 1
        with self._lock:
            if at_most is not None and self._under_way[name] >= at_most:
                self._in_line[name].append((call, then))
                return
            self._under_way[name] += 1
        threading.Thread(target=self._run, args=(name, call, then), name=name, daemon=True).start()

    def withdraw(self) -> bool:
        """Start nothing of what stands in line. Returns whether something did: nobody is told of it."""
        with self._lock:
            gone = sum(map(len, self._in_line.values()))
            self._in_line.clear()
        self.running -= gone
        return gone > 0

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

    def _run(self, name: str, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        while True:
            try:
                result = call()
            except BaseException as error:
                result = error
            self._ended.put((then, result))
            with self._lock:
                if not self._in_line[name]:
                    self._under_way[name] -= 1
                    return
                call, then = self._in_line[name].popleft()
