"""Spark's manners: tasks of several loads at a time, run twice, late, or never, in jobs that break."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from consumer.errors import JobBroken
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.target import Writer
from tests.simulate.machine import Machine
from tests.support.inline_loader import InlineLoader


class SimulatedLoader(InlineLoader):
    """`breaks`: the next tasks, so many, end with their job."""

    connections = 3

    def __init__(self, machine: Machine, random: Random) -> None:
        super().__init__(random.choice((0, 0, 2)))
        self._machine, self._random = machine, random
        self._late: list[tuple[LoadTask, Writer, RangeReader]] = []
        self.breaks = 0

    def split(self, tasks: Sequence[LoadTask]) -> list[Sequence[LoadTask]]:
        size = self._random.randint(1, 3)
        return [tasks[start : start + size] for start in range(0, len(tasks), size)]

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        outcomes = []
        for task in tasks:
            self._machine.moment("before a task")
            if self.breaks:
                self.breaks -= 1
                outcomes.append(LoadOutcome(task, (), (), JobBroken("the job ended", table=str(task.target.table))))
            elif self._random.random() < 0.1:  # the first attempt is given up, or nobody hears of it
                super().load([task], writer, reader)
                outcomes += super().load([task], writer, reader)
            else:
                outcomes += super().load([task], writer, reader)
            self._late.append((task, writer, reader))
            self._machine.moment("after a task")
        return outcomes

    def revive(self) -> None:
        """An old attempt goes on, wherever it was: nobody is told what comes of it."""
        if self._late:
            with self._machine.still():
                super().load([self._late[0][0]], *self._late.pop(0)[1:])
