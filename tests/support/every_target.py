"""A storage written by hand, applied to each kind of target, with what its tables hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from consumer.model.names import TableName
from consumer.results import RunResult
from tests.support.feed import MemoryReplica, Replica

Tables = dict[str, dict[int, str]]


class Target:
    """A replica and what its tables hold, `v` by `id`."""

    def __init__(self, replica: Replica, query: Callable[[str], list[tuple[Any, ...]]] | None) -> None:
        self.replica, self._query = replica, query

    @property
    def tables(self) -> Tables:
        if self._query is None:
            assert isinstance(self.replica, MemoryReplica)
            return {name: {k: str(v) for k, v in rows.items()} for name, rows in self.replica.tables.items()}
        listed = self._query(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE LOWER(table_schema) NOT"
            " IN ('storage_consumer', 'mysql', 'sys', 'information_schema', 'metrics_schema', 'performance_schema')"
            " ORDER BY 1, 2"
        )
        quote = '"' if isinstance(self._query, Duck) else "`"
        return {
            f"{database}.{table}": {
                key: str(v)
                for key, v in self._query(f"SELECT id, v FROM {quote}{database}{quote}.{quote}{table}{quote}")
            }
            for database, table in listed
        }

    def rename(self, old: str, new: str) -> None:
        """As somebody does by hand who knows nothing of the consumer."""
        if self._query is None:
            assert isinstance(self.replica, MemoryReplica)
            tables = self.replica.sink._store.tables
            tables[TableName(*new.split("."))] = tables.pop(TableName(*old.split(".")))
        elif isinstance(self._query, Duck):
            self._query(f"ALTER TABLE {old} RENAME TO {new.partition('.')[2]}")
        else:
            self._query(f"RENAME TABLE {old} TO {new}")

    def makes(self, name: str, *rows: tuple[int, int]) -> None:
        """The table by hand, with its database, as a restored export does."""
        if self._query is None:
            assert isinstance(self.replica, MemoryReplica)
            self.replica.holds(name, *((key, str(v)) for key, v in rows))
            return
        self._query(f"CREATE SCHEMA {name.partition('.')[0]}")
        self._query(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
        for key, v in rows:
            self._query(f"INSERT INTO {name} VALUES ({key}, {v})")

    def once(self, checkpoint: int, **flags: Any) -> RunResult:
        return self.replica.once(checkpoint, **flags)


class Duck:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self._path)) as connection:
            return connection.execute(query).fetchall()
