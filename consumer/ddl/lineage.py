"""The statements that made a table what it is, with those of the tables that it was copied from or renamed from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeVar

from consumer.ddl.references import like_source
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS
from consumer.model.files import SchemaFile

Origin = Callable[[SchemaFile], Sequence[SchemaFile]]
"""The schema files, in order of versions, of the table that a RENAME moved, or that a LIKE copied; none where it is not
known."""
Lineage = tuple[SchemaFile, ...]
"""Statements one after the other; nothing is known of the table before the first of them."""
_State = TypeVar("_State")


def state_after(
    history: Sequence[SchemaFile],
    origin: Origin,
    fresh: Callable[[], _State],
    execute: Callable[[_State, SchemaFile], _State],
) -> _State:
    """What is known of a table after its schema files `history`, in order of versions.

    `fresh` is a table of which nothing is known, `execute` what one statement makes of what was known.
    """
    return reduce(execute, lineage(history, origin, {}), fresh())


def lineage(history: Sequence[SchemaFile], origin: Origin, known: dict[str, Lineage]) -> Lineage:
    """The statements that made the table of `history` what it is after the last of them.

    `known` holds what stands behind a RENAME or a LIKE, by its path, and is added to: with one `known` for all calls,
    a table that was renamed many thousand times costs as much as its statements.
    """
    behind: list[tuple[str, Lineage]] = []
    while True:
        start = _last_beginning(history)
        later = tuple(file for file in history[start + 1 :] if file.query)
        file = history[start] if start >= 0 else None
        if file is None or file.type in DROP_ACTIONS:
            found = later
            break
        if file.type in CREATE_ACTIONS and like_source(file.query) is None:
            found = (file, *later)
            break
        behind.append((file.path, later))
        if file.path in known:
            found = ()
            break
        before = origin(file)
        history = before[: bisect_left(before, file.version, key=lambda other: other.version)]
    for path, later in reversed(behind):
        known[path] = known.get(path, found)
        found = known[path] + later
    return found


def _last_beginning(history: Sequence[SchemaFile]) -> int:
    """The place of the last statement before which nothing counts of what stands in front of it; -1 for none."""
    begins = CREATE_ACTIONS | RENAME_ACTIONS | DROP_ACTIONS
    places = (at for at in range(len(history) - 1, -1, -1) if history[at].query and history[at].type in begins)
    return next(places, -1)
