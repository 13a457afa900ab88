"""What runs beside one another, and what waits: for a place, for a pause to end, for the target to answer."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from consumer.errors import ConsumerError, Retryable, TargetBusy, TargetUnavailable
from consumer.model import patience
from consumer.model.events import Retrying, RetryPassed
from consumer.model.load import LoadTask
from consumer.model.names import TableName
from consumer.model.patience import pause
from consumer.model.progress import Waits
from consumer.model.times import now
from consumer.ports import Observer

_Call = tuple[Callable[[], Any], Callable[[Any], None]]


class SideBySide:
    """Calls beside one another, each on a thread of its own, and one thread that learns what came of them.

    Runs what it is given at once, or where it has its turn. Threads that are left behind do not keep the process
    alive."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[Callable[[Any], None], Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._in_line: defaultdict[str, deque[_Call]] = defaultdict(deque)
        self.running = 0
        """Calls whose end is not handled yet, with those in line."""

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
        """Start nothing of what stands in line. Returns whether something did: its end is not handled."""
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


class InFlight:
    """What the loads that run take, over all tables: the one budget that is asked before a load begins.

    `connections` to the target, and `size` bytes of change files that were begun and are not in the target. A load that
    is larger than all of it goes alone."""

    def __init__(self, connections: int, size: int) -> None:
        self._connections, self._size = connections, size
        self._taken = self._bytes = 0

    def take(self, connections: int, size: int) -> bool:
        """Whether a load of that can begin now; then it has."""
        full = self._taken + connections > self._connections or self._bytes + size > self._size
        if self._taken and full:
            return False
        self._taken += connections
        self._bytes += size
        return True

    def give_back(self, connections: int, size: int) -> None:
        """It has ended."""
        self._taken -= connections
        self._bytes -= size

    def parted(self, tasks: Sequence[LoadTask]) -> Iterator[list[LoadTask]]:
        """Tables that one call of the loader would load, in as few parts of the budget as their order allows."""
        part: list[LoadTask] = []
        size = 0
        for task in tasks:
            if part and size + task.bytes > self._size:
                yield part
                part, size = [], 0
            part.append(task)
            size += task.bytes
        if part:
            yield part


_SHORTEST_PAUSE = 0.5


def of_target(error: BaseException | None) -> bool:
    """Whether the target is what the step had to wait for."""
    return isinstance(error, TargetBusy | TargetUnavailable)


@dataclass(slots=True)
class _Deferral:
    names: tuple[TableName, ...]
    error: Retryable
    since: float
    again: Callable[[], None]
    tries: int = 0
    due: float | None = None
    """When it is retried; None: not in this round, or right now."""


class Deferred:
    """Tables that have to wait for the target or the storage. Each is retried after a pause, and the others go on.
    `seconds`: how long a table is retried in one round, from its first failure on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._found: dict[TableName, _Deferral] = {}

    def add(self, names: Sequence[TableName], error: Retryable, again: Callable[[], None]) -> float | None:
        """The current step of `names` has failed and is retried by `again`. Returns for how many seconds, None if the
        next round retries it."""
        moment = now()
        deferral = self._found.setdefault(names[0], _Deferral(tuple(names), error, moment, again))
        deferral.names, deferral.error, deferral.again = tuple(names), error, again
        deferral.tries += 1
        left = deferral.since + self._seconds - moment
        wait = min(max(_SHORTEST_PAUSE, pause(deferral.tries)), max(left, 0.0))
        deferral.due = moment + wait if error.may_pass and left > 0 else None
        return None if deferral.due is None else left

    def settled(self, names: Sequence[TableName]) -> None:
        """The step of the tables succeeded, or they stop for another reason."""
        for name in names:
            self._found.pop(name, None)

    def blocked(self, name: TableName) -> float:
        """For how long the step that was added last under `name` has waited for the target, 0 if it does not."""
        found = self._found.get(name)
        return now() - found.since if found and of_target(found.error) else 0.0

    def try_due(self) -> None:
        """Retry the tables whose pause is over."""
        moment = now()
        for deferral in self._found.values():
            if deferral.due is not None and deferral.due <= moment:
                deferral.due = None
                deferral.again()

    def is_due(self, name: TableName) -> bool:
        """Whether the table that was added last under `name` is tried again in this round."""
        return self._found[name].due is not None

    def next_due(self) -> float | None:
        """Seconds until the next is due, None where there is none."""
        times = [deferral.due for deferral in self._found.values() if deferral.due is not None]
        return max(0.0, min(times) - now()) if times else None

    def first(self) -> Retryable | None:
        """The error of a table that still waits."""
        return next((deferral.error for deferral in self._found.values()), None)

    def reasons(self) -> dict[TableName, Waits]:
        """By table, what it still waits for."""
        return {name: _reason(deferral.error) for deferral in self._found.values() for name in deferral.names}


def _reason(error: ConsumerError) -> Waits:
    return Waits(error.code, f"{error.sentence()}: it is tried again by the next run")


T = TypeVar("T")


def patiently(what: str, call: Callable[[], T], observer: Observer, seconds: float) -> T:
    """`call`, for `seconds` from its first failure on (see model.patience); the observer gets each failure, and the
    end of the trouble."""
    failed = False

    def met(error: Retryable, left: float) -> None:
        nonlocal failed
        failed = True
        observer.tell(Retrying(what, error, left))

    result = patience.patiently(call, seconds, met)
    if failed:
        observer.tell(RetryPassed(what))
    return result
