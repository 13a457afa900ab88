"""Tables that rules of the settings give by their whole names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from consumer.model.names import TableName


@dataclass(frozen=True, slots=True)
class NamedTable:
    """`setting` is where the rule stands, `fits` whether a table is the one that it names."""

    setting: str
    rule: str
    fits: Callable[[TableName], bool]
