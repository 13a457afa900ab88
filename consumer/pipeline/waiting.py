"""Runs calls in parallel, and keeps what waits: for a free slot, for a pause to end, for the target to answer."""

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


class BackgroundCalls:
    """Runs calls in parallel, each on a thread of its own. One thread handles their results.

    A call runs at once, or when it is its turn. Threads that are left running do not keep the process alive.
    """

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[tuple[Callable[[Any], None], Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._in_line: defaultdict[str, deque[_Call]] = defaultdict(deque)
        self.running = 0
        """The number of calls whose result is not handled yet, with those in the queue."""

    def start(
        self, name: str, call: Callable[[], Any], then: Callable[[Any], None], at_most: int | None = None
    ) -> None:
        """Runs `call` in parallel to the rest. `handle_results` passes its result, or what it raised, to `then`.

        At most `at_most` calls of one name run at a time (None: any number). The others queue, and the thread of a call
        that has ended runs the first of them itself: whoever calls `handle_results` can be busy for long.
        """
        self.running += 1
        with self._lock:
            if at_most is not None and self._under_way[name] >= at_most:
                self._in_line[name].append((call, then))
                return
            self._under_way[name] += 1
        threading.Thread(target=self._run, args=(name, call, then), name=name, daemon=True).start()

    def withdraw(self) -> bool:
        """Drops all queued calls. Returns whether there were any. Their `then` is not called."""
        with self._lock:
            withdrawn = sum(map(len, self._in_line.values()))
            self._in_line.clear()
        self.running -= withdrawn
        return withdrawn > 0

    def handle_results(self, timeout: float | None, linger: float) -> None:
        """Waits until a call has ended, at most `timeout` seconds (None: without limit), and at most `linger` seconds
        more for others. Handles each result on this thread."""
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
    """What the running loads use, over all tables: the one budget that is asked before a load begins.

    `connections` is the limit of connections to the target. `size` is the limit of bytes of change files whose load has
    begun and is not in the target. A load that is larger than the whole budget runs alone.
    """

    def __init__(self, connections: int, size: int) -> None:
        self._connections, self._size = connections, size
        self._taken = self._bytes = 0

    def take(self, connections: int, size: int) -> bool:
        """Takes the load's share and returns True if it can begin now, otherwise returns False."""
        full = self._taken + connections > self._connections or self._bytes + size > self._size
        if self._taken and full:
            return False
        self._taken += connections
        self._bytes += size
        return True

    def give_back(self, connections: int, size: int) -> None:
        """Returns the share of a load that has ended."""
        self._taken -= connections
        self._bytes -= size

    def parted(self, tasks: Sequence[LoadTask]) -> Iterator[list[LoadTask]]:
        """Splits the tables of one call of the loader into as few parts of the budget as their order allows."""
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


def waits_for_target(error: BaseException | None) -> bool:
    """Returns whether the step had to wait for the target."""
    return isinstance(error, TargetBusy | TargetUnavailable)


@dataclass(slots=True)
class _Deferral:
    names: tuple[TableName, ...]
    error: Retryable
    since: float
    again: Callable[[], None]
    tries: int = 0
    due: float | None = None
    """When the step is retried, by `now()`. None: not in this round, or right now."""


class DeferredTables:
    """Keeps the tables that have to wait for the target or the storage. Each is retried after a pause, and the others
    continue. `seconds` is how long a table is retried in one round, from its first failure on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deferrals: dict[TableName, _Deferral] = {}

    def add(self, names: Sequence[TableName], error: Retryable, again: Callable[[], None]) -> float | None:
        """Records that the current step of `names` has failed and that `again` retries it. Returns for how many seconds
        it is retried, None if the next round does it."""
        moment = now()
        deferral = self._deferrals.setdefault(names[0], _Deferral(tuple(names), error, moment, again))
        deferral.names, deferral.error, deferral.again = tuple(names), error, again
        deferral.tries += 1
        seconds_left = deferral.since + self._seconds - moment
        wait = min(max(_SHORTEST_PAUSE, pause(deferral.tries)), max(seconds_left, 0.0))
        deferral.due = moment + wait if error.may_pass and seconds_left > 0 else None
        return None if deferral.due is None else seconds_left

    def settled(self, names: Sequence[TableName]) -> None:
        """Forgets the tables: their step succeeded, or they stop for another reason."""
        for name in names:
            self._deferrals.pop(name, None)

    def blocked(self, name: TableName) -> float:
        """Returns for how many seconds the step that was last added under `name` has waited for the target, 0 if it
        does not."""
        deferral = self._deferrals.get(name)
        return now() - deferral.since if deferral and waits_for_target(deferral.error) else 0.0

    def try_due(self) -> None:
        """Retries the tables whose pause is over."""
        moment = now()
        for deferral in self._deferrals.values():
            if deferral.due is not None and deferral.due <= moment:
                deferral.due = None
                deferral.again()

    def is_due(self, name: TableName) -> bool:
        """Returns whether the table that was last added under `name` is tried again in this round."""
        return self._deferrals[name].due is not None

    def next_due(self) -> float | None:
        """Returns the seconds until the next table is due, None if none is."""
        times = [deferral.due for deferral in self._deferrals.values() if deferral.due is not None]
        return max(0.0, min(times) - now()) if times else None

    def first(self) -> Retryable | None:
        """Returns the error of the first table that still waits, None if none does."""
        return next((deferral.error for deferral in self._deferrals.values()), None)

    def reasons(self) -> dict[TableName, Waits]:
        """Returns by table what it still waits for."""
        return {name: _reason(deferral.error) for deferral in self._deferrals.values() for name in deferral.names}


def _reason(error: ConsumerError) -> Waits:
    return Waits(error.code, f"{error.sentence()}: it is tried again by the next run")


T = TypeVar("T")


def with_observed_retries(what: str, call: Callable[[], T], observer: Observer, seconds: float) -> T:
    """Returns the result of `call`, retried for `seconds` from its first failure on (see model.patience). The observer
    gets each failure, and the end of the trouble."""
    failed = False

    def on_failure(error: Retryable, left: float) -> None:
        nonlocal failed
        failed = True
        observer.tell(Retrying(what, error, left))

    result = patience.with_retries(call, seconds, on_failure)
    if failed:
        observer.tell(RetryPassed(what))
    return result
