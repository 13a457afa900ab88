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
from consumer.sink import progress_sql
from consumer.sink.columnar.lock import FileLock
from consumer.sink.columnar.progress import (
    GENERATION,
    FileTables,
    check_file_epoch,
    create_schema,
    done_ddls,
    raise_file_epoch,
    table_applied_ts,
)
from consumer.sink.columnar.statements import SqlNames, TableOperations, follow, tables_of_step
from consumer.sink.columnar.table import ReplicaTable, quote_name
from consumer.sink.common import completed_row, parallel_table_missing
from consumer.sink.duckdb.connection import Database, catalog, lacks_memory, qualified_name
from consumer.sink.duckdb.reading_copy import ReadingCopy
from consumer.sink.duckdb.rows.merge import publish_staged_files
from consumer.sink.duckdb.settings import DuckDbSettings
from consumer.sink.duckdb.statements.execute import Preview, execute_statement
from consumer.sink.duckdb.tables import (
    OpenTables,
    absent_tables,
    count_table_rows,
    drop_table,
    every_table,
    has_rows,
    load_targets,
    record_columns,
    replica_tables,
    tables_in_schema,
)
from consumer.sink.progress_sql import begins_too_early
from consumer.sink.staging import begin_load, begin_staging, end_load, end_loads, end_staging, staged_file
from consumer.target import DdlOutcome, LoadRequest, Only, Script, TargetOptions, Writer

if TYPE_CHECKING:
    from consumer.sink.duckdb.rows.compare import DuckDbComparer

log = logging.getLogger(__name__)

_Found = TypeVar("_Found")

_STATEMENTS = 512
"""The statements of one transaction."""


def open_sink(uri: str, options: TargetOptions) -> DuckDbSink:
    return DuckDbSink(DuckDbSettings.from_uri(uri, name=options.name, time_zone=options.time_zone))


class DuckDbSink(progress_sql.ProgressPorts):
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
        """Whether this consumer created the file, has recorded and staged nothing, and let nobody else open it."""

    def acquire(self, upstream: str) -> Progress:
        self._lock.take()
        self._made_empty = not os.path.exists(self._settings.path)
        try:
            with self._database.transaction() as connection:
                create_schema(connection)
                progress_sql.register(FileTables(connection), self._name, upstream, self._settings.time_zone)
                epoch = raise_file_epoch(FileTables(connection))
                progress = progress_sql.read_progress(FileTables(connection), self._name)
            begin_staging(self._settings.staging, epoch)
            if self._copy is not None:
                self._copy.take(self._database)
        except ConsumerError:
            self.close()
            raise
        self._epoch = epoch
        return progress

    def forget(self, name: str = "") -> None:
        name = name or self._name
        self._lock.take()
        with self._database.transaction() as connection:
            create_schema(connection)
            tables = FileTables(connection)
            if self._epoch is None:
                raise_file_epoch(tables)
            else:
                check_file_epoch(tables, self._epoch)
            for table in progress_sql.unfinished_tables(tables, name, lambda names: replica_tables(connection, names)):
                drop_table(connection, table)
            progress_sql.forget_consumer(tables, name)

    def fence(self) -> Progress:
        with self._write() as (connection, _):
            epoch = raise_file_epoch(FileTables(connection))
            progress = progress_sql.read_progress(FileTables(connection), self._name)
        self._epoch = epoch
        begin_staging(self._settings.staging, epoch)
        return progress

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        with self._database.reader() as connection:
            return load_targets(requests, self._tables.describe(connection, {request.name for request in requests}))

    def writer(self) -> Writer:
        from consumer.sink.columnar.writer import ParquetWriter  # imports pyarrow, which an idle round does not need

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
        self._database.wrote_rows(len(loaded))
        for path in staged:
            with suppress(OSError):  # a file that stays is removed with its folder
                os.unlink(path)
        return recorded

    def record(self, change: ProgressChange) -> ProgressChange:
        self._change(lambda tables: progress_sql.write_progress(tables, self._name, self._held(), change))
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
            return str(connection.execute(GENERATION.format(quote_name(catalog(connection)))).fetchall()[0][0])

    def comparer(self, target: LoadTarget, only: Only | None = None) -> DuckDbComparer:
        from consumer.sink.duckdb.rows.compare import DuckDbComparer, rows_of

        with self._database.reader() as connection:
            table = None if connection is None else replica_tables(connection, {target.name}).get(target.name)
            if connection is None or table is None:
                raise TableMissing(f"the table {target.name} is gone from the file", table=str(target.table))
            return DuckDbComparer(self._settings.path, table, target, rows_of(connection, table), only)

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        with self._database.reader() as connection:
            if connection is None:
                return []
            column = quote_name(target.names[position])
            rows = connection.execute(
                f"SELECT DISTINCT {column} FROM {qualified_name(connection, target.name)}"
            ).fetchall()
            return [str(value) for (value,) in rows if value is not None]

    def script(self, target: LoadTarget) -> Script:
        from consumer.sink.duckdb.rows.script import DuckDbScript

        comparer = self.comparer(target)
        with self._database.reader() as connection:
            assert connection is not None
            table = qualified_name(connection, comparer.table.name)
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
        """Statements and their facts are one transaction, so there are no intents. If a statement is refused, each of
        its call has a transaction of its own."""
        outcomes: list[DdlOutcome] = []
        failed: dict[TableName, ConsumerError] = {}
        for start in range(0, len(steps), _STATEMENTS):
            outcomes += self._applied(steps[start : start + _STATEMENTS], failed)
        return outcomes

    def _applied(self, steps: Sequence[ApplyDdl], failed: dict[TableName, ConsumerError]) -> Iterator[DdlOutcome]:
        """Yields outcomes. `failed` are upstream's tables on which nothing more runs, with the reason; this adds to
        them. Other tables that are merged with one of them continue."""
        done, size = 0, len(steps)
        while done < len(steps):
            remaining = steps[done : done + size]
            error = failed.get(remaining[0].table)
            if error is None:
                try:
                    outcomes = self._apply(remaining)
                except Fatal as fatal:
                    error = fatal
                except TargetUnavailable as unavailable:
                    if not lacks_memory(unavailable):
                        raise
                    error = statement_too_large(remaining[0], unavailable)
                else:
                    yield from outcomes
                    done += len(outcomes)
                    continue
                if len(remaining) > 1:
                    size = 1
                    continue
                failed[remaining[0].table] = error
            yield DdlOutcome(remaining[0], error=error)
            done += 1

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        """Describes in words the statements that depend on the rows."""
        names = {name for step in steps for name in (*tables_of_step(step), step.trash) if name is not None}
        with self._database.reader() as connection:
            tables = {} if connection is None else replica_tables(connection, names)
        preview = Preview(names, tables, self._settings.zone)
        return [preview.look(step) for step in steps]

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        with self._write() as (connection, epoch):
            drop_table(connection, table)
            self._store(connection, epoch, change)
        self._tables.follow({table: None})
        return change

    def parallel_name(self, table: TableName) -> TableName:
        return parallel_load_name(table, table.database)

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        parallel = self.parallel_name(table)
        with self._write() as (connection, epoch):
            parallel_table = self._tables.describe(connection, [parallel]).get(parallel)
            if parallel_table is None:
                raise parallel_table_missing(table)
            drop_table(connection, table)
            connection.execute(
                f"ALTER TABLE {qualified_name(connection, parallel_table.name)} RENAME TO {quote_name(table.table)}"
            )
            exchanged = {parallel: None, table: replace(parallel_table, name=table)}
            record_columns(connection, exchanged)
            progress_sql.give_away(FileTables(connection), parallel)
            self._store(connection, epoch, change)
        self._tables.follow(exchanged)
        return change

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        path, folder = self._settings.path, os.path.dirname(self._settings.path)
        with self._database.reader():
            pass  # raises if it is not a DuckDB file
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
            existing = self._tables.describe(connection, tables)
            return [name for name in tables if name in existing and has_rows(connection, existing[name].name)]

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        with self._database.reader() as connection:
            existing = self._tables.describe(connection, tables)
            return {name: count_table_rows(connection, table.name) for name, table in existing.items()}

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        with self._database.reader() as connection:
            return absent_tables(connection, tables) if connection is not None else set(tables)

    def tables_in(self, database: str) -> Collection[TableName]:
        with self._database.reader() as connection:
            return tables_in_schema(connection, database) if connection is not None else ()

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        with self._database.reader() as connection:
            matching = (
                {}
                if connection is None
                else replica_tables(connection, [name for name in every_table(connection) if fits(name)])
            )
        return {name: tuple(table.types) for name, table in matching.items()}

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        return {}

    def close(self) -> None:
        if self._made_empty:  # a refused run leaves no file
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
        """Returns the outcomes of the first steps, or of all. A copy of a table's rows takes space until the
        transaction ends, so no other statement about that table follows it in the same transaction."""
        outcomes: list[DdlOutcome] = []
        changes: list[ProgressChange] = []
        remaining = Counter(step.name for step in steps)
        with self._write() as (connection, epoch):
            tables = self._tables.describe(connection, {name for step in steps for name in tables_of_step(step)})
            before = done_ddls(connection, self._name, [step.id for step in steps])
            written = SqlNames(catalog(connection))
            changed: dict[TableName, ReplicaTable | None] = {}
            for step in steps:
                remaining[step.name] -= 1
                done = TableOperations()
                if step.id not in before:
                    if step.merged is not None:  # a statement of another table can have changed it
                        record_columns(connection, changed)
                        tables |= replica_tables(connection, tables_of_step(step))
                    done = execute_statement(connection, step, tables, self._settings.zone, written)
                    changed |= done.changed_tables
                    follow(tables, tables_of_step(step), done.changed_tables)
                recorded = step.before.merged(step.done(done.note))
                if step.id not in before:
                    changes.append(recorded)
                outcomes.append(DdlOutcome(step, note=done.note, recorded=recorded))
                if remaining[step.name] and done.copies and has_rows(connection, step.name):
                    break
            record_columns(connection, changed)
            touched = {outcome.step.table for outcome in outcomes}
            self._store(connection, epoch, ProgressChange().merged(*changes), touched)
        self._tables.follow(changed)
        return outcomes

    def _publish(
        self, connection: duckdb.DuckDBPyConnection, outcome: LoadOutcome, tables: dict[TableName, ReplicaTable]
    ) -> Iterator[AuditRow]:
        """Merges one table's rows. Yields audit rows for columns that had to change their type, and for rows with
        defaults. `tables` are the tables of all outcomes, which can share one."""
        target, window = outcome.task.target, outcome.task.window
        paths = self._staged(outcome)
        if not paths or (not target.key and self._is_there(connection, target.table, window)):
            return
        if target.name not in tables:
            raise TableMissing(f"the table {target.name} is gone from the file", table=str(target.table))
        published = publish_staged_files(connection, target, tables[target.name], paths, outcome.unpublished)
        yield from completed_row(outcome, published.defaulted)
        if published.widened:
            tables |= replica_tables(connection, [target.name])
            text = f"now VARCHAR, for values that their type cannot hold: {', '.join(published.widened)}"
            log.warning("%s: columns are %s", target.table, text)
            yield AuditRow("widen", target.table, window.after, window.end, statement=text)

    def _is_there(self, connection: duckdb.DuckDBPyConnection, table: TableName, window: Window) -> bool:
        if window.end == MAX_TSO:  # no checkpoint: the table's applied-ts does not move
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
        progress_sql.write_progress(FileTables(connection), self._name, epoch, change, touched)

    def _look(self, read: Callable[[FileTables], _Found]) -> _Found:
        with self._database.reader() as connection:
            return read(FileTables(connection))

    def _change(self, write: Callable[[FileTables], _Found]) -> _Found:
        self._made_empty = False
        with self._write() as (connection, _):
            return write(FileTables(connection))

    @contextmanager
    def _write(self) -> Iterator[tuple[duckdb.DuckDBPyConnection, int]]:
        epoch = self._held()
        with self._database.transaction() as connection:
            check_file_epoch(FileTables(connection), epoch)
            yield connection, epoch

    def _held(self) -> int:
        if self._epoch is None:
            raise LeaseHeld("this consumer is not the writer of the file", hint="it must acquire the lease first")
        return self._epoch

    def _staged(self, outcome: LoadOutcome) -> list[str]:
        """Returns the current paths of an outcome's files. Raises LeaseHeld if their writer was locked out."""
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
