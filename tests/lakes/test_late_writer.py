"""A writer that freezes anywhere between looking at a table and committing changes nothing, whatever it was to do. The
other one does not see its locks, as on another machine: the format alone refuses the late one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from consumer.errors import BadConfig, ProgressMoved
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.sink.lake.formats import Alteration, Change, Commit, Rewrite, TableFormat
from consumer.sink.lake.iceberg import _Writing
from consumer.spark.load import SparkLoader
from tests.support.lakes import FORMATS, JDBC, elsewhere, lake_sink, lake_uri

COLUMNS = ["`id` BIGINT NOT NULL", "`v` STRING"]
FIRST, SECOND, LATE = (Commit(1, "c", 1), Commit(2, "other", 2), Commit(2, "c", 1))


def rows(spark: SparkSession, *values: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id BIGINT, v STRING").coalesce(1)


def merge(spark: SparkSession, change: Change, name: str) -> None:
    rows(spark, (1, "late"), (3, "late")).createOrReplaceTempView("late_rows")
    change.run(
        f"MERGE INTO {name} t USING late_rows s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )


KINDS: dict[str, Callable[[SparkSession, Change, str], None]] = {
    "append": lambda spark, change, _: change.append(rows(spark, (3, "late"))),
    "merge": merge,
    "replace": lambda spark, change, _: change.replace(
        Rewrite(rows(spark, (3, "late")).selectExpr("id", "v", "1 AS w"), {})
    ),
    "clear": lambda _spark, change, _: change.clear(),
    "alter": lambda _spark, change, _: change.alter(Alteration(added=[("w", "INT", "v")])),
}
MOMENTS = [*((lake, "has looked") for lake in FORMATS), *((lake, "has written") for lake in ("iceberg", JDBC))]


@pytest.mark.parametrize(("lake", "moment"), MOMENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_late_commit_changes_nothing(
    kind: str, lake: str, moment: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_late_commit(kind, moment, lake_uri(lake, tmp_path), tmp_path, lake_spark, monkeypatch)


def a_late_commit(
    kind: str, moment: str, uri: str, folder: Path, loader: SparkLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, other = lake_sink(uri, loader), lake_sink(elsewhere(uri, folder), loader)
    tables, late, early = sink._tables, sink._new_session(), other._new_session()
    place = tables.location(TableName("d", "t"))
    tables.create(late, place, COLUMNS, Layout())
    commit(tables, late, place, FIRST, (1, "a"))
    publish = _Writing._publish

    def first(*given: Any) -> None:
        """The other one comes before what is published."""
        monkeypatch.setattr(_Writing, "_publish", publish)
        commit(other._tables, early, place, SECOND, (2, "b"))
        publish(*given)

    def too_late() -> None:
        with tables.committing(late, place, LATE) as change:
            if moment == "has written":
                monkeypatch.setattr(_Writing, "_publish", first)
            else:
                commit(other._tables, early, place, SECOND, (2, "b"))
            KINDS[kind](late, change, tables.sql(place))

    with pytest.raises(ProgressMoved):
        too_late()
    found = tables.frame(sink._new_session(), place)
    assert (found.columns, sorted(map(tuple, found.collect()))) == (["id", "v"], [(1, "a"), (2, "b")])
    assert tables.latest(place) == SECOND
    commit(other._tables, early, place, SECOND.following(), (4, "d"))  # nothing of it comes back
    assert sorted(map(tuple, tables.frame(early, place).collect())) == [(1, "a"), (2, "b"), (4, "d")]


@pytest.mark.parametrize("lake", [*FORMATS, JDBC])
def test_a_late_record_is_not_there(lake: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    a_late_record(lake_uri(lake, tmp_path), lake_spark)


def a_late_record(uri: str, loader: SparkLoader) -> None:
    """Of the progress, which no job of Spark writes."""
    tables = lake_sink(uri, loader)._tables
    place = tables.location(TableName("storage_consumer", "progress"))
    one, other = (pa.table({"generation": [1], "record": [text]}) for text in ("one", "other"))
    tables.add(place, one, Commit(1), first=True)
    with pytest.raises(ProgressMoved):
        tables.add(place, other, Commit(1), first=True)
    tables.add(place, other, Commit(2))
    found, generation = tables.few(place)
    assert found is not None
    assert (sorted(found.column("record").to_pylist()), generation) == (["one", "other"], 2)


@pytest.mark.parametrize("lake", FORMATS)
def test_appends_without_spark_and_commits_of_spark_refuse_each_other(
    lake: str, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    sink = lake_sink(lake_uri(lake, tmp_path), lake_spark)
    tables, spark = sink._tables, sink._new_session()
    place, own = tables.location(TableName("d", "t")), pa.table({"id": pa.array([1], pa.int64()), "v": ["a"]})
    tables.create(spark, place, COLUMNS, Layout())
    assert tables.add(place, own, FIRST)
    assert tables.latest(place) == FIRST
    with pytest.raises(ProgressMoved):
        commit(tables, spark, place, Commit(1, consumer="late"), (2, "b"))
    commit(tables, spark, place, FIRST.following(), (3, "c"))
    with pytest.raises(ProgressMoved):
        tables.add(place, own, LATE)
    assert sorted(map(tuple, tables.frame(spark, place).collect())) == [(1, "a"), (3, "c")]


def commit(tables: TableFormat, spark: SparkSession, place: str, said: Commit, *values: tuple[int, str]) -> None:
    with tables.committing(spark, place, said) as change:
        change.append(rows(spark, *values))


@pytest.mark.parametrize(("first", "second"), [("delta", "iceberg"), ("iceberg", "delta"), ("iceberg", JDBC)])
def test_a_lake_is_refused_in_the_folder_of_another(
    first: str, second: str, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    """Iceberg would remove the files of a Delta table with its own, and Delta the other way round."""
    sink = lake_sink(lake_uri(first, tmp_path), lake_spark)
    sink.acquire("upstream")
    sink.close()
    other = lake_sink(lake_uri(second, tmp_path), lake_spark)
    with pytest.raises(BadConfig, match="another lake is in this folder"):
        other.acquire("upstream")
    other.close()
    again = lake_sink(lake_uri(first, tmp_path), lake_spark)
    again.acquire("upstream")
    again.close()
