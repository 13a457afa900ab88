"""What everything in a simulation shares: virtual time, the moments at which something can happen, and the story."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

from consumer.model.times import Timekeeper
from consumer.pipeline.waiting import BackgroundCalls

MOST_MOMENTS = 20_000
"""In one run of the consumer: far more than any needs."""
LONGEST_RUN = 100_000.0
"""Virtual seconds of one run."""
LOADED, EXECUTED = "between a table's commit and the progress", "between a statement and its record"
BEHIND = {LOADED: 0, EXECUTED: -1000}
"""Moments at which a table has a commit that the progress does not know; the n-th of a kind is n below this number."""


class Failure(Exception):
    """What must not be."""


class Crash(BaseException):
    """The end of a process. No error of the consumer, so nothing handles it."""


Happening = Callable[[str], None]
"""Is told at which moment it happens."""


class Machine:
    """`now` are virtual seconds. A run of the consumer goes through numbered moments; `frames` are the runs that are
    under way, the innermost last: what happens at which of their moments."""

    def __init__(self, random: Random) -> None:
        self.now, self.random, self.story = 0.0, random, list[str]()
        self.frames: list[Frame] = []
        self.happened = Counter[str]()

    def tell(self, text: str) -> None:
        self.story.append(f"{'    ' * len(self.frames)}{text}")

    def moment(self, what: str) -> None:
        """Something can happen now."""
        if not self.frames:
            return
        frame = self.frames[-1]
        frame.moments += 1
        if frame.moments > MOST_MOMENTS or self.now - frame.began > LONGEST_RUN:
            raise Failure(f"the run does not end: {frame.moments} moments, {self.now - frame.began:.0f} s, at {what}")
        numbers = [frame.moments]
        if what in BEHIND:
            frame.behind[what] += 1
            numbers.append(BEHIND[what] - frame.behind[what])
        for happening in [one for number in numbers for one in frame.happenings.pop(number, ())]:
            happening(what)

    @contextmanager
    def run(self, happenings: dict[int, list[Happening]]) -> Iterator[Frame]:
        self.frames.append(Frame(happenings, self.now))
        try:
            yield self.frames[-1]
        finally:
            self.frames.pop()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing happens meanwhile."""
        self.frames.append(Frame({}, self.now))
        try:
            yield
        finally:
            self.frames.pop()


class Frame:
    """`happenings` by the number of a moment; those of BEHIND have another number, too."""

    def __init__(self, happenings: dict[int, list[Happening]], began: float) -> None:
        self.happenings, self.began, self.moments = happenings, began, 0
        self.behind = Counter[str]()
        self.beside: Beside | None = None
        """The calls that the run has begun."""
        self.idle: Callable[[], None] = lambda: None


class VirtualTime(Timekeeper):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def now(self) -> float:
        return self._machine.now

    def sleep(self, seconds: float) -> None:
        self._machine.now += max(seconds, 0.0)
        self._machine.moment("sleep")

    def between(self, least: float, most: float) -> float:
        return self._machine.random.uniform(least, most)


class Beside(BackgroundCalls):
    """Calls beside one another, in one thread: each is made when its time is over, or in the middle of another."""

    def __init__(self, machine: Machine) -> None:
        self.running, self._machine, self._numbers = 0, machine, count()
        self._begun: list[tuple[float, int, str, Callable[[], Any], Callable[[Any], None]]] = []
        self._in_line: deque[tuple[str, Callable[[], Any], Callable[[Any], None]]] = deque()
        self._done: list[tuple[Callable[[Any], None], Any]] = []
        if machine.frames:
            machine.frames[-1].beside = self

    def start(
        self, name: str, call: Callable[[], Any], then: Callable[[Any], None], at_most: int | None = None
    ) -> None:
        self.running += 1
        if at_most is not None and sum(begun[2] == name for begun in self._begun) >= at_most:
            self._in_line.append((name, call, then))
        else:
            self._begin(name, call, then)

    def withdraw(self) -> bool:
        gone, self._in_line = len(self._in_line), deque()
        self.running -= gone
        return gone > 0

    def _begin(self, name: str, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        seconds = self._machine.random.choice((0.01, 0.1, 1.0, 5.0, 100.0))
        heapq.heappush(self._begun, (self._machine.now + seconds, next(self._numbers), name, call, then))

    def handle_results(self, timeout: float | None, linger: float) -> None:
        machine = self._machine
        machine.moment("follow")
        if not self._done:
            ends = self._begun[0][0] if self._begun else None
            if ends is None or (timeout is not None and ends > machine.now + timeout):
                machine.now += timeout or 0.0
                return
            if self._slow_statement_alone(ends):
                machine.frames[-1].idle()
            machine.now = max(machine.now, ends)
            self.make_one()
        done, self._done = self._done, []
        for then, result in done:
            self.running -= 1
            then(result)

    def _slow_statement_alone(self, ends: float | None) -> bool:
        """All else that could be under way has had its time."""
        slow = ends is not None and ends > self._machine.now + 50.0
        return slow and len(self._begun) == 1 and self._begun[0][2] == "statement"

    def make_one(self) -> None:
        """Make one of the calls that have begun."""
        if self._begun:
            _, _, name, call, then = heapq.heappop(self._begun)
            try:
                result = call()
            except Exception as error:
                result = error
            self._done.append((then, result))
            following = next((waiting for waiting in self._in_line if waiting[0] == name), None)
            if following is not None:
                self._in_line.remove(following)
                self._begin(*following)
