"""The driver's side of an embedded replica. Every change is made together with its progress, in one transaction."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import duckdb

from consumer.errors import ConsumerError, DdlRefused, Fatal, LeaseHeld, LoadFailed, TableMissing, TargetUnavailable
from consumer.model.load import LoadOutcome, LoadTarget
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, DdlId, DdlRecord, Progress, ProgressChange, parallel_load_name
from consumer.model.readiness import Readiness, room
from consumer.model.steps import ApplyDdl, TargetDdl, Window
from consumer.model.times import MAX_TSO
from consumer.sink import progress_sql as stored
from consumer.sink.columnar.lock import FileLock
from consumer.sink.columnar.progress import (
    GENERATION,
    FileTables,
    check_epoch,
    done_ddls,
    ensure_schema,
    raise_epoch,
    table_applied_ts,
)
from consumer.sink.columnar.statements import Operations, Written, follow, named_tables
from consumer.sink.columnar.table import ReplicaTable, quote
from consumer.sink.common import completed_row, nothing_beside
from consumer.sink.duckdb.connection import Database, catalog, lacks_memory, qualified
from consumer.sink.duckdb.reading_copy import ReadingCopy
from consumer.sink.duckdb.rows.merge import publish
from consumer.sink.duckdb.settings import DuckDbSettings
from consumer.sink.duckdb.statements.execute import Preview, execute
from consumer.sink.duckdb.tables import (
    OpenTables,
    count_rows,
    describe,
    drop_table,
    every_table,
    has_rows,
    missing,
    prepare,
    remember,
    tables_of,
)
from consumer.sink.progress_sql import begins_too_early
from consumer.sink.staging import begin_load, begin_staging, end_load, end_loads, end_staging, staged_file
from consumer.target import DdlOutcome, LoadRequest, Only, Script, TargetOptions, Writer

if TYPE_CHECKING:
    from consumer.sink.duckdb.rows.compare import DuckDbComparer

log = logging.getLogger(__name__)

_Found = TypeVar("_Found")

_STATEMENTS = 512
"""In one transaction."""


def open_sink(uri: str, options: TargetOptions) -> DuckDbSink:
    return DuckDbSink(DuckDbSettings.from_uri(uri, name=options.name, time_zone=options.time_zone))


class DuckDbSink(stored.ProgressPorts):
    """A `Sink`. The file is closed at the end of a round, so that others can read it."""

    statements = 0
    refers = False

    def __init__(self, settings: DuckDbSettings) -> None:
        self._settings, self._name = settings, settings.name
        self._database = Database(settings.path, settings.storage_version)
        self._tables = OpenTables(self._database)
        self._copy = ReadingCopy(settings.path, settings.copy) if settings.copy else None
        self._lock = FileLock(settings.staging, "file")
        self._epoch: int | None = None
        self._made_empty = False
        """Whether this consumer made the file, has recorded and staged nothing, and let nobody else open it."""

    def acquire(self, upstream: str) -> Progress:
        self._lock.take()
        self._made_empty = not os.path.exists(self._settings.path)
        try:
            with self._database.transaction() as connection:
                ensure_schema(connection)
                stored.register(FileTables(connection), self._name, upstream, self._settings.time_zone)
                epoch = raise_epoch(FileTables(connection))
                found = stored.load(FileTables(connection), self._name)
            begin_staging(self._settings.staging, epoch)
            if self._copy is not None:
                self._copy.take(self._database)
        except ConsumerError:
            self.close()
            raise
        self._epoch = epoch
        return found

    def forget(self, name: str = "") -> None:
        name = name or self._name
        self._lock.take()
        with self._database.transaction() as connection:
            ensure_schema(connection)
            tables = FileTables(connection)
            if self._epoch is None:
                raise_epoch(tables)
            else:
                check_epoch(tables, self._epoch)
            for table in stored.not_whole(tables, name, lambda names: describe(connection, names)):
                drop_table(connection, table)
            stored.forget(tables, name)

    def fence(self) -> Progress:
        with self._write() as (connection, _):
            epoch = raise_epoch(FileTables(connection))
            found = stored.load(FileTables(connection), self._name)
        self._epoch = epoch
        begin_staging(self._settings.staging, epoch)
        return found

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        with self._database.reader() as connection:
            return prepare(requests, self._tables.describe(connection, {request.name for request in requests}))

    def writer(self) -> Writer:
        from consumer.sink.columnar.writer import ParquetWriter  # brings pyarrow, which an idle round does not need

        self._made_empty = False
        return ParquetWriter(begin_load(self._settings.staging, self._held()))

    def end(self, writer: Writer) -> None:
        from consumer.sink.columnar.writer import ParquetWriter

        assert isinstance(writer, ParquetWriter)
        end_load(writer.folder)

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        loaded = [outcome for outcome in outcomes if outcome.error is None]
        if self._copy is not None:
            self._copy.check(loaded)
        try:
            return self._commit(loaded, change)
        except TargetUnavailable as error:
            if not lacks_memory(error) or not loaded:
                raise
            raise merge_too_large(loaded[0].table, error) from error

    def _commit(self, loaded: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        staged = {path for outcome in loaded for path in self._staged(outcome)}
        with self._write() as (connection, epoch):
            tables = self._tables.describe(connection, {outcome.task.target.name for outcome in loaded})
            widened = tuple(row for outcome in loaded for row in self._publish(connection, outcome, tables))
            recorded = replace(change, audit=change.audit + widened)
            self._store(connection, epoch, recorded, {outcome.table for outcome in loaded})
        self._tables.follow(tables)
        for path in staged:
            with suppress(OSError):  # what stays goes with its folder
                os.unlink(path)
        return recorded

    def record(self, change: ProgressChange) -> ProgressChange:
        self._change(lambda tables: stored.store(tables, self._name, self._held(), change))
        return change

    @contextmanager
    def still(self) -> Iterator[Progress]:
        self._lock.take()
        try:
            with self._database.kept():
                yield self.progress()
        finally:
            self._lock.release()

    def lease_generation(self) -> str:
        with self._database.reader() as connection:
            if connection is None:
                return ""
            return str(connection.execute(GENERATION.format(quote(catalog(connection)))).fetchall()[0][0])

    def comparer(self, target: LoadTarget, only: Only | None = None) -> DuckDbComparer:
        from consumer.sink.duckdb.rows.compare import DuckDbComparer, rows_of

        with self._database.reader() as connection:
            table = None if connection is None else describe(connection, {target.name}).get(target.name)
            if connection is None or table is None:
                raise TableMissing(f"the table {target.name} is gone from the file", table=str(target.table))
            return DuckDbComparer(self._settings.path, table, target, rows_of(connection, table), only)

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        with self._database.reader() as connection:
            if connection is None:
                return []
            column = quote(target.names[position])
            found = connection.execute(f"SELECT DISTINCT {column} FROM {qualified(connection, target.name)}").fetchall()
            return [str(value) for (value,) in found if value is not None]

    def script(self, target: LoadTarget) -> Script:
        from consumer.sink.duckdb.rows.script import DuckDbScript

        comparer = self.comparer(target)
        with self._database.reader() as connection:
            assert connection is not None
            table = qualified(connection, comparer.table.name)
            return DuckDbScript(comparer, catalog(connection), table)

    def rest(self) -> None:
        self._made_empty = False
        if self._epoch is not None:
            end_loads(self._settings.staging, self._epoch)
        try:
            if self._copy is not None and self._epoch is not None:
                self._copy.renew(self._database)
        finally:
            self._database.release()

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        """Statements and their facts are one transaction, so there are no intents; where one is refused, each has a
        transaction of its own."""
        outcomes: list[DdlOutcome] = []
        failed: dict[TableName, ConsumerError] = {}
        for at in range(0, len(steps), _STATEMENTS):
            outcomes += self._applied(steps[at : at + _STATEMENTS], failed)
        return outcomes

    def _applied(self, steps: Sequence[ApplyDdl], failed: dict[TableName, ConsumerError]) -> Iterator[DdlOutcome]:
        """`failed` are upstream's tables of which nothing more runs, and why: they are added to. What is merged with
        one of them goes on."""
        done, size = 0, len(steps)
        while done < len(steps):
            left = steps[done : done + size]
            error = failed.get(left[0].table)
            if error is None:
                try:
                    outcomes = self._apply(left)
                except Fatal as fatal:
                    error = fatal
                except TargetUnavailable as unavailable:
                    if not lacks_memory(unavailable):
                        raise
                    error = statement_too_large(left[0], unavailable)
                else:
                    yield from outcomes
                    done += len(outcomes)
                    continue
                if len(left) > 1:
                    size = 1
                    continue
                failed[left[0].table] = error
            yield DdlOutcome(left[0], error=error)
            done += 1

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        """Told in words where DuckDB's statements depend on the rows."""
        names = {name for step in steps for name in (*named_tables(step), step.trash) if name is not None}
        with self._database.reader() as connection:
            tables = {} if connection is None else describe(connection, names)
        preview = Preview(names, tables, self._settings.zone)
        return [preview.look(step) for step in steps]

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        with self._write() as (connection, epoch):
            drop_table(connection, table)
            self._store(connection, epoch, change)
        self._tables.follow({table: None})
        return change

    def beside(self, table: TableName) -> TableName:
        return parallel_load_name(table, table.database)

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        beside = self.beside(table)
        with self._write() as (connection, epoch):
            found = self._tables.describe(connection, [beside]).get(beside)
            if found is None:
                raise nothing_beside(table)
            drop_table(connection, table)
            connection.execute(f"ALTER TABLE {qualified(connection, found.name)} RENAME TO {quote(table.table)}")
            exchanged = {beside: None, table: replace(found, name=table)}
            remember(connection, exchanged)
            stored.give_away(FileTables(connection), beside)
            self._store(connection, epoch, change)
        self._tables.follow(exchanged)
        return change

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        path, folder = self._settings.path, os.path.dirname(self._settings.path)
        with self._database.reader():
            pass  # raises where it is no DuckDB file
        if os.access(path if os.path.exists(path) else folder, os.W_OK) and os.access(folder, os.W_OK):
            yield Readiness("target", "ok", f"DuckDB {duckdb.__version__}, and {path} can be written")
            yield room(folder, size)
        else:
            text = f"{path} or its folder cannot be written by this user"
            yield Readiness(
                "target", "fail", text, "give the user the right to, or name another file (--downstream-uri)"
            )

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        with self._write() as (connection, _):
            found = self._tables.describe(connection, tables)
            return [name for name in tables if name in found and has_rows(connection, found[name].name)]

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        with self._database.reader() as connection:
            found = self._tables.describe(connection, tables)
            return {name: count_rows(connection, table.name) for name, table in found.items()}

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        with self._database.reader() as connection:
            return missing(connection, tables) if connection is not None else set(tables)

    def tables_in(self, database: str) -> Collection[TableName]:
        with self._database.reader() as connection:
            return tables_of(connection, database) if connection is not None else ()

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        with self._database.reader() as connection:
            found = (
                {}
                if connection is None
                else describe(connection, [name for name in every_table(connection) if fits(name)])
            )
        return {name: tuple(there.types) for name, there in found.items()}

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        return {}

    def close(self) -> None:
        if self._made_empty:  # a refused run leaves none behind
            self._database.remove()
        self._database.release()
        self._made_empty = False
        if self._epoch is not None:
            end_staging(self._settings.staging, self._epoch)
        if self._copy is not None:
            self._copy.release()
        self._lock.release()
        self._epoch = None

    def _apply(self, steps: Sequence[ApplyDdl]) -> list[DdlOutcome]:
        """The outcomes of the first ones, or of all. A copy of a table's rows takes room until the transaction ends, so
        no other statement about that table is behind it in one."""
        outcomes: list[DdlOutcome] = []
        changes: list[ProgressChange] = []
        left = Counter(step.name for step in steps)
        with self._write() as (connection, epoch):
            tables = self._tables.describe(connection, {name for step in steps for name in named_tables(step)})
            before = done_ddls(connection, self._name, [step.id for step in steps])
            written = Written(catalog(connection))
            changed: dict[TableName, ReplicaTable | None] = {}
            for step in steps:
                left[step.name] -= 1
                done = Operations()
                if step.id not in before:
                    if step.merged is not None:  # a statement of another table can have changed it
                        remember(connection, changed)
                        tables |= describe(connection, named_tables(step))
                    done = execute(connection, step, tables, self._settings.zone, written)
                    changed |= done.there
                    follow(tables, named_tables(step), done.there)
                recorded = step.before.merged(step.done(done.note))
                if step.id not in before:
                    changes.append(recorded)
                outcomes.append(DdlOutcome(step, note=done.note, recorded=recorded))
                if left[step.name] and done.copies and has_rows(connection, step.name):
                    break
            remember(connection, changed)
            touched = {outcome.step.table for outcome in outcomes}
            self._store(connection, epoch, ProgressChange().merged(*changes), touched)
        self._tables.follow(changed)
        return outcomes

    def _publish(
        self, connection: duckdb.DuckDBPyConnection, outcome: LoadOutcome, tables: dict[TableName, ReplicaTable]
    ) -> Iterator[AuditRow]:
        """Merge one table's rows; audit rows for columns that had to change their type, and for rows with defaults.
        `tables` are those of all outcomes, which can have one in common."""
        target, window = outcome.task.target, outcome.task.window
        paths = self._staged(outcome)
        if not paths or (not target.key and self._is_there(connection, target.table, window)):
            return
        if target.name not in tables:
            raise TableMissing(f"the table {target.name} is gone from the file", table=str(target.table))
        published = publish(connection, target, tables[target.name], paths, outcome.left_out)
        yield from completed_row(outcome, published.defaulted)
        if published.widened:
            tables |= describe(connection, [target.name])
            text = f"now VARCHAR, for values that their type cannot hold: {', '.join(published.widened)}"
            log.warning("%s: columns are %s", target.table, text)
            yield AuditRow("widen", target.table, window.after, window.end, statement=text)

    def _is_there(self, connection: duckdb.DuckDBPyConnection, table: TableName, window: Window) -> bool:
        if window.end == MAX_TSO:  # no checkpoint: the table's place does not move
            return False
        applied = table_applied_ts(connection, self._name, table)
        if window.after < applied < window.end:
            raise begins_too_early(table, window, applied)
        return applied >= window.end

    def _store(
        self,
        connection: duckdb.DuckDBPyConnection,
        epoch: int,
        change: ProgressChange,
        touched: Collection[TableName] = (),
    ) -> None:
        self._made_empty = False
        stored.store(FileTables(connection), self._name, epoch, change, touched)

    def _look(self, at: Callable[[FileTables], _Found]) -> _Found:
        with self._database.reader() as connection:
            return at(FileTables(connection))

    def _change(self, by: Callable[[FileTables], _Found]) -> _Found:
        self._made_empty = False
        with self._write() as (connection, _):
            return by(FileTables(connection))

    @contextmanager
    def _write(self) -> Iterator[tuple[duckdb.DuckDBPyConnection, int]]:
        epoch = self._held()
        with self._database.transaction() as connection:
            check_epoch(FileTables(connection), epoch)
            yield connection, epoch

    def _held(self) -> int:
        if self._epoch is None:
            raise LeaseHeld("this consumer is not the writer of the file", hint="it must acquire the lease first")
        return self._epoch

    def _staged(self, outcome: LoadOutcome) -> list[str]:
        """The current place of an outcome's files. Raises LeaseHeld for those of a writer that was locked out."""
        staged = sorted({receipt.staged for receipt in outcome.receipts if receipt.staged})
        return [staged_file(self._settings.staging, self._held(), path) for path in staged]


def merge_too_large(table: TableName, error: ConsumerError) -> LoadFailed:
    return LoadFailed(
        f"to merge its rows takes more memory than there is: {error.message}",
        hint="run where there is more memory, or set a smaller round-bytes, then run again",
        table=str(table),
    )


def statement_too_large(step: ApplyDdl, error: ConsumerError) -> DdlRefused:
    return DdlRefused(
        f"the statement takes more memory than there is: {error.message}: {step.file.query}",
        hint="run again where there is more memory",
        table=str(step.table),
        version=step.file.version,
    )
