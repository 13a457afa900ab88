"""Compare rows in Spark's types with a recorded table of the upstream, by the table of types in docs/types.md."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.e2e.compare_duckdb import Cell, _is_virtual, unmatched

_DAYS = ("DATE", "DATETIME", "TIMESTAMP")


def differences(found: pa.Table, table: dict[str, Any], folder: Path) -> list[str]:
    """Of `found` from the recorded `table`, whose rows are in `folder`."""
    recorded = [Cell(column["name"], column["type"], column["kind"]) for column in table["columns"]]
    kept = [place for place, cell in enumerate(recorded) if not _is_virtual(cell.name, table["create"])]
    cells = [recorded[place] for place in kept]
    names = [cell.name for cell in cells]
    if found.column_names != names and found.num_rows:
        return [f"columns {found.column_names}, expected {names}"]
    lines = (folder / table["file"]).read_text(encoding="utf-8").split("\n")
    want = [
        tuple(wanted(recorded[place], row[place]) for place in kept) for row in map(json.loads, filter(None, lines))
    ]
    got = [tuple(map(held, cells, row.values())) for row in found.to_pylist()]
    floats = [place for place, cell in enumerate(cells) if cell.is_float]
    missing, extra = unmatched(want, got, floats)
    if not missing and not extra:
        return []
    return [f"{len(missing)} rows missing, {len(extra)} unexpected; first {missing[:1]}, {extra[:1]}"]


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
