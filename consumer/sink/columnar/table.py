"""What a writer and a merge must know of a table of typed columns."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from consumer.model.columns import Column


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
    places = {column.name.lower(): position for position, column in enumerate(columns)}
    whole = (key for key in unique_keys if all(name.lower() in places for name in key))
    return primary or tuple(sorted(places[name.lower()] for name in next(whole, ())))
