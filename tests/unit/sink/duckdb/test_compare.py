"""A table of a file, read to be compared."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from consumer.errors import BadConfig
from consumer.sink.columnar.table import ReplicaTable
from consumer.sink.duckdb.rows.compare import DuckDbComparer, _together
from tests.support.build import ID
from tests.support.canal_json import target_of


@pytest.mark.parametrize(("width", "expected"), [(1, [800, 200]), (1_000, [200] * 5), (30, [400, 400, 200])])
def test_wide_rows_are_read_a_few_at_a_time(width: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.sink.duckdb.rows.compare._BATCH_ROWS", 800)
    monkeypatch.setattr("consumer.sink.duckdb.rows.compare._BATCH_BYTES", 12_000)
    batches = [pa.record_batch([pa.array(["x" * width] * 200)], names=["c0"]) for _ in range(5)]
    assert [table.num_rows for table in _together(batches)] == expected


def test_a_file_that_a_worker_does_not_see_is_no_empty_table(tmp_path: Path) -> None:
    target = target_of([ID])
    table = ReplicaTable(target.name, {"id": "INTEGER"}, upstream=None)
    comparer = DuckDbComparer(str(tmp_path / "replica.duckdb"), table, target, rows=9)
    with pytest.raises(BadConfig, match="a Spark worker does not see the file") as told:
        list(comparer.held(0))
    assert "share" in told.value.hint
