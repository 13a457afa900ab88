"""[[consumer.lake-tables]]: new tables are laid out so, and stay so whatever statements do to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from consumer import app
from consumer.app.parts import listing_of, open_ports
from consumer.config.settings import Settings
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.pipeline.preview import preview_round
from consumer.sink.lake.delta import Delta
from consumer.sink.lake.formats import Commit, Rewrite
from consumer.spark.load import SparkLoader
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, Replica, states
from tests.support.lakes import FORMATS, JDBC, lake_sink, lake_tables, lake_uri
from tests.support.observers import Recorder

T = TableName("d", "t")
REGION, AT, MORE = Column("region", "VARCHAR", length=20), Column("at", "DATETIME"), Column("w", "INT", default="5")
AREA, LONG = replace(REGION, name="area"), replace(VALUE, type="BIGINT")
TYPES = {"id": "int", "region": "varchar", "area": "varchar", "at": "datetime", "v": "int", "w": "int"}
NEW_YEAR, LATER = "2024-01-01 00:00:00", "2024-01-02 12:00:00.000000"


def line(ts: int, kind: str = "INSERT", key: tuple[str, ...] = ("id",), **values: str | None) -> bytes:
    message = {
        "id": 0, "database": "d", "table": "t", "pkNames": key, "isDdl": False, "type": kind, "es": 0, "ts": 0,
        "sql": "", "sqlType": dict.fromkeys(values, 4), "mysqlType": {name: TYPES[name] for name in values},
        "old": None, "data": [values], "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return json.dumps(message).encode() + b"\r\n"


def begin(folder: Path, columns: tuple[Column, ...], query: str, *lines: bytes) -> Feed:
    feed = Feed(folder)
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, query, columns)
    feed.file("d.t", 10, b"".join(lines))
    return feed


def rule(**keys: object) -> dict[str, object]:
    return {"tables": ["d.*"], **{key.replace("_", "-"): value for key, value in keys.items()}}


def partitions(lake: str, folder: Path) -> list[str]:
    """By which the table is partitioned and clustered, as others read it: of Delta the log itself."""
    if lake != "delta":
        table = pytest.importorskip("pyiceberg.table").StaticTable
        found = table.from_metadata(str(max((folder / "lake/d/t/metadata").glob("*.json"), key=number)))
        names = {field.field_id: field.name for field in found.schema().fields}
        parts = [f"{field.transform} {names[field.source_id]}" for field in found.spec().fields]
        return [*parts, *(f"near {names[field.source_id]}" for field in found.sort_order().fields)]
    newest, actions = delta_metadata(folder), delta_actions(folder)
    columns = json.loads(newest["schemaString"])["fields"]
    names = {
        column["metadata"].get("delta.columnMapping.physicalName", column["name"]): column["name"] for column in columns
    }
    told = [action["domainMetadata"] for action in actions if "domainMetadata" in action]
    near = [one for one in told if one["domain"] == "delta.clustering"][-1:]
    clustered = [
        column for one in near if not one["removed"] for column in json.loads(one["configuration"])["clusteringColumns"]
    ]
    return [
        *(f"identity {name}" for name in newest["partitionColumns"]),
        *(f"near {names[path[0]]}" for path in clustered),
    ]


def delta_actions(folder: Path) -> list[dict[str, Any]]:
    log = sorted((folder / "lake/d/t/_delta_log").glob("*.json"))
    return [json.loads(text) for file in log for text in file.read_text().splitlines()]


def delta_metadata(folder: Path) -> dict[str, Any]:
    return [action["metaData"] for action in delta_actions(folder) if "metaData" in action][-1]


def number(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime_ns, path.name


def rows(uri: str, loader: SparkLoader) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lake_tables(uri, loader)[T].to_pylist())


def applied(settings: Settings, loader: SparkLoader) -> dict[str, str]:
    return states(app.once(settings, Recorder(), loader))


RULES = {
    "delta": rule(partition_by=["REGION"], copy_on_write=True),
    "iceberg": rule(
        partition_by=["REGION", "days(at)", "bucket(4, id)"],
        cluster_by=["v"],
        copy_on_write=True,
    ),
}
OTHERS = {"delta": [], "iceberg": ["day at", "bucket[4] id", "near v"]}


@pytest.mark.parametrize(("lake", "anew"), [("delta", True), ("iceberg", True), ("iceberg", False), (JDBC, False)])
def test_a_changefeed_with_statements(lake: str, anew: bool, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """`anew`: files are written anew, and not merged on read. Rows move between partitions; then rows are written anew,
    and a column of the partition gets another name, which a new one takes, and goes."""
    one, two = datetime(2024, 1, 1), datetime(2024, 1, 2, 12)
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(20),`at` DATETIME,`v` INT)"
    first = line(11, id="1", region="eu", at=NEW_YEAR, v="1")
    second, third = line(12, id="2", region="us", at=LATER, v="2"), line(13, id="3", region=None, at=None, v="3")
    feed = begin(tmp_path / "storage", (ID, REGION, AT, VALUE), query, first, second, third)
    uri, kind = lake_uri(lake, tmp_path), "delta" if lake == "delta" else "iceberg"
    own = RULES[kind] if anew else {**RULES[kind], "copy-on-write": False}
    settings = Replica(feed, uri).settings(lake_tables=[own])

    def then(checkpoint: int, by: str | None, *wanted: tuple[Any, ...]) -> None:
        feed.checkpoint(checkpoint)
        assert set(applied(settings, lake_spark).values()) <= {"ok"}, checkpoint
        assert rows(uri, lake_spark) == sorted(wanted), checkpoint
        assert partitions(lake, tmp_path) == ([f"identity {by}"] if by else []) + OTHERS[kind], checkpoint

    then(15, "region", (1, "eu", one, 1), (2, "us", two, 2), (3, None, None, 3))
    moved = line(20, "UPDATE", id="1", region="us", at=LATER, v="1")
    gone, new = line(21, "DELETE", id="3", region=None, at=None, v="3"), line(22, id="4", region="x/ü", at=None, v="4")
    feed.file("d.t", 10, moved + gone + new)
    then(25, "region", (1, "us", two, 1), (2, "us", two, 2), (4, "x/ü", None, 4))
    columns: tuple[Column, ...] = (ID, REGION, AT, VALUE, MORE)
    feed.statement("d.t", 30, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 5", columns)
    feed.file("d.t", 30, line(31, "UPDATE", id="2", region="eu", at=LATER, v="2", w="6"))
    then(35, "region", (1, "us", two, 1, 5), (2, "eu", two, 2, 6), (4, "x/ü", None, 4, 5))
    columns = (ID, AREA, AT, VALUE, MORE)
    feed.statement("d.t", 40, Action.MODIFY_COLUMN, "ALTER TABLE `t` RENAME COLUMN `region` TO `area`", columns)
    feed.file("d.t", 40, line(41, id="5", area="eu", at=NEW_YEAR, v="5", w="7"))
    then(45, "area", (1, "us", two, 1, 5), (2, "eu", two, 2, 6), (4, "x/ü", None, 4, 5), (5, "eu", one, 5, 7))
    columns = (ID, AREA, AT, LONG, MORE, REGION)
    feed.statement(
        "d.t",
        50,
        Action.ADD_COLUMN,
        "ALTER TABLE `t` ADD COLUMN `region` VARCHAR(20)",
        (*columns[:3], VALUE, *columns[4:]),
    )
    feed.statement("d.t", 51, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` BIGINT", columns)
    feed.file("d.t", 51, line(52, "DELETE", id="4", area="x/ü", at=None, v="4", w="5", region=None))
    then(55, "area", (1, "us", two, 1, 5, None), (2, "eu", two, 2, 6, None), (5, "eu", one, 5, 7, None))
    columns = (ID, AT, LONG, MORE, REGION)
    feed.statement("d.t", 60, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `area`", columns)
    feed.file("d.t", 60, line(61, "UPDATE", id="1", at=NEW_YEAR, v="9", w="5", region="eu"))
    then(65, None, (1, one, 9, 5, "eu"), (2, two, 2, 6, None), (5, one, 5, 7, None))
    feed.truncate("d.t", 70, columns)
    feed.file("d.t", 70, line(71, id="8", at=NEW_YEAR, v="8", w="8", region="as"))
    then(75, None, (8, one, 8, 8, "as"))


@pytest.mark.parametrize("lake", FORMATS)
def test_a_text_of_a_partition_that_no_folder_could_be_called(
    lake: str, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    """Before and behind a statement that writes the rows anew."""
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(300),`v` INT)"
    texts = ("ä" * 300, "../../up", "a/b=c", "100%", ".")
    lines = (line(11 + n, id=str(n), region=text, v="1") for n, text in enumerate(texts))
    feed, uri = begin(tmp_path / "storage", (ID, REGION, VALUE), query, *lines), lake_uri(lake, tmp_path)
    settings = Replica(feed, uri).settings(lake_tables=[rule(partition_by=["region"])])
    feed.checkpoint(20)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    feed.file("d.t", 10, b"".join(line(21, "UPDATE", id=str(n), region=text, v="2") for n, text in enumerate(texts)))
    columns = (ID, REGION, VALUE, MORE)
    feed.statement("d.t", 30, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 5", columns)
    feed.file("d.t", 30, line(31, "UPDATE", id="0", region=texts[0], v="3", w="6"))
    feed.checkpoint(40)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    assert rows(uri, lake_spark) == [(0, texts[0], 3, 6), *((n, text, 2, 5) for n, text in enumerate(texts[1:], 1))]


@pytest.mark.parametrize("lake", FORMATS)
def test_what_stays_where_rows_are_written_anew(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """A key is NOT NULL. The history of an Iceberg table is whole: each snapshot builds on the one before. Its
    identifier fields are the key, also where that changes."""
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)"
    feed, uri = begin(tmp_path / "storage", (ID, VALUE), query, line(11, id="1", v="1")), lake_uri(lake, tmp_path)
    added = "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 5"
    feed.statement("d.t", 20, Action.ADD_COLUMN, added, (ID, VALUE, MORE))
    feed.file("d.t", 20, line(21, id="2", v="2", w="6"))
    feed.checkpoint(30)
    assert applied(Replica(feed, uri).settings(), lake_spark) == {"d.t": "ok"}
    sink = lake_sink(uri, lake_spark)
    columns = sink._tables.frame(sink._session(), sink._tables.location(T)).schema
    assert {column.name: column.nullable for column in columns} == {"id": False, "v": True, "w": True}
    assert rows(uri, lake_spark) == [(1, 1, 5), (2, 2, 6)]
    if lake == "iceberg":
        table = pytest.importorskip("pyiceberg.table").StaticTable.from_metadata(f"{tmp_path}/lake/d/t")
        numbers = [one.snapshot_id for one in table.snapshots()]
        assert [one.parent_snapshot_id for one in table.snapshots()] == [None, *numbers[:-1]]
        before = table.scan(snapshot_id=numbers[0]).to_arrow().to_pylist()
        assert before == [{"id": 1, "v": 1}]
        assert table.schema().identifier_field_names() == {"id"}
        renamed = "ALTER TABLE `t` RENAME COLUMN `id` TO `n`"
        feed.statement("d.t", 40, Action.MODIFY_COLUMN, renamed, (replace(ID, name="n"), VALUE, MORE))
        feed.checkpoint(45)
        assert applied(Replica(feed, uri).settings(), lake_spark) == {"d.t": "ok"}
        table = type(table).from_metadata(f"{tmp_path}/lake/d/t")
        assert table.schema().identifier_field_names() == {"n"}
        dropped = "ALTER TABLE `t` DROP PRIMARY KEY"
        feed.statement("d.t", 50, Action.DROP_PRIMARY_KEY, dropped, (replace(ID, name="n", is_pk=False), VALUE, MORE))
        feed.checkpoint(55)
        assert applied(Replica(feed, uri).settings(), lake_spark) == {"d.t": "ok"}
        table = type(table).from_metadata(f"{tmp_path}/lake/d/t")
        assert table.schema().identifier_field_names() == set()
        assert rows(uri, lake_spark) == [(1, 1, 5), (2, 2, 6)]


def regions_in(file: Path) -> list[str]:
    """Of a file of Delta's none: the log has the values of its partition."""
    found = pq.read_table(file, partitioning=None)
    return found.column("region").to_pylist() if "region" in found.column_names else []


@pytest.mark.parametrize("lake", FORMATS)
def test_partitions_without_changes_are_not_read(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Where the key says of which partition a row is: the files of others can be away."""
    query = "CREATE TABLE `t` (`region` VARCHAR(20),`id` INT,`v` INT,PRIMARY KEY (`region`,`id`))"
    columns = (replace(REGION, nullable=False, is_pk=True), ID, VALUE)
    key = ("region", "id")
    first = (line(11, key=key, region=region, id="1", v="1") for region in ("as", "eu", "us"))
    feed, uri = begin(tmp_path / "storage", columns, query, *first), lake_uri(lake, tmp_path)
    settings = Replica(feed, uri).settings(lake_tables=[rule(partition_by=["region"])])
    feed.checkpoint(15)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    away = {file: file.read_bytes() for file in (tmp_path / "lake/d/t").rglob("*.parquet")}
    for log in (tmp_path / "lake/d/t").glob("_delta_log/*.json"):
        added = (json.loads(text).get("add") for text in log.read_text().splitlines())
        regions = {one["path"]: [*one["partitionValues"].values()] for one in added if one is not None}
        away = {
            file: content
            for file, content in away.items()
            if regions.get(str(file.relative_to(log.parents[1]))) != ["eu"]
        }
    away = {file: content for file, content in away.items() if regions_in(file) != ["eu"]}
    for file in away:
        file.unlink()
    feed.file("d.t", 10, line(20, "UPDATE", key, region="eu", id="1", v="2"))
    feed.checkpoint(25)
    assert len(away) == 2
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    for file, content in away.items():
        file.write_bytes(content)
    assert rows(uri, lake_spark) == [("as", 1, 1), ("eu", 1, 2), ("us", 1, 1)]


def test_a_clustered_table_of_delta_stays_clustered(lake_spark: SparkLoader, tmp_path: Path) -> None:
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(20),`v` INT)"
    feed = begin(tmp_path / "storage", (ID, REGION, VALUE), query, line(11, id="1", region="", v="1"))
    uri = lake_uri("delta", tmp_path)
    settings = Replica(feed, uri).settings(lake_tables=[rule(cluster_by=["region", "id"])])
    feed.checkpoint(15)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    assert partitions("delta", tmp_path) == ["near region", "near id"]
    feed.statement("d.t", 20, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` BIGINT", (ID, REGION, LONG))
    renamed = "ALTER TABLE `t` RENAME COLUMN `region` TO `area`"
    feed.statement("d.t", 21, Action.MODIFY_COLUMN, renamed, (ID, AREA, LONG))
    feed.file("d.t", 21, line(22, id="2", area="eu", v="2"))
    feed.checkpoint(25)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    assert partitions("delta", tmp_path) == ["near area", "near id"]
    feed.statement("d.t", 30, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `area`", (ID, LONG))
    feed.file("d.t", 30, line(31, "UPDATE", id="1", v="3"))
    feed.checkpoint(35)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    assert partitions("delta", tmp_path) == ["near id"]
    log = (file.read_text().splitlines() for file in (tmp_path / "lake/d/t/_delta_log").glob("*.json"))
    told = [json.loads(text).get("domainMetadata", {}) for lines in log for text in lines]
    assert not any(one.get("removed") for one in told), "a death behind that commit would leave it unclustered"
    assert rows(uri, lake_spark) == [(1, 3), (2, 2)]


@pytest.mark.parametrize("lake", FORMATS)
def test_a_column_that_is_not_there_stops_its_table(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(20))"
    feed = begin(tmp_path / "storage", (ID, REGION), query, line(11, id="1", region="eu"))
    feed.create("d.u", 12)
    feed.checkpoint(15)
    replica = Replica(feed, lake_uri(lake, tmp_path))
    wrong = replica.settings(lake_tables=[rule(partition_by=["region"])])
    with open_ports(wrong, Recorder(), lake_spark) as ports:
        progress = ports.sink.progress()
        listing = listing_of(wrong, ports.reader, progress)
        planned = str(preview_round(ports.reader, ports.sink, listing, progress, wrong.round_options).model_dump())
    assert "PARTITIONED BY (`region`)" in planned
    assert "the table has no column region" in planned
    assert applied(wrong, lake_spark) == {"d.t": "ok", "d.u": "stopped"}
    right = replica.settings(lake_tables=[{"tables": ["d.t"], "partition-by": ["region"]}])
    assert applied(right, lake_spark) == {"d.t": "ok", "d.u": "ok"}


def test_an_empty_text_in_a_partition_of_delta_stops_its_table(lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Delta would make NULL of it."""
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(20))"
    feed = begin(tmp_path / "storage", (ID, REGION), query, line(11, id="1", region="eu"))
    uri = lake_uri("delta", tmp_path)
    settings = Replica(feed, uri).settings(lake_tables=[rule(partition_by=["region"])])
    feed.checkpoint(15)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    feed.file("d.t", 10, line(20, id="2", region=""))
    feed.checkpoint(25)
    result = app.once(settings, Recorder(), lake_spark)
    assert states(result) == {"d.t": "stopped"}
    assert "empty text in region" in str(result.tables)
    assert rows(uri, lake_spark) == [(1, "eu")]


def test_delta_cannot_partition_by_what_a_statement_made_bytes(lake_spark: SparkLoader, tmp_path: Path) -> None:
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(20))"
    feed = begin(tmp_path / "storage", (ID, REGION), query, line(11, id="1", region="eu"))
    uri = lake_uri("delta", tmp_path)
    settings = Replica(feed, uri).settings(lake_tables=[rule(partition_by=["region"])])
    feed.checkpoint(15)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    query = "ALTER TABLE `t` MODIFY COLUMN `region` VARBINARY(20)"
    feed.statement("d.t", 20, Action.MODIFY_COLUMN, query, (ID, replace(REGION, type="VARBINARY")))
    feed.checkpoint(25)
    result = app.once(settings, Recorder(), lake_spark)
    assert states(result) == {"d.t": "stopped"}
    assert "the column region is BINARY, by which Delta cannot partition" in result.tables[T].error
    mended = settings.model_copy(update={"lake_tables": ()})
    assert app.resync(mended, Recorder(), T, lake_spark).exit_code == 0
    assert rows(uri, lake_spark) == [(1, b"eu")]


def test_delta_has_no_table_of_partition_columns_alone(lake_spark: SparkLoader, tmp_path: Path) -> None:
    query = "CREATE TABLE `t` (`region` VARCHAR(20) PRIMARY KEY,`v` INT)"
    region = replace(REGION, nullable=False, is_pk=True)
    feed = begin(tmp_path / "storage", (region, VALUE), query, line(11, key=("region",), region="eu", v="1"))
    uri = lake_uri("delta", tmp_path)
    settings = Replica(feed, uri).settings(lake_tables=[rule(partition_by=["region"])])
    feed.checkpoint(15)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    feed.statement("d.t", 20, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `v`", (region,))
    feed.file("d.t", 20, line(21, key=("region",), region="us"))
    feed.checkpoint(25)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    assert partitions("delta", tmp_path) == []
    assert sorted(rows(uri, lake_spark)) == [("eu",), ("us",)]


@pytest.mark.parametrize("query", ["DROP COLUMN `region`", "RENAME COLUMN `region` TO `area`"])
def test_statistics_of_delta_follow_the_names_of_columns(query: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(20))"
    feed = begin(tmp_path / "storage", (ID, REGION), create, line(11, id="1", region="eu"))
    uri, named = lake_uri("delta", tmp_path), "delta.dataSkippingStatsColumns"
    settings = Replica(feed, uri).settings(lake_tables=[rule(properties={named: "region, id"})])
    feed.checkpoint(15)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    renamed = query.startswith("RENAME")
    action = Action.MODIFY_COLUMN if renamed else Action.DROP_COLUMN
    feed.statement("d.t", 20, action, f"ALTER TABLE `t` {query}", (ID, AREA) if renamed else (ID,))
    feed.file("d.t", 20, line(21, id="2", **({"area": "us"} if renamed else {})))
    feed.checkpoint(25)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    newest = delta_metadata(tmp_path)["configuration"][named]
    assert newest.replace("`", "") == ("area,id" if renamed else "id")
    assert sorted(rows(uri, lake_spark)) == ([(1, "eu"), (2, "us")] if renamed else [(1,), (2,)])


def test_a_column_that_somebody_adds_while_delta_writes_rows_anew_stays(
    lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`region` VARCHAR(20))"
    feed = begin(tmp_path / "storage", (ID, REGION), create, line(11, id="1", region="eu"))
    uri = lake_uri("delta", tmp_path)
    settings = Replica(feed, uri).settings(max_wait="5s")
    feed.checkpoint(15)
    assert applied(settings, lake_spark) == {"d.t": "ok"}
    change = Delta.committing
    place = lake_sink(uri, lake_spark)._tables.location(T)

    @contextmanager
    def altered(tables: Delta, spark: Any, at: str, commit: Commit) -> Iterator[Any]:
        with change(tables, spark, at, commit) as found:
            yield Meanwhile(found, lambda: spark.sql(f"ALTER TABLE delta.`{place}` ADD COLUMNS (z INT)"))

    monkeypatch.setattr(Delta, "committing", altered)
    feed.statement("d.t", 20, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `region`", (ID,))
    feed.checkpoint(25)
    result = app.once(settings, Recorder(), lake_spark)
    monkeypatch.undo()
    assert result.exit_code != 0
    assert app.once(settings, Recorder(), lake_spark).exit_code == 5, "the column is there, and is told by name"
    assert rows(uri, lake_spark) == [(1, "eu", None)]


@dataclass
class Meanwhile:
    """A `Change` before whose `replace` something else happens once."""

    change: Any
    happens: Callable[[], object]

    def replace(self, rewrite: Rewrite) -> None:
        self.happens()
        self.change.replace(rewrite)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.change, name)
