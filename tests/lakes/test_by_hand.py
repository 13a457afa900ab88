"""What somebody does to a lake's table by hand stops that table by name, or is kept; the other tables go on."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from consumer import app
from consumer.config.settings import Settings
from consumer.errors import BadConfig, TargetBusy
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.results import TableResult
from consumer.sink.lake import iceberg
from consumer.sink.lake.delta import Delta
from consumer.sink.lake.formats import Commit
from consumer.spark.load import SparkLoader
from consumer.spark.shared import SharedSpark
from tests.lakes.test_deaths import MORE, NO_KEY, line, rows_of
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, Replica
from tests.support.lakes import FORMATS, lake_sink, lake_uri
from tests.support.observers import Recorder

KEYED, COUNTED, OTHER = TableName("d", "k"), TableName("d", "n"), TableName("d", "o")


@dataclass
class Lake:
    """Tables with a row each: one with a key, one without, and one that nobody touches."""

    feed: Feed
    uri: str
    settings: Settings
    loader: SparkLoader

    def once(self, checkpoint: int) -> Mapping[TableName, TableResult]:
        self.feed.checkpoint(checkpoint)
        return app.once(self.settings, Recorder(), self.loader).tables

    def by_hand(self, *statements: str) -> None:
        """Of the first two tables, which each statement calls {}."""
        sink = lake_sink(self.uri, self.loader)
        for name in (KEYED, COUNTED):
            place = sink._tables.sql(sink._progress.lake_tables[name].location)
            for statement in statements:
                sink._session().sql(statement.format(place)).collect()

    def remove(self) -> None:
        sink = lake_sink(self.uri, self.loader)
        for name in (KEYED, COUNTED):
            sink._tables.remove(sink._progress.lake_tables[name].location)

    def add_rows(self, at: int, number: int) -> None:
        for table in ("d.k", "d.o"):
            self.feed.puts(table, 10, {at: (number, str(number))})
        self.feed.file("d.n", 10, line(at, "INSERT", id=str(number), v=str(number)))


@pytest.fixture(params=FORMATS)
def lake(request: pytest.FixtureRequest, lake_spark: SparkLoader, tmp_path: Path) -> Lake:
    return made(request.param, tmp_path, lake_spark)


def made(lake: str, folder: Path, loader: SparkLoader) -> Lake:
    feed, uri = Feed(folder / "storage"), lake_uri(lake, folder)
    feed.database("d", 1)
    feed.create("d.k", 10)
    feed.create("d.o", 10)
    feed.statement("d.n", 10, Action.CREATE_TABLE, "CREATE TABLE `n` (`id` INT,`v` INT)", NO_KEY)
    droppable = {"tables": ["d.*"], "properties": {"delta.columnMapping.mode": "name"}}  # columns, by hand
    rules = [droppable] if lake == "delta" else []
    found = Lake(feed, uri, Replica(feed, uri).settings(lake_tables=rules), loader)
    found.add_rows(11, 1)
    assert all(table.state == "ok" for table in found.once(15).values())
    return found


CHANGES: dict[str, Callable[[Lake], None]] = {
    "a column is gone": lambda lake: lake.by_hand("ALTER TABLE {} DROP COLUMN v"),
    "the table is gone": Lake.remove,
}


def restored(lake: Lake, back: int) -> None:
    """The tables as they were so many commits ago."""
    sink = lake_sink(lake.uri, lake.loader)
    session = sink._session()
    for name in (KEYED, COUNTED):
        place = sink._progress.lake_tables[name].location
        table = sink._tables.sql(place)
        if lake.uri.startswith("delta"):
            newest = session.sql(f"DESCRIBE HISTORY {table}").first()["version"]
            session.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest - back}").collect()
        else:
            found = session.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at DESC").collect()
            to = f"table => '{place}', snapshot_id => {found[back][0]}"
            session.sql(f"CALL {table.partition('.')[0]}.system.set_current_snapshot({to})").collect()


def replaced(lake: Lake) -> None:
    form = "delta" if lake.uri.startswith("delta") else "iceberg"
    lake.by_hand(f"CREATE OR REPLACE TABLE {{}} USING {form} AS SELECT 77 AS id, 7 AS v")


def made_anew(lake: Lake) -> None:
    lake.remove()
    form = "delta" if lake.uri.startswith("delta") else "iceberg"
    lake.by_hand(f"CREATE TABLE {{}} USING {form} AS SELECT 77 AS id, 7 AS v")


@pytest.mark.parametrize(
    "change", [lambda lake: restored(lake, 1), replaced, made_anew], ids=["restored", "replaced", "made anew"]
)
def test_rows_that_somebody_has_taken_back_stop_their_table(change: Callable[[Lake], None], lake: Lake) -> None:
    """Upstream's rows go on from where the table was, and would leave it without those that were taken back. What
    others commit behind that, as who keeps the files small does, hides nothing."""
    lake.add_rows(16, 2)
    assert {table.state for table in lake.once(17).values()} == {"ok"}
    change(lake)
    lake.by_hand("UPDATE {} SET v = 8 WHERE id = 1")
    lake.add_rows(21, 3)
    for checkpoint in (25, 26):
        found = lake.once(checkpoint)
        assert {n: t.state for n, t in found.items()} == {KEYED: "stopped", COUNTED: "stopped", OTHER: "ok"}
        assert f"resync --table {KEYED}" in str(found[KEYED].hint)
    checks = app.verify(lake.settings, Recorder(), loader=lake.loader).tables
    is_right = {check.table: check.error is None and not check.counted.differences for check in checks}
    assert is_right == {KEYED: False, COUNTED: False, OTHER: True}
    for name in (KEYED, COUNTED):
        assert app.resync(lake.settings, Recorder(), name, lake.loader).tables[name].state == "ok"
    assert rows_of(lake.uri, lake.loader) == {name: [(1, 1), (2, 2), (3, 3)] for name in (KEYED, COUNTED, OTHER)}


def overwritten(lake: Lake) -> None:
    rows = lake.loader.session().sql("SELECT 77 AS id, 7 AS v, 1 AS w")
    sink = lake_sink(lake.uri, lake.loader)
    for name in (KEYED, COUNTED):
        location = sink._progress.lake_tables[name].location
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(location)


def test_a_delta_table_that_a_frame_has_overwritten_stops(tmp_path: Path, lake_spark: SparkLoader) -> None:
    test_rows_that_somebody_has_taken_back_stop_their_table(overwritten, made("delta", tmp_path, lake_spark))


def test_rows_that_are_taken_back_while_a_commit_begins(
    tmp_path: Path, lake_spark: SparkLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta commits behind any other commit. The table stops, at once or, behind a death, with its next rows."""
    lake = made("delta", tmp_path, lake_spark)
    lake.add_rows(16, 2)
    assert {table.state for table in lake.once(17).values()} == {"ok"}
    check = Delta._check_newest

    def checked(tables: Delta, location: str, commit: Commit) -> None:
        check(tables, location, commit)
        if location.endswith(("/k", "/n")):
            session, table = lake.loader.session(), tables.sql(location)
            newest = session.sql(f"DESCRIBE HISTORY {table}").first()["version"]
            session.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest - 1}").collect()

    lake.add_rows(21, 3)
    with monkeypatch.context() as patched:
        patched.setattr(Delta, "_check_newest", checked)
        found = lake.once(25)
    stopped = {KEYED: "stopped", COUNTED: "stopped", OTHER: "ok"}
    assert {n: t.state for n, t in found.items()} == stopped
    assert {n: t.state for n, t in lake.once(25).items()} == stopped
    lake.add_rows(26, 4)
    assert {n: t.state for n, t in lake.once(27).items()} == stopped
    assert app.resync(lake.settings, Recorder(), KEYED, lake.loader).tables[KEYED].state == "ok"
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(n, n) for n in (1, 2, 3, 4)]


def test_a_staged_snapshot_that_somebody_expires_is_made_again(
    tmp_path: Path, lake_spark: SparkLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = made("iceberg", tmp_path, lake_spark)
    staged, expired = iceberg._Writing.staged, []

    @contextmanager
    def expiring(writing: iceberg._Writing, spark: SparkSession) -> Iterator[None]:
        with staged(writing, spark):
            yield
            if not expired:
                expired.append(writing.location)
                writing.table.refresh()
                writing.table.expireSnapshots().expireOlderThan(1 << 60).commit()

    monkeypatch.setattr(iceberg._Writing, "staged", expiring)
    lake.add_rows(21, 2)
    with suppress(TargetBusy):
        lake.once(25)
    assert expired
    assert {table.state for table in lake.once(25).values()} == {"ok"}
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1), (2, 2)]


def test_a_table_that_cannot_be_removed_stays_for_maintain(
    tmp_path: Path, lake_spark: SparkLoader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = made("delta", tmp_path, lake_spark)
    lake.feed.statement("d.k", 30, Action.DROP_TABLE, "DROP TABLE `d`.`k`")

    write = SharedSpark.write

    def refused(spark: SharedSpark, path: str, content: bytes) -> None:
        if "/d/k/" in path:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        write(spark, path, content)

    with monkeypatch.context() as patched:
        patched.setattr(SharedSpark, "write", refused)
        assert lake.once(35)[KEYED].state == "dropped"
    assert "maintain removes it later" in caplog.text
    assert (tmp_path / "lake/d/k").exists()


def test_progress_that_somebody_has_restored_is_said(tmp_path: Path, lake_spark: SparkLoader) -> None:
    lake = made("delta", tmp_path, lake_spark)
    table = f"delta.`{tmp_path}/lake/storage_consumer/progress`"
    session = lake_spark.session()
    newest = session.sql(f"DESCRIBE HISTORY {table}").first()["version"]
    session.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest - 1}").collect()
    with pytest.raises(BadConfig, match="somebody has restored an older version"):
        lake.once(25)
    session.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest}").collect()
    assert {table.state for table in lake.once(25).values()} == {"ok"}


def test_a_table_that_has_its_newest_rows_again_goes_on(lake: Lake) -> None:
    lake.add_rows(16, 2)
    assert {table.state for table in lake.once(17).values()} == {"ok"}
    restored(lake, 1)
    restored(lake, 1 if lake.uri.startswith("delta") else 0)
    lake.add_rows(21, 3)
    assert {table.state for table in lake.once(25).values()} == {"ok"}
    assert rows_of(lake.uri, lake.loader) == {name: [(1, 1), (2, 2), (3, 3)] for name in (KEYED, COUNTED, OTHER)}


def test_a_table_that_no_longer_stages_rows_stops_alone(tmp_path: Path, lake_spark: SparkLoader) -> None:
    """Spark would publish them before the commit that goes with the progress."""
    lake = made("iceberg", tmp_path, lake_spark)
    lake.by_hand("ALTER TABLE {} UNSET TBLPROPERTIES ('write.wap.enabled')")
    lake.add_rows(21, 1)
    for checkpoint in (25, 26):
        found = lake.once(checkpoint)
        assert (found[KEYED].state, found[OTHER].state) == ("stopped", "ok")
        assert "write.wap.enabled" in found[KEYED].error
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1)]


def test_a_table_that_takes_appends_only_stops_alone(tmp_path: Path, lake_spark: SparkLoader) -> None:
    """Delta says so of each MERGE: nothing is gained by a further try, and the others do not wait for it."""
    lake = made("delta", tmp_path, lake_spark)
    lake.by_hand("ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly'='true')")
    lake.add_rows(21, 1)  # the same key
    found = lake.once(25)
    assert {name: table.state for name, table in found.items()} == {KEYED: "stopped", COUNTED: "ok", OTHER: "ok"}
    assert "only allow appends" in str(found[KEYED].error)
    assert app.resync(lake.settings, Recorder(), KEYED, lake.loader).tables[KEYED].state == "ok"


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_is_not_as_it_was_stops_alone(change: str, lake: Lake) -> None:
    CHANGES[change](lake)
    lake.add_rows(21, 2)
    found = lake.once(25)
    assert {name: table.state for name, table in found.items()} == {KEYED: "stopped", COUNTED: "stopped", OTHER: "ok"}
    for name in (KEYED, COUNTED):
        assert f"resync --table {name}" in str(found[name].hint)
    checks = app.verify(lake.settings, Recorder(), loader=lake.loader).tables
    assert {check.table: check.error is None for check in checks} == {KEYED: False, COUNTED: False, OTHER: True}
    for name in (KEYED, COUNTED):
        assert app.resync(lake.settings, Recorder(), name, lake.loader).tables[name].state == "ok"
    assert rows_of(lake.uri, lake.loader) == {name: [(1, 1), (2, 2)] for name in (KEYED, COUNTED, OTHER)}


def test_a_column_of_another_type_takes_what_it_can(lake: Lake) -> None:
    """Of a table with no key rows are appended: of the types that it has now. What it holds can be read."""
    lake.by_hand("ALTER TABLE {} DROP COLUMN v", "ALTER TABLE {} ADD COLUMN v STRING")
    lake.add_rows(21, 2)
    found = lake.once(25)
    assert found[OTHER].state == "ok"
    rows = rows_of(lake.uri, lake.loader)
    assert rows[OTHER] == [(1, 1), (2, 2)]
    for name in (KEYED, COUNTED):
        if found[name].state == "ok":
            assert rows[name] == [(1, None), (2, "2")]
        else:
            assert "resync" in str(found[name].hint)
            assert rows[name] == [(1, None)]


def _cut(folder: Path, pattern: str) -> None:
    newest = max(folder.glob(pattern), key=lambda file: file.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:100])
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)  # storage other than a local disk has none


def _without(folder: Path, pattern: str) -> None:
    for file in folder.glob(pattern):
        file.unlink()


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "iceberg: its files of rows are gone": ("iceberg", lambda folder: _without(folder, "**/*.parquet")),
    "delta: its files of rows are gone": ("delta", lambda folder: _without(folder, "**/*.parquet")),
    "iceberg: its newest metadata is cut": ("iceberg", lambda folder: _cut(folder, "metadata/*.metadata.json")),
    "iceberg: all lists of its files are gone": ("iceberg", lambda folder: _without(folder, "metadata/snap-*.avro")),
    "iceberg: the newest list of its files is cut": ("iceberg", lambda folder: _cut(folder, "metadata/snap-*.avro")),
    "iceberg: a file of rows is cut": ("iceberg", lambda folder: _cut(folder, "data/*.parquet")),
    "delta: its newest commit is cut": ("delta", lambda folder: _cut(folder, "_delta_log/*.json")),
    "delta: a file of rows is cut": ("delta", lambda folder: _cut(folder, "*.parquet")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_stop_their_table_alone(damage: str, tmp_path: Path, lake_spark: SparkLoader) -> None:
    """Nothing is gained by another try. The table can be loaded anew."""
    form, damaged = DAMAGES[damage]
    lake = made(form, tmp_path, lake_spark)
    damaged(tmp_path / "lake/d/k")
    lake.add_rows(21, 1)  # the same key
    found = lake.once(25)
    assert {name: table.state for name, table in found.items()} == {KEYED: "stopped", COUNTED: "ok", OTHER: "ok"}
    assert "resync --table d.k" in str(found[KEYED].hint)
    assert app.resync(lake.settings, Recorder(), KEYED, lake.loader).tables[KEYED].state == "ok"
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1)]


@pytest.mark.parametrize("pattern", ["*.parquet", "data/*.parquet"], ids=FORMATS)
def test_damaged_progress_is_said(pattern: str, tmp_path: Path, lake_spark: SparkLoader) -> None:
    lake = made("iceberg" if "/" in pattern else "delta", tmp_path, lake_spark)
    _cut(tmp_path / "lake/storage_consumer/progress", pattern)
    with pytest.raises(BadConfig, match="the progress in the target is not as any release leaves it"):
        lake.once(25)


def test_an_older_copy_that_was_put_back_is_not_written_to(lake: Lake, tmp_path: Path) -> None:
    """A process that was killed does not take it for what the table has."""
    folders = [tmp_path / "lake" / "d" / table for table in ("k", "n")]
    for folder in folders:
        shutil.copytree(folder, tmp_path / "copies" / folder.name)
    lake.add_rows(16, 2)
    assert {table.state for table in lake.once(17).values()} == {"ok"}
    lake.remove()
    for folder in folders:
        shutil.copytree(tmp_path / "copies" / folder.name, folder, dirs_exist_ok=True)
    sink = lake_sink(lake.uri, lake.loader)
    sink.acquire(sink.progress().upstream)
    sink.fence()
    sink.close()
    lake.add_rows(21, 3)
    found = lake.once(25)
    assert {name: table.state for name, table in found.items()} == {KEYED: "stopped", COUNTED: "stopped", OTHER: "ok"}
    for name in (KEYED, COUNTED):
        assert "lacks this program's newest commit" in found[name].error
        assert f"resync --table {name}" in str(found[name].hint)


def test_a_column_of_somebody_is_not_lost(lake: Lake) -> None:
    """A statement that writes the rows anew would leave it out. Rows go on until then."""
    lake.by_hand("ALTER TABLE {} ADD COLUMN own INT", "UPDATE {} SET own = 7")
    lake.add_rows(21, 2)
    assert {table.state for table in lake.once(25).values()} == {"ok"}
    for table, columns in (("k", (ID, VALUE)), ("n", NO_KEY)):
        added = f"ALTER TABLE `{table}` ADD COLUMN `w` INT DEFAULT 5"
        lake.feed.statement(f"d.{table}", 30, Action.ADD_COLUMN, added, (*columns, MORE))
    found = lake.once(35)
    for name in (KEYED, COUNTED):
        assert "somebody has added: own" in str(found[name].error)
        assert rows_of(lake.uri, lake.loader)[name] == [(1, 1, 7), (2, 2, None)]
    lake.by_hand("ALTER TABLE {} DROP COLUMN own")
    assert {table.state for table in lake.once(36).values()} <= {"ok"}
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1, 5), (2, 2, 5)]
