"""A target over a `MemoryStore`: the driver publishes what is staged, together with the progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from consumer.errors import BadConfig, ConsumerError, DdlRefused, LeaseHeld, SchemaDrift, TableMissing
from consumer.model.load import LoadOutcome, LoadTarget, Receipt
from consumer.model.names import TableName
from consumer.model.naming import naming_from
from consumer.model.progress import (
    ENDED,
    DdlId,
    DdlRecord,
    DdlState,
    OwnedTables,
    Progress,
    ProgressChange,
    State,
    is_export,
    is_parallel_load,
    parallel_load_name,
)
from consumer.model.readiness import Readiness
from consumer.model.steps import ApplyDdl, TargetDdl, Window
from consumer.model.times import MAX_TSO
from consumer.sink.common import parallel_table_missing, table_missing
from consumer.sink.progress_sql import check_time_zone, check_upstream, owned_tables, released_tables
from consumer.target import ArrowTable, Comparer, DdlOutcome, LoadRequest, Only, Script, TargetOptions, Writer
from tests.support.memory.statements import execute
from tests.support.memory.store import MemoryStore, MemoryTable, Row, copied, merge, merge_multiset

_STORES: dict[str, MemoryStore] = {}


def open_sink(uri: str, options: TargetOptions) -> MemorySink:
    """``memory://label``: sinks of one label share a target."""
    return MemorySink(urlsplit(uri).netloc, options.name, options.time_zone)


class MemorySink:
    statements = 0
    refers = False

    def __init__(self, label: str, name: str, time_zone: str = "UTC") -> None:
        self._label, self._name, self._zone = label, name, time_zone
        self._store = _STORES.setdefault(label, MemoryStore())
        self._epoch: int | None = None

    def acquire(self, upstream: str) -> Progress:
        if self._store.held and self._epoch is None:
            raise LeaseHeld("another consumer is running on this target")
        self._store.progress[self._name] = taken(self.progress(), self._name, upstream, self._zone)
        self._store.held = True
        self._store.staged.clear()
        self._raise_epoch()
        return self.progress()

    def progress(self) -> Progress:
        return self._store.progress.get(self._name, Progress())

    def consumers(self) -> Mapping[str, int]:
        """A store is one consumer's in the tests: every table in it counts for each name."""
        tables = self._store.tables
        return {
            name: sum(progress.table(table).state is State.OK for table in tables)
            for name, progress in sorted(self._store.progress.items())
        }

    def of_others(self) -> OwnedTables:
        known = self._store.progress
        places = [(n, table, p.table(table).applied_ts) for n, p in known.items() for table in p.tables]
        return owned_tables(self._name, self._store.owners, known, places, (), case=True)

    def take(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        self._check()
        owned = self.of_others().after_taking(wanted)
        self._store.owners |= {table: self._name for table in wanted if owned.is_own(table)}
        return owned

    def loaded(self) -> Mapping[TableName, tuple[int, int]]:
        found: dict[TableName, tuple[int, int]] = {}
        for name, row in self._store.audit:
            if (name, row.step) == (self._name, "load"):
                read, written = found.get(row.table, (0, 0))
                found[row.table] = (read + row.changes, written + row.puts)
        return found

    def forget(self, name: str = "") -> None:
        if self._store.held and not name:
            raise LeaseHeld("another consumer is running on this target")
        name = name or self._name
        own = [table for table, owner in self._store.owners.items() if owner == name]
        progress = self._store.progress.get(name, Progress())
        if any(place.state is State.EXCHANGING for place in progress.tables.values()):
            raise BadConfig(f"a table of {name!r} is to be replaced by what was loaded beside it")
        executed = (ddl for ddl, record in progress.ddls.items() if record.state is DdlState.DONE)
        made = {naming_from(progress.routes).target(TableName(ddl.database, ddl.table)).folded for ddl in executed}
        for table in own:
            if is_parallel_load(table):
                self._check_waiting(table)
            if is_parallel_load(table) or (is_export(name) and table.folded in made):
                self._store.tables.pop(table, None)
        self._forgotten(name)

    def _check_waiting(self, table: TableName) -> None:
        places = (place for progress in self._store.progress.values() for place in progress.tables.values())
        if table in self._store.tables and any(place.state is State.EXCHANGING for place in places):
            raise BadConfig("a table that was loaded is taking the place of another one")

    def fence(self) -> Progress:
        self._check()
        self._raise_epoch()
        return self.progress()

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        return [self._target(request) for request in requests]

    def writer(self) -> Writer:
        self._check()
        self._store.writers += 1
        self._store.at_work.add(self._store.writers)
        return MemoryWriter(self._label, self._store.epoch, self._store.writers)

    def end(self, writer: Writer) -> None:
        assert isinstance(writer, MemoryWriter)
        self._store.at_work.discard(writer.number)

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        self._check()
        tables = copied(self._store.tables)
        for outcome in outcomes:
            if outcome.error is None:
                if outcome.task.target.name not in tables:
                    raise TableMissing("the table is gone since the load began", table=str(outcome.table))
                self._publish(tables[outcome.task.target.name], outcome)
        self._save(change)
        self._store.tables = tables
        return change

    def record(self, change: ProgressChange) -> ProgressChange:
        self._check()
        return self._save(change)

    @contextmanager
    def still(self) -> Iterator[Progress]:
        if self._store.held:
            raise LeaseHeld("another consumer is running on this target")
        yield self.progress()

    def lease_generation(self) -> str:
        return f"{self._store.epoch} {self._label}"

    def comparer(self, target: LoadTarget, only: Only | None = None) -> Comparer:
        return MemoryComparer(self._label, target, only)

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        rows = self._store.tables[target.name].rows
        return {str(row[target.names[position]]) for row in rows if row[target.names[position]] is not None}

    def script(self, target: LoadTarget) -> Script:
        raise BadConfig("a target in memory takes no statements from a file")

    def rest(self) -> None:
        """Others are in the same process."""

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        self._check()
        outcomes: list[DdlOutcome] = []
        failed: dict[TableName, ConsumerError] = {}
        for step in steps:
            error = failed.get(step.table)
            outcome = self._one(step, unfinished.get(step.id)) if error is None else DdlOutcome(step, error=error)
            failed |= {} if outcome.error is None else {step.table: outcome.error}
            outcomes.append(outcome)
        return outcomes

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        """Upstream's own text, tried on a copy."""
        tables = copied(self._store.tables)
        answers = []
        for step in steps:
            try:
                answers.append(TargetDdl((step.statement.query,), execute(tables, step)))
            except DdlRefused as error:
                answers.append(TargetDdl(error=error.message))
        return answers

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        self._check()
        self._store.tables.pop(table, None)
        return self._save(change)

    def parallel_name(self, table: TableName) -> TableName:
        return parallel_load_name(table, table.database)

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        self._check()
        beside = self.parallel_name(table)
        if beside not in self._store.tables:
            raise parallel_table_missing(table)
        recorded = self._save(change)
        self._store.tables[table] = self._store.tables.pop(beside)
        owner = self._store.owners.pop(beside, "")
        if owner and owner not in self._store.owners.values():
            self._forgotten(owner)
        return recorded

    def _forgotten(self, name: str) -> None:
        self._store.progress.pop(name, None)
        self._store.owners = {table: owner for table, owner in self._store.owners.items() if owner != name}
        self._store.audit = [(of, row) for of, row in self._store.audit if of != name]

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        yield Readiness("target", "ok", "memory")

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        return [name for name in tables if name in self._store.tables and self._store.tables[name].rows]

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        return {name: len(self._store.tables[name].rows) for name in tables if name in self._store.tables}

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        return [name for name in tables if name not in self._store.tables]

    def tables_in(self, database: str) -> Collection[TableName]:
        return [name for name in self._store.tables if name.database == database]

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        named = filter(fits, self._store.tables)
        return {name: [column.name for column in self._store.tables[name].columns] for name in named}

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        return {}

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
        self._store.at_work.clear()
        self._epoch = self._store.epoch

    def _save(self, change: ProgressChange) -> ProgressChange:
        known = self.progress()
        change.check(known.applied_ts, {name: place.applied_ts for name, place in known.tables.items()})
        self._store.progress[self._name] = known.after(change)
        before = {table: place.state for table, place in known.tables.items()}
        seen = self._store.seen.setdefault(self._name, set())
        there = {table for table in seen if before.get(table) not in ENDED}
        seen.update(change.tables)
        for table in released_tables(change, before, naming_from(known.routes), there, case=True):
            if self._store.owners.get(table) == self._name:
                del self._store.owners[table]
        self._store.audit += [(self._name, row) for row in change.audit]
        return change

    def _target(self, request: LoadRequest) -> LoadTarget | ConsumerError:
        columns = tuple(column for column in request.columns if not column.hidden)
        table = self._store.tables.get(request.name)
        if table is None:
            named = ", ".join(f"{column.name} {column.type}" for column in columns)
            return table_missing(request, f"CREATE TABLE {request.name} ({named})")
        sent = {column.name for column in columns if column.name not in request.load.absent}
        written = tuple(column for column in table.columns if column.name in sent)
        names = tuple(column.name for column in written)
        own = tuple(column.name for column in table.columns if column.name not in sent)
        if len(written) < len(sent):
            return SchemaDrift("the target lacks columns of the rows", table=str(request.table))
        primary = tuple(position for position, column in enumerate(written) if column.is_pk)
        unique = tuple(names.index(name) for key in request.unique_keys[:1] for name in key)
        key = primary or unique
        if own and not key:
            return SchemaDrift("rows of a table with no key lack columns", table=str(request.table))
        return LoadTarget(request.load, written, names, key, extra_columns=own)

    def _publish(self, table: MemoryTable, outcome: LoadOutcome) -> None:
        target, end = outcome.task.target, outcome.task.window.end
        for path in dict.fromkeys(receipt.staged for receipt in outcome.receipts if receipt.staged):
            if not path.startswith(f"{self._epoch}/"):
                raise LeaseHeld(f"{path} was staged by a writer that has been locked out since")
            changes = self._store.staged[path]
            if target.key:
                merge(table, target, changes)
            elif end == MAX_TSO or self.progress().table(target.table).applied_ts < end:
                merge_multiset(table, target, changes)

    def _one(self, step: ApplyDdl, known: DdlRecord | None) -> DdlOutcome:
        return self._apply(step)

    def _apply(self, step: ApplyDdl) -> DdlOutcome:
        tables = copied(self._store.tables)
        try:
            note = execute(tables, step)
        except DdlRefused as error:
            return DdlOutcome(step, error)
        recorded = self._save(step.before.merged(step.done(note)))
        self._store.tables = tables
        return DdlOutcome(step, note=note, recorded=recorded)


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    label: str
    epoch: int
    number: int

    @contextmanager
    def session(self, patience: float = 0.0) -> Iterator[MemorySession]:
        yield MemorySession(_STORES[self.label], self.epoch, self.number)


class MemorySession:
    def __init__(self, store: MemoryStore, epoch: int, number: int) -> None:
        self._store, self._epoch, self._number = store, epoch, number

    def write(self, target: LoadTarget, changes: ArrowTable) -> Receipt:
        rows = changes.to_pylist()
        puts = sum(row["put"] for row in rows)
        return Receipt(puts, len(rows) - puts, self._stage(rows))

    def write_packed(self, parts: Sequence[tuple[LoadTarget, ArrowTable]]) -> Sequence[Receipt | None]:
        return [None] * len(parts)

    def write_multiset(self, target: LoadTarget, changes: ArrowTable, window: Window) -> Receipt:
        rows = changes.to_pylist()
        added = sum(max(row["n"], 0) for row in rows)
        return Receipt(added, added - sum(row["n"] for row in rows), self._stage(rows))

    def write_copies(self, target: LoadTarget, rows: ArrowTable) -> Receipt:
        return Receipt(0, 0, self._stage([{**row, "copies": row["n"]} for row in rows.to_pylist()]))

    def _stage(self, rows: list[Row]) -> str:
        if self._number not in self._store.at_work:
            raise LeaseHeld("this writer was locked out")
        path = f"{self._epoch}/{len(self._store.staged)}"
        self._store.staged[path] = rows
        return path


@dataclass(frozen=True, slots=True)
class MemoryComparer:
    """Values as the files carry them are their own normal form."""

    label: str
    target: LoadTarget
    only: Only | None = None
    ranges: int = 1

    def expected(self, rows: ArrowTable) -> ArrowTable:
        return rows

    def changes(self, rows: ArrowTable) -> ArrowTable:
        return rows

    def held(self, number: int) -> Iterator[ArrowTable]:
        import pyarrow as pa

        from consumer.codec.change_table import META, change_schema

        rows, kinds = _STORES[self.label].tables[self.target.name].rows, change_schema(self.target).types[META:]
        if self.only is not None:
            name = self.target.names[self.only.position]
            rows = [row for row in rows if row[name] is None or row[name] in self.only.values]
        columns = [
            pa.array([row[name] for row in rows], kind) for name, kind in zip(self.target.names, kinds, strict=True)
        ]
        yield pa.table(columns, names=[f"c{position}" for position in range(len(columns))])


def taken(found: Progress, name: str, upstream: str, zone: str) -> Progress:
    """The progress of consumer `name` once it has the lease. Raises WrongUpstream, BadConfig (another time zone)."""
    check_upstream(name, found.upstream or upstream, upstream)
    check_time_zone(name, found.time_zone or zone, zone)
    return replace(found, upstream=upstream, time_zone=zone)
