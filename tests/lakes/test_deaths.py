"""A process dies between a table's commit and the progress that follows it: nothing is lost, nothing counts twice. So
it is with a writer that comes late."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from consumer import app
from consumer.config.settings import Settings
from consumer.errors import LeaseHeld, ProgressMoved
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.results import RunResult
from consumer.sink.lake.merge import Merging
from consumer.sink.lake.progress import PROGRESS_TABLE, LakeProgress
from consumer.sink.lake.statements import Executing
from consumer.spark.load import SparkLoader
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, Fuse
from tests.support.feed import Feed, Replica
from tests.support.lakes import FORMATS, JDBC, elsewhere, lake_sink, lake_tables, lake_uri
from tests.support.observers import Recorder

KEYED, COUNTED = TableName("d", "k"), TableName("d", "n")
NO_KEY = (replace(ID, is_pk=False, nullable=True), VALUE)
MORE = Column("w", "INT", default="5")


def line(ts: int, kind: str, **values: str | None) -> bytes:
    message = {
        "id": 0, "database": "d", "table": "n", "pkNames": None, "isDdl": False, "type": kind, "es": 0, "ts": 0,
        "sql": "", "sqlType": dict.fromkeys(values, 4), "mysqlType": dict.fromkeys(values, "int"), "old": None,
        "data": [values], "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return json.dumps(message).encode() + b"\r\n"


def storage(folder: Path) -> Feed:
    """A table with a key; one without: three rows, of which one of two equal ones goes, a column with a default, and a
    row of each kind more."""
    feed = Feed(folder)
    feed.database("d", 1)
    feed.create("d.k", 10)
    feed.statement("d.n", 11, Action.CREATE_TABLE, "CREATE TABLE `n` (`id` INT,`v` INT)", NO_KEY)
    feed.puts("d.k", 10, {20: (1, "1"), 21: (2, "2"), 22: (1, "3")})
    rows = [line(ts, "INSERT", id="1", v=v) for ts, v in ((12, "7"), (13, "7"), (14, "8"))]
    feed.file("d.n", 11, b"".join([*rows, line(15, "DELETE", id="1", v="7")]))
    added = "ALTER TABLE `n` ADD COLUMN `w` INT DEFAULT 5"
    feed.statement("d.n", 30, Action.ADD_COLUMN, added, (*NO_KEY, MORE))
    more = [line(31, "INSERT", id="2", v="9", w="6"), line(32, "DELETE", id="1", v="8", w="5")]
    feed.file("d.n", 30, b"".join(more))
    feed.checkpoint(40)
    return feed


WANTED = {KEYED: [(1, 3), (2, 2)], COUNTED: [(1, 7, 5), (2, 9, 6)]}


def rows_of(uri: str, loader: SparkLoader) -> dict[TableName, list[tuple[Any, ...]]]:
    found = lake_tables(uri, loader)
    return {name: sorted(tuple(row.values()) for row in table.to_pylist()) for name, table in found.items()}


def settings_of(feed: Feed, uri: str) -> Settings:
    return Replica(feed, uri).settings()


def behind(fuse: Fuse, call: Callable[..., Any]) -> Callable[..., Any]:
    """A moment behind `call`."""

    def called(*given: Any, **named: Any) -> Any:
        result = call(*given, **named)
        fuse.tick()
        return result

    return called


def dies_behind_a_commit(monkeypatch: pytest.MonkeyPatch, run: Callable[[], object], number: int = 0) -> None:
    """Behind that one of a table's rows; the first is 0."""
    with monkeypatch.context() as patched:
        patched.setattr(Merging, "publish", behind(Fuse(number), Merging.publish))
        with pytest.raises(Crash):
            run()


@pytest.mark.parametrize("lake", FORMATS)
def test_a_death_between_a_commit_and_the_progress(
    lake: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, moment = storage(tmp_path / "storage"), 0
    publish, run = Merging.publish, Executing.run
    while True:
        uri, fuse = lake_uri(lake, tmp_path, f"lake{moment}"), Fuse(moment)
        monkeypatch.setattr(Merging, "publish", behind(fuse, publish))
        monkeypatch.setattr(Executing, "run", behind(fuse, run))
        try:
            app.once(settings_of(feed, uri), Recorder(), lake_spark)
            break
        except Crash:
            monkeypatch.setattr(Merging, "publish", publish)
            monkeypatch.setattr(Executing, "run", run)
        assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
        assert rows_of(uri, lake_spark) == WANTED, f"died at moment {moment}"
        moment += 1
    assert rows_of(uri, lake_spark) == WANTED
    assert moment >= 6
    again = app.once(settings_of(feed, uri), Recorder(), lake_spark)
    assert sum(table.rows + table.ddl for table in again.tables.values()) == 0


@pytest.mark.parametrize("lake", [*FORMATS, JDBC])
def test_a_death_at_any_file_of_the_first_commits(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Of the progress, whose files come one after the other. The last one may still have another name, or be cut."""
    uri, folder = lake_uri(lake, tmp_path, "whole"), tmp_path / "whole"
    sink = lake_sink(uri, lake_spark)
    sink.acquire("upstream")
    sink.close()
    files = sorted((file for file in folder.rglob("*") if file.is_file()), key=lambda file: file.stat().st_mtime_ns)
    if lake == JDBC:  # which has a database that knows nothing of the table
        files = [file for file in files if file.name.startswith("00000-")]
    assert files
    for number in range(1, len(files) + 1):
        for how in ("there", "unnamed", "cut"):
            uri, there = lake_uri(lake, tmp_path, f"{how}{number}"), tmp_path / f"{how}{number}"
            for file in files[:number]:
                copied = there / file.relative_to(folder)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copied)
            last = there / files[number - 1].relative_to(folder)
            if how == "unnamed":
                ending = ".metadata.json" if last.name.endswith(".metadata.json") else ".tmp"
                last.rename(last.with_name(f".{uuid4()}{ending}" if ending == ".tmp" else f"{uuid4()}{ending}"))
            elif how == "cut" and (lake == JDBC or number == 1):
                last.write_bytes(last.read_bytes()[:40])
            elif how == "cut":  # others come under their names whole
                continue
            sink = lake_sink(uri, lake_spark)
            sink.acquire("upstream")
            sink.record(ProgressChange(7))
            sink.close()
            assert lake_sink(uri, lake_spark).progress().applied_ts == 7, last


@pytest.mark.parametrize("lake", FORMATS)
def test_a_checkpoint_that_goes_back_behind_a_death(
    lake: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table stays as its commit left it. Rows from before that would make a mixture of two moments of it."""
    feed, uri = Feed(tmp_path / "storage"), lake_uri(lake, tmp_path)
    feed.database("d", 1)
    feed.create("d.k", 10)
    feed.puts("d.k", 10, {20: (1, "1")})
    feed.checkpoint(25)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    feed.puts("d.k", 10, {30: (1, "2"), 40: (1, "4"), 41: (3, "3")})
    feed.checkpoint(45)
    dies_behind_a_commit(monkeypatch, lambda: app.once(settings_of(feed, uri), Recorder(), lake_spark))
    for checkpoint in (35, 50):
        feed.checkpoint(checkpoint)
        assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
        assert rows_of(uri, lake_spark) == {KEYED: [(1, 4), (3, 3)]}


@pytest.mark.parametrize("lake", FORMATS)
def test_a_death_is_made_good_by_a_consumer_of_another_name(
    lake: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both upstreams call their tables the same: what one has applied says nothing of the other's."""
    feed, uri = storage(tmp_path / "storage"), lake_uri(lake, tmp_path)

    def once(name: str) -> RunResult:
        settings = Replica(feed, uri).settings(name=name, routes=[f"d.* -> {name}.*"])
        return app.once(settings, Recorder(), lake_spark)

    dies_behind_a_commit(monkeypatch, lambda: once("a"))
    for name in ("b", "a"):
        assert once(name).exit_code == 0
        found = rows_of(uri, lake_spark)
        assert {of: found[TableName(name, of.table)] for of in WANTED} == WANTED


@pytest.mark.parametrize("lake", [*FORMATS, JDBC])
def test_a_writer_that_was_taken_over_changes_nothing(
    lake: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked at the lake before, and comes back when the other one is done: its commit of the table is left out,
    and it records nothing."""
    feed, uri = storage(tmp_path / "storage"), lake_uri(lake, tmp_path)
    publish, turns, refused = Merging.publish, threading.Lock(), []

    def late(merging: Merging, commit: Any) -> None:
        with turns:  # its tables are published on several threads
            if not refused:
                monkeypatch.setattr(Merging, "publish", publish)
                other = elsewhere(uri, tmp_path)
                assert app.once(settings_of(feed, other), Recorder(), lake_spark).exit_code == 0
            refused.append(merging.target.name)
        with pytest.raises(ProgressMoved):
            publish(merging, commit)
        raise ProgressMoved("as the one that was taken over sees it")

    monkeypatch.setattr(Merging, "publish", late)
    with pytest.raises(LeaseHeld):
        app.once(settings_of(feed, uri), Recorder(), lake_spark)
    assert refused
    assert rows_of(uri, lake_spark) == WANTED


@pytest.mark.parametrize("lake", FORMATS)
def test_the_progress_is_written_anew_now_and_then(
    lake: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.sink.lake.progress._ANEW", 3)
    feed, uri = storage(tmp_path / "storage"), lake_uri(lake, tmp_path)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    sink = lake_sink(uri, lake_spark)
    assert sink.progress().applied_ts == 40
    progress = LakeProgress(sink._tables, sink._tables.location(PROGRESS_TABLE), sink._session)
    assert set(progress.lake_tables) == {KEYED, COUNTED}
    sink.acquire(sink.progress().upstream)
    for moment in range(41, 53):
        sink.record(ProgressChange(moment))
    sink.close()
    if lake == "delta":  # a start would read every commit there ever was
        log = tmp_path / "lake/storage_consumer/progress/_delta_log"
        assert json.loads((log / "_last_checkpoint").read_text())["version"] >= 10
    else:  # a commit would write down every one there ever was
        metadata = (tmp_path / "lake/storage_consumer/progress/metadata").glob("*.metadata.json")
        newest = max(map(json.loads, (path.read_text() for path in metadata)), key=lambda said: said["last-updated-ms"])
        assert 2 <= len(newest["snapshots"]) < 15 < newest["last-sequence-number"]
    assert lake_sink(uri, lake_spark).progress().applied_ts == 52
