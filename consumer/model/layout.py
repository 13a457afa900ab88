"""Describes how a target that has a choice, a lake, lays out the rows of a new table."""

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
"""By their names in Iceberg's specification, the names of the transforms in Spark's statements."""


@dataclass(frozen=True, slots=True)
class PartitionTransform:
    """What the rows of a partition have in common: the value of a column, or the result of `transform`, which is one of
    `TRANSFORMS`, or identity. `width` is that of a bucket or truncate."""

    column: str
    transform: str = "identity"
    width: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one table. `cluster_by`: rows with near values in these columns are stored near each other.
    `properties` are those of the format. `copy_on_write` means that files with changed rows are rewritten."""

    partition_by: tuple[PartitionTransform, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    copy_on_write: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(part.column for part in self.partition_by), *self.cluster_by)


@dataclass(frozen=True, slots=True)
class Layouts:
    """The layouts of the rules, each with a test for the upstream's names of its tables. The first that matches
    decides."""

    rules: Sequence[tuple[Callable[[TableName], bool], Layout]] = field(default=())

    def of(self, table: TableName) -> Layout:
        return next((layout for fits, layout in self.rules if fits(table)), Layout())
