"""The tables of a target that other consumer names keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.model.names import TableName


@dataclass(frozen=True, slots=True)
class Kept:
    """A table that the consumer name `consumer` keeps, and the commit-ts up to which it has applied it."""

    consumer: str
    applied_ts: int


class KeptTables(Mapping[TableName, Kept]):
    """`case`: whether names that differ in case alone are two tables in the target."""

    def __init__(self, kept: Mapping[TableName, Kept], case: bool) -> None:
        self._kept, self._case = kept, case
        self._by_key = {self._key(name): place for name, place in kept.items()}

    def __getitem__(self, name: TableName) -> Kept:
        return self._by_key[self._key(name)]

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def in_database(self, database: str) -> Sequence[TableName]:
        """The tables of `database`, sorted."""
        wanted = self._key(TableName(database, ""))
        return sorted(name for name in self._kept if self._key(TableName(name.database, "")) == wanted)

    def beyond(self, ts: int) -> KeptTables:
        """Those that are further than `ts`."""
        return KeptTables({name: kept for name, kept in self._kept.items() if kept.applied_ts > ts}, self._case)

    def _key(self, name: TableName) -> TableName:
        return name if self._case else name.folded
