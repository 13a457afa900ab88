"""The bulk shapes on another target, and on other workers."""

from __future__ import annotations

import atexit
import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet

from tests.bench.rows import SYSBENCH, Change, inserts, updates
from tests.bench.shapes.base import Shape
from tests.bench.shapes.bulk import HotUpdates, Inserts
from tests.bench.warm import WarmProcess
from tests.spark_cluster import SparkCluster

_NET = "QUALIFY row_number() OVER (PARTITION BY id ORDER BY number DESC) = 1"


class _IntoDuckDb(Shape):
    """The limit is DuckDB's own way from Parquet into a table with the key."""

    only_last = ""

    @property
    def downstream(self) -> str:
        return f"duckdb:///{self._target}"

    def keep(self, changes: list[Change]) -> None:
        """Write the rows behind the changes as Parquet, with their numbers."""
        rows = [{**row, "number": number} for number, (_, row) in enumerate(changes) if row is not None]
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), self.work / f"{self.name}.parquet")

    @property
    def _target(self) -> Path:
        return self.work / f"{self.name}.target" / "replica.duckdb"

    def before_round(self) -> None:
        shutil.rmtree(self._target.parent, ignore_errors=True)
        self._target.parent.mkdir()

    def there(self) -> int:
        with duckdb.connect(str(self._target), read_only=True) as connection:
            return len(connection.execute("SELECT id FROM bench.t").fetchall())

    def before_limit(self) -> None:
        self.before_round()

    def limit(self) -> None:
        names = ",".join(column.name for column in SYSBENCH.columns)
        with duckdb.connect(str(self._target)) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, c VARCHAR, pad VARCHAR)")
            connection.execute(f"INSERT INTO t SELECT {names} FROM '{self.work}/{self.name}.parquet' {self.only_last}")


class InsertsIntoDuckDb(_IntoDuckDb, Inserts):
    name, title, reach = "QA", "A into DuckDB", 0.4

    def build(self) -> int:
        self.keep(list(inserts(self.events)))
        return Inserts.build(self)


class UpdatesIntoDuckDb(_IntoDuckDb, HotUpdates):
    name, title, reach = "QC", "C into DuckDB", 0.4
    only_last = _NET

    def build(self) -> int:
        self.keep(list(updates(self.events, self.keys)))
        return HotUpdates.build(self)


class OnCluster(Inserts):
    """Both in processes of their own, as one process has one Spark; both have started it, like that of the other
    shapes."""

    name, title, reach = "X", "A on two workers of a standalone master, beside local[2]", 0.9

    def build(self) -> int:
        cluster = SparkCluster(workers=2).__enter__()
        atexit.register(cluster.__exit__)
        size = super().build()
        flags = {"downstream_uri": self.downstream, "tz": "UTC", "upstream_uri": self.upstream(self.storage)}
        self._there, self._here = (
            WarmProcess("warm", json.dumps({**flags, "master": master}), self.work / f"X.{name}.log")
            for name, master in (("cluster", cluster.url), ("local", "local[2]"))
        )
        for process in (self._there, self._here):
            atexit.register(process.close)
            self.before_round()
            process.ask()
        return size

    def round(self) -> None:
        self._there.ask()

    def limit(self) -> None:
        self._here.ask()
