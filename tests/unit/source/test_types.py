"""Every value of the type cases, as a data source reads it: what DuckDB holds, but for the types that Spark lacks."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from consumer.codec.csv.options import CsvFormat
from consumer.model.columns import Column, Family
from tests.support.spark_source import read
from tests.support.type_cases import ZONE, Value
from tests.support.type_storage import DATABASE, TypeStorage

CSV = """[sink]
protocol = "csv"
[sink.csv]
delimiter = ","
quote = '"'
include-commit-ts = true
binary-encoding-method = "base64"
"""
_DAYS = (Family.DATE, Family.DATETIME, Family.TIMESTAMP)


def given(column: Column, value: Value | None) -> object:
    """What Spark has of what DuckDB holds."""
    held = None if value is None else value.duckdb
    if column.family in _DAYS and isinstance(held, str):  # DuckDB keeps a day that no calendar has as a text
        try:
            return date.fromisoformat(held) if column.family is Family.DATE else datetime.fromisoformat(held)
        except ValueError:
            return None
    if column.family is Family.VECTOR and isinstance(held, str):
        return json.loads(held)
    if isinstance(held, int) and (column.type, column.unsigned) == ("BIGINT", True):
        return Decimal(held)
    return Decimal(held) if column.type == "BIT" and (column.length or 1) > 63 and isinstance(held, int) else held


def plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


@pytest.mark.parametrize("csv", [None, CsvFormat(include_commit_ts=True)], ids=["canal-json", "csv"])
def test_every_value_is_that_of_duckdb(csv: CsvFormat | None, tmp_path: Path) -> None:
    storage = TypeStorage(tmp_path / "storage", csv)
    config = tmp_path / "changefeed.toml"
    config.write_text(CSV if csv else '[sink]\nprotocol = "canal-json"\n')
    wrong, seen = [], 0
    for table in storage.tables:
        asked = {"table": f"{DATABASE}.{table.name}", "config": str(config), "tz": ZONE, "mode": "state"}
        columns = [case.column for case in table.cases]
        found = sorted(
            repr([plain(v) for v in row.values()]) for row in read(f"file://{storage.folder}", **asked).to_pylist()
        )
        want = sorted(repr([given(c, v) for c, v in zip(columns, row, strict=True)]) for row in table.final)
        seen += len(want)
        wrong += [(table.name, *pair) for pair in zip(want, found, strict=True) if pair[0] != pair[1]]
    assert wrong == []
    assert seen > 150
