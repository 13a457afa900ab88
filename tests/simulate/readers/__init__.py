"""Whatever reads the storage a second way, held against upstream's own past: `verify` and its repair, the data source
(the state of a table, its changes, a stream of them), and `undo`.

A reader may refuse by name where the files do not tell enough. It never gives a wrong row.
"""

from __future__ import annotations

from random import Random

from consumer.model.progress import State
from tests.simulate.readers.asking import LOST
from tests.simulate.readers.source import check_changes, check_state
from tests.simulate.readers.stream import Following
from tests.simulate.readers.target import check_target
from tests.simulate.readers.truth import Truth, are_written
from tests.simulate.readers.undoing import check_undo
from tests.simulate.shaping import Rules
from tests.simulate.world import World

_CHECKS = (check_state, check_changes)


class Readers:
    """Those of one history. In some a streaming query follows a table."""

    def __init__(self, world: World) -> None:
        self._world, self._random = world, Random(world.history.seed)
        self._follows = self._random.random() < 0.4
        self._stream: Following | None = None

    def look(self, seed: int) -> None:
        """At a moment between two runs."""
        random = Random(seed)
        if self._is_disturbed():
            return
        if self._follows and random.random() < 0.1:
            self._follow(random)
        if random.random() < 0.02:
            self._check(random, 1)

    def look_in_the_end(self) -> None:
        self._check(self._random, 2 - self._follows)
        if self._follows:
            self._follow(self._random)
        if self._stream is not None:
            self._stream.finish(self._random)
        self._undo()
        check_target(self._world, self._random)

    def _undo(self) -> None:
        """Of a range of each table that is in order."""
        progress = self._world.server.progress
        for truth in self._truths():
            if progress.table(self._world.name(truth.name)).state is State.OK:
                check_undo(self._world, truth, self._random)

    def _is_disturbed(self) -> bool:
        return bool(self._world.damaged) or self._world.machine.now < self._world.storage_until

    def _check(self, random: Random, most: int) -> None:
        """A table that the storage has whole."""
        found = self._truths()
        whole = [truth for truth in found if are_written(self._world, truth.committed(0, truth.end))]
        self._world.machine.happened[LOST] += len(found) - len(whole)
        if whole:
            truth = random.choice(whole)
            for check in random.sample(_CHECKS, most):
                check(self._world, truth, random)

    def _follow(self, random: Random) -> None:
        if self._stream is None and (found := self._truths()):
            self._stream = Following(self._world, random.choice(found), random)
        if self._stream is not None:
            self._stream.trigger(random)

    def _truths(self) -> list[Truth]:
        """Of the tables that there are at the checkpoint."""
        original, setup, end = self._world.original, self._world.history.setup, self._world.changefeed.checkpoint
        if any(statement.ts == end for statement in original.statements):
            end -= 1  # its schema file may be still to be written
        told = (original, setup.style, Rules(setup.rules), self._world.given)
        return [Truth(*told, life, name, end) for name, life in sorted(original.lives_at(end).items())]
