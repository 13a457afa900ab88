"""A table's statements one after the other, with those of the tables that it was copied from or renamed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from consumer.ddl.references import like_source
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS
from consumer.model.files import SchemaFile

Origin = Callable[[SchemaFile], Sequence[SchemaFile]]
"""The schema files of the table that a RENAME moved, or that a LIKE copied; none where it is not known."""
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
    state = fresh()
    for file in history:
        if file.query:
            state = _after(state, file, origin, fresh, execute)
    return state


def _after(
    state: _State,
    file: SchemaFile,
    origin: Origin,
    fresh: Callable[[], _State],
    execute: Callable[[_State, SchemaFile], _State],
) -> _State:
    if file.type in DROP_ACTIONS:
        return fresh()
    if file.type in CREATE_ACTIONS and like_source(file.query) is None:
        return execute(fresh(), file)
    if file.type in CREATE_ACTIONS | RENAME_ACTIONS:
        before = [other for other in origin(file) if other.version < file.version]
        return state_after(before, origin, fresh, execute)
    return execute(state, file)
