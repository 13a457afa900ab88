"""A reader is asked, and answers or refuses by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.errors import BadConfig, ConsumerError, GapFound, NeedsPerson, TableError
from tests.simulate.machine import Failure
from tests.simulate.world import World

_Answer = TypeVar("_Answer")
READ, REFUSED = "is read", "refuses"
LOST = "a table whose changes are gone from the storage"


def asked(world: World, reader: str, what: str, call: Callable[[], _Answer]) -> _Answer | None:
    """The answer of `reader`, None where it refuses: both are counted. Raises Failure for an error that says nothing of
    a table, or of what was asked for."""
    happened = world.machine.happened
    happened[f"{reader} {READ}"] += 1
    try:
        return call()
    except (TableError, NeedsPerson, BadConfig) as error:
        if not error.message:
            raise Failure(f"{reader} of {what} refuses and says nothing") from error
        if not may_refuse(world, error):
            raise Failure(f"{reader} of {what} refuses what the files tell: {error}") from error
        happened[f"{reader} {REFUSED}"] += 1
        happened[f"{reader} {REFUSED}: {type(error).__name__}"] += 1
        world.machine.tell(f"{reader} of {what} refuses: {error.message}")
        return None
    except ConsumerError as error:
        raise Failure(
            f"{reader} of {what}, which nothing disturbs, ends with {type(error).__name__}: {error}"
        ) from error


def may_refuse(world: World, error: ConsumerError) -> bool:
    """Whether the files of the history may tell too little, for a reason that the error can be about."""
    setup, style = world.history.setup, world.history.setup.style
    gone = setup.expiration_days != 0 or bool(world.machine.happened[LOST])
    if isinstance(error, GapFound):
        return gone or world.changefeed.index_fails > 0
    if isinstance(error, BadConfig):
        return True
    few = style.timeless or not style.commit_ts or (style.csv is not None and not style.csv.output_old_value)
    return few or gone or setup.given or world.original.took_columns or "keys" in setup.more or bool(setup.rules)
