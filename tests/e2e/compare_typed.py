"""Compare rows in Spark's types with a recorded table of the upstream, by the table of types in docs/types.md."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.e2e.compare_duckdb import Cell, _is_virtual, unmatched

DOC = Path(__file__).parents[2] / "docs" / "types.md"
_DAYS = ("DATE", "DATETIME", "TIMESTAMP")
_LINES = DOC.read_text(encoding="utf-8").partition("## Types in Spark")[2]
_DOCUMENTED: dict[str, str] = dict(re.findall(r"^\| `([A-Z]+(?: UNSIGNED)?)[^`]*` \| `([^`]*)`", _LINES, re.M))
_IN_SPARK = {
    pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float",
    pa.float64(): "double", pa.string(): "string", pa.binary(): "binary", pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz", pa.timestamp("us", "UTC"): "timestamp",
}  # fmt: skip
_WIDER = {"tinyint": "int", "smallint": "int"}
"""Types that Iceberg does not have."""


def documented(cell: Cell) -> str:
    """The type in Spark that the documentation promises."""
    sizes = [int(size) for size in re.findall(r"\d+", cell.type)] or [1]
    if cell.base == "DECIMAL":
        return f"decimal({sizes[0]},{sizes[1]})" if sizes[0] <= 38 else "string"
    if cell.base == "BIT":
        return "decimal(20,0)" if sizes[0] == 64 else "bigint"
    unsigned = f"{cell.base} UNSIGNED"
    return _DOCUMENTED[unsigned if "unsigned" in cell.type and unsigned in _DOCUMENTED else cell.base]


def in_spark(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return f"array<{in_spark(kind.value_type)}>" if pa.types.is_list(kind) else _IN_SPARK[kind]


def differences(found: pa.Table, table: dict[str, Any], folder: Path, lake: str = "") -> list[str]:
    """Of `found`, which may be in a `lake`, from the recorded `table`, whose rows are in `folder`."""
    recorded = [Cell(column["name"], column["type"], column["kind"]) for column in table["columns"]]
    kept = [place for place, cell in enumerate(recorded) if not _is_virtual(cell.name, table["create"])]
    cells = [recorded[place] for place in kept]
    names = [cell.name for cell in cells]
    if found.column_names != names:
        return [f"columns {found.column_names}, expected {names}"]
    for cell, kind in zip(cells, found.schema.types, strict=True):
        promised, got_type = documented(cell), in_spark(kind)
        if got_type != (_WIDER.get(promised, promised) if lake == "iceberg" else promised):
            return [f"column {cell.name} ({cell.type}) is {got_type}, documented is {promised}"]
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
        return tuple(float(str(np.float32(each))) for each in value)
    if isinstance(value, date):
        return str(value)
    return cell.value(f"{value:f}" if isinstance(value, Decimal) else str(value))


def wanted(cell: Cell, text: str | None) -> Any:
    if text is None or (cell.base in _DAYS and (text.startswith("0000") or "-00" in text[:10])):
        return None
    if cell.base == "DATE":
        return text
    return cell.wanted("TIMESTAMP" if cell.base in _DAYS else "")(text)
