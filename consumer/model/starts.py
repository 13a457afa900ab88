"""Tables that begin at a moment of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from consumer.model.names import TableName

NOW = 0
"""Stands for the checkpoint of the run that begins with the table."""


@dataclass(frozen=True, slots=True)
class Starts:
    """What --start-ts says of single tables. `of` gives the commit-ts at which the target was given a table, or NOW;
    None: it begins as all others do. `unfit` are the rules that say nothing of any of some names. `just` gives the rule
    that decides for a table if it is for just this one, else ""."""

    of: Callable[[TableName], int | None] = lambda _: None
    unfit: Callable[[Iterable[TableName]], Sequence[str]] = lambda _: ()
    just: Callable[[TableName], str] = lambda _: ""


NO_STARTS = Starts()
