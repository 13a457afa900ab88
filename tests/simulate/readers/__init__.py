"""Whatever reads the storage a second way, held against upstream's own past: `verify` and its repair, the data source
(the state of a table, its changes, a stream of them), and `undo`.

A reader may refuse by name where the files do not tell enough. It never gives a wrong row.
"""

from __future__ import annotations

from random import Random

from tests.simulate.readers.asking import LOST
from tests.simulate.readers.source import check_changes, check_state
from tests.simulate.readers.target import check_target
from tests.simulate.readers.truth import Truth
from tests.simulate.shaping import Rules
from tests.simulate.world import World


def look(world: World, random: Random, most: int = 1) -> None:
    """At a table, by some readers of the storage."""
    if world.damaged or world.machine.now < world.storage_until:
        return
    if found := _truths(world):
        truth = random.choice(found)
        for check in random.sample(_CHECKS, most):
            check(world, truth, random)


def look_in_the_end(world: World) -> None:
    random = Random(world.history.seed)
    look(world, random, 2)
    check_target(world, random)


_CHECKS = (check_state, check_changes)


def _truths(world: World) -> list[Truth]:
    """Of the tables that there are at the checkpoint, and of which the storage has all changes."""
    original, setup, end = world.original, world.history.setup, world.changefeed.checkpoint
    if any(statement.ts == end for statement in original.statements):
        end -= 1  # its schema file may be still to be written
    written = [change for changes in world.changefeed.written.values() for change in changes]
    told = (original, setup.style, Rules(setup.rules), world.given)
    found = [Truth(*told, life, name, end) for name, life in sorted(original.lives_at(end).items())]
    whole = [truth for truth in found if truth.is_written(written)]
    world.machine.happened[LOST] += len(found) - len(whole)
    return whole
