"""A toy target, written from docs/add-a-target.md: a folder of JSON lines, a file a table, at ``jsonlines:///folder``.

All that is known stands in one file, `state`, which is replaced whole: that is its transaction.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from consumer.codec.change_table import META, change_schema
from consumer.errors import BadConfig, ConsumerError, DdlRefused, LeaseHeld, SchemaDrift, TableMissing
from consumer.model.load import LoadOutcome, LoadTarget
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, DdlId, DdlRecord, OwnedTables, Progress, ProgressChange, State
from consumer.model.result import TargetDdl
from consumer.model.steps import ApplyDdl
from consumer.model.times import MAX_TSO
from consumer.sink.columnar.lock import FileLock
from consumer.sink.columnar.table import ColumnarTarget, Held, handle_key
from consumer.sink.columnar.writer import ParquetWriter
from consumer.sink.memory.statements import execute
from consumer.sink.memory.store import MemoryTable, Row, Tables, copied, merge, merge_multiset
from consumer.sink.missing import table_missing
from consumer.sink.progress_rows import owned_in, taken
from consumer.sink.staging import begin_load, begin_staging, end_load, end_loads, end_staging, staged_file
from consumer.target import Comparer, DdlOutcome, LoadRequest, Only, Script, TargetOptions, Writer


def open_sink(uri: str, options: TargetOptions) -> JsonLinesSink:
    return JsonLinesSink(Path(unquote(urlsplit(uri).path)), options)


@dataclass
class Known:
    """`files` are those of the tables, by name, with their columns."""

    epoch: int = 0
    progress: dict[str, Progress] = field(default_factory=dict)
    audit: list[AuditRow] = field(default_factory=list)
    files: dict[TableName, tuple[str, Any]] = field(default_factory=dict)


class Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def known(self) -> Known:
        state = self._path / "state"
        return pickle.loads(state.read_bytes()) if state.exists() else Known()

    def tables(self) -> Tables:
        found = self.known().files.items()
        return {name: MemoryTable(columns, self._rows(file)) for name, (file, columns) in found}

    def save(self, known: Known, tables: Tables | None) -> None:
        """`tables` None: they are as they were."""
        old = {file for file, _ in known.files.values()}
        if tables is not None:
            known.files = {name: (self._write(table.rows), table.columns) for name, table in tables.items()}
        (self._path / "state.new").write_bytes(pickle.dumps(known))
        os.replace(self._path / "state.new", self._path / "state")
        for gone in old - {file for file, _ in known.files.values()}:
            (self._path / gone).unlink()

    def _write(self, rows: Sequence[Row]) -> str:
        name = f"{os.urandom(8).hex()}.jsonl"
        lines = (json.dumps(row, default=lambda value: {"base64": base64.b64encode(value).decode()}) for row in rows)
        (self._path / name).write_text("".join(f"{line}\n" for line in lines))
        return name

    def _rows(self, file: str) -> list[Row]:
        def read(found: dict[str, Any]) -> Any:
            return base64.b64decode(found["base64"]) if found.keys() == {"base64"} else found

        return [json.loads(line, object_hook=read) for line in (self._path / file).read_text().splitlines()]


class JsonLinesSink:
    statements = 0
    foreign_keys = False

    def __init__(self, path: Path, options: TargetOptions) -> None:
        self._folder, self._name, self._staging = Folder(path), options.name, str(path / "staging")
        self._path, self._zone = path, options.time_zone
        self._lock = FileLock(self._staging, "folder")
        self._epoch: int | None = None

    # Progress

    def acquire(self, upstream: str) -> Progress:
        self._path.mkdir(exist_ok=True)
        self._lock.take()
        known = self._folder.known()
        try:
            known.progress[self._name] = taken(self.progress(), self._name, upstream, self._zone)
        except ConsumerError:
            self.close()
            raise
        self._begin(known)
        return self.progress()

    def progress(self) -> Progress:
        return self._folder.known().progress.get(self._name, Progress())

    def consumers(self) -> Mapping[str, int]:
        known = self._folder.known()
        return {
            name: sum(progress.table(table).state is State.OK for table in known.files)
            for name, progress in sorted(known.progress.items())
        }

    def of_others(self) -> OwnedTables:
        return owned_in(self._folder.known().progress, self._name)

    def forget(self) -> None:
        self._lock.take()
        known = self._folder.known()
        known.progress.pop(self._name, None)
        self._folder.save(known, None)

    def fence(self) -> Progress:
        with self._changed() as (known, _):
            pass
        self._begin(known)
        return self.progress()

    def record(self, change: ProgressChange) -> ProgressChange:
        with self._changed(change):
            return change

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        with self._changed(change) as (_, tables):
            tables.pop(table, None)
            return change

    def rest(self) -> None:
        if self._epoch is not None:
            end_loads(self._staging, self._epoch)

    def close(self) -> None:
        if self._epoch is not None:
            end_staging(self._staging, self._epoch)
        self._epoch = None
        self._lock.release()

    # Tables

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        tables = self._folder.tables()
        return [_prepared(request, tables.get(request.name)) for request in requests]

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        there = self._folder.tables()
        return [name for name in tables if name in there and there[name].rows]

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        return set(tables) - self._folder.known().files.keys()

    def tables_in(self, database: str) -> Collection[TableName]:
        return [name for name in self._folder.known().files if name.database == database]

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        return {}

    # Statements

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        return [self._apply(step) for step in steps]

    def _apply(self, step: ApplyDdl) -> DdlOutcome:
        try:
            with self._changed(step.before.merged(step.done())) as (_, tables):
                note = execute(tables, step)
        except DdlRefused as error:
            return DdlOutcome(step, error)
        return DdlOutcome(step, note=note, recorded=step.before.merged(step.done()))

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        tables, answers = self._folder.tables(), []
        for step in steps:
            try:
                answers.append(TargetDdl((step.statement.query,), execute(tables, step)))
            except DdlRefused as error:
                answers.append(TargetDdl(error=error.message))
        return answers

    # Comparing

    @contextmanager
    def still(self) -> Iterator[Progress]:
        self._lock.take()
        try:
            yield self.progress()
        finally:
            self._lock.release()

    def turn(self) -> str:
        return f"{self._folder.known().epoch} {self._path}"

    def comparer(self, target: LoadTarget, only: Only | None = None) -> Comparer:
        return JsonLinesComparer(self._path, target, only)

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        name = target.names[position]
        return {str(row[name]) for row in self._folder.tables()[target.name].rows if row[name] is not None}

    def script(self, target: LoadTarget) -> Script:
        raise BadConfig("a folder of JSON lines takes no statements from a file")

    # Rows

    def writer(self) -> Writer:
        return ParquetWriter(begin_load(self._staging, self._held()))

    def end(self, writer: Writer) -> None:
        assert isinstance(writer, ParquetWriter)
        end_load(writer.folder)

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        with self._changed(change) as (known, tables):
            for outcome in outcomes:
                if outcome.error is None:
                    self._publish(outcome, tables, known.progress[self._name])
        return change

    def _publish(self, outcome: LoadOutcome, tables: Tables, progress: Progress) -> None:
        target, end = outcome.task.target, outcome.task.window.end
        paths = [
            staged_file(self._staging, self._held(), path) for path in {r.staged for r in outcome.receipts if r.staged}
        ]
        if target.name not in tables:
            raise TableMissing("the table is gone since the load began", table=str(target.table))
        changes = [change for path in paths for change in pq.read_table(path).to_pylist()]
        if target.key:
            merge(tables[target.name], target, changes)
        elif end == MAX_TSO or progress.table(target.table).applied_ts < end:
            merge_multiset(tables[target.name], target, changes)

    # One writer, one transaction

    def _held(self) -> int:
        if self._epoch is None:
            raise LeaseHeld("this consumer is not the writer of the folder")
        return self._epoch

    def _begin(self, known: Known) -> None:
        known.epoch += 1
        self._folder.save(known, None)
        self._epoch = known.epoch
        begin_staging(self._staging, known.epoch)

    @contextmanager
    def _changed(self, change: ProgressChange | None = None) -> Iterator[tuple[Known, Tables]]:
        """What is known and the tables, to be changed: saved with `change` unless an error comes."""
        known, before = self._folder.known(), self._folder.tables()
        if self._held() != known.epoch:
            raise LeaseHeld("another consumer has taken the folder")
        tables = copied(before)
        yield known, tables
        if change is not None:
            found = known.progress[self._name]
            change.check(found.applied_ts, {name: place.applied_ts for name, place in found.tables.items()})
            known.progress[self._name] = found.after(change)
            known.audit += change.audit
        self._folder.save(known, tables if tables != before else None)


@dataclass(frozen=True)
class JsonLinesComparer:
    """Values are kept as they come, so they are their own normal form."""

    path: Path
    target: LoadTarget
    only: Only | None = None
    ranges: int = 1

    def expected(self, rows: pa.Table) -> pa.Table:
        return rows

    def changes(self, rows: pa.Table) -> pa.Table:
        return rows

    def held(self, number: int) -> Iterator[pa.Table]:
        rows, kinds = Folder(self.path).tables()[self.target.name].rows, change_schema(self.target).types[META:]
        if self.only is not None:
            name = self.target.names[self.only.position]
            rows = [row for row in rows if row[name] is None or row[name] in self.only.values]
        columns = [
            pa.array([row[name] for row in rows], kind) for name, kind in zip(self.target.names, kinds, strict=True)
        ]
        yield pa.table(columns, names=[f"c{position}" for position in range(len(columns))])


def _prepared(request: LoadRequest, table: MemoryTable | None) -> LoadTarget | ConsumerError:
    columns = {column.name: column for column in request.columns if not column.hidden}
    if table is None:
        named = ", ".join(f"{column.name} {column.type}" for column in columns.values())
        return table_missing(request, f"CREATE TABLE {request.name} ({named})")
    sent = columns.keys() - set(request.absent)
    written = tuple(column for column in table.columns if column.name in sent)
    own = tuple(column.name for column in table.columns if column.name not in sent)
    key = handle_key(written, request.unique_keys)
    if len(written) < len(sent) or (own and not key):
        return SchemaDrift("the rows have other columns than the table", table=str(request.table))
    names = tuple(column.name for column in written)
    held = ColumnarTarget((Held.TEXT,) * len(written))
    return LoadTarget(
        request.table, written, names, key, settings=held, own=own, absent=request.absent, routed=request.routed
    )
