"""What `inspect` finds in a storage."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.model.load import Dialect
from consumer.model.names import TableName


@dataclass(frozen=True, slots=True)
class InspectedTable:
    """One table's part of the storage. `versions` counts its schema files, `ddl` those with a statement. `first_date`
    and `last_date` are "" where there is no date level. `first_ts` and `last_ts` are the commit-ts of its rows where
    that was asked for, else None. `exists` is False for a name that a later statement dropped or renamed."""

    table: TableName
    exists: bool
    versions: int
    ddl: int
    files: int
    bytes: int
    partitions: int
    dispatchers: int
    first_date: str
    last_date: str
    first_ts: int | None = None
    last_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Detected:
    """The changefeed's options as paths and some files show them; None (for `architecture` "") where they do not.

    `dialect` is None where there are no rows to look at. `sampled` are the files that were read. `unproven` are keys of
    the changefeed that the files do not prove: their values here are likely, or TiCDC's default.
    """

    dialect: Dialect | None = None
    commit_ts: bool | None = None
    date_separator: str | None = None
    file_index_digit: int | None = None
    partition_separator: bool | None = None
    across_nodes: bool | None = None
    table_ids: bool = False
    architecture: str = ""
    sampled: int = 0
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InspectResult:
    """`checkpoint_ts` is None without `metadata`. `findings` are what a person should know before a start, `toml` and
    `command` are how to start."""

    upstream: str
    checkpoint_ts: int | None
    tables: tuple[InspectedTable, ...]
    databases: tuple[str, ...]
    detected: Detected
    findings: tuple[str, ...]
    toml: str
    command: str
