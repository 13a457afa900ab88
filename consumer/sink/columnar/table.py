"""A table of typed columns: what it is like, and what a writer must know of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from consumer.model.columns import Column
from consumer.model.names import TableName, same_name


class Held(enum.Enum):
    """How a table holds a column: as text, whatever its family is; as a date or time; as its family's own type."""

    TEXT = enum.auto()
    TIME = enum.auto()
    OWN = enum.auto()


@dataclass(frozen=True, slots=True)
class ColumnarTarget:
    """A target table, as LoadTarget.settings: how it holds each of LoadTarget.columns."""

    held: tuple[Held, ...]


def handle_key(columns: Sequence[Column], unique_keys: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Positions of the primary key, else of the first NOT NULL unique key whose columns are all there, else none."""
    primary = tuple(position for position, column in enumerate(columns) if column.is_pk)
    places = {same_name(column.name): position for position, column in enumerate(columns)}
    whole = (key for key in unique_keys if all(same_name(name) in places for name in key))
    return primary or tuple(sorted(places[same_name(name)] for name in next(whole, ())))


@dataclass(frozen=True, slots=True)
class Upstream:
    """A table's columns as upstream has them, without the hidden ones. `virtual` are names of those that have no rows,
    and so no column in the replica. An ENUM's or SET's `elements` say that its values are kept as labels."""

    columns: tuple[Column, ...]
    virtual: frozenset[str] = frozenset()

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of the replica."""
        return tuple(column for column in self.columns if column.name not in self.virtual)


@dataclass(frozen=True)
class ReplicaTable:
    """A table of the target: its name and columns as they are spelled there, with their DuckDB types, in order.

    `upstream` is None for a table that somebody else made. `generated` are columns that the target computes, `required`
    those that are NOT NULL and have no default, `collated` those that take different texts for equal.
    """

    name: TableName
    types: Mapping[str, str]
    upstream: Upstream | None
    generated: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    collated: frozenset[str] = frozenset()

    def spelled(self, column: str) -> str | None:
        """The table's own spelling of a column name."""
        return self._spellings.get(same_name(column))

    @cached_property
    def _spellings(self) -> Mapping[str, str]:
        return {same_name(name): name for name in self.types}
