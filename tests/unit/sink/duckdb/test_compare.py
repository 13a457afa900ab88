"""A table of a file, read to be compared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from consumer.sink.duckdb.rows.compare import _together


@pytest.mark.parametrize(("width", "expected"), [(1, [800, 200]), (1_000, [200] * 5), (30, [400, 400, 200])])
def test_wide_rows_are_read_a_few_at_a_time(width: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.sink.duckdb.rows.compare._BATCH_ROWS", 800)
    monkeypatch.setattr("consumer.sink.duckdb.rows.compare._BATCH_BYTES", 12_000)
    batches = [pa.record_batch([pa.array(["x" * width] * 200)], names=["c0"]) for _ in range(5)]
    assert [table.num_rows for table in _together(batches)] == expected
