"""The small files of a changefeed, as TiCDC writes them."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from consumer.layout import schema_file
from consumer.layout.paths import INDEX_WIDTH, DataPath, SchemaPath, render
from consumer.layout.schema_file import FORMAT_VERSION, checksum, root_of
from consumer.model.columns import Column


def render_checkpoint(checkpoint: int) -> bytes:
    """The content of ``metadata`` for a checkpoint."""
    return orjson.dumps({"checkpoint-ts": checkpoint})


def render_index_file(newest: DataPath, index_width: int = INDEX_WIDTH) -> bytes:
    """The content of the index file of ``newest.folder``."""
    return (render(newest, index_width).rpartition("/")[2] + "\n").encode()


def render_schema_file(
    database: str, table: str, version: int, columns: Sequence[Column], query: str = "", action: int = 0
) -> tuple[SchemaPath, bytes]:
    """The schema file that TiCDC writes for these columns, and its path. `table` is "" at the level of a database."""
    members = [column_members(column) for column in columns]
    document = {
        "Table": table,
        "Schema": database,
        "Version": FORMAT_VERSION,
        "TableVersion": version,
        "Query": query,
        "Type": action,
        "TableColumns": members or None,
        "TableColumnsTotal": len(members),
    }
    path = SchemaPath(root_of(database, table), version, checksum(database, table, members))
    return path, schema_file.dumps(document).encode()


def column_members(column: Column) -> dict[str, object]:
    """`column` as a member of ``TableColumns``, in TiCDC's order."""
    members: dict[str, object] = {
        "ColumnName": column.name,
        "ColumnType": f"{column.type} UNSIGNED" if column.unsigned else column.type,
    }
    if column.default is not None:
        members["ColumnDefault"] = column.default
    if column.length is not None:
        members["ColumnPrecision"] = str(column.length)
    if column.scale is not None:
        members["ColumnScale"] = str(column.scale)
    if not column.nullable:
        members["ColumnNullable"] = "false"
    if column.is_pk:
        members["ColumnIsPk"] = "true"
    if column.elements:
        members["ColumnElems"] = list(column.elements)
    return members
