"""Trials of all points and kinds on all targets, several jobs at a time."""

from __future__ import annotations

import queue
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.faults.chain import Outcome
from tests.faults.parts import Act, AnyChain, Part
from tests.faults.points import Point
from tests.faults.program import Hangs
from tests.faults.results import Cell, Result, Results
from tests.faults.targets import server_of
from tests.servers import SqlServer

_TIMES = (1, 2, 1, 3)
"""The how manieth time a command comes to the point, trial by trial; the first where it comes there less often."""
_TRIES = 40
"""Commands, at most, until one comes to the point: some parts of a history have no statement."""


class Campaign:
    """`play` plays every cell `runs` times, as far as `results` does not know it. Each job has servers of its own.
    Folders of trials that end wrong stay in `work`."""

    def __init__(self, parts: Sequence[Part], runs: int, jobs: int, seed: int, results: Results, work: Path) -> None:
        self._results, self._work = results, work
        self._jobs, self._random = jobs, random.Random(seed)
        self._rounds = [(number, part) for number in range(runs) for part in parts]
        self._taking, self._stop = threading.Lock(), threading.Event()
        self._ended = queue.SimpleQueue[None]()
        self._errors: list[BaseException] = []

    def play(self) -> None:
        """Until all is played. An interrupt ends it after the trials in hand."""
        for _ in range(self._jobs):
            threading.Thread(target=self._job).start()
        left = self._jobs
        while left:
            try:
                # Not `join`: in Python 3.11 a thread whose join was interrupted counts as ended.
                self._ended.get()
                left -= 1
            except KeyboardInterrupt:
                self._stop.set()
        if self._errors:
            raise self._errors[0]

    def _job(self) -> None:
        servers: dict[str, SqlServer | None] = {}
        chain, part = _Chain(), None
        with ExitStack() as stack:
            stack.callback(self._ended.put, None)  # when its servers have ended
            try:
                while not self._stop.is_set() and (taken := self._taken(part)):
                    number, wanted = taken
                    if wanted != part:
                        chain.forget()
                        part = wanted
                    if part.target not in servers:
                        servers[part.target] = server = server_of(part.target, self._folder())
                        if server is not None:
                            stack.callback(server.stop)
                    self._round(number, part, servers[part.target], chain)
                chain.forget()
            except BaseException as error:
                self._errors.append(error)
                self._stop.set()
                chain.leave()

    def _taken(self, last: Part | None) -> tuple[int, Part] | None:
        """A round with the lowest number, of the `last` part where there is one: its chain goes on."""
        with self._taking:
            first = [item for item in self._rounds if item[0] == self._rounds[0][0]]
            for item in sorted(first, key=lambda item: item[1] != last)[:1]:
                self._rounds.remove(item)
                return item
        return None

    def _round(self, number: int, part: Part, server: SqlServer | None, kept: _Chain) -> None:
        for point in part.points():
            for kind, act in part.kinds().items():
                cell = Cell(part.title, point.name, kind)
                if self._stop.is_set() or self._results.has(cell, number):
                    continue
                if not kept.left:
                    kept.forget()
                    kept.chain = part.chain(self._folder(), server, self._random.randrange(1 << 30))
                    kept.left = self._random.randint(1, part.longest)
                chain = kept.chain
                assert chain is not None
                began = time.monotonic()
                outcome = _played(chain, point, number, act)
                seconds = round(time.monotonic() - began, 2)
                wrong = tuple(outcome.differences or ())
                self._results.keep(Result(cell, number, outcome.first, outcome.runs, wrong, seconds))
                kept.left -= 1
                if wrong:
                    print(f"{part.title}, {point.name}, {kind}: {'; '.join(wrong)}; see {chain.folder}", flush=True)
                    kept.leave()

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._work))


class _Chain:
    """The one that a job goes on with, for so many trials more."""

    chain: AnyChain | None = None
    left = 0

    def forget(self) -> None:
        if self.chain is not None:
            folder = self.chain.folder
            self.leave()
            shutil.rmtree(folder)

    def leave(self) -> None:
        """What it wrote stays."""
        if self.chain is not None:
            self.chain.close()
        self.chain, self.left = None, 0


def _played(chain: AnyChain, point: Point, number: int, act: Act) -> Outcome:
    times = _TIMES[number % len(_TIMES)]
    try:
        for _ in range(_TRIES):
            outcome = chain.play(point, times, act)
            if outcome.differences is not None:
                return outcome
            times = 1
    except Hangs as error:
        return Outcome(-signal.SIGKILL, [str(error)])
    return Outcome(outcome.first, [f"no command came to the point: {point.name}"])
