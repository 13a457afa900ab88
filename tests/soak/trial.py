"""One soak: a writer, a program that is killed, a long quiet life of it, and the comparison at the end."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.faults.targets import FileTarget, Target
from tests.s3_server import S3Server
from tests.soak.program import ENDS_WITHIN, Program
from tests.soak.rule import Verdict, judge
from tests.soak.watch import Watch, arrived, connections, entries
from tests.soak.writer import KEEPING, Writer

_TRASH = """
[[consumer.ddl.rules]]
kinds = ["drop-table", "truncate-table"]
tables = ["{}.*"]
action = "rename"
"""
_RUNS = 4
"""Of `once` at the end, at most, until one ends with 0."""
_ARRIVES_WITHIN = 600.0
"""Seconds in which the last row arrives, once nothing more is written."""


@dataclass(frozen=True)
class Plan:
    """`rough` seconds with trouble every `pause` seconds (half of it to one and a half), then `calm` ones without."""

    rough: float
    calm: float
    pause: float = 30.0
    tables: int = 200
    keeping: int = 4
    beat: float = 2.0
    interval: float = 2.0
    flush: str = "2s"
    seed: int = 0


@dataclass
class Outcome:
    """`problems` is empty where all is as it must be."""

    verdicts: list[Verdict] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Soak:
    """`folder` is empty, as is what is below `prefix`. `words` begin the program's command line."""

    def __init__(
        self, folder: Path, storage: S3Server, target: Target, plan: Plan, words: Sequence[str], prefix: str = "soak"
    ) -> None:
        self._folder, self._target, self._plan = folder, target, plan
        self._random = random.Random(plan.seed)
        (folder / "cdc").mkdir()
        self.writer = Writer(storage, prefix, folder / "cdc", plan.seed, plan.tables, plan.keeping, plan.beat)
        config = folder / "changefeed.toml"
        config.write_text("".join(_TRASH.format(KEEPING.format(number)) for number in range(plan.keeping)))
        flags = ["--upstream-uri", storage.uri(prefix), "--downstream-uri", target.uri, "--config", str(config)]
        flags += ["--tz", "UTC", "--flush-interval", plan.flush, "--log-level", "warning"]
        self.program = Program(folder, words, flags)
        self.of_a_file = isinstance(target, FileTarget)
        self.watch = Watch(self.program, target, self.writer, plan.interval, self.of_a_file)
        self.troubles: list[tuple[float, str]] = []
        """Seconds from the beginning, and what happened."""
        self._problems: list[str] = []

    def play(self) -> Outcome:
        self.writer.begin()
        try:
            self._start()
            self.watch.begin()
            self._be_rough()
            self._be_calm()
            self.watch.end()
            self.writer.end()
            self._finish()
        finally:
            self.program.stop()
        return self.outcome()

    def outcome(self) -> Outcome:
        """What was measured, and the target as it is now. Nothing may run."""
        verdicts = judge(self.watch.samples)
        grown = [f"{v.measure} grew from {v.middle:.1f} to {v.last:.1f}" for v in verdicts if not v.flat]
        return Outcome(verdicts, [*self._problems, *grown, *self.writer.differences(self._target.query)])

    def keep(self, place: Path, outcome: Outcome) -> None:
        """Everything as JSON."""
        members: dict[str, Any] = {"plan": asdict(self._plan), "problems": outcome.problems}
        members["verdicts"] = [{**asdict(verdict), "flat": verdict.flat} for verdict in outcome.verdicts]
        members["troubles"] = self.troubles
        members["samples"] = [asdict(sample) for sample in self.watch.samples]
        place.write_text(json.dumps(members, indent=1))

    def _start(self) -> None:
        self.watch.life += 1
        self.program.start()

    def _be_rough(self) -> None:
        kinds: dict[str, Callable[[], None]] = {"kill -9": self._kill, "SIGTERM": self._terminate}
        kinds["JVM killed"] = self._kill_machine
        if not self.of_a_file:
            kinds["cut off"] = self._target.cut_off
        deadline = time.monotonic() + self._plan.rough
        names = [name for name in kinds for _ in range(2 if name in ("kill -9", "SIGTERM") else 1)]
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, self._plan.pause * self._random.uniform(0.5, 1.5)))
            self._go_on("before the trouble")
            kind = self._random.choice(names)
            self._note(kind)
            kinds[kind]()
            if self.program.code is not None:
                self._start()
        self._go_on("after the last trouble")

    def _be_calm(self) -> None:
        """One life, from the moment in which it has caught up."""
        self._terminate()
        self._start()
        self._arrive(self.writer.last)
        self._note("calm")
        self.watch.life += 1
        deadline = time.monotonic() + self._plan.calm
        while time.monotonic() < deadline and self.program.code is None:
            time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))
        if self.program.code is not None:
            self._problems.append(f"`run` ended by itself with {self.program.code}: {self.program.said()}")

    def _go_on(self, when: str) -> None:
        """A program that ended by itself is started again. That it ended is a problem."""
        if self.program.code is not None:
            self._problems.append(f"`run` ended by itself with {self.program.code} {when}: {self.program.said()}")
            self._start()

    def _finish(self) -> None:
        """To the checkpoint, then to an end, and nothing may be left behind."""
        if self.program.code is None:
            self._arrive(self.writer.last)
            self._terminate()
        codes = [self._once()]
        while codes[-1] and len(codes) < _RUNS:
            codes.append(self._once())
        if codes[-1]:
            self._problems.append(f"`once` ended with {codes}: {self.program.said()}")
        left = entries(self.program.temporary)
        if left:
            self._problems.append(f"{len(left)} temporary files are left: {', '.join(left[:5])}")
        if not self.of_a_file and (open_ones := self._connections()):
            self._problems.append(f"{open_ones} connections are left at the server")

    def _connections(self) -> int:
        """At the server, once it had time to see that they are closed."""
        deadline = time.monotonic() + ENDS_WITHIN
        while (found := connections(self._target.query)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _arrive(self, written: int) -> None:
        """Wait until what was written to the probe's row then is in the target."""
        deadline = time.monotonic() + _ARRIVES_WITHIN
        while not self.of_a_file and (arrived(self._target.query) or 0) < written:
            if time.monotonic() > deadline or self.program.code is not None:
                self._problems.append(f"a row did not arrive in {_ARRIVES_WITHIN:g} s: {self.program.said()}")
                return
            time.sleep(0.2)

    def _once(self) -> int:
        self.program.start("once")
        return self.program.wait(_ARRIVES_WITHIN)

    def _kill(self) -> None:
        self.program.end(signal.SIGKILL)
        self._must_be_gone()

    def _terminate(self) -> None:
        # 4: the signal came before another try of what had just failed.
        if (code := self.program.end()) not in (0, 4, -signal.SIGTERM):
            self._problems.append(f"`run` ended with {code} after SIGTERM: {self.program.said()}")
        self._must_be_gone()

    def _kill_machine(self) -> None:
        driver = self.program.driver()
        with suppress(psutil.Error):
            for child in driver.children() if driver is not None else ():
                if child.name() == "java":
                    child.kill()

    def _must_be_gone(self) -> None:
        if left := self.program.left():
            self._problems.append(f"after {ENDS_WITHIN:g} s there still is {left}")

    def _note(self, what: str) -> None:
        now = time.monotonic() - self.writer.started
        self.troubles.append((round(now, 1), what))
        print(f"{now:7.1f} s, {self.writer.objects} objects in the storage: {what}", flush=True)
