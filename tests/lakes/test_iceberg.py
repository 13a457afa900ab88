"""Iceberg tables are kept small, and what this program looks for stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consumer.errors import TargetBusy
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.sink.lake.formats import Commit
from consumer.sink.lake.iceberg import Iceberg
from consumer.spark.load import SparkLoader
from tests.lakes.test_late_writer import COLUMNS, commit, merge, rows
from tests.support.lakes import lake_sink, lake_uri


def test_a_table_is_kept_small_beside_a_writer(lake_spark: SparkLoader, tmp_path: Path) -> None:
    sink = lake_sink(lake_uri("iceberg", tmp_path), lake_spark)
    tables, spark = sink._tables, sink._new_session()
    assert isinstance(tables, Iceberg)
    place = tables.location(TableName("d", "t%.x"))
    tables.create(spark, place, COLUMNS, Layout())
    for number, values in enumerate([(1, "a"), (2, "b")], 1):
        commit(tables, spark, place, Commit(number), values)
    with tables.committing(spark, place, Commit(3)) as change:
        merge(spark, change, tables.sql(place))
    sink._lock.take()
    with pytest.raises(TargetBusy, match="whose catalog is a folder"):
        list(lake_sink(lake_uri("iceberg", tmp_path), lake_spark).maintain(timedelta(days=1)))
    sink._lock.release()
    assert tables.compact(spark, place) == (3, 1)
    tables.expire(spark, place, 0)
    assert tables.latest(place) == Commit(3)
    assert sorted(map(tuple, tables.frame(spark, place).collect())) == [(1, "late"), (2, "b"), (3, "late")]

    def disturbed() -> None:
        with tables.committing(spark, place, Commit(4)) as change:
            spark.sql(f"DELETE FROM {tables.sql(place)} WHERE id = 2").collect()  # by somebody else
            change.append(rows(spark, (4, "d")))

    with pytest.raises(TargetBusy):
        disturbed()
    commit(tables, spark, place, Commit(4), (5, "e"))
    assert sorted(map(tuple, tables.frame(spark, place).collect())) == [(1, "late"), (3, "late"), (5, "e")]
    hour = timedelta(hours=1)
    assert tables.places() == [place]
    assert tables.is_left(spark, place, datetime.now(UTC) + hour)
    assert not tables.is_left(spark, place, datetime.now(UTC) - hour)
