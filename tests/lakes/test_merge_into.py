"""Changes that Spark has read, merged into tables of one's own: they leave upstream's rows, however often they come."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from consumer.errors import BadConfig, CannotBeExact, ConsumerError
from consumer.merge import merge_into
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.source.data_source import TicdcSource
from consumer.spark.load import SparkLoader
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.lakes import FORMATS

ROOT = Path(__file__).parents[2]
MORE = Column("w", "INT", default="5")
Rows = dict[int, tuple[int | None, ...]]


@dataclass
class Upstream:
    """A table with the rows `rows` by key, whose transactions are written to the feed."""

    feed: Feed
    random: random.Random
    columns: tuple[Column, ...] = (ID, VALUE)
    version: int = 10
    ts: int = 10
    rows: Rows = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feed.database("d", 1)
        self.feed.create("d.t", self.version)

    def transactions(self, count: int) -> None:
        """In one file, which is written twice now and then."""
        lines = b"".join(self._transaction() for _ in range(count))
        for _ in range(self.random.choice((1, 1, 2))):
            self.feed.file("d.t", self.version, lines)
        self.feed.checkpoint(self.ts)

    def add_column(self) -> None:
        self.ts += 1
        self.version, self.columns = self.ts, (*self.columns, MORE)
        self.feed.statement("d.t", self.ts, Action.ADD_COLUMN, "ALTER TABLE t ADD COLUMN w INT DEFAULT 5", self.columns)
        self.rows = {key: (*row, 5) for key, row in self.rows.items()}
        self.feed.checkpoint(self.ts)

    def _transaction(self) -> bytes:
        self.ts += 1
        keys = sorted(self.rows)
        match self.random.choice(("insert", "insert", "update", "delete", "swap")):
            case "update" if keys:
                key = self.random.choice(keys)
                old, self.rows[key] = self.rows[key], self._row(key)
                return self._line("UPDATE", self.rows[key], old)
            case "delete" if keys:
                return self._line("DELETE", self.rows.pop(self.random.choice(keys)))
            case "swap" if len(keys) > 1:  # keys change places: each row goes, and another one comes
                one, other = self.random.sample(keys, 2)
                gone = [self.rows[one], self.rows[other]]
                self.rows[one], self.rows[other] = (one, *gone[1][1:]), (other, *gone[0][1:])
                lines = [self._line("DELETE", row) for row in gone]
                lines += [self._line("INSERT", self.rows[key]) for key in (one, other)]
                return b"".join(lines)
            case _:
                key = self.random.choice([key for key in range(40) if key not in self.rows])
                self.rows[key] = self._row(key)
                return self._line("INSERT", self.rows[key])

    def _row(self, key: int) -> tuple[int | None, ...]:
        return (key, *(self.random.choice((None, self.random.randrange(99))) for _ in self.columns[1:]))

    def _line(self, kind: str, row: tuple[int | None, ...], old: tuple[int | None, ...] | None = None) -> bytes:
        return typed_line(self.columns, self.ts, self._texts(row), kind, old=[self._texts(old)] if old else None)

    def _texts(self, row: tuple[int | None, ...]) -> dict[str, str | None]:
        values = zip(self.columns, row, strict=True)
        return {column.name: None if value is None else str(value) for column, value in values}


@pytest.fixture
def session(lake_spark: SparkLoader, tmp_path: Path) -> SparkSession:
    spark = lake_spark.session().newSession()
    spark.dataSource.register(TicdcSource)
    for name, value in catalog(tmp_path).items():
        spark.conf.set(name, value)
    return spark


def catalog(folder: Path) -> dict[str, str]:
    name = "spark.sql.catalog.own"
    iceberg = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"{folder}/i"}
    return {f"{name}{key}": value for key, value in iceberg.items()} | {"spark.sql.shuffle.partitions": "2"}


def own_table(spark: SparkSession, kind: str, folder: Path, columns: str = "id INT, v INT") -> str:
    name = f"delta.`{folder}/own`" if kind == "delta" else "own.d.t"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING {kind}")
    return name


def uri(feed: Feed) -> str:
    return f"file://{feed.folder}?protocol=canal-json"


def read(spark: SparkSession, feed: Feed, **options: str) -> DataFrame:
    return spark.read.format("ticdc").options(**{"tz": "UTC", "table": "d.t", **options}).load(uri(feed))


def rows_of(spark: SparkSession, table: str) -> Rows:
    found = spark.sql(f"SELECT * FROM {table}").collect()
    rows = {row.id: tuple(row) for row in found}
    assert len(found) == len(rows), "a key has two rows"
    return rows


@pytest.mark.parametrize("kind", FORMATS)
def test_batches_leave_upstreams_rows_also_the_second_time(kind: str, session: SparkSession, tmp_path: Path) -> None:
    upstream = Upstream(Feed(tmp_path / "cdc"), random.Random(7))
    table, last = own_table(session, kind, tmp_path), 0
    for _ in range(4):
        upstream.transactions(12)
        changes = read(session, upstream.feed, from_ts=str(last)) if last else read(session, upstream.feed)
        for _ in range(2):
            merge_into(changes, table)
            assert rows_of(session, table) == upstream.rows
        last = upstream.ts
    empty = read(session, upstream.feed).where("id < 0")
    merge_into(empty, table)
    assert rows_of(session, table) == upstream.rows


QUERY = """
import sys
from pyspark.sql import SparkSession
from consumer.merge import merge_into
from consumer.source.data_source import TicdcSource
conf, uri, table, place = eval(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.dataSource.register(TicdcSource)
stream = spark.readStream.format("ticdc").options(tz="UTC", table="d.t", max_bytes_per_trigger="2KB").load(uri)
def take(batch, number):
    print("batch", number, flush=True)
    merge_into(batch, table)
    print("merged", number, flush=True)
query = stream.writeStream.foreachBatch(take).option("checkpointLocation", place).start()
query.awaitTermination()
"""


@pytest.mark.parametrize("kind", FORMATS)
def test_a_killed_query_goes_on(
    kind: str, session: SparkSession, lake_spark: SparkLoader, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With a statement in the middle, and whatever it was doing when it was killed."""
    chance = random.Random(11)
    upstream = Upstream(Feed(tmp_path / "cdc"), chance)
    table = own_table(session, kind, tmp_path)
    upstream.transactions(40)
    conf = {**dict(lake_spark._settings.conf), **catalog(tmp_path)}
    program = [sys.executable, "-c", QUERY, repr((conf, uri(upstream.feed), table, str(tmp_path / "checkpoint")))]

    def play(expected: Rows, kills: int) -> str:
        for kill in range(kills + 1):
            with open(tmp_path / "log", "w+") as log:
                query = subprocess.Popen(program, stdout=log, stderr=log, cwd=ROOT, start_new_session=True)
                deadline = time.monotonic() + 900
                while query.poll() is None and time.monotonic() < deadline:
                    text = (tmp_path / "log").read_text()
                    if kill < kills and "batch" in text:
                        time.sleep(chance.random() * 3)
                        break
                    if kill == kills and "merged" in text and rows_of(session, table) == expected:
                        break
                    time.sleep(0.2)
                os.killpg(query.pid, signal.SIGKILL)  # Spark's Java too
                query.wait()
        return (tmp_path / "log").read_text()

    text = play(upstream.rows, kills=2)
    assert rows_of(session, table) == upstream.rows, text[-3000:]
    before = dict(upstream.rows)
    upstream.add_column()
    upstream.transactions(30)
    text = play({}, kills=0)
    assert "has no column w" in text, text[-3000:]
    assert rows_of(session, table) == before
    session.sql(f"ALTER TABLE {table} ADD COLUMNS (w INT)")
    session.sql(f"UPDATE {table} SET w = 5")
    text = play(upstream.rows, kills=2)
    assert rows_of(session, table) == upstream.rows, text[-3000:]


def refused(changes: DataFrame, table: str, kind: type[ConsumerError], said: str) -> None:
    with pytest.raises(kind, match=said):
        merge_into(changes, table)


def test_what_cannot_be_merged_is_said(session: SparkSession, tmp_path: Path) -> None:
    upstream = Upstream(Feed(tmp_path / "cdc"), random.Random(3))
    feed = upstream.feed
    upstream.transactions(5)
    table = own_table(session, "delta", tmp_path, "id INT, other INT")
    changes = read(session, feed)
    refused(changes, table, BadConfig, "has no column v .*whose value is its DEFAULT")
    refused(changes.drop("id"), table, BadConfig, "columns of the table's key were left out")
    refused(changes.drop("_seq"), table, BadConfig, "no changes as the format ticdc reads them")
    refused(read(session, feed, mode="state"), table, BadConfig, "no changes as the format ticdc reads them")
    every = session.read.format("ticdc").options(tz="UTC", tables="d.*").load(uri(feed))
    refused(every, table, BadConfig, "of several tables")
    feed.statement("d.k", 12, Action.CREATE_TABLE, "CREATE TABLE k (id INT)", (Column("id", "INT"),))
    feed.file("d.k", 12, typed_line((Column("id", "INT"),), 13, {"id": "1"}, table="k"))
    refused(read(session, feed, table="d.k"), table, BadConfig, "d.k has no key|d.k: the table has no key")
    merge_into(changes.drop("v"), table)
    assert {row.id for row in session.table(table).collect()} == set(upstream.rows)


def test_rows_that_a_statement_took_away_do_not_stay(session: SparkSession, tmp_path: Path) -> None:
    upstream = Upstream(Feed(tmp_path / "cdc"), random.Random(5))
    feed = upstream.feed
    upstream.transactions(9)
    table = own_table(session, "delta", tmp_path)
    merge_into(read(session, feed), table)
    upstream.ts += 1
    upstream.version, upstream.rows = upstream.ts, {}
    feed.truncate("d.t", upstream.ts)
    emptied, before = upstream.ts, upstream.ts - 1
    upstream.transactions(9)
    for first in ("", str(before)):
        options = {"from_ts": first} if first else {}
        refused(read(session, feed, **options), table, CannotBeExact, f"version {emptied} took rows away")
    session.sql(f"DELETE FROM {table}")
    merge_into(read(session, feed, from_ts=str(emptied)), table)
    assert rows_of(session, table) == upstream.rows


def test_changes_under_an_older_key_are_not_merged_by_the_one_of_now(session: SparkSession, tmp_path: Path) -> None:
    feed, old = Feed(tmp_path / "cdc"), (ID, Column("v", "INT", nullable=False))
    new = (Column("id", "INT", nullable=False), Column("v", "INT", nullable=False, is_pk=True))
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)", old)
    one: dict[str, Any] = {"id": "1", "v": "7"}
    feed.file("d.t", 10, typed_line(old, 11, one))
    feed.statement("d.t", 20, Action.DROP_PRIMARY_KEY, "ALTER TABLE t DROP PRIMARY KEY", (new[0], old[1]))
    feed.statement("d.t", 21, Action.ADD_PRIMARY_KEY, "ALTER TABLE t ADD PRIMARY KEY (v)", new)
    feed.file("d.t", 21, typed_line(new, 22, {"id": "1", "v": "8"}))
    feed.checkpoint(30)
    table = own_table(session, "delta", tmp_path)
    refused(read(session, feed), table, CannotBeExact, "had another key up to 21")
    merge_into(read(session, feed, from_ts="21"), table)
    assert [tuple(row) for row in session.table(table).collect()] == [(1, 8)]
