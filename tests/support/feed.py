"""A storage written by hand, file by file: for tests that need one exact situation."""

from __future__ import annotations

import json
from pathlib import Path

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.layout.paths import DataPath, IndexPath, render
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.support.build import ID, VALUE
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.memory.store import MemoryTable
from tests.support.observers import Recorder
from tests.support.written_files import render_checkpoint, render_index_file, render_schema_file

ENDS = ("drop", "rename", "drop database")
"""The ways in which a table's name ends."""
CREATE = "CREATE TABLE `{}` (`id` INT PRIMARY KEY,`v` INT)"
Rows = dict[int, str | None]


class Feed:
    """Tables have the columns id and v. Commit-ts are small numbers, as only their order matters here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers: dict[Folder, int] = {}

    def database(self, name: str, version: int, query: str = "", action: Action = Action.CREATE_SCHEMA) -> Path:
        return self._schema(name, "", version, query or f"CREATE DATABASE `{name}`", action, ())

    def create(self, table: str, version: int) -> Path:
        return self.statement(table, version, Action.CREATE_TABLE, CREATE.format(table.partition(".")[2]))

    def describe(self, table: str, version: int, columns: tuple[Column, ...] = (ID, VALUE)) -> Path:
        """A schema file with nothing to execute."""
        return self.statement(table, version, Action.NONE, "", columns)

    def statement(
        self, table: str, version: int, action: Action, query: str, columns: tuple[Column, ...] = (ID, VALUE)
    ) -> Path:
        database, _, name = table.partition(".")
        return self._schema(database, name, version, query, action, columns)

    def rename(self, old: str, new: str, version: int) -> Path:
        def quoted(name: str) -> str:
            return ".".join(f"`{part}`" for part in name.split("."))

        return self.statement(new, version, Action.RENAME_TABLE, f"RENAME TABLE {quoted(old)} TO {quoted(new)}")

    def drop(self, table: str, version: int) -> Path:
        database, _, name = table.partition(".")
        return self.statement(table, version, Action.DROP_TABLE, f"DROP TABLE `{database}`.`{name}`")

    def end(self, table: str, version: int, how: str) -> Path:
        """One of ENDS; a rename is to the table ``u``."""
        database = table.partition(".")[0]
        if how == "rename":
            return self.rename(table, f"{database}.u", version)
        if how == "drop database":
            return self.database(database, version, f"DROP DATABASE `{database}`", Action.DROP_SCHEMA)
        return self.drop(table, version)

    def truncate(self, table: str, version: int, columns: tuple[Column, ...] = (ID, VALUE)) -> Path:
        query = f"TRUNCATE TABLE `{table.partition('.')[2]}`"
        return self.statement(table, version, Action.TRUNCATE_TABLE, query, columns)

    def puts(self, table: str, version: int, rows: dict[int, tuple[int, str]], number: int = 0, date: str = "") -> Path:
        """One file in the folder of `version` (and `date`); `rows` maps commit-ts to (id, v)."""
        lines = b"".join(self._line(table, ts, *row) for ts, row in rows.items())
        return self.file(table, version, lines, number, date)

    def file(
        self,
        table: str,
        version: int,
        content: bytes,
        number: int = 0,
        date: str = "",
        extension: str = "json",
        dispatcher: str = "",
    ) -> Path:
        folder = Folder(table.replace(".", "/"), version, date=date, dispatcher=dispatcher)
        number = number or self._numbers.get(folder, 0) + 1
        self._numbers[folder] = number
        return self._write(render(DataPath(folder, number, extension)), content)

    def index(self, table: str, version: int, number: int, date: str = "") -> Path:
        """The folder's index file, naming that number."""
        newest = DataPath(Folder(table.replace(".", "/"), version, date=date), number)
        return self._write(render(IndexPath(newest.folder)), render_index_file(newest))

    def damaged(self, table: str, version: int) -> Path:
        """A file that stops its table."""
        return self.file(table, version, b'{"id":0,"database":"d","tab\r\n')

    def checkpoint(self, ts: int) -> None:
        (self.folder / "metadata").write_bytes(render_checkpoint(ts))

    def _line(self, table: str, ts: int, key: int, value: str, kind: str = "INSERT") -> bytes:
        database, _, name = table.partition(".")
        message = {
            "id": 0, "database": database, "table": name, "pkNames": ["id"], "isDdl": False, "type": kind,
            "es": 0, "ts": 0, "sql": "", "sqlType": {"id": 4, "v": 4}, "mysqlType": {"id": "int", "v": "int"},
            "old": None, "data": [{"id": str(key), "v": value}], "_tidb": {"commitTs": ts},
        }  # fmt: skip
        return json.dumps(message).encode() + b"\r\n"

    def _schema(
        self, database: str, table: str, version: int, query: str, action: Action, columns: tuple[Column, ...]
    ) -> Path:
        path, content = render_schema_file(database, table, version, columns, query, action)
        return self._write(render(path), content)

    def _write(self, path: str, content: bytes) -> Path:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return place


def with_two_rows(folder: Path) -> Feed:
    """A feed whose table d.t has two rows."""
    feed = Feed(folder)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 12: (2, "2")})
    return feed


class Replica:
    """A target fed from one storage by `once`."""

    routes: tuple[str, ...] = ()

    def __init__(self, feed: Feed, downstream: str) -> None:
        self.feed, self._downstream = feed, downstream
        self.seen = Recorder()

    def settings(self, **flags: object) -> Settings:
        upstream = f"file://{self.feed.folder}?protocol=canal-json"
        own = {"upstream_uri": upstream, "downstream_uri": self._downstream, "routes": self.routes, "tz": "UTC"}
        return load({**own, **flags}, {}).settings

    def once(self, checkpoint: int | None = None, **flags: object) -> RunResult:
        if checkpoint is not None:
            self.feed.checkpoint(checkpoint)
        self.seen = Recorder()
        return app.once(self.settings(**flags), self.seen, InlineLoader())


class MemoryReplica(Replica):
    """The label of the target is the storage's folder, so every test has one of its own."""

    def __init__(self, feed: Feed) -> None:
        self._label = str(feed.folder).strip("/").replace("/", "-").replace("_", "-")
        super().__init__(feed, f"memory://{self._label}")

    @property
    def sink(self) -> MemorySink:
        return MemorySink(self._label, "default")

    def holds(self, name: str, *rows: tuple[int, str], columns: tuple[Column, ...] = (ID, VALUE)) -> None:
        """Make the table in the target by hand, as a restored export does."""
        database, _, table = name.partition(".")
        made = MemoryTable(columns, [{"id": str(key), "v": value} for key, value in rows])
        self.sink._store.tables[TableName(database, table)] = made

    @property
    def tables(self) -> dict[str, Rows]:
        found = self.sink._store.tables
        return {str(n): {int(row["id"]): row["v"] for row in t.rows} for n, t in sorted(found.items())}

    def place(self, name: str) -> tuple[int, str] | None:
        database, _, table = name.partition(".")
        kept = self.sink.progress().tables.get(TableName(database, table))
        return None if kept is None else (kept.applied_ts, str(kept.state))


def states(result: RunResult) -> dict[str, str]:
    """How each table is at the end of a run."""
    return {str(name): table.state for name, table in result.tables.items()}
