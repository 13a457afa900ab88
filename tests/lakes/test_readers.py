"""What others read of a lake: PyIceberg and delta-rs, which share no code with Spark's formats."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.sink.lake.formats import Commit
from consumer.spark.load import SparkLoader
from tests.lakes.test_deaths import COUNTED, KEYED, MORE, NO_KEY, WANTED, line, settings_of, storage
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import Feed, Replica
from tests.support.lakes import FORMATS, lake_tables, lake_uri
from tests.support.observers import Recorder

Row = tuple[Any, ...]
_PATIENCE = 180.0
"""Seconds until a busy machine has committed a round."""


def test_pyiceberg_reads_the_rows_and_what_commits_say(lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Tables with deleted rows, and with a column that came later."""
    table = pytest.importorskip("pyiceberg.table")
    feed, uri = storage(tmp_path / "storage"), f"iceberg://{tmp_path}/lake"
    for checkpoint in (20, 29, 40):
        feed.checkpoint(checkpoint)
        assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    for name, rows in WANTED.items():
        place = f"{tmp_path}/lake/{name.database}/{name.table}"
        found = table.StaticTable.from_metadata(place)
        assert sorted(tuple(row.values()) for row in found.scan().to_arrow().to_pylist()) == rows
        snapshot = found.current_snapshot()
        said = Commit.of(snapshot.summary["storage-consumer"])
        assert said is not None
        assert said.applied == {name: {KEYED: 29, COUNTED: 40}[name]}
        assert found.refs()["storage_consumer"].snapshot_id == snapshot.snapshot_id


def iceberg_rows(place: str) -> pa.Table:
    table = pytest.importorskip("pyiceberg.table")
    return table.StaticTable.from_metadata(place).scan().to_arrow()


def delta_rows(place: str) -> pa.Table:
    delta = pytest.importorskip("deltalake")
    return delta.DeltaTable(place).to_pyarrow_table()  # which knows less of the format than its queries do


READERS: dict[str, Callable[[str], pa.Table]] = {"delta": delta_rows, "iceberg": iceberg_rows}


def values_in_delta(place: str) -> dict[str, Any]:
    delta = pytest.importorskip("deltalake")
    (found,) = pa.table(delta.DeltaTable(place).get_add_actions(flatten=True)).to_pylist()
    return {name: (found[f"min.{name}"], found[f"max.{name}"], found[f"null_count.{name}"]) for name in ("id", "v")}


def values_in_iceberg(place: str) -> dict[str, Any]:
    table = pytest.importorskip("pyiceberg.table").StaticTable.from_metadata(place)
    (found,) = table.inspect.files()["readable_metrics"].to_pylist()
    said = ("lower_bound", "upper_bound", "null_value_count")
    return {name: tuple(found[name][one] for one in said) for name in ("id", "v")}


def test_readers_of_delta_know_what_statements_leave(lake_spark: SparkLoader, tmp_path: Path) -> None:
    """A column gets another name, rows change, and it goes. Only a name that no file can have asks more of a reader."""
    feed, uri, place = Feed(tmp_path / "storage"), f"delta://{tmp_path}/lake", f"{tmp_path}/lake/d/k"
    feed.database("d", 1)
    feed.create("d.k", 10)
    feed.puts("d.k", 10, {11: (1, "1"), 12: (2, "2")})
    renamed = "ALTER TABLE `k` RENAME COLUMN `v` TO `w`"
    feed.statement("d.k", 20, Action.MODIFY_COLUMN, renamed, (ID, replace(VALUE, name="w")))
    feed.checkpoint(25)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    assert sorted(map(str, delta_rows(place).to_pylist())) == ["{'id': 1, 'w': 1}", "{'id': 2, 'w': 2}"]
    feed.statement("d.k", 30, Action.DROP_COLUMN, "ALTER TABLE `k` DROP COLUMN `w`", (ID,))
    feed.file("d.k", 30, typed_line((ID,), 31, {"id": "1"}, "DELETE", table="k"))
    feed.checkpoint(35)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    assert delta_rows(place).to_pylist() == [{"id": 2}]
    spaced = replace(VALUE, name="x y")
    feed.statement("d.k", 40, Action.ADD_COLUMN, "ALTER TABLE `k` ADD COLUMN `x y` INT", (ID, spaced))
    feed.file("d.k", 40, typed_line((ID, spaced), 41, {"id": "3", "x y": "4"}, table="k"))
    feed.checkpoint(45)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    assert lake_tables(uri, lake_spark)[KEYED].sort_by("id").to_pylist() == [
        {"id": 2, "x y": None},
        {"id": 3, "x y": 4},
    ]


VALUES: dict[str, Callable[[str], dict[str, Any]]] = {"delta": values_in_delta, "iceberg": values_in_iceberg}


@pytest.mark.parametrize("lake", FORMATS)
def test_a_small_file_tells_which_values_it_has(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """So that readers pass over files: also over those that are written without Spark."""
    feed, uri = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path)
    feed.database("d", 1)
    feed.statement("d.n", 11, Action.CREATE_TABLE, "CREATE TABLE `n` (`id` INT,`v` INT)", NO_KEY)
    rows = [line(12, "INSERT", id="-3", v="5"), line(13, "INSERT", id="7", v="9"), line(14, "INSERT", id="1", v=None)]
    feed.file("d.n", 11, b"".join(rows))
    feed.checkpoint(20)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    assert VALUES[lake](f"{tmp_path}/lake/d/n") == {"id": (-3, 7, 0), "v": (5, 9, 1)}


@pytest.mark.parametrize("longest", [20, 300])
def test_a_reader_of_delta_finds_rows_by_a_text(longest: int, lake_spark: SparkLoader, tmp_path: Path) -> None:
    delta = pytest.importorskip("deltalake")
    feed, uri = Feed(tmp_path / "storage"), f"delta://{tmp_path}/lake"
    columns = (ID, Column("note", "VARCHAR", length=400))
    feed.database("d", 1)
    feed.statement("d.k", 10, Action.CREATE_TABLE, "CREATE TABLE `k` (`id` INT,`note` VARCHAR(400))", columns)
    texts = ["y" * longest, "short"]
    lines = (typed_line(columns, 11 + at, {"id": str(at), "note": text}, table="k") for at, text in enumerate(texts))
    feed.file("d.k", 10, b"".join(lines))
    feed.checkpoint(20)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    table = delta.DeltaTable(f"{tmp_path}/lake/d/k")
    for text in texts:
        assert table.to_pyarrow_table(filters=[("note", "=", text)]).column("note").to_pylist() == [text]


@dataclass
class Upstream:
    """Writes transactions of several rows to a table with a key and to one without, and remembers the state behind
    each: a state between them is none that a reader may see."""

    feed: Feed
    ts: int = 20
    keyed: dict[int, int] = field(default_factory=dict)
    counted: Counter[Row] = field(default_factory=Counter)
    version: int = 11
    states: dict[TableName, list[list[Row]]] = field(default_factory=lambda: {KEYED: [[]], COUNTED: [[]]})

    def transaction(self) -> None:
        self.ts += 1
        lines = b""
        gone = self.ts % 7
        if gone in self.keyed:
            del self.keyed[gone]
            lines += self.feed._line("d.k", self.ts, gone, "0", "DELETE")
        for key in {(self.ts + step) % 7 for step in (1, 2, 4)}:
            self.keyed[key] = self.ts
            lines += self.feed._line("d.k", self.ts, key, str(self.ts))
        self.feed.file("d.k", 10, lines)
        lines, more = b"", {} if self.version == 11 else {"w": "6"}
        for row in list(self.counted)[:1]:
            self.counted -= Counter([row])
            lines += line(self.ts, "DELETE", **dict(zip(("id", "v", "w"), map(str, row), strict=False)))
        new = (1, self.ts, *map(int, more.values()))
        self.counted[new] += 3
        lines += 3 * line(self.ts, "INSERT", id="1", v=str(self.ts), **more)
        self.feed.file("d.n", self.version, lines)
        self._keep()

    def statement(self) -> None:
        """Rows get a value by it."""
        self.ts += 1
        self.version = self.ts
        added = "ALTER TABLE `n` ADD COLUMN `w` INT DEFAULT 5"
        self.feed.statement("d.n", self.ts, Action.ADD_COLUMN, added, (*NO_KEY, MORE))
        self.counted = Counter({(*row, 5): n for row, n in self.counted.items()})
        self._keep()

    def truncate(self) -> None:
        self.ts += 1
        self.feed.truncate("d.n", self.ts, (*NO_KEY, MORE))
        self.version = self.ts
        self.counted.clear()
        self._keep()

    def checkpoint(self) -> None:
        self.ts += 1
        self.feed.checkpoint(self.ts)

    def _keep(self) -> None:
        self.states[KEYED].append(sorted(self.keyed.items()))
        self.states[COUNTED].append(sorted(self.counted.elements()))


@pytest.mark.parametrize("lake", FORMATS)
def test_a_reader_beside_run_sees_whole_commits(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Each state is one that upstream had behind a transaction or a statement, and none is older than one before."""
    feed, uri, ended = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path), threading.Event()
    feed.database("d", 1)
    feed.create("d.k", 10)
    feed.statement("d.n", 11, Action.CREATE_TABLE, "CREATE TABLE `n` (`id` INT,`v` INT)", NO_KEY)
    upstream, seen = Upstream(feed), {KEYED: [0], COUNTED: [0]}
    upstream.transaction()
    upstream.checkpoint()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not ended.is_set():
                for name, found in seen.items():
                    place = Path(f"{tmp_path}/lake/{name.database}/{name.table}")
                    if not [*place.glob("_delta_log/*.json"), *place.glob("metadata/version-hint.text")]:
                        continue
                    rows = sorted(tuple(row.values()) for row in READERS[lake](str(place)).to_pylist())
                    states = upstream.states[name]
                    at = next((at for at in range(found[-1], len(states)) if states[at] == rows), None)
                    assert at is not None, f"{name}: {rows} is no state behind number {found[-1]} of {states}"
                    found.append(at)
        except BaseException as error:
            errors.append(error)

    def run() -> None:
        try:
            app.run(Replica(feed, uri).settings(flush_interval="100ms"), Recorder(), ended, lake_spark)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    try:
        for number in range(6):
            for _ in range(3):
                upstream.transaction()
            if number == 2:
                upstream.statement()
            if number == 4:
                upstream.truncate()
            upstream.transaction()
            upstream.checkpoint()
            until = time.monotonic() + _PATIENCE
            newest = {name: len(states) - 1 for name, states in upstream.states.items()}
            while any(seen[name][-1] < number for name, number in newest.items()) and not errors:
                assert time.monotonic() < until, (newest, {name: found[-1] for name, found in seen.items()})
                time.sleep(0.05)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert all(len(set(found)) >= 6 for found in seen.values())
