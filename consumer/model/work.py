"""What the driver has in hand, as an Observer is told."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.model.names import TableName


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A load of some tables, or statements of some: `statement` is the first one's text, "" for a load. Each is told
    from others by being itself."""

    tables: tuple[TableName, ...]
    files: int = 0
    bytes: int = 0
    statement: str = ""
