"""The driver's side of a lake. A commit is of one table: rows are committed with the table's own record of them, then
the progress follows. If the progress lost that, the next start repairs it from the tables."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import zip_longest
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from consumer.errors import BadConfig, Code, ConsumerError, Fatal, LeaseHeld, TableError, TableMissing, TargetBusy
from consumer.model.actions import PARTITION_ACTIONS
from consumer.model.layout import Layout, Layouts
from consumer.model.load import LoadOutcome, LoadTarget, Purpose
from consumer.model.names import TableName, same_name
from consumer.model.progress import AuditRow, DdlId, DdlRecord, Progress, ProgressChange, parallel_load_name
from consumer.model.readiness import Readiness, room
from consumer.model.steps import ApplyDdl, TargetDdl, Window
from consumer.model.times import MAX_TSO
from consumer.sink import progress_sql
from consumer.sink.columnar.lock import FileLock
from consumer.sink.columnar.progress import FileTables, done_ddls, table_applied_ts
from consumer.sink.common import parallel_table_missing
from consumer.sink.lake.delta import Delta
from consumer.sink.lake.failures import errors_translated, retried_once
from consumer.sink.lake.formats import TableFormat
from consumer.sink.lake.iceberg import Iceberg
from consumer.sink.lake.merge import Merging
from consumer.sink.lake.moments import Moments
from consumer.sink.lake.names import ReservedNames
from consumer.sink.lake.progress import (
    PROGRESS_TABLE,
    LakeProgress,
    LakeTable,
    mark_complete,
    mark_incomplete,
    take_lease,
    was_complete,
)
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.lake.statements import Effect, Executing, fitted_layout, plan_operations
from consumer.sink.lake.tables import load_target, tables_by_name
from consumer.sink.lake.types import spark_name
from consumer.sink.lake.upkeep import Upkeep
from consumer.sink.progress_sql import begins_too_early
from consumer.sink.staging import begin_load, begin_staging, end_load, end_loads, end_staging, staged_file
from consumer.target import (
    Comparer,
    DdlOutcome,
    LoadRequest,
    Only,
    Script,
    SparkSource,
    TableAt,
    TargetOptions,
    UpkeptTable,
    Writer,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_Found = TypeVar("_Found")


def open_sink(uri: str, options: TargetOptions) -> LakeSink:
    return LakeSink(LakeSettings.from_uri(uri, name=options.name, time_zone=options.time_zone), options)


class LakeSink(progress_sql.ProgressPorts):
    """A `Sink`."""

    statements = 0
    refers = False

    def __init__(self, settings: LakeSettings, options: TargetOptions) -> None:
        if options.staged:
            raise BadConfig(
                "a lake publishes each table by itself, so no consistency level but `row` can be given",
                hint="leave --consistency out; to read all tables at one moment, see docs/lakes.md",
            )
        if options.spark is None:
            raise BadConfig("a lake needs Spark, and nobody gave it to this target")
        self._settings, self._source, self._name = settings, options.spark, settings.name
        self._tables: TableFormat = _FORMATS[settings.format](settings, options.spark)
        rules = [(fits, self._tables.resolved(layout)) for fits, layout in options.layouts.rules]
        self._layouts, self._names = Layouts(rules), ReservedNames(self._tables)
        self._progress = LakeProgress(self._tables, self._tables.location(PROGRESS_TABLE), self._session)
        self._lock = FileLock(settings.staging, "lake")
        self._epoch: int | None = None
        self._upstream = ""
        self._own: tuple[object, SparkSession] | None = None
        self._spare: tuple[object, SimpleQueue[SparkSession]] = (None, SimpleQueue())
        self._settled, self._left = True, False
        """Whether the progress includes all commits of tables, and whether it records that."""

    def acquire(self, upstream: str) -> Progress:
        self._lock.take()
        self._upstream = upstream
        try:
            self._progress.forget()
            with self._progress.transaction(None) as rows:
                progress_sql.register(rows, self._name, upstream, self._settings.time_zone)
                complete = was_complete(rows)
                epoch = take_lease(rows)
            begin_staging(self._settings.staging, epoch)
            self._epoch, self._left = epoch, False
            return self.progress() if complete else self._repaired()
        except ConsumerError:
            self.close()
            raise

    def forget(self, name: str = "") -> None:
        name = name or self._name
        self._lock.take()
        self._progress.forget()
        with self._progress.transaction(self._epoch) as rows:
            if self._epoch is None:
                take_lease(rows)
            lake_tables = self._progress.lake_tables
            unfinished = dict.fromkeys(
                progress_sql.unfinished_tables(rows, name, lambda names: lake_tables.keys() & names)
            )
            removed = [lake_tables[table] for table in unfinished if table in lake_tables]
            self._progress.remember(rows, unfinished)
            progress_sql.forget_consumer(rows, name)
        self._progress.keep(unfinished)
        for table in removed:
            self._discard(table.location)

    def fence(self) -> Progress:
        self._held()
        self._progress.forget()
        with self._progress.transaction(self._epoch) as rows:
            epoch = take_lease(rows)
        self._epoch, self._left = epoch, False
        begin_staging(self._settings.staging, epoch)
        return self._repaired()

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        tables = self._lake_tables()
        return [load_target(request, tables) for request in requests]

    def writer(self) -> Writer:
        from consumer.sink.lake.writer import LakeWriter

        return LakeWriter(begin_load(self._settings.staging, self._held()))

    def end(self, writer: Writer) -> None:
        from consumer.sink.lake.writer import LakeWriter

        assert isinstance(writer, LakeWriter)
        end_load(writer.folder)

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        """Quarantined rows are recorded before their table's commit, which leaves them out."""
        loaded = [outcome for outcome in outcomes if outcome.error is None]
        epoch = self._held()
        if change.quarantined:
            self.record(ProgressChange(quarantined=change.quarantined))
        if beyond := {outcome.task.target.name for outcome in loaded if _is_open(outcome)}:
            self._change(lambda rows: self._progress.forget_names(rows, beyond))
        if loaded:
            self._unsettle()
        published = self._publish(loaded, self._lacking() | change.losses.keys())
        recorded = replace(change, audit=(*change.audit, *(row for row in map(_lost, published) if row is not None)))
        with self._write() as rows:
            self._progress.remember(rows, {load.merging.target.name: load.table for load in published})
            progress_sql.write_progress(rows, self._name, epoch, recorded, {outcome.table for outcome in loaded})
        self._settled = True
        return recorded

    def record(self, change: ProgressChange) -> ProgressChange:
        self._change(lambda rows: progress_sql.write_progress(rows, self._name, self._held(), change))
        return change

    @contextmanager
    def still(self) -> Iterator[Progress]:
        self._lock.take()
        try:
            self._progress.forget()
            yield self.progress()
        finally:
            shutil.rmtree(self._copies(), ignore_errors=True)
            self._lock.release()

    def lease_generation(self) -> str:
        return self._progress.generation()

    def comparer(self, target: LoadTarget, only: Only | None = None) -> Comparer:
        from consumer.sink.lake.compare import exported

        table = self._existing(target)
        with errors_translated(target.table):
            return exported(self._session(), self._tables, table, target, self._copies(), only)

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        frame = self._tables.frame(self._session(), self._existing(target).location)
        column = frame[spark_name(target.names[position])]
        return [str(value) for (value,) in frame.select(column).distinct().collect() if value is not None]

    def script(self, target: LoadTarget) -> Script:
        raise BadConfig(
            "a lake takes no statements from a file, as they would not be commits of this program",
            hint="let verify write the rows itself, by --repair",
        )

    def rest(self) -> None:
        """Records that the progress is complete: the next start need not look at the tables."""
        if self._epoch is not None:
            end_loads(self._settings.staging, self._epoch)
            if self._settled and not self._left:
                with suppress(Exception):  # without this record, a start looks at the tables
                    self._change(mark_complete)
                    self._left = True

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        outcomes: list[DdlOutcome] = []
        failed: dict[TableName, ConsumerError] = {}
        self._try_names(steps)
        for step in steps:
            error = failed.get(step.table)
            with errors_translated(step.table):
                outcome = self._applied(step) if error is None else DdlOutcome(step, error=error)
            if outcome.error is not None:
                failed[step.table] = outcome.error
            outcomes.append(outcome)
        return outcomes

    def _try_names(self, steps: Sequence[ApplyDdl]) -> None:
        """Tries the names of all tables together: one by one they would take Spark seconds each."""
        asked: dict[Layout, set[str]] = defaultdict(set)
        for step in steps:
            columns = step.file.columns if step.mode_ddl is None else step.mode_ddl.after
            asked[self._layouts.of(step.table)] |= {column.name for column in columns}
        for layout, names in asked.items():
            with errors_translated():
                self._names.unusable(self._session(), names, layout, self._lake_tables().values())

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        from consumer.sink.lake.preview import previewed

        def layout(step: ApplyDdl, table: LakeTable) -> Layout:
            return fitted_layout(step, self._layouts, table, self._tables)

        def fixed(location: str) -> Collection[str]:
            return self._tables.laid_out_by(self._session(), location) if location else ()

        return previewed(steps, self._lake_tables(), self._settings.zone, layout, fixed)

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        epoch, lake_table = self._held(), self._lake_tables().get(table.folded)
        with self._write() as rows:
            self._progress.remember(rows, {table: None})
            progress_sql.write_progress(rows, self._name, epoch, change)
        self._progress.keep({table: None})
        if lake_table is not None:
            self._discard(lake_table.location)
        return change

    def parallel_name(self, table: TableName) -> TableName:
        return parallel_load_name(table, table.database)

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        epoch, lake_tables, parallel = self._held(), self._lake_tables(), self.parallel_name(table)
        parallel_table, former = lake_tables.get(parallel.folded), lake_tables.get(table.folded)
        if parallel_table is None:
            raise parallel_table_missing(table)
        changed = {parallel: None, table: replace(parallel_table, replica=replace(parallel_table.replica, name=table))}
        with self._write() as rows:
            self._progress.remember(rows, changed)
            progress_sql.give_away(rows, parallel)
            progress_sql.write_progress(rows, self._name, epoch, change)
        self._progress.keep(changed)
        if former is not None:
            self._discard(former.location)
        return change

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        session = self._session()
        self._rows()
        yield Readiness("target", "ok", f"{self._tables.called(session)} in {self._settings.root}")
        folder = self._settings.root if self._settings.is_folder else self._settings.staging
        yield room(os.path.dirname(folder), size)

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        self._held()
        return [
            name for name, table in tables_by_name(self._lake_tables(), list(tables)).items() if self._is_filled(table)
        ]

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        tables_found = tables_by_name(self._lake_tables(), list(tables))
        session = self._session() if tables_found else None
        return {
            name: self._tables.frame(session, table.location).count() for name, table in tables_found.items() if session
        }

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        lake_tables = self._lake_tables()
        return {name for name in tables if name.folded not in lake_tables}

    def tables_in(self, database: str) -> Collection[TableName]:
        lake_tables = self._lake_tables()
        return [table.replica.name for name, table in lake_tables.items() if name.database == same_name(database)]

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        lake_tables = self._lake_tables().values()
        return {table.replica.name: tuple(table.replica.types) for table in lake_tables if fits(table.replica.name)}

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        return {}

    def maintain(self, keep: timedelta) -> Iterator[UpkeptTable]:
        """Raises TargetBusy if a consumer has a lake that nobody else may write to."""
        try:
            if self._tables.one_writer:
                self._lock.take()
        except LeaseHeld as held:
            raise TargetBusy(
                f"a consumer has the lake {self._settings.root}, whose catalog is a folder: only one process can write",
                hint="run maintain while no consumer runs, or keep the catalog in a database (docs/lakes.md)",
            ) from held
        session = self._session()
        self._rows()
        yield from Upkeep(session, self._tables, self._progress, keep).run()

    def tables_at(self, moment: int, wanted: Callable[[TableName], bool] | None = None) -> Sequence[TableAt]:
        self._tables.prepare(self._source.session())  # which decides the name of the catalog in the queries
        self._rows()
        return Moments(self._tables, self._progress).tables_at(moment, wanted)

    def frame(self, table: TableAt) -> DataFrame:
        session: SparkSession = self._source.session()
        return session.sql(table.query)

    def close(self) -> None:
        if self._epoch is not None:
            end_staging(self._settings.staging, self._epoch)
            shutil.rmtree(self._copies(), ignore_errors=True)
        self._lock.release()
        self._epoch = None
        self._progress.forget()
        self._source.close()

    def _rows(self) -> FileTables:
        """Returns the progress. Without the lock it first checks whether the progress has changed."""
        if not self._lock.held:
            self._progress.refresh()
        return self._progress.rows()

    def _lake_tables(self) -> Mapping[TableName, LakeTable]:
        self._rows()
        return self._progress.lake_tables

    def _copies(self) -> str:
        """Returns the folder for copies of tables that are compared."""
        return os.path.join(self._settings.staging, "copies")

    def _session(self) -> SparkSession:
        """Returns a separate session in the present Spark."""
        spark = self._source.session()
        if self._own is None or self._own[0] is not spark:
            self._own = spark, self._new_session()
        return self._own[1]

    @contextmanager
    def _spare_session(self) -> Iterator[SparkSession]:
        """Yields a session that no other thread uses meanwhile. It is kept for the next use, because each session opens
        the lake's catalog again."""
        spark = self._source.session()
        if self._spare[0] is not spark:
            self._spare = spark, SimpleQueue()
        spare = self._spare[1]
        try:
            session = spare.get_nowait()
        except Empty:
            session = self._new_session()
        try:
            yield session
        finally:
            spare.put(session)

    def _new_session(self) -> SparkSession:
        session: SparkSession = self._source.session().newSession()
        self._tables.prepare(session)
        for name, value in _SESSION.items():
            session.conf.set(name, value)
        return session

    def _repaired(self) -> Progress:
        """Brings the progress up to date from the tables' own commits. A table is as far as its newest commit says, and
        a statement in it has run."""
        repaired = {}
        for name, table in self._lake_tables().items():
            newest = None
            with suppress(TableError), errors_translated(name):  # the next load reports a table that was removed
                newest = self._tables.latest(table.location)
            if newest is not None and newest.generation > table.newest.generation:
                repaired[name] = replace(table, newest=newest, lost=True)  # which values that commit lost is not known
            elif newest is not None and newest.generation == table.newest.generation:
                self._progress.keep({name: replace(table, newest=newest)})
        if repaired:
            with self._write() as rows:
                self._progress.remember(rows, repaired)
                # The consumer that died may have another name, and tables of the same upstream names.
                for consumer in sorted(
                    progress_sql.consumers(rows).keys() & {t.newest.consumer for t in repaired.values()}
                ):
                    progress = progress_sql.read_progress(rows, consumer)
                    moved = {
                        name: replace(progress.table(name), applied_ts=end, code=Code.MOVED_BY_WRITER)
                        for table in repaired.values()
                        for name, end in table.newest.applied.items()
                        if table.newest.consumer == consumer and progress.table(name).applied_ts < end
                    }
                    progress_sql.write_progress(rows, consumer, self._held(), ProgressChange(tables=moved))
            self._progress.keep(repaired)
        return self.progress()

    def _unsettle(self) -> None:
        """Prepares for a commit of a table, which the progress follows later."""
        if self._left:
            self._change(mark_incomplete)
        self._settled = self._left = False

    def _publish(self, outcomes: Sequence[LoadOutcome], lacking: Collection[TableName]) -> list[_Published]:
        """Publishes the rows of each outcome in one commit of its table. Outcomes of one table follow one another.
        `lacking` are upstream's tables that are incomplete."""
        of_tables: dict[TableName, list[LoadOutcome]] = defaultdict(list)
        for outcome in outcomes:
            of_tables[outcome.task.target.name.folded].append(outcome)
        waves = zip_longest(*of_tables.values())
        return [
            load for wave in waves for load in self._publish_wave([load for load in wave if load is not None], lacking)
        ]

    def _publish_wave(self, outcomes: Sequence[LoadOutcome], lacking: Collection[TableName]) -> list[_Published]:
        """Publishes outcomes of different tables, several at a time. If one fails, the others stay published and are
        not repeated."""
        loads = (self._to_publish(outcome, outcome.table not in lacking) for outcome in outcomes)
        wanted = [load for load in loads if load is not None]
        errors: list[Exception] = []
        done = []
        with ThreadPoolExecutor(max(1, min(len(wanted), self._at_a_time()))) as threads:
            for future in [threads.submit(self._merge, load) for load in wanted]:
                try:
                    done.append(future.result())
                except Exception as error:
                    errors.append(error)
        for load in done:
            self._progress.keep({load.merging.target.name: load.table})
        if errors:
            raise errors[0]
        return done

    def _merge(self, load: _Published) -> _Published:
        """Runs on a separate thread."""
        if load.is_there:
            return load

        def publish() -> None:
            with errors_translated(load.merging.target.table, self._settings.staging), self._spare_session() as session:
                replace(load.merging, spark=session).publish(load.table.newest)

        retried_once(publish)
        lost = load.merging.lost_dates()
        return replace(load, lost=lost, table=replace(load.table, lost=load.table.lost or lost > 0))

    def _to_publish(self, outcome: LoadOutcome, complete: bool) -> _Published | None:
        """Returns what is to be published of a load. None if the table already has it. `complete` says that the table
        lacks nothing afterwards."""
        target, window = outcome.task.target, outcome.task.window
        paths = self._staged(outcome)
        if not paths and not _was_otherwise(outcome):
            return None
        table = self._existing(target)
        said = paths or [f"{target.table} {window.after} {window.end}"]
        digest = hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]
        merging = Merging(self._session(), self._tables, table, target, paths, outcome.unpublished)
        if table.newest.load == digest:
            return _Published(merging, window, table, is_there=True)
        if not target.key and window.end != MAX_TSO:
            applied = max(self._applied_ts(target.table), table.newest.applied.get(target.table, 0))
            if window.after < applied < window.end:
                raise begins_too_early(target.table, window, applied)
            if applied >= window.end:
                return None
        # Without times, complete files are read. They may contain rows from after the window.
        has_times = window.end != MAX_TSO and not outcome.task.dialect.timeless
        ends = {target.table: window.end} if has_times else {}
        from_ts, commit_ts = _moments(outcome) if complete else (0, 0)
        commit = table.newest.following(
            **self._said(target.table),
            applied={**table.newest.applied, **ends},
            load=digest,
            from_ts=from_ts,
            commit_ts=commit_ts,
        )
        return _Published(merging, window, replace(table, newest=commit))

    def _said(self, table: TableName) -> dict[str, object]:
        """Returns what each commit of one of upstream's tables records."""
        return {"consumer": self._name, "epoch": self._held(), "upstream": self._upstream, "table": str(table)}

    def _lacking(self) -> set[TableName]:
        """Returns upstream's tables with quarantined rows or accepted losses."""
        of_book = "SELECT database_name, table_name FROM storage_consumer.{} WHERE name = ?"
        query = " UNION ".join(map(of_book.format, ("bad_row", "loss")))
        return {TableName(*row) for row in self._rows().run(query, self._name, self._name)}

    def _at_a_time(self) -> int:
        return int(self._session().sparkContext.defaultParallelism)

    def _applied_ts(self, table: TableName) -> int:
        connection = self._rows().connection
        return table_applied_ts(connection, self._name, table)

    def _applied(self, step: ApplyDdl) -> DdlOutcome:
        epoch, lake_tables = self._held(), self._lake_tables()
        try:
            effect = Effect()
            recorded = step.before.merged(step.done())
            if step.id not in self._done(step):
                table_before = lake_tables.get(step.name_before.folded)
                asked = step.trash is not None or step.file.type in PARTITION_ACTIONS
                executing = Executing(self._session(), self._tables, lake_tables, self._layouts, self._names)

                def run() -> Effect:
                    with errors_translated(step.table):
                        if filled := asked and table_before is not None and self._is_filled(table_before):
                            executing.check_trash(step)
                        done = plan_operations(step, lake_tables, self._settings.zone, filled)
                        return executing.run(step, done, said)

                said = self._said(step.table)
                if step.table not in self._lacking():
                    said |= {"from_ts": step.file.version - 1, "commit_ts": step.file.version}
                self._unsettle()
                effect = retried_once(run)
                self._progress.keep(
                    {name: table for name, table in effect.changed_tables.items() if _is_same(lake_tables, name, table)}
                )
                recorded = step.before.merged(step.done(effect.note))
                with self._write() as rows:
                    self._progress.remember(rows, effect.changed_tables, step.file.version)
                    progress_sql.write_progress(rows, self._name, epoch, recorded, {step.table})
                self._progress.keep(effect.changed_tables)
                self._settled = True
            for location in effect.removed_locations:
                self._discard(location)
        except Fatal as error:
            return DdlOutcome(step, error=error)
        return DdlOutcome(step, note=effect.note, recorded=recorded)

    def _discard(self, location: str) -> None:
        """Removes a table that no name has any more, as the progress already records. What remains of it does no harm:
        `maintain` removes it."""
        try:
            with errors_translated():
                self._tables.remove(location)
        except ConsumerError as error:
            log.warning("%s is not removed: %s; maintain removes it later", location, error.message)

    def _done(self, step: ApplyDdl) -> set[DdlId]:
        return done_ddls(self._rows().connection, self._name, [step.id])

    def _is_filled(self, table: LakeTable) -> bool:
        session = self._session()
        if self._tables.is_empty(session, table.location):
            return False
        return bool(self._tables.frame(session, table.location).limit(1).collect())

    def _look(self, read: Callable[[FileTables], _Found]) -> _Found:
        return read(self._rows())

    def _change(self, write: Callable[[FileTables], _Found]) -> _Found:
        with self._write() as rows:
            return write(rows)

    @contextmanager
    def _write(self) -> Iterator[FileTables]:
        with self._progress.transaction(self._held()) as rows:
            yield rows

    def _held(self) -> int:
        if self._epoch is None:
            raise LeaseHeld("this consumer is not the writer of the lake", hint="it must acquire the lease first")
        return self._epoch

    def _existing(self, target: LoadTarget) -> LakeTable:
        table = self._lake_tables().get(target.name.folded)
        if table is None:
            raise TableMissing(f"the table {target.name} is gone from the lake", table=str(target.table))
        return table

    def _staged(self, outcome: LoadOutcome) -> list[str]:
        """Returns the current paths of an outcome's files. Raises LeaseHeld if their writer was locked out."""
        staged = sorted({receipt.staged for receipt in outcome.receipts if receipt.staged})
        return [staged_file(self._settings.staging, self._held(), path) for path in staged]


_FORMATS: Mapping[str, Callable[[LakeSettings, SparkSource], TableFormat]] = {"delta": Delta, "iceberg": Iceberg}
"""By the scheme of the URI."""
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",  # of 10,000, VACUUM makes so many tasks
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class _Published:
    """A load, and its table afterwards. `lost` counts values that became NULL. `is_there` says that it was published
    before."""

    merging: Merging
    window: Window
    table: LakeTable
    lost: int = 0
    is_there: bool = False


def _was_otherwise(outcome: LoadOutcome) -> bool:
    """Returns whether a load without a row may have had changes that the table does not show: changes of a table with
    no key that cancel each other out, or quarantined rows only."""
    window = outcome.task.window
    changed = any(stat.last_ts > window.after for stat in outcome.files)
    return window.end != MAX_TSO and bool(outcome.quarantined or (changed and not outcome.task.target.key))


def _is_open(outcome: LoadOutcome) -> bool:
    """Returns whether the load has rows from after the moment up to which its table is complete. Later commits may have
    such rows, too, until that moment has advanced."""
    return outcome.task.window.end == MAX_TSO and outcome.task.target.load.purpose is not Purpose.MEND


def _moments(outcome: LoadOutcome) -> tuple[int, int]:
    """Returns the load commit's `from_ts` and `commit_ts`. If rows have only milliseconds, or no time, others of the
    same moment can come later."""
    window, target = outcome.task.window, outcome.task.target
    if outcome.task.dialect.timeless or any(stat.coarse_ts or stat.coarse_quarantined for stat in outcome.files):
        return 0, 0
    if window.end == MAX_TSO:  # repaired rows equal upstream's now, but since when they differed is not known
        return 0, window.after if target.load.purpose is Purpose.MEND else 0
    return window.after, window.end


def _lost(load: _Published) -> AuditRow | None:
    if not load.lost:
        return None
    table, text = load.merging.target.table, f"values that no calendar has, which became NULL: {load.lost}"
    log.warning("%s: %s", table, text)
    return AuditRow("zero-dates", table, load.window.after, load.window.end, puts=load.lost, statement=text)


def _is_same(lake_tables: Mapping[TableName, LakeTable], name: TableName, table: LakeTable | None) -> bool:
    """Returns whether the table's location is unchanged. Then its newest commit counts, even if recording it fails."""
    before = lake_tables.get(name.folded)
    return table is not None and before is not None and before.location == table.location
