"""The checksum in a schema file's name: CRC-32 over the names and columns, written as TiCDC's Go code writes them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from consumer.layout import go_json

COLUMN_MEMBERS = (
    "ColumnId",
    "ColumnName",
    "ColumnType",
    "ColumnDefault",
    "ColumnPrecision",
    "ColumnScale",
    "ColumnNullable",
    "ColumnIsPk",
    "ColumnElems",
)
"""The members of one of ``TableColumns``, in the order in which they are written."""


def checksum(
    database: str,
    table: str,
    columns: Iterable[Mapping[str, object]],
    *,
    short_controls: bool = True,
    lost_byte: str | None = None,
) -> int:
    r"""The checksum of a schema file whose ``TableColumns`` are `columns` (as JSON members, in any order).

    `short_controls` tells the two spellings of backspace and form feed apart, `lost_byte` is a placeholder for the
    escape ``\ufffd``: see `go_json.dumps`.
    """
    kept = [{name: column[name] for name in COLUMN_MEMBERS if name in column} for column in columns]
    hashed = {
        "Table": table,
        "Schema": database,
        "Version": 0,
        "TableColumns": sorted(kept, key=lambda column: str(column["ColumnName"])),
        "TableColumnsTotal": len(kept),
    }
    return zlib.crc32(go_json.dumps(hashed, short_controls=short_controls, lost_byte=lost_byte).encode())
