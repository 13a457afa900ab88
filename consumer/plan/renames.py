"""What RENAMEs move from name to name."""

from __future__ import annotations

from typing import Generic, TypeVar

_Name = TypeVar("_Name")
_Known = TypeVar("_Known")


class Renames(Generic[_Name, _Known]):
    """RENAMEs among `tables`, in upstream order. Tables that exchange their names in one statement, whose files have
    one version, move beside one another."""

    def __init__(self, tables: dict[_Name, _Known]) -> None:
        self._tables = tables
        self._aside: dict[_Name, tuple[int, _Known | None, _Name | None]] = {}

    def take(self, old: _Name | None, new: _Name, version: int) -> _Known | None:
        """What the statement of `version` moves from `old` (None: nobody knows from where) to `new`, where the caller
        puts it."""
        moved = None
        if old is not None:
            before, aside, source = self._aside.get(old, (0, None, None))
            # Of a name that nothing is known of, what came there in the same statement goes on, but not back.
            beside = before == version and (aside is not None or source == new)
            moved = aside if beside else self._tables.pop(old, None)
        self._aside[new] = (version, self._tables.get(new), old)
        return moved
