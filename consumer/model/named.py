"""Tables that rules of the settings give by their whole names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from consumer.model.names import TableName


@dataclass(frozen=True, slots=True)
class NamedTable:
    """`setting` is where the rule stands."""

    setting: str
    rule: str
    table: TableName


@dataclass(frozen=True, slots=True)
class NamedTables:
    """All of them. `case_sensitive` says how they are compared with the tables that there are."""

    named: tuple[NamedTable, ...] = ()
    case_sensitive: bool = False

    def missing(self, tables: Iterable[TableName]) -> Iterator[NamedTable]:
        """Those that are none of `tables`."""
        if self.named:
            there = set(map(self._compared, tables))
            yield from (named for named in self.named if self._compared(named.table) not in there)

    def _compared(self, table: TableName) -> TableName:
        return table if self.case_sensitive else table.folded


NONE_NAMED = NamedTables()
