"""What schema files show of a table's partitions, and of the architecture of the TiCDC that wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.ddl.changes import changes_of
from consumer.model.actions import Action
from consumer.model.files import DataFile, SchemaFile
from consumer.plan.catalog import Catalog


def is_new_architecture(catalog: Catalog) -> bool:
    """Whether the schema files can only be those of TiCDC's new architecture: it alone writes ENUM and SET labels."""
    return any(column.elements for file in catalog.files for column in file.columns)


def shares_partitions(history: Sequence[SchemaFile], files: Sequence[DataFile]) -> bool:
    """Whether all partitions of the table write to one folder, with one counter each, in the classic architecture."""
    marked = any(file.folder.partition or file.folder.dispatcher for file in files)
    return bool(files) and not marked and is_partitioned(history)


def is_partitioned(history: Sequence[SchemaFile]) -> bool:
    """Whether the last statement that says so made it a partitioned table."""
    partitioned = False
    for file in history:
        if file.type in (Action.CREATE_TABLE, Action.CREATE_TABLES, Action.ALTER_TABLE_PARTITIONING):
            partitioned = "PARTITION" in file.query.upper() and changes_of(file).partitions.divides
        elif file.type == Action.REMOVE_PARTITIONING:
            partitioned = False
    return partitioned


def tells_partitions(history: Sequence[SchemaFile]) -> bool:
    """Whether a statement among them says whether the table is partitioned."""
    telling = (Action.CREATE_TABLE, Action.CREATE_TABLES, Action.ALTER_TABLE_PARTITIONING, Action.REMOVE_PARTITIONING)
    return any(file.type in telling and file.query for file in history)
