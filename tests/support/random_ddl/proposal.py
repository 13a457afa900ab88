"""A statement before it has run, and the tables that it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.support.random_ddl.original import VIEW_COLUMN, Index, Shape


@dataclass(frozen=True)
class Body:
    """What a CREATE TABLE has in its parentheses: upstream's `text`, and as the original executes it."""

    text: str
    direct: str
    left_out: tuple[Index, ...]
    nonclustered: bool


@dataclass
class Table:
    """A table or view that exists upstream. `version` is that of its last statement, `partitions` maps names to
    physical ids; `body` is that of its CREATE TABLE while no statement changed it."""

    shape: Shape
    version: int = 0
    partitions: dict[str, int] = field(default_factory=dict)
    nonclustered: bool = False
    body: Body | None = None
    known: bool = False
    """Whether its last schema file tells how it is."""
    left_out: tuple[Index, ...] = ()
    """Indexes that only upstream has: the replica's server does not know their kind, or a policy ignores them."""
    foreign_keys: dict[str, str] = field(default_factory=dict)
    """Upstream's names -> names on the original, "" for one that a policy ignores."""
    foreign_ids: int | None = 0
    """How many foreign keys it has ever had; None where that is before the changefeed."""

    @property
    def is_view(self) -> bool:
        return all(column.type == VIEW_COLUMN for column in self.shape.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """As its schema files have them."""
        return self.shape.described

    @property
    def index_names(self) -> set[str]:
        return {index.name.lower() for index in self.shape.indexes}


Change = Callable[[Table], None]


@dataclass(frozen=True)
class Proposal:
    """A statement that upstream may take. `names` are the tables in `template`; `own` is the one that its schema file
    is of; `renames` are (old, new). `body` is that of a table that it creates. `empties` is the
    partition whose physical id changes, "*" for all. `direct` is what the original executes where that is other than
    upstream's own text ("": nothing), and `change` keeps book of it."""

    action: Action
    template: str
    own: TableName
    names: Mapping[str, TableName]
    renames: Sequence[tuple[TableName, TableName]] = ()
    body: Body | None = None
    empties: str = ""
    direct: str | None = None
    change: Change | None = None


Tables = Mapping[TableName, Table]


def base_tables(tables: Tables) -> list[TableName]:
    return [name for name, table in tables.items() if not table.is_view]
