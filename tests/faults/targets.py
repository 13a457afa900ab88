"""What a trial's consumer writes to, and the faults that are the target's own."""

from __future__ import annotations

import atexit
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pymysql.cursors

from consumer.spark.load import SparkLoader
from tests.faults.workload import Query
from tests.mysql_server import MySql, mysql_template
from tests.servers import MariaDb, SqlServer, mariadb_template
from tests.support.lakes import FORMATS, elsewhere, lake_loader, lake_tables, lake_uri
from tests.tidb_server import TiDb


class Target(ABC):
    """`uri` of the consumer's target, and `flags` of every command."""

    uri: str
    flags: tuple[str, ...] = ()

    @abstractmethod
    def reading(self) -> AbstractContextManager[Query]:
        """On one connection."""

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Rows by lower-case column."""
        with self.reading() as query:
            return query(sql)

    @abstractmethod
    def cut_off(self) -> None:
        """End every connection to the target."""

    @abstractmethod
    def kill(self) -> None:
        """End the target at once, and start it again. It has all that it said it had."""

    @abstractmethod
    def set_back(self) -> None:
        """The same, without up to a second of that, as when a replica that lags takes over."""


_KEEP = ("SET GLOBAL innodb_flush_log_at_trx_commit = 2", "FLUSH ENGINE LOGS")
"""What a commit leaves is with the system, and no longer in the server's memory until the next second."""


class ServerTarget(Target):
    """Empties the server, one of tests.servers: they keep the last second in memory."""

    def __init__(self, server: SqlServer, *flags: str) -> None:
        self._server, self.uri, self.flags = server, server.url(), flags
        server.drop_all()

    @contextmanager
    def reading(self) -> Iterator[Query]:
        connection = self._server.connect(cursorclass=pymysql.cursors.DictCursor, ssl_disabled=True)
        with closing(connection), connection.cursor() as cursor:

            def query(sql: str) -> list[dict[str, Any]]:
                cursor.execute(sql)
                return [{name.lower(): value for name, value in row.items()} for row in cursor.fetchall()]

            yield query

    def cut_off(self) -> None:
        self._server.kill_clients()

    def kill(self) -> None:
        if not isinstance(self._server, TiDb):  # which keeps nothing back
            self._server.execute(*_KEEP)
        self.set_back()

    def set_back(self) -> None:
        self._server.kill()
        self._server.start()


class FileTarget(Target):
    """A DuckDB file: nothing between it and the consumer can break."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.flags = flags
        self._path = folder / "replica.duckdb"
        self.uri = f"duckdb:///{self._path}"

    @contextmanager
    def reading(self) -> Iterator[Query]:
        with duckdb.connect(str(self._path), read_only=True) as connection:
            yield _query(connection)

    def cut_off(self) -> None: ...

    def kill(self) -> None: ...

    def set_back(self) -> None: ...


class LakeTarget(Target):
    """Tables in a folder, as Spark reads them. Who is cut off is taken for dead on another machine, whose commands do
    not see the locks of this one."""

    def __init__(self, lake: str, folder: Path, *flags: str) -> None:
        self._folder, self._machines = folder, 0
        self.flags = (*flags, "--master", "local[1]")
        self._lake = lake_uri(lake, folder)
        self.uri = self._lake

    @contextmanager
    def reading(self) -> Iterator[Query]:
        with duckdb.connect() as connection:
            for name, rows in lake_tables(self._lake, _lake_spark()).items():
                connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{name.database}"')
                connection.register("found", rows)
                connection.execute(f'CREATE TABLE "{name.database}"."{name.table}" AS SELECT * FROM found')
            yield _query(connection)

    def cut_off(self) -> None:
        self._machines += 1
        machine = self._folder / f"machine{self._machines}"
        machine.mkdir()
        self.uri = elsewhere(self._lake, machine)

    def kill(self) -> None: ...

    def set_back(self) -> None: ...


@cache
def _lake_spark() -> SparkLoader:
    loader = lake_loader()
    atexit.register(loader.close)
    return loader


def _query(connection: duckdb.DuckDBPyConnection) -> Query:
    def query(sql: str) -> list[dict[str, Any]]:
        found = connection.execute(sql)
        names = [column[0].lower() for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    return query


def server_of(target: str, work: Path) -> SqlServer | None:
    """The server that `--target` names, started; None for a DuckDB file or a lake."""
    if target in ("duckdb", *FORMATS):
        return None
    if target == "tidb":
        return TiDb(None).start()
    return MySql(mysql_template()).start() if target == "mysql9" else MariaDb(mariadb_template(work)).start()
