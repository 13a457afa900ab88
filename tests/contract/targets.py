"""The implementations of ports.Sink, each with a way to read its rows that is not its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pytest

from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.sink import sink_for
from consumer.spark.load import SparkLoader
from consumer.target import Sink, TargetOptions
from tests.servers import SqlServer
from tests.support.lakes import lake_sink, lake_tables
from tests.support.memory.sink import MemorySink

Cells = tuple[str | None, ...]


class Target(Protocol):
    def sink(self, name: str = "c", zone: str = "UTC") -> Sink: ...

    def rows(self, table: TableName) -> list[Cells]:
        """All rows as text, sorted."""

    def add_note(self, table: TableName, default: str | None = None, required: bool = False) -> None:
        """Add a text column `note` by hand; `required` makes it NOT NULL without a default, "" in the rows there."""


@dataclass
class Memory:
    label: str

    def sink(self, name: str = "c", zone: str = "UTC") -> Sink:
        return sink_for(f"memory://{self.label}", TargetOptions(name, zone))

    def rows(self, table: TableName) -> list[Cells]:
        sink = self.sink()
        assert isinstance(sink, MemorySink)
        return _sorted(tuple(row.values()) for row in sink.rows(table))

    def add_note(self, table: TableName, default: str | None = None, required: bool = False) -> None:
        sink = self.sink()
        assert isinstance(sink, MemorySink)
        kept = sink._store.tables[table]
        kept.columns += (Column("note", "VARCHAR", nullable=not required, default=default),)
        kept.rows = [{**row, "note": "" if required else default} for row in kept.rows]


@dataclass
class DuckDb:
    path: Path

    def sink(self, name: str = "c", zone: str = "UTC") -> Sink:
        return sink_for(f"duckdb:///{self.path}", TargetOptions(name, zone))

    def rows(self, table: TableName) -> list[Cells]:
        # The sink may have the file open: within one process DuckDB shares it.
        with duckdb.connect(str(self.path)) as connection:
            return _sorted(connection.execute(f'SELECT * FROM "{table.database}"."{table.table}"').fetchall())

    def add_note(self, table: TableName, default: str | None = None, required: bool = False) -> None:
        altered = f'ALTER TABLE "{table.database}"."{table.table}"'
        with duckdb.connect(str(self.path)) as connection:
            connection.execute(f"{altered} ADD COLUMN note VARCHAR{_default('' if required else default)}")
            if required:
                connection.execute(f"{altered} ALTER note DROP DEFAULT")
                connection.execute(f"{altered} ALTER note SET NOT NULL")


@dataclass
class Lake:
    format: str
    root: Path
    loader: SparkLoader

    @property
    def uri(self) -> str:
        return f"{self.format}://{self.root}"

    def sink(self, name: str = "c", zone: str = "UTC") -> Sink:
        return lake_sink(self.uri, self.loader, name, zone)

    def rows(self, table: TableName) -> list[Cells]:
        found = lake_tables(self.uri, self.loader)
        return _sorted(tuple(row.values()) for row in found[table].to_pylist())

    def add_note(self, table: TableName, default: str | None = None, required: bool = False) -> None:
        pytest.skip("columns of a lake are those of its statements")


@dataclass
class Server:
    server: SqlServer
    staged: bool = False

    def sink(self, name: str = "c", zone: str = "UTC") -> Sink:
        return sink_for(self.server.url(), TargetOptions(name, zone, staged=self.staged))

    def rows(self, table: TableName) -> list[Cells]:
        return _sorted(self.server.execute(f"SELECT * FROM `{table.database}`.`{table.table}`"))

    def add_note(self, table: TableName, default: str | None = None, required: bool = False) -> None:
        needs = " NOT NULL" if required else _default(default)
        self.server.execute(f"ALTER TABLE `{table.database}`.`{table.table}` ADD COLUMN note VARCHAR(20){needs}")


def _default(text: str | None) -> str:
    return "" if text is None else f" DEFAULT '{text}'"


def _sorted(rows: Any) -> list[Cells]:
    text = [tuple(None if value is None else str(value) for value in row) for row in rows]
    return sorted(text, key=lambda row: [(value is not None, value or "") for value in row])
