"""The targets that recorded cases are applied to: how one is emptied, prepared and compared."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

import duckdb

from consumer.model.names import TableName
from consumer.spark.load import SparkLoader
from tests.e2e import compare_duckdb, compare_typed
from tests.e2e.corpus import Case, compare
from tests.servers import SqlServer
from tests.support.lakes import lake_tables


class Target(Protocol):
    name: str
    url: str

    def prepare(self, case: Case) -> None:
        """Empty the target, then give it what `case` says must be there before."""

    def differences(self, case: Case, step: str | None, ignore: Collection[TableName] = ()) -> list[str]:
        """Differences from the state at `step`, or from the last one."""


class Server:
    """A MariaDB, MySQL or TiDB: the notes of recorded cases call all the first."""

    name = "MariaDB"

    def __init__(self, server: SqlServer) -> None:
        self._server = server
        self.url = server.url()

    def prepare(self, case: Case) -> None:
        self._server.drop_all()
        self._server.execute(*case.prepare_statements(), "SELECT 1")

    def differences(self, case: Case, step: str | None, ignore: Collection[TableName] = ()) -> list[str]:
        with case.wanted(step) as (expected, naming):
            return compare(expected, self.url, case.folder / "storage", naming.targets(ignore))


class File:
    """A DuckDB file in `folder`."""

    name = "DuckDB"

    def __init__(self, folder: Path) -> None:
        self._file = folder / "replica.duckdb"
        self.url = f"duckdb:///{self._file}"

    def prepare(self, case: Case) -> None:
        self._file.unlink(missing_ok=True)
        with duckdb.connect(str(self._file)) as connection:
            for statement in case.prepare_statements():
                # A replica has no keys; a database is a schema.
                ours = statement.replace(" PRIMARY KEY", "").replace("CREATE DATABASE", "CREATE SCHEMA")
                connection.execute(ours)

    def differences(self, case: Case, step: str | None, ignore: Collection[TableName] = ()) -> list[str]:
        with case.wanted(step) as (expected, naming):
            return compare_duckdb.compare(expected, self._file, naming.targets(ignore))


class Lake:
    """A lake in `folder`; `loader` has its Spark."""

    def __init__(self, name: str, folder: Path, loader: SparkLoader) -> None:
        self.name, self._folder, self._loader, self._made = name, folder, loader, 0
        self.url = ""

    def prepare(self, case: Case) -> None:
        """A folder of its own each time: Spark remembers what was in one."""
        self._made += 1
        self.url = f"{self.name}://{self._folder}/lake{self._made}"
        assert not case.prepare_statements(), "a lake's tables are made by the program alone"

    def differences(self, case: Case, step: str | None, ignore: Collection[TableName] = ()) -> list[str]:
        with case.wanted(step) as (expected, naming):
            state = json.loads((expected / "tables.json").read_text(encoding="utf-8"))
            wanted = {TableName(t["schema"], t["table"]): t for t in state["tables"] if t["type"] == "BASE TABLE"}
            there = lake_tables(self.url, self._loader)
            left_out = set(naming.targets(ignore))
            problems = [f"{name}: should not exist" for name in there.keys() - wanted.keys() - left_out]
            problems += [f"{name}: is missing" for name in wanted.keys() - there.keys() - left_out]
            for name in sorted(wanted.keys() & there.keys() - left_out):
                found = compare_typed.differences(there[name], wanted[name], expected, self.name)
                problems += [f"{name}: {text}" for text in found]
            return problems
