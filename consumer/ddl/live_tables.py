"""The tables that exist at one moment of a history, found by their names without case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from consumer.model.columns import Column
from consumer.model.names import TableName, same_name


class LiveTables:
    """Tables and their columns. TiDB compares names without case, and remembers how they were spelled."""

    def __init__(self, tables: Mapping[TableName, tuple[Column, ...]] | None = None) -> None:
        self.columns: dict[TableName, tuple[Column, ...]] = {}
        self._by_table: defaultdict[str, dict[TableName, None]] = defaultdict(dict)
        for name, columns in (tables or {}).items():
            self.put(name, columns)

    def __contains__(self, name: TableName) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[TableName]:
        return iter(self.columns)

    def put(self, name: TableName, columns: tuple[Column, ...]) -> None:
        """The table exists, with these columns."""
        self.columns[name] = columns
        self._by_table[same_name(name.table)][name] = None

    def remove(self, name: TableName) -> None:
        """The table is gone, if it was there."""
        if self.columns.pop(name, None) is not None:
            del self._by_table[same_name(name.table)][name]

    def called(self, table: str, database: str | None = None) -> Sequence[TableName]:
        """The tables of this name, in one database or in all of them."""
        same = sorted(self._by_table.get(same_name(table), ()))
        return same if database is None else [name for name in same if same_name(name.database) == same_name(database)]
