"""Trials one after the other on one target: a consumer meets a fault at a point of its round, is run again, and its
target is compared. Meanwhile the upstream goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.points import Point
from tests.faults.program import Program
from tests.faults.targets import Target
from tests.faults.workload import Workload

_RUNS = 6
"""Runs after the fault, at most, until one ends with 0: locks of a killed process stand for a moment."""
_PAUSE = 0.1
"""Seconds before the second of them; twice as long before each further one."""


@dataclass(frozen=True)
class Outcome:
    """`first` is how the command that met the fault ended: an exit code, or the negative number of a signal. `runs` are
    the exit codes of those after it. `differences` is empty where the target is right in the end; None where the
    command never came to the point."""

    first: int
    differences: list[str] | None
    runs: tuple[int, ...] = ()


class Chain:
    """`folder` is empty, and of this chain alone. `program` is the command that met the last fault."""

    program: Program

    def __init__(self, folder: Path, target: Target, seed: int) -> None:
        self.folder, self.target = folder, target
        (folder / "cdc").mkdir()
        self.workload = Workload(folder / "cdc", seed)
        flags = ["--upstream-uri", f"file://{folder / 'cdc'}?protocol=canal-json", "--tz", "UTC"]
        self._flags = (*flags, "--max-wait", "20s", "--log-level", "warning", *target.flags)

    @property
    def _words(self) -> tuple[str, ...]:
        return ("once", *self._flags, "--downstream-uri", self.target.uri)

    def play(self, point: Point, number: int, act: Callable[[Chain], None]) -> Outcome:
        """One trial. `act` is what happens while the command stands at the point, for the `number`-th time, and how it
        goes on."""
        self.workload.upstream.forget()
        self.workload.advance()
        self.program = Program(self._words, self.folder, point, number)
        if not self.program.stands():
            code = self.program.end()
            return Outcome(code, [f"it ended with {code} before it came to the point"] if code else None)
        self.workload.advance()  # upstream goes on meanwhile
        act(self)
        first = self.program.end()
        self.workload.advance()
        codes = [self.run()]
        while codes[-1] and len(codes) < _RUNS:
            time.sleep(_PAUSE * 2 ** len(codes) / 2)
            codes.append(self.run())
        if codes[-1]:
            return Outcome(first, [f"the runs after it ended with {codes}"], tuple(codes))
        with self.target.reading() as query:
            return Outcome(first, self.workload.differences(query), tuple(codes))

    def run(self) -> int:
        """A command with no fault; its exit code."""
        return Program(self._words, self.folder).end()

    def close(self) -> None:
        """Nothing of it runs between its trials."""
