"""A statement before it has run, and the tables that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.support.random_ddl.original import VIEW_COLUMN, Shape


@dataclass
class Table:
    """A table or view that exists upstream. `version` is that of its last statement, `partitions` maps names to
    physical ids; `body` is what a CREATE TABLE has in its parentheses, while no statement changed it."""

    shape: Shape
    version: int = 0
    partitions: dict[str, int] = field(default_factory=dict)
    nonclustered: bool = False
    body: str = ""
    known: bool = False
    """Whether its last schema file tells how it is."""

    @property
    def is_view(self) -> bool:
        return all(column.type == VIEW_COLUMN for column in self.shape.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.shape.columns


@dataclass(frozen=True)
class Proposal:
    """A statement that upstream may take. `names` are the tables in `template`; `own` is the one that its schema file
    is of; `renames` are (old, new). `body` and `nonclustered` are those of a table that it creates. `empties` is the
    partition whose physical id changes, "*" for all."""

    action: Action
    template: str
    own: TableName
    names: Mapping[str, TableName]
    renames: Sequence[tuple[TableName, TableName]] = ()
    body: str = ""
    nonclustered: bool | None = None
    empties: str = ""


Tables = Mapping[TableName, Table]


def base_tables(tables: Tables) -> list[TableName]:
    return [name for name, table in tables.items() if not table.is_view]
