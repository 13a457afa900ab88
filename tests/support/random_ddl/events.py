"""What happened upstream, as TiCDC tells it, and how the changefeed is set up."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.support.random_ddl.original import Row, Shape

WAITS = (Action.RENAME_TABLE, Action.EXCHANGE_PARTITION)
"""At C == V the files of these may not be complete."""
IGNORED = ("add-index", "add-foreign-key", "drop-foreign-key", "modify-table-comment")
"""Kinds of statements without which rows are the same."""


@dataclass(frozen=True)
class Change:
    """One row change: `kind` is INSERT, UPDATE or DELETE. `version` and `shape` are the table's then."""

    ts: int
    table: TableName
    kind: str
    old: Row | None
    new: Row | None
    partition: str
    version: int
    shape: Shape
    nonclustered: bool


@dataclass(frozen=True)
class SchemaText:
    """One schema file to write."""

    name: TableName
    query: str
    type: int
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True)
class Statement:
    """`tables` are those that it is about, `files` what it leaves in the storage."""

    ts: int
    action: Action
    files: tuple[SchemaText, ...]
    tables: frozenset[TableName]


@dataclass(frozen=True)
class Manner:
    """How the changefeed is set up: `new` architecture, rows with commit-ts, tables without key, UPDATEs as they are
    (`raw`), several files of one table at a time (`dispatchers`), `partitions`, which upstream `exchanges`, and whether
    upstream is a real `tidb`. And the replica: whether it has indexes of `expressions`, the kinds of statements that it
    `ignores`, and whether tables that are dropped or truncated go to the `trash`."""

    new: bool
    commit_ts: bool
    keyless: bool
    raw: bool
    dispatchers: bool
    partitions: bool
    expressions: bool
    ignores: tuple[str, ...]
    trash: bool
    exchanges: bool = True
    tidb: bool = False

    @property
    def policies(self) -> list[dict[str, object]]:
        """[[consumer.ddl.rules]]."""
        ignored = [{"action": "ignore", "kinds": list(self.ignores)}] if self.ignores else []
        kept = [{"action": "rename", "kinds": ["drop-table", "truncate-table"]}] if self.trash else []
        return [*ignored, *kept]

    @classmethod
    def drawn(cls, random: Random, partitions: bool, expressions: bool) -> Manner:
        new, commit_ts = random.random() < 0.5, random.random() < 0.8
        dispatchers = new and random.random() < 0.4
        keyless = commit_ts and not dispatchers and random.random() < 0.3
        ignores = random.choice(((), (), ("add-index",), IGNORED))
        raw, trash = random.random() < 0.3, random.random() < 0.3
        return cls(new, commit_ts, keyless, raw, dispatchers, partitions, expressions, ignores, trash)
