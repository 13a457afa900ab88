"""The example that keeps a table of one's own equal to a table of TiDB, run as its users do: killed at any moment, and
over statements."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.sink.lake.jars import jar_folder
from consumer.spark.load import SparkLoader
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import CREATE, Feed
from tests.support.lakes import FORMATS

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "follow_into_lake.py"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@dataclass
class Upstream:
    """A table of upstream, and what TiCDC writes of it."""

    feed: Feed
    random: random.Random
    version: int = 10
    columns: tuple[Column, ...] = (ID, VALUE)
    rows: dict[int, tuple[str, ...]] = field(default_factory=dict)
    ts: int = 10

    def commit(self, transactions: int) -> None:
        """Rows come, change, go, take other keys and change places, and some files are written twice."""
        lines = b""
        for _ in range(transactions):
            self.ts += 1
            keys = self.random.sample(range(8), 2)
            gone = [key for key in keys if key in self.rows]
            lines += b"".join(self._line(key, self.rows[key], "DELETE") for key in gone)
            old = [self.rows.pop(key) for key in gone]
            for key, row in zip(reversed(keys), old, strict=False):
                if self.random.random() < 0.8:
                    self.rows[key] = row
                    lines += self._line(key, row, "INSERT")
            for key in keys:
                if key not in self.rows and self.random.random() < 0.5:
                    self.rows[key] = tuple(str(self.ts) for _ in self.columns[1:])
                    lines += self._line(key, self.rows[key], "INSERT")
        for _ in range(self.random.choice((1, 1, 2))):
            self.feed.file("d.t", self.version, lines)
        self.feed.checkpoint(self.ts)

    def _line(self, key: int, row: tuple[str, ...], kind: str) -> bytes:
        values = {column.name: text for column, text in zip(self.columns, (str(key), *row), strict=True)}
        return typed_line(self.columns, self.ts, values, kind)

    def add_column(self) -> None:
        self.ts += 1
        self.version, self.columns = self.ts, (*self.columns, Column("w", "INT"))
        self.feed.statement("d.t", self.ts, Action.ADD_COLUMN, "ALTER TABLE t ADD COLUMN w INT DEFAULT 7", self.columns)
        self.rows = {key: (*row, "7") for key, row in self.rows.items()}
        self.feed.checkpoint(self.ts)

    def truncate(self) -> None:
        self.ts += 1
        self.version = self.ts
        self.feed.truncate("d.t", self.ts, self.columns)
        self.rows = {}
        self.feed.checkpoint(self.ts)

    @property
    def state(self) -> list[tuple[int, ...]]:
        return sorted((key, *map(int, row)) for key, row in self.rows.items())


@dataclass
class Query:
    upstream: Upstream
    format: str
    folder: Path
    spark: SparkLoader

    @property
    def target(self) -> str:
        return f"delta.`{self.folder}/copy`" if self.format == "delta" else f"{self.folder.name}.d.copy"

    @property
    def catalog(self) -> dict[str, str]:
        """The settings of an Iceberg catalog with a name of its own: Spark keeps one that it has opened. What the other
        process commits is seen at once."""
        name = f"spark.sql.catalog.{self.folder.name}"
        more = {"type": "hadoop", "warehouse": f"{self.folder}/lake", "cache-enabled": "false"}
        settings = {f"{name}.{key}": value for key, value in more.items()}
        return {name: "org.apache.iceberg.spark.SparkCatalog", **settings}

    def start(self, *options: str, seconds: int = 0) -> subprocess.Popen[str]:
        jars = ",".join(str(jar) for jar in jar_folder().glob("*.jar"))
        conf = {
            **(DELTA if self.format == "delta" else {"spark.sql.extensions": EXTENSIONS, **self.catalog}),
            "spark.jars": jars,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
        }
        given = [f"--conf {name}={value}" for name, value in conf.items()]
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": f"--master local[2] {' '.join(given)} pyspark-shell",
        }
        storage = f"file://{self.upstream.feed.folder}?protocol=canal-json"
        words = [storage, "d.t", self.target, str(self.folder / "checkpoint"), "--using", self.format]
        words += ["--seconds", str(seconds), *(f"--option={one}" for one in ("tz=UTC", *options))]
        command = [sys.executable, str(PROGRAM), *words]
        log = (self.folder / "log").open("w")
        return subprocess.Popen(
            command, env=environment, cwd=self.folder, stdout=log, stderr=log, text=True, start_new_session=True
        )

    def run(self, *options: str) -> tuple[int, str]:
        code = self.start(*options).wait(300)
        return code, (self.folder / "log").read_text()

    def execute(self, statement: str) -> list[tuple[int, ...]]:
        session = self.spark.session()
        for name, value in self.catalog.items():
            session.conf.set(name, value)
        return sorted(tuple(row) for row in session.sql(statement).collect())

    @property
    def rows(self) -> list[tuple[int, ...]]:
        return self.execute(f"SELECT * FROM {self.target}")


@pytest.fixture(params=FORMATS)
def query(request: pytest.FixtureRequest, lake_spark: SparkLoader, tmp_path: Path) -> Query:
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, CREATE.format("t"))
    return Query(Upstream(feed, random.Random(7)), request.param, tmp_path, lake_spark)


@pytest.mark.parametrize("query", ["delta"], indirect=True)
def test_what_a_death_within_the_first_commit_leaves_is_said(query: Query) -> None:
    query.upstream.commit(5)
    (query.folder / "copy" / "_delta_log").mkdir(parents=True)
    code, said = query.run()
    assert code == 1
    assert "DELTA_TABLE_NOT_FOUND" in said
    assert "remove the folder" in said
    shutil.rmtree(query.folder / "copy")
    code, said = query.run()
    assert code == 0, said
    assert query.rows == query.upstream.state


def test_killed_at_any_moment_it_has_each_row_once(query: Query) -> None:
    """From the moment on that there is a copy: Delta does not use what a death before leaves."""
    kills = 0
    query.upstream.commit(5)
    assert query.run()[0] == 0
    for number in range(5):
        query.upstream.commit(5)
        process = query.start(seconds=1)
        try:
            time.sleep(9 + 4 * number)
            query.upstream.commit(5)
            time.sleep(random.random() * 5)
            kills += process.poll() is None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert kills == 5, (query.folder / "log").read_text()
    code, said = query.run()
    assert code == 0, said
    assert query.rows == query.upstream.state


def test_a_statement_ends_it_and_it_resumes_with_the_copy_altered(query: Query) -> None:
    upstream = query.upstream
    upstream.commit(9)
    assert query.run()[0] == 0
    before = query.rows
    assert before == upstream.state
    upstream.add_column()
    upstream.commit(4)
    code, said = query.run()
    assert code == 1
    assert "lacks `w`: execute there" in said
    query.execute(f"ALTER TABLE {query.target} ADD COLUMNS (w INT)")
    query.execute(f"UPDATE {query.target} SET w = 7")
    code, said = query.run()
    assert code == 0, said
    assert query.rows == upstream.state
    upstream.truncate()
    upstream.commit(6)
    code, said = query.run()
    assert code == 1
    assert f"accept-statements = {upstream.version}" in said
    query.execute(f"DELETE FROM {query.target}")
    code, said = query.run(f"accept-statements={upstream.version}")
    assert code == 0, said
    assert query.rows == upstream.state
