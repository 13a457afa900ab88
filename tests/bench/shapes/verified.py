"""The target beside the storage."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pymysql
from pymysql.cursors import SSCursor

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.model.check import VerifyResult
from tests.bench import generate
from tests.bench.decode import parse_alone
from tests.bench.shapes.bulk import Inserts
from tests.support.observers import Recorder

_FETCHED = 20_000


class Verified(Inserts):
    """`verify` of a table that is equal. The limit reads all that it must: it selects the table with the same client
    library, and parses the files with all cores."""

    name, title = "V", "`verify` of 1 M rows, beside SELECT and a parse"
    reach = None
    files = "canal-JSON"

    @property
    def target(self) -> str:
        return self.server.name

    def build(self) -> int:
        size = super().build()
        self.empty()
        self.apply(self.storage)
        return size

    def before_round(self) -> None: ...

    def before_limit(self) -> None: ...

    def round(self) -> None:
        result = self.verified()
        if [table.state for table in result.tables] != ["equal"]:
            raise SystemExit(f"shape {self.name}: {result.tables}")

    def limit(self) -> None:
        self.select()
        parse_alone(self.storage, use_threads=True)

    def empty(self) -> None:
        self.server.drop_all()

    def execute(self, *statements: str) -> None:
        """Change the target as a hand would."""
        self.server.execute(*statements)

    def select(self) -> None:
        with pymysql.connect(host="127.0.0.1", port=self.server.port, user="root", cursorclass=SSCursor) as connection:
            connection.decoders = {}
            with connection.cursor() as cursor:
                cursor.execute("SELECT * FROM bench.t")
                while cursor.fetchmany(_FETCHED):
                    pass

    def verified(self, show: int = 10) -> VerifyResult:
        return app.verify(self.settings, Recorder(), show=show, loader=self.loader)

    @property
    def settings(self) -> Settings:
        flags = {"downstream_uri": self.downstream, "tz": "UTC", "upstream_uri": self.upstream(self.storage)}
        return load(flags, {}, str(self.config)).settings


class VerifiedCsv(Verified):
    name, title = "VB", "the same in CSV"
    encode = staticmethod(generate.csv_line)
    files = "CSV"


class VerifiedDuckDb(Verified):
    name, title = "VQ", "the same in a DuckDB file"
    target = "DuckDB"

    @property
    def downstream(self) -> str:
        return f"duckdb:///{self._target}"

    @property
    def _target(self) -> Path:
        return self.work / f"{self.name}.target" / "replica.duckdb"

    def empty(self) -> None:
        shutil.rmtree(self._target.parent, ignore_errors=True)
        self._target.parent.mkdir()

    def execute(self, *statements: str) -> None:
        with duckdb.connect(str(self._target)) as connection:
            for statement in statements:
                connection.execute(statement)

    def select(self) -> None:
        with duckdb.connect(str(self._target), read_only=True) as connection:
            for _ in connection.sql("SELECT * FROM bench.t").to_arrow_reader(_FETCHED):
                pass
