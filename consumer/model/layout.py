"""How a target that has a choice, a lake, lays out the rows of a new table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from consumer.model.names import TableName

TRANSFORMS = {
    "year": "years",
    "month": "months",
    "day": "days",
    "hour": "hours",
    "bucket": "bucket",
    "truncate": "truncate",
}
"""By their names in Iceberg's specification, what Spark calls them in a statement."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the rows of a partition have in common: the value of a column, or what `transform` makes of it: one of
    `TRANSFORMS`, or identity. `width` is that of a bucket or truncate."""

    column: str
    transform: str = "identity"
    width: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """`cluster_by`: rows that are near each other in these columns stand near each other. `properties` are those of the
    format. `copy_on_write`: files with rows that change are written anew."""

    partition_by: tuple[Part, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    copy_on_write: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(part.column for part in self.partition_by), *self.cluster_by)


@dataclass(frozen=True, slots=True)
class Layouts:
    """Those of the rules, each with the tables that it is for, by upstream's names. The first that fits decides."""

    rules: Sequence[tuple[Callable[[TableName], bool], Layout]] = field(default=())

    def of(self, table: TableName) -> Layout:
        return next((layout for fits, layout in self.rules if fits(table)), Layout())
