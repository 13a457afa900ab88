"""Signs that a storage does not hold what one changefeed should have written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from consumer.ddl.tokens import tokenize
from consumer.model.actions import Action
from consumer.model.files import DataFile, SchemaFile
from consumer.model.names import TableName
from consumer.plan.catalog import Catalog

_SHOWN = 3
_TWO_FEEDS = "look whether two changefeeds, or a re-created one, write to this prefix"


def hazards(catalog: Catalog, files: Mapping[TableName, Sequence[DataFile]]) -> Iterator[str]:
    """One sentence a sign. `files` are those of a listing, in file order."""
    yield from _two_protocols(files)
    yield from _two_schemas(catalog)
    is_new = is_new_architecture(catalog)
    for name, group in sorted(files.items()):
        if not is_new and shares_partitions(catalog.by_table.get(name, ()), group):
            yield (
                f"{name} is partitioned, and its paths have no partition level: if TiCDC's classic architecture wrote"
                " them, partitions have overwritten one another's files and rows are missing;"
                " enable-partition-separator = true prevents it"
            )


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
            partitioned = _partitions(file.query)
        elif file.type == Action.REMOVE_PARTITIONING:
            partitioned = False
    return partitioned


def tells_partitions(history: Sequence[SchemaFile]) -> bool:
    """Whether a statement among them says whether the table is partitioned."""
    telling = (Action.CREATE_TABLE, Action.CREATE_TABLES, Action.ALTER_TABLE_PARTITIONING, Action.REMOVE_PARTITIONING)
    return any(file.type in telling and file.query for file in history)


def _partitions(query: str) -> bool:
    if "PARTITION" not in query.upper():
        return False
    words = [token.word for token in tokenize(query) if token.word]
    return ("PARTITION", "BY") in pairwise(words)


def _two_protocols(files: Mapping[TableName, Sequence[DataFile]]) -> Iterator[str]:
    kinds = {file.path.rpartition(".")[2]: file.path for group in files.values() for file in group}
    if len(kinds) > 1:
        shown = ", ".join(kinds[kind] for kind in sorted(kinds))
        yield f"there are files of two protocols, as {shown}: {_TWO_FEEDS}"


def _two_schemas(catalog: Catalog) -> Iterator[str]:
    """TiCDC writes one schema file for one version of a table."""
    versions: defaultdict[tuple[str, int], list[SchemaFile]] = defaultdict(list)
    for file in catalog.files:
        versions[file.root, file.version].append(file)
    twice = [group for group in versions.values() if len({file.checksum for file in group}) > 1]
    for group in twice[:_SHOWN]:
        yield (
            f"{group[0].name} has schema files of one version that differ, {group[0].path} and {group[1].path}:"
            f" {_TWO_FEEDS}"
        )
