"""`maintain` keeps a lake small and takes nothing away that anybody needs: neither rows, nor what a start looks for."""

from __future__ import annotations

import shutil
import threading
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from consumer import app
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.results import MaintainedTable
from consumer.sink.lake.formats import new_location
from consumer.spark.load import SparkLoader
from tests.lakes.test_deaths import COUNTED, KEYED, WANTED, dies_behind_a_commit, rows_of, storage
from tests.support.feed import Feed, Replica
from tests.support.lakes import FORMATS, lake_sink, lake_uri
from tests.support.observers import Recorder

DAY, NOTHING = timedelta(days=1), timedelta(0)
Lake = tuple[Feed, str, Settings]


@pytest.fixture
def lake(lake_spark: SparkLoader, tmp_path: Path) -> Lake:
    """With the tables of `storage`, to which `go_on` adds a file a round."""
    feed, uri = storage(tmp_path / "storage"), f"delta://{tmp_path}/lake"
    settings = Replica(feed, uri).settings()
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    return feed, uri, settings


def go_on(lake: Lake, loader: SparkLoader, rounds: range) -> list[tuple[int, int]]:
    """Rounds with one row each; the rows that are there then."""
    feed, _, settings = lake
    for number in rounds:
        feed.puts("d.k", 10, {100 + number: (number, str(number))})
        feed.checkpoint(100 + number)
        assert app.once(settings, Recorder(), loader).exit_code == 0
    return sorted([*WANTED[KEYED], *((number, number) for number in range(10, rounds.stop))])


def maintained(lake: Lake, loader: SparkLoader, keep: timedelta) -> dict[str, MaintainedTable]:
    return {row.table: row for row in app.maintain(lake[2], Recorder(), keep, loader).tables}


def files_of(uri: str, table: str) -> int:
    return len(list(Path(uri.removeprefix("delta://"), *table.split(".")).glob("**/*.parquet")))


def test_small_files_are_put_together(lake: Lake, lake_spark: SparkLoader) -> None:
    wanted, uri = go_on(lake, lake_spark, range(10, 12)), lake[1]
    sink = lake_sink(lake[1], lake_spark)
    place = sink._progress.lake_tables[KEYED].location
    newest, there = sink._tables.latest(place), files_of(uri, "d.k")
    kept = maintained(lake, lake_spark, DAY)
    assert kept["d.k"].files_before >= 3
    assert kept["d.k"].files_after == 1
    assert files_of(uri, "d.k") > there, "old versions can be read for a day"
    assert maintained(lake, lake_spark, NOTHING)["d.k"].files_before == 0
    assert files_of(uri, "d.k") < there
    assert rows_of(uri, lake_spark) == {KEYED: wanted, COUNTED: WANTED[COUNTED]}
    assert sink._tables.latest(place) == newest
    assert rows_of(uri, lake_spark)[KEYED] == wanted
    assert go_on(lake, lake_spark, range(12, 13)) == rows_of(uri, lake_spark)[KEYED]


def test_tables_without_a_name_go_if_they_are_ours(lake: Lake, lake_spark: SparkLoader) -> None:
    root, sink = lake[1].removeprefix("delta://"), lake_sink(lake[1], lake_spark)
    session = sink._session()
    lost, own = new_location(sink._tables, KEYED), f"{root}/d/of_somebody"
    sink._tables.create(session, lost, ["id INT"], Layout())
    session.range(3).write.format("delta").save(own)
    assert lost not in maintained(lake, lake_spark, DAY)
    assert maintained(lake, lake_spark, NOTHING)[lost].removed
    assert not Path(lost).exists()
    assert session.read.format("delta").load(own).count() == 3
    assert rows_of(lake[1], lake_spark) == WANTED


@pytest.mark.parametrize("format", FORMATS)
def test_what_deaths_left_is_told_by_name_or_goes(format: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """One within a first commit, one within a removal, and a log that somebody has damaged; other tables are kept."""
    feed, uri = storage(tmp_path / "storage"), lake_uri(format, tmp_path)
    settings = Replica(feed, uri).settings()
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    begun, broken, going = (tmp_path / "lake/d" / name for name in ("begun", "broken", "going"))
    if format == "delta":
        (begun / "_delta_log").mkdir(parents=True)
        (begun / "_delta_log/.00000000000000000000.json.1.tmp").write_bytes(b"{")
        shutil.copytree(tmp_path / "lake/d/k", broken)
        for file in (broken / "_delta_log").iterdir():
            file.write_bytes(b"{")
        going.mkdir()
        (going / "rows.parquet").write_bytes(b"")
        (going / "_storage_consumer_goes").write_bytes(b"")
    else:
        (begun / "metadata").mkdir(parents=True)
        (begun / "metadata" / f"{uuid4()}.metadata.json").write_bytes(b"{")
        shutil.copytree(tmp_path / "lake/d/k", broken)
        for file in (broken / "metadata").glob("*.metadata.json"):
            file.write_bytes(b"{")
    found = {row.table: row for row in app.maintain(settings, Recorder(), NOTHING, lake_spark).tables}
    assert not found["d.k"].left
    assert [table for table, row in found.items() if row.left and "broken" in table]
    assert not going.exists()
    feed.create("d.begun", 50)
    feed.puts("d.begun", 50, {51: (1, "1")})
    feed.checkpoint(60)
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    assert rows_of(uri, lake_spark) == {**WANTED, TableName("d", "begun"): [(1, 1)]}
    assert not (tmp_path / "lake/d/begun.2").exists()
    assert not (tmp_path / "lake/d/begun_2").exists()


def test_it_runs_beside_rounds(lake: Lake, lake_spark: SparkLoader) -> None:
    ended, found, errors = threading.Event(), [0], []

    def keep_on() -> None:
        try:
            while not ended.is_set():
                kept = maintained(lake, lake_spark, DAY)
                found[0] += sum(row.files_before for row in kept.values())
        except Exception as error:
            errors.append(error)

    beside = threading.Thread(target=keep_on)
    beside.start()
    try:
        wanted = go_on(lake, lake_spark, range(10, 13))
    finally:
        ended.set()
        beside.join()
    assert not errors
    assert found[0]
    assert rows_of(lake[1], lake_spark) == {KEYED: wanted, COUNTED: WANTED[COUNTED]}


def test_a_table_that_a_dead_consumer_has_left_waits_for_the_next(
    lake: Lake, lake_spark: SparkLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, uri, settings = lake
    feed.puts("d.k", 10, {60: (9, "9")})
    feed.checkpoint(70)
    dies_behind_a_commit(monkeypatch, lambda: app.once(settings, Recorder(), lake_spark))
    assert "not in the progress" in maintained(lake, lake_spark, NOTHING)["d.k"].left
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    assert not maintained(lake, lake_spark, NOTHING)["d.k"].left
    assert rows_of(uri, lake_spark)[KEYED] == [*WANTED[KEYED], (9, 9)]


def test_other_targets_have_nothing_to_maintain(tmp_path: Path) -> None:
    settings = Replica(Feed(tmp_path / "storage"), f"duckdb:///{tmp_path}/r.duckdb").settings()
    with pytest.raises(BadConfig, match="nothing to maintain"):
        app.maintain(settings, Recorder(), DAY)
