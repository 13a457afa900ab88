"""Targets in which a hand can change rows, and run files of statements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import duckdb

from tests.servers import SqlServer
from tests.support.scripts import run_on_file, run_on_server


class Place(ABC):
    """One of them, with a table d.t."""

    uri: str

    @abstractmethod
    def by_hand(self, *statements: str) -> list[tuple[Any, ...]]:
        """Rows of the last statement."""

    @abstractmethod
    def run(self, script: Path) -> None: ...

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.by_hand(f"SELECT {columns} FROM d.t"), key=repr)


class Server(Place):
    def __init__(self, server: SqlServer) -> None:
        self.server, self.uri = server, server.url()

    def by_hand(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements)

    def run(self, script: Path) -> None:
        run_on_server(script, self.server)


class File(Place):
    def __init__(self, path: Path) -> None:
        self.path, self.uri = path, f"duckdb:///{path}"

    def by_hand(self, *statements: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.path)) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall()

    def run(self, script: Path) -> None:
        run_on_file(script, self.path)
