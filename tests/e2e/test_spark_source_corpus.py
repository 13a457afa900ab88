"""The recorded changefeeds as a data source reads them: each table's state is upstream's own."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import CannotBeExact, ConsumerError, TableMissing
from tests.e2e.compare_duckdb import Cell, _is_virtual, unmatched
from tests.e2e.corpus import Case, read_cases
from tests.support.spark_source import read

CORPUS = Path(__file__).parents[2] / "fixtures" / "cdc"
_DAYS = ("DATE", "DATETIME", "TIMESTAMP")
REFUSED: dict[tuple[str, str], type[ConsumerError]] = {
    ("tiflow/d2_nokey/csv_ts", "nk.t"): CannotBeExact,
    ("tiflow/d2_nokey/csv_ts", "nk.uknull"): CannotBeExact,
    ("tiflow/e_part/cj_ext", "pt.ex"): CannotBeExact,
    ("tiflow/e_part/cj_ext", "pt.r"): CannotBeExact,
    ("tiflow/h4_preexist/cj_ext", "px.idle"): TableMissing,
    ("tiflow/h4_preexist/cj_ext", "px.t"): CannotBeExact,
}
"""No key and no old rows, rows that an EXCHANGE PARTITION brought, tables that are older than the changefeed."""


NAMES = [line.split()[0] for line in (CORPUS / "cases.txt").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_each_table_is_that_of_upstream(name: str, tmp_path: Path) -> None:
    (case,) = (one for one in read_cases(CORPUS, tmp_path / "unpacked") if one.name == name)
    storage = tmp_path / "storage"
    storage.mkdir()
    case.feed(storage)
    tables = json.loads((case.expected() / "tables.json").read_text(encoding="utf-8"))["tables"]
    for table in tables:
        if table["type"] == "BASE TABLE":
            check(case, storage, table)


def check(case: Case, storage: Path, table: dict[str, Any]) -> None:
    name = f"{table['schema']}.{table['table']}"
    asked = {"table": name, "mode": "state", "config": str(case.folder / "config.toml")}
    if "--checkpoint-ts max" in case.note:
        asked["checkpoint_ts"] = "max"
    for flag, value in case.flags.items():
        if flag != "routes":
            asked[flag] = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
    uri = f"file://{storage}?protocol={case.protocol}"
    if (refused := REFUSED.get((case.name, name))) is not None:
        with pytest.raises(refused):
            read(uri, **asked)
        return
    found = read(uri, **asked)
    recorded = [Cell(column["name"], column["type"], column["kind"]) for column in table["columns"]]
    kept = [place for place, cell in enumerate(recorded) if not _is_virtual(cell.name, table["create"])]
    cells = [recorded[place] for place in kept]
    lines = (case.expected() / table["file"]).read_text(encoding="utf-8").split("\n")
    want = [
        tuple(wanted(recorded[place], row[place]) for place in kept) for row in map(json.loads, filter(None, lines))
    ]
    got = [tuple(map(held, cells, row.values())) for row in found.to_pylist()]
    floats = [place for place, cell in enumerate(cells) if cell.is_float]
    assert unmatched(want, got, floats) == ([], []), name
    assert not found.num_rows or found.column_names == [cell.name for cell in cells]


def held(cell: Cell, value: Any) -> Any:
    if value is None or isinstance(value, float):
        return value
    if cell.kind == "hex":
        return value.hex().upper()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, date):
        return str(value)
    return cell.value(f"{value:f}" if isinstance(value, Decimal) else str(value))


def wanted(cell: Cell, text: str | None) -> Any:
    if text is None or (cell.base in _DAYS and (text.startswith("0000") or "-00" in text[:10])):
        return None
    if cell.base == "DATE":
        return text
    return cell.wanted("TIMESTAMP" if cell.base in _DAYS else "")(text)
