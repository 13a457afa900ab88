"""The reference for ports.Sink: a target of plain Python values, slow and obvious. For tests, and to try things out.

Values stay as the files carry them. Everything is lost with the process, and writers work in the driver's process only.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from consumer.errors import CannotBeExact, ConsumerError, DdlRefused, LeaseHeld, WrongUpstream
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.load import LoadOutcome, LoadTarget, Receipt
from consumer.model.names import MAX_TSO, TableName
from consumer.model.progress import AuditRow, DdlRecord, DdlState, Progress, ProgressChange
from consumer.model.steps import ApplyDdl, Window
from consumer.ports import ArrowTable, DdlOutcome, LoadRequest, Writer
from consumer.sink.duckdb.definitions import read_definitions

Row = dict[str, Any]
"""Column name -> str, bytes or None."""


@dataclass(slots=True)
class MemoryTable:
    columns: tuple[Column, ...]
    rows: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class MemoryStore:
    """What outlives a sink: one of these is one target."""

    tables: dict[TableName, MemoryTable] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    audit: list[AuditRow] = field(default_factory=list)
    staged: dict[str, list[Row]] = field(default_factory=dict)
    epoch: int = 0
    held: bool = False


_STORES: dict[str, MemoryStore] = {}


class MemorySink:
    def __init__(self, label: str, name: str) -> None:
        self._label, self._name = label, name
        self._store = _STORES.setdefault(label, MemoryStore())
        self._epoch: int | None = None

    @classmethod
    def from_uri(cls, uri: str, *, name: str) -> MemorySink:
        """``memory://label``: sinks of one label share a target."""
        return cls(urlsplit(uri).netloc, name)

    def acquire(self, upstream: str) -> Progress:
        if self._store.held and self._epoch is None:
            raise LeaseHeld("another consumer is at work on this target")
        found = self.progress()
        if found.upstream not in (None, upstream):
            raise WrongUpstream(f"the progress belongs to {found.upstream}, not to {upstream}")
        self._store.progress[self._name] = replace(found, upstream=upstream)
        self._store.held = True
        self._store.staged.clear()
        self._raise_epoch()
        return self.progress()

    def progress(self) -> Progress:
        return self._store.progress.get(self._name, Progress())

    def fence(self) -> None:
        self._check()
        self._raise_epoch()

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        self._check()
        return [self._target(request) for request in requests]

    def writer(self) -> Writer:
        return MemoryWriter(self._label, self._check())

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> None:
        """A TableError names its table; then nothing of the call is published."""
        self._check()
        tables = copy.deepcopy(self._store.tables)
        for outcome in outcomes:
            if outcome.error is None:
                self._publish(tables[outcome.table], outcome)
        self._store.tables = tables
        self._save(change)

    def record(self, change: ProgressChange) -> None:
        self._check()
        self._save(change)

    def apply_ddls(self, steps: Sequence[ApplyDdl], open_intents: Mapping[Any, DdlRecord]) -> Sequence[DdlOutcome]:
        self._check()
        return [self._apply(step) for step in steps]

    def empty_table(self, table: TableName, change: ProgressChange) -> None:
        self._check()
        self._store.tables.pop(table, None)
        self._save(change)

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        return [name for name in tables if name in self._store.tables and self._store.tables[name].rows]

    def close(self) -> None:
        if self._epoch is not None:
            self._store.held = False
        self._epoch = None

    def rows(self, table: TableName) -> list[Row]:
        """For tests: the rows that the target holds."""
        return self._store.tables[table].rows

    def _check(self) -> int:
        if self._epoch is None or self._epoch != self._store.epoch:
            raise LeaseHeld("this consumer is not the writer of the target")
        return self._epoch

    def _raise_epoch(self) -> None:
        self._store.epoch += 1
        self._epoch = self._store.epoch

    def _save(self, change: ProgressChange) -> None:
        self._store.progress[self._name] = self.progress().after(change)
        self._store.audit += change.audit

    def _target(self, request: LoadRequest) -> LoadTarget:
        columns = tuple(column for column in request.columns if not column.hidden)
        table = self._store.tables.setdefault(request.table, MemoryTable(columns))
        names = tuple(column.name for column in table.columns)
        primary = tuple(position for position, column in enumerate(table.columns) if column.is_pk)
        unique = tuple(names.index(name) for key in request.unique_keys[:1] for name in key)
        return LoadTarget(request.table, table.columns, names, primary or unique)

    def _publish(self, table: MemoryTable, outcome: LoadOutcome) -> None:
        target, upto = outcome.task.target, outcome.task.window.upto
        for path in dict.fromkeys(receipt.staged for receipt in outcome.receipts):
            if not path.startswith(f"{self._epoch}/"):
                raise LeaseHeld(f"{path} was staged by a writer that has been locked out since")
            changes = self._store.staged[path]
            if target.key:
                _merge(table, target, changes)
            elif upto == MAX_TSO or self.progress().table(target.table).applied_ts < upto:
                _merge_multiset(table, target, changes)

    def _apply(self, step: ApplyDdl) -> DdlOutcome:
        try:
            note = _execute(self._store.tables, step)
        except DdlRefused as error:
            return DdlOutcome(step, error)
        file = step.file
        fact = ProgressChange(
            ddls=(DdlRecord(step.id, DdlState.DONE),),
            audit=(AuditRow("ddl", file.name, file.version, file.version, statement=file.query),),
        )
        self._save(step.before.merged(step.after).merged(fact))
        return DdlOutcome(step, note=note)


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    label: str
    epoch: int

    @contextmanager
    def session(self) -> Iterator[MemorySession]:
        yield MemorySession(_STORES[self.label], self.epoch)


class MemorySession:
    def __init__(self, store: MemoryStore, epoch: int) -> None:
        self._store, self._epoch = store, epoch

    def write(self, target: LoadTarget, changes: ArrowTable) -> Receipt:
        rows = changes.to_pylist()
        puts = sum(row["put"] for row in rows)
        return Receipt(puts, len(rows) - puts, self._stage(rows))

    def write_multiset(self, target: LoadTarget, changes: ArrowTable, window: Window) -> Receipt:
        rows = changes.to_pylist()
        added = sum(max(row["n"], 0) for row in rows)
        return Receipt(added, added - sum(row["n"] for row in rows), self._stage(rows))

    def _stage(self, rows: list[Row]) -> str:
        if self._epoch != self._store.epoch:
            raise LeaseHeld("this writer was locked out")
        path = f"{self._epoch}/{len(self._store.staged)}"
        self._store.staged[path] = rows
        return path


def _values(target: LoadTarget, change: Row) -> Row:
    return {name: change[f"c{position}"] for position, name in enumerate(target.names)}


def _merge(table: MemoryTable, target: LoadTarget, changes: Sequence[Row]) -> None:
    names = [target.names[position] for position in target.key]
    for change in changes:
        row = _values(target, change)
        table.rows = [other for other in table.rows if any(other[name] != row[name] for name in names)]
        if change["put"]:
            table.rows.append(row)


def _merge_multiset(table: MemoryTable, target: LoadTarget, changes: Sequence[Row]) -> None:
    rows = Counter(tuple(row[name] for name in target.names) for row in table.rows)
    for change in changes:
        rows[tuple(_values(target, change).values())] += change["n"]
    if any(count < 0 for count in rows.values()):
        raise CannotBeExact(f"a row to remove from {target.table} is not there", table=str(target.table))
    table.rows = [dict(zip(target.names, values, strict=True)) for values in rows.elements()]


def _execute(tables: dict[TableName, MemoryTable], step: ApplyDdl) -> str:
    name, action = step.file.name, Action(step.file.type)
    columns = tuple(column for column in step.file.columns if not column.hidden)
    if action == Action.DROP_SCHEMA:
        for gone in [table for table in tables if table.database == name.database]:
            del tables[gone]
    elif action in (Action.CREATE_SCHEMA, Action.MODIFY_SCHEMA_CHARSET):
        return ""
    elif action in (Action.CREATE_VIEW, Action.DROP_VIEW):
        return "views are not kept: recorded, not executed"
    elif action in (Action.CREATE_TABLE, Action.CREATE_TABLES):
        if name in tables:
            raise DdlRefused(f"the table {name} is there already: {step.file.query}", table=str(name))
        tables[name] = MemoryTable(columns)
    elif action == Action.DROP_TABLE:
        tables.pop(name, None)
    elif action in (Action.DROP_PARTITION, Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION, Action.RECOVER_TABLE):
        raise DdlRefused(f"this target has no partitions: {step.file.query}", table=str(name))
    elif action in RENAME_ACTIONS and step.old_name in tables:
        tables[name] = tables.pop(step.old_name)
    else:
        _reshape(
            tables.setdefault(name, MemoryTable(columns)), columns, step, truncated=action == Action.TRUNCATE_TABLE
        )
    return ""


def _reshape(table: MemoryTable, columns: tuple[Column, ...], step: ApplyDdl, truncated: bool) -> None:
    renamed = read_definitions(step.file.query).renamed
    spelled = {column.name.lower(): column.name for column in table.columns}
    old_names = {column.name: spelled.get(renamed.get(column.name.lower(), column.name.lower())) for column in columns}
    rows = [] if truncated else table.rows
    table.rows = [
        {column.name: row[old] if (old := old_names[column.name]) else column.default for column in columns}
        for row in rows
    ]
    table.columns = columns
