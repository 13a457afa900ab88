"""The tables of a target that belong to other consumer names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.model.names import TableName


@dataclass(frozen=True, slots=True)
class Owned:
    """A table that belongs to the consumer name `consumer`, and the commit-ts up to which that has applied it.
    `start_ts`: it has taken the table as it was then; 0 for one that it began itself."""

    consumer: str
    applied_ts: int
    start_ts: int = 0


class OwnedTables(Mapping[TableName, Owned]):
    """`case`: whether names that differ in case alone are two tables in the target. `replayed`: how far replays have
    brought tables, which belong to none of them."""

    def __init__(
        self, owned: Mapping[TableName, Owned], case: bool, replayed: Mapping[TableName, Owned] | None = None
    ) -> None:
        self._owned, self._case = owned, case
        self.replayed = OwnedTables(replayed, case) if replayed else {}
        self._by_key = {self._key(name): place for name, place in owned.items()}

    def __getitem__(self, name: TableName) -> Owned:
        return self._by_key[self._key(name)]

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._owned)

    def __len__(self) -> int:
        return len(self._owned)

    def in_database(self, database: str) -> Sequence[TableName]:
        """The tables of `database`, sorted."""
        wanted = self._key(TableName(database, ""))
        return sorted(name for name in self._owned if self._key(TableName(name.database, "")) == wanted)

    def beyond(self, ts: int, some: Mapping[TableName, int]) -> OwnedTables:
        """Those that are further than `ts`, or what `some` gives instead."""
        own = {self._key(name): start for name, start in some.items()}
        found = {n: owned for n, owned in self._owned.items() if owned.applied_ts > own.get(self._key(n), ts)}
        return OwnedTables(found, self._case)

    def _key(self, name: TableName) -> TableName:
        return name if self._case else name.folded
