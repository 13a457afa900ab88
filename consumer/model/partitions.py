"""How the upstream divides a table into partitions, according to its statements."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from consumer.model.names import same_name


class PartitionKind(enum.StrEnum):
    RANGE = "RANGE"
    RANGE_COLUMNS = "RANGE COLUMNS"
    LIST = "LIST"
    LIST_COLUMNS = "LIST COLUMNS"
    HASH = "HASH"
    KEY = "KEY"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. `values` are SQL texts, a tuple as long as the partitioning's `by` for each member: the one upper
    bound of a RANGE (``MAXVALUE`` among them), the members of a LIST. `is_default`: it takes what no other LIST has."""

    name: str
    values: tuple[tuple[str, ...], ...] = ()
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Partitioning:
    """`by` is the SQL text of the expression, or the names of the columns (COLUMNS and KEY). `partitions` are in
    upstream's order. `collations` pairs columns (lower case) with their collation, as far as it is known."""

    kind: PartitionKind
    by: tuple[str, ...]
    partitions: tuple[Partition, ...]
    collations: tuple[tuple[str, str], ...] = ()

    def find(self, name: str) -> int | None:
        """The position of the partition `name`, in any case; None where there is no such partition."""
        lowered = same_name(name)
        return next((at for at, each in enumerate(self.partitions) if same_name(each.name) == lowered), None)
