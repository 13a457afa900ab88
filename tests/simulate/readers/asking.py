"""A reader is asked, and answers or refuses by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.errors import BadConfig, ConsumerError, GapFound, LoadFailed, NeedsPerson, TableError
from tests.simulate.machine import Failure
from tests.simulate.world import World

_Answer = TypeVar("_Answer")
READ, REFUSED = "is read", "refuses"
LOST = "a table whose changes are gone from the storage"


def asked(world: World, reader: str, what: str, call: Callable[[], _Answer]) -> _Answer | None:
    """The answer of `reader`, None where it refuses: both are counted. Raises as `refuse`."""
    world.machine.happened[f"{reader} {READ}"] += 1
    try:
        return call()
    except ConsumerError as error:
        refuse(world, reader, what, error)
        return None


def refuse(world: World, reader: str, what: str, error: ConsumerError) -> None:
    """Count that. Raises Failure where the error says nothing of a table or of what was asked for, or where it need not
    be."""
    happened, kind = world.machine.happened, type(error).__name__
    if isinstance(error, LoadFailed) or not isinstance(error, TableError | NeedsPerson | BadConfig):
        raise Failure(f"{reader} of {what}, which nothing disturbs, ends with {kind}: {error}") from error
    if not error.message or not may_refuse(world, error):
        raise Failure(f"{reader} of {what} refuses what the files tell: {error}") from error
    happened[f"{reader} {REFUSED}"] += 1
    happened[f"{reader} {REFUSED}: {kind}"] += 1
    world.machine.tell(f"{reader} of {what} refuses: {error.message}")


def may_refuse(world: World, error: ConsumerError) -> bool:
    """Whether the files of the history may tell too little, for a reason that the error can be about."""
    setup, style = world.history.setup, world.history.setup.style
    gone = setup.expiration_days != 0 or bool(world.changefeed.rewrites or world.machine.happened[LOST])
    if isinstance(error, GapFound):
        return gone or setup.index_fails > 0
    if isinstance(error, BadConfig):
        return True
    few = style.timeless or not (style.commit_ts and style.tells_old_values)
    return few or gone or setup.given or world.original.took_columns or "keys" in setup.more or bool(setup.rules)
