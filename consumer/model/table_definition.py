"""What is known of a table's definition in addition to its columns: indexes, foreign keys and partitions, by their
names upstream."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from consumer.model.names import same_name, same_names

PARTIAL = "PARTIAL"
"""The kind of an index, unique or not, that holds only the rows of its WHERE: it does not identify rows."""

SHARD = "SHARD"
"""The kind of an index, unique or not, on an expression that only TiDB computes."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One part of an index. `column` is None for an expression. `prefix` means that only the beginning of the column
    counts."""

    column: str | None
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index. `kind` is PRIMARY, UNIQUE, INDEX, FULLTEXT, SPATIAL, VECTOR, COLUMNAR, HYBRID, PARTIAL or SHARD.
    `automatic` means that upstream chose the name, `skipped` that the statement that created it was not executed,
    `doubtful` that it may not exist."""

    name: str
    kind: str
    parts: tuple[IndexPart, ...]
    automatic: bool = False
    skipped: bool = False
    doubtful: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in lower case; () if a part is an expression, or only a prefix of a column."""
        columns = [same_name(part.column) for part in self.parts if part.column is not None and not part.prefix]
        return tuple(columns) if len(columns) == len(self.parts) else ()

    @property
    def has_expression(self) -> bool:
        return any(part.column is None for part in self.parts)


@dataclass(frozen=True, slots=True)
class KnownForeignKey:
    """A foreign key. `name_in_target` is its name in a target whose foreign key names must be unique in the database,
    not only in the table."""

    name: str
    name_in_target: str
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class TableIndexes:
    """The indexes and foreign keys of a table. `complete` means that they are complete; otherwise they are only what
    statements declare, and `dropped_names` are the names, in lower case, that statements took from indexes.
    `foreign_ids` counts the foreign keys that the table ever had, because upstream numbers their names by it; None if
    it is not known."""

    complete: bool = False
    indexes: tuple[KnownIndex, ...] = ()
    foreign_keys: tuple[KnownForeignKey, ...] = ()
    foreign_ids: int | None = None
    dropped_names: frozenset[str] = frozenset()

    def index(self, name: str) -> KnownIndex | None:
        return next((index for index in self.indexes if same_name(index.name) == same_name(name)), None)

    def foreign_key(self, name: str) -> KnownForeignKey | None:
        return next((key for key in self.foreign_keys if same_name(key.name) == same_name(name)), None)

    def covers(self, columns: Sequence[str]) -> bool:
        """Returns whether an index begins with these columns (lower case), in full length."""
        return any(_begins_with(index, columns) for index in self.indexes if index.kind in _ORDERED)

    @property
    def key_columns(self) -> KeyColumns | None:
        """The columns of all unique keys, None if they are not all known."""
        unique = [index for index in self.indexes if index.kind in ("PRIMARY", "UNIQUE", SHARD)]
        if not self.complete or any(index.has_expression for index in unique):
            return None
        parts = [part for index in unique for part in index.parts]
        return KeyColumns(
            frozenset(same_name(part.column or "") for part in parts),
            frozenset(same_name(part.column or "") for part in parts if part.prefix),
        )

    @property
    def skips(self) -> bool:
        """Whether something may be missing in the target because a statement, or a part of it, was not executed."""
        skipped = any(index.skipped or index.kind == PARTIAL for index in self.indexes)
        return skipped or any(key.skipped for key in self.foreign_keys)

    def completed_by(self, existing: TableIndexes) -> TableIndexes:
        """Returns what is known of a table that is older than the statements: what the target has (`existing`), and
        what the statements created and the target lacks."""
        names = same_names(index.name for index in existing.indexes)
        missing = tuple(index for index in self.indexes if same_name(index.name) not in names)
        return TableIndexes(True, (*existing.indexes, *missing), self.foreign_keys)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns, in lower case, of the primary key and all unique ones. `parts` are those of which only a prefix
    counts."""

    columns: frozenset[str]
    parts: frozenset[str]


UNTOLD = TableIndexes()
"""A table that no statement describes."""

_ORDERED = ("PRIMARY", "UNIQUE", "INDEX")


def _begins_with(index: KnownIndex, columns: Sequence[str]) -> bool:
    first = index.parts[: len(columns)]
    return [None if part.prefix else same_name(part.column or "") for part in first] == list(columns)


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set with its collation, in lower case; the collation is "" if it is not known."""

    name: str
    collation: str


class PartitionKind(enum.StrEnum):
    RANGE = "RANGE"
    RANGE_COLUMNS = "RANGE COLUMNS"
    LIST = "LIST"
    LIST_COLUMNS = "LIST COLUMNS"
    HASH = "HASH"
    KEY = "KEY"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. `values` are SQL texts, one tuple as long as the partitioning's `by` for each member: the one
    upper bound of a RANGE (which may contain ``MAXVALUE``), the members of a LIST. `is_default` means that it takes the
    rows that no other LIST has."""

    name: str
    values: tuple[tuple[str, ...], ...] = ()
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a table is partitioned. `by` is the SQL text of the expression, or the names of the columns (COLUMNS and
    KEY). `partitions` are in upstream's order. `collations` pairs columns (lower case) with their collation, as far as
    it is known."""

    kind: PartitionKind
    by: tuple[str, ...]
    partitions: tuple[Partition, ...]
    collations: tuple[tuple[str, str], ...] = ()

    def find(self, name: str) -> int | None:
        """Returns the position of the partition `name`, in any case; None if there is no such partition."""
        lowered = same_name(name)
        return next(
            (position for position, each in enumerate(self.partitions) if same_name(each.name) == lowered), None
        )
