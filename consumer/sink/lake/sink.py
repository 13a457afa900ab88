"""The driver's side of a lake. A commit is of one table: rows go with what the table's own commit says of them, then
the progress follows. What that lost is made good from the tables at the next start."""

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
from consumer.sink import progress_sql as stored
from consumer.sink.columnar.lock import FileLock
from consumer.sink.columnar.progress import FileTables, done_ddls, table_applied_ts
from consumer.sink.common import nothing_beside
from consumer.sink.lake.delta import Delta
from consumer.sink.lake.failures import told, tried_twice
from consumer.sink.lake.formats import TableFormat
from consumer.sink.lake.iceberg import Iceberg
from consumer.sink.lake.merge import Merging
from consumer.sink.lake.moments import Moments
from consumer.sink.lake.names import Names
from consumer.sink.lake.progress import PLACE, LakeProgress, LakeTable, hold, leave, take, was_left
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.lake.statements import Effect, Executing, fitted, planned
from consumer.sink.lake.tables import answer, named
from consumer.sink.lake.types import quoted
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


class LakeSink(stored.ProgressPorts):
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
        self._layouts, self._names = Layouts(rules), Names(self._tables)
        self._progress = LakeProgress(self._tables, self._tables.place(PLACE), self._session)
        self._lock = FileLock(settings.staging, "lake")
        self._epoch: int | None = None
        self._upstream = ""
        self._own: tuple[object, SparkSession] | None = None
        self._spare: tuple[object, SimpleQueue[SparkSession]] = (None, SimpleQueue())
        self._settled, self._left = True, False
        """Whether the progress has all commits of tables, and whether it says so."""

    def acquire(self, upstream: str) -> Progress:
        self._lock.take()
        self._upstream = upstream
        try:
            self._progress.forget()
            with self._progress.transaction(None) as rows:
                stored.register(rows, self._name, upstream, self._settings.time_zone)
                left = was_left(rows)
                epoch = take(rows)
            begin_staging(self._settings.staging, epoch)
            self._epoch, self._left = epoch, False
            return self.progress() if left else self._repaired()
        except ConsumerError:
            self.close()
            raise

    def forget(self, name: str = "") -> None:
        name = name or self._name
        self._lock.take()
        self._progress.forget()
        with self._progress.transaction(self._epoch) as rows:
            if self._epoch is None:
                take(rows)
            known = self._progress.lake_tables
            gone = dict.fromkeys(stored.not_whole(rows, name, lambda names: known.keys() & names))
            left = [known[table] for table in gone if table in known]
            self._progress.remember(rows, gone)
            stored.forget(rows, name)
        self._progress.keep(gone)
        for table in left:
            self._tables.remove(table.place)

    def fence(self) -> Progress:
        self._held()
        self._progress.forget()
        with self._progress.transaction(self._epoch) as rows:
            epoch = take(rows)
        self._epoch, self._left = epoch, False
        begin_staging(self._settings.staging, epoch)
        return self._repaired()

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        tables = self._lake_tables()
        return [answer(request, tables) for request in requests]

    def writer(self) -> Writer:
        from consumer.sink.lake.writer import LakeWriter

        return LakeWriter(begin_load(self._settings.staging, self._held()))

    def end(self, writer: Writer) -> None:
        from consumer.sink.lake.writer import LakeWriter

        assert isinstance(writer, LakeWriter)
        end_load(writer.folder)

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        """Rows that were quarantined are recorded before their table's commit, which leaves them out."""
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
            self._progress.remember(rows, {one.merging.target.name: one.table for one in published})
            stored.store(rows, self._name, epoch, recorded, {outcome.table for outcome in loaded})
        self._settled = True
        return recorded

    def record(self, change: ProgressChange) -> ProgressChange:
        self._change(lambda rows: stored.store(rows, self._name, self._held(), change))
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
        with told(target.table):
            return exported(self._session(), self._tables, table, target, self._copies(), only)

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        frame = self._tables.frame(self._session(), self._existing(target).place)
        column = frame[quoted(target.names[position])]
        return [str(value) for (value,) in frame.select(column).distinct().collect() if value is not None]

    def script(self, target: LoadTarget) -> Script:
        raise BadConfig(
            "a lake takes no statements from a file, as they would not be commits of this program",
            hint="let verify write the rows itself, by --repair",
        )

    def rest(self) -> None:
        """The progress says all then: the next one to start need not look at the tables."""
        if self._epoch is not None:
            end_loads(self._settings.staging, self._epoch)
            if self._settled and not self._left:
                with suppress(Exception):  # a start without it looks at the tables
                    self._change(leave)
                    self._left = True

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        outcomes: list[DdlOutcome] = []
        failed: dict[TableName, ConsumerError] = {}
        self._try_names(steps)
        for step in steps:
            error = failed.get(step.table)
            with told(step.table):
                outcome = self._applied(step) if error is None else DdlOutcome(step, error=error)
            if outcome.error is not None:
                failed[step.table] = outcome.error
            outcomes.append(outcome)
        return outcomes

    def _try_names(self, steps: Sequence[ApplyDdl]) -> None:
        """Those of all tables together: each by itself would take Spark seconds."""
        asked: dict[Layout, set[str]] = defaultdict(set)
        for step in steps:
            columns = step.file.columns if step.mode_ddl is None else step.mode_ddl.after
            asked[self._layouts.of(step.table)] |= {column.name for column in columns}
        for layout, names in asked.items():
            with told():
                self._names.kept(self._session(), names, layout, self._lake_tables().values())

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        from consumer.sink.lake.preview import previewed

        def layout(step: ApplyDdl, table: LakeTable) -> Layout:
            return fitted(step, self._layouts, table, self._tables)

        def fixed(place: str) -> Collection[str]:
            return self._tables.laid_out_by(self._session(), place) if place else ()

        return previewed(steps, self._lake_tables(), self._settings.zone, layout, fixed)

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        epoch, there = self._held(), self._lake_tables().get(table.folded)
        with self._write() as rows:
            self._progress.remember(rows, {table: None})
            stored.store(rows, self._name, epoch, change)
        self._progress.keep({table: None})
        if there is not None:
            self._tables.remove(there.place)
        return change

    def beside(self, table: TableName) -> TableName:
        return parallel_load_name(table, table.database)

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        epoch, known, beside = self._held(), self._lake_tables(), self.beside(table)
        there, former = known.get(beside.folded), known.get(table.folded)
        if there is None:
            raise nothing_beside(table)
        changed = {beside: None, table: replace(there, replica=replace(there.replica, name=table))}
        with self._write() as rows:
            self._progress.remember(rows, changed)
            stored.give_away(rows, beside)
            stored.store(rows, self._name, epoch, change)
        self._progress.keep(changed)
        if former is not None:
            self._tables.remove(former.place)
        return change

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        session = self._session()
        self._rows()
        yield Readiness("target", "ok", f"{self._tables.called(session)} in {self._settings.root}")
        own = self._settings.root if self._settings.is_folder else self._settings.staging
        yield room(os.path.dirname(own), size)

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        self._held()
        return [name for name, table in named(self._lake_tables(), list(tables)).items() if self._is_filled(table)]

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        found = named(self._lake_tables(), list(tables))
        session = self._session() if found else None
        return {name: self._tables.frame(session, table.place).count() for name, table in found.items() if session}

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        known = self._lake_tables()
        return {name for name in tables if name.folded not in known}

    def tables_in(self, database: str) -> Collection[TableName]:
        known = self._lake_tables()
        return [table.replica.name for name, table in known.items() if name.database == same_name(database)]

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        known = self._lake_tables().values()
        return {table.replica.name: tuple(table.replica.types) for table in known if fits(table.replica.name)}

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        return {}

    def maintain(self, keep: timedelta) -> Iterator[UpkeptTable]:
        """Raises TargetBusy where a consumer has a lake that nobody else may write to."""
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

    def at(self, moment: int, wanted: Callable[[TableName], bool] | None = None) -> Sequence[TableAt]:
        self._session()  # one that does not know the format is refused
        self._rows()
        return Moments(self._tables, self._progress).at(moment, wanted)

    def frame(self, table: TableAt) -> DataFrame:
        session: SparkSession = self._source.session()
        self._tables.prepare(session)
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
        """The progress. Who is not the one writer looks whether it has moved."""
        if not self._lock.held:
            self._progress.refresh()
        return self._progress.rows()

    def _lake_tables(self) -> Mapping[TableName, LakeTable]:
        self._rows()
        return self._progress.lake_tables

    def _copies(self) -> str:
        """The folder for copies of tables that are compared."""
        return os.path.join(self._settings.staging, "copies")

    def _session(self) -> SparkSession:
        """A session of our own in the Spark that is there now."""
        spark = self._source.session()
        if self._own is None or self._own[0] is not spark:
            self._own = spark, self._new_session()
        return self._own[1]

    @contextmanager
    def _spare_session(self) -> Iterator[SparkSession]:
        """One that no other thread has meanwhile. It is kept for the next, as each opens the lake's catalog anew."""
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
        """What the tables' own commits say counts, where the progress did not follow: a table is as far as its newest
        commit, and a statement that it has ran."""
        found = {}
        for name, table in self._lake_tables().items():
            newest = None
            with suppress(TableError), told(name):  # of one that somebody removed its next load says so
                newest = self._tables.latest(table.place)
            if newest is not None and newest.generation > table.newest.generation:
                found[name] = replace(table, newest=newest, lost=True)  # what that commit lost is not known
            elif newest is not None and newest.generation == table.newest.generation:
                self._progress.keep({name: replace(table, newest=newest)})
        if found:
            with self._write() as rows:
                self._progress.remember(rows, found)
                # The one that died may have another name, and tables that upstream calls the same.
                for consumer in sorted(stored.consumers(rows).keys() & {t.newest.consumer for t in found.values()}):
                    known = stored.load(rows, consumer)
                    behind = {
                        name: replace(known.table(name), applied_ts=end, code=Code.MOVED_BY_WRITER)
                        for table in found.values()
                        for name, end in table.newest.applied.items()
                        if table.newest.consumer == consumer and known.table(name).applied_ts < end
                    }
                    stored.store(rows, consumer, self._held(), ProgressChange(tables=behind))
            self._progress.keep(found)
        return self.progress()

    def _unsettle(self) -> None:
        """Before a commit of a table, which the progress follows."""
        if self._left:
            self._change(hold)
        self._settled = self._left = False

    def _publish(self, outcomes: Sequence[LoadOutcome], lacking: Collection[TableName]) -> list[_Published]:
        """The rows of each outcome in one commit of its table: of one table they follow one another. `lacking` are
        tables of upstream that are not whole."""
        of_tables: dict[TableName, list[LoadOutcome]] = defaultdict(list)
        for outcome in outcomes:
            of_tables[outcome.task.target.name.folded].append(outcome)
        waves = zip_longest(*of_tables.values())
        return [one for wave in waves for one in self._publish_wave([one for one in wave if one is not None], lacking)]

    def _publish_wave(self, outcomes: Sequence[LoadOutcome], lacking: Collection[TableName]) -> list[_Published]:
        """Each is of another table, several at a time. What is published of several stays so where one of them fails:
        it is not done again."""
        found = (self._wanted(outcome, outcome.table not in lacking) for outcome in outcomes)
        wanted = [one for one in found if one is not None]
        errors: list[Exception] = []
        done = []
        with ThreadPoolExecutor(max(1, min(len(wanted), self._at_a_time()))) as threads:
            for future in [threads.submit(self._merge, one) for one in wanted]:
                try:
                    done.append(future.result())
                except Exception as error:
                    errors.append(error)
        for one in done:
            self._progress.keep({one.merging.target.name: one.table})
        if errors:
            raise errors[0]
        return done

    def _merge(self, one: _Published) -> _Published:
        """On a thread of its own."""
        if one.is_there:
            return one

        def publish() -> None:
            with told(one.merging.target.table, self._settings.staging), self._spare_session() as session:
                replace(one.merging, spark=session).publish(one.table.newest)

        tried_twice(publish)
        lost = one.merging.lost()
        return replace(one, lost=lost, table=replace(one.table, lost=one.table.lost or lost > 0))

    def _wanted(self, outcome: LoadOutcome, whole: bool) -> _Published | None:
        """What is to be published of a load; None where the table has it. `whole`: the table lacks nothing then."""
        target, window = outcome.task.target, outcome.task.window
        paths = self._staged(outcome)
        if not paths and not _was_otherwise(outcome):
            return None
        table = self._existing(target)
        said = paths or [f"{target.table} {window.after} {window.end}"]
        digest = hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]
        merging = Merging(self._session(), self._tables, table, target, paths, outcome.left_out)
        if table.newest.load == digest:
            return _Published(merging, window, table, is_there=True)
        if not target.key and window.end != MAX_TSO:
            applied = max(self._applied_ts(target.table), table.newest.applied.get(target.table, 0))
            if window.after < applied < window.end:
                raise begins_too_early(target.table, window, applied)
            if applied >= window.end:
                return None
        # Without times whole files are read, which may hold rows from behind the window.
        told_when = window.end != MAX_TSO and not outcome.task.dialect.timeless
        ends = {target.table: window.end} if told_when else {}
        from_ts, commit_ts = _moments(outcome) if whole else (0, 0)
        commit = table.newest.following(
            **self._said(target.table),
            applied={**table.newest.applied, **ends},
            load=digest,
            from_ts=from_ts,
            commit_ts=commit_ts,
        )
        return _Published(merging, window, replace(table, newest=commit))

    def _said(self, table: TableName) -> dict[str, object]:
        """What each commit of one of upstream's tables says."""
        return {"consumer": self._name, "epoch": self._held(), "upstream": self._upstream, "table": str(table)}

    def _lacking(self) -> set[TableName]:
        """Upstream's tables of which rows were quarantined, or losses accepted."""
        of_book = "SELECT database_name, table_name FROM storage_consumer.{} WHERE name = ?"
        query = " UNION ".join(map(of_book.format, ("bad_row", "loss")))
        return {TableName(*found) for found in self._rows().run(query, self._name, self._name)}

    def _at_a_time(self) -> int:
        return int(self._session().sparkContext.defaultParallelism)

    def _applied_ts(self, table: TableName) -> int:
        connection = self._rows().connection
        return table_applied_ts(connection, self._name, table)

    def _applied(self, step: ApplyDdl) -> DdlOutcome:
        epoch, known = self._held(), self._lake_tables()
        try:
            effect = Effect()
            recorded = step.before.merged(step.done())
            if step.id not in self._done(step):
                there = known.get(step.name_before.folded)
                asked = step.trash is not None or step.file.type in PARTITION_ACTIONS
                executing = Executing(self._session(), self._tables, known, self._layouts, self._names)

                def run() -> Effect:
                    with told(step.table):
                        if filled := asked and there is not None and self._is_filled(there):
                            executing.check_trash(step)
                        done = planned(step, known, self._settings.zone, filled)
                        return executing.run(step, done, said)

                said = self._said(step.table)
                if step.table not in self._lacking():
                    said |= {"from_ts": step.file.version - 1, "commit_ts": step.file.version}
                self._unsettle()
                effect = tried_twice(run)
                self._progress.keep(
                    {name: table for name, table in effect.there.items() if _is_same(known, name, table)}
                )
                recorded = step.before.merged(step.done(effect.note))
                with self._write() as rows:
                    self._progress.remember(rows, effect.there, step.file.version)
                    stored.store(rows, self._name, epoch, recorded, {step.table})
                self._progress.keep(effect.there)
                self._settled = True
            for place in effect.gone:
                self._tables.remove(place)
        except Fatal as error:
            return DdlOutcome(step, error=error)
        return DdlOutcome(step, note=effect.note, recorded=recorded)

    def _done(self, step: ApplyDdl) -> set[DdlId]:
        return done_ddls(self._rows().connection, self._name, [step.id])

    def _is_filled(self, table: LakeTable) -> bool:
        session = self._session()
        if self._tables.is_empty(session, table.place):
            return False
        return bool(self._tables.frame(session, table.place).limit(1).collect())

    def _look(self, at: Callable[[FileTables], _Found]) -> _Found:
        return at(self._rows())

    def _change(self, by: Callable[[FileTables], _Found]) -> _Found:
        with self._write() as rows:
            return by(rows)

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
        """The current place of an outcome's files. Raises LeaseHeld for those of a writer that was locked out."""
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
    """A load, and what its table is behind it. `lost`: how many values became NULL. `is_there`: it was done before."""

    merging: Merging
    window: Window
    table: LakeTable
    lost: int = 0
    is_there: bool = False


def _was_otherwise(outcome: LoadOutcome) -> bool:
    """Whether a load without a row may have been of changes that the table does not show: those of a table with no key
    cancel each other out, or all rows were quarantined."""
    window = outcome.task.window
    changed = any(stat.last_ts > window.after for stat in outcome.files)
    return window.end != MAX_TSO and bool(outcome.quarantined or (changed and not outcome.task.target.key))


def _is_open(outcome: LoadOutcome) -> bool:
    """Whether it has rows from behind the moment up to which its table is complete: later commits may have them, too,
    while that moves on."""
    return outcome.task.window.end == MAX_TSO and outcome.task.target.load.purpose is not Purpose.MEND


def _moments(outcome: LoadOutcome) -> tuple[int, int]:
    """What the load's commit says as `from_ts` and `commit_ts`. Of rows whose time is a millisecond, or that have none,
    some of the same moment can come later."""
    window, target = outcome.task.window, outcome.task.target
    if outcome.task.dialect.timeless or any(stat.coarse_ts or stat.coarse_quarantined for stat in outcome.files):
        return 0, 0
    if window.end == MAX_TSO:  # what differed is as upstream's now, and nobody knows since when it was not
        return 0, window.after if target.load.purpose is Purpose.MEND else 0
    return window.after, window.end


def _lost(one: _Published) -> AuditRow | None:
    if not one.lost:
        return None
    table, text = one.merging.target.table, f"values that no calendar has, which became NULL: {one.lost}"
    log.warning("%s: %s", table, text)
    return AuditRow("zero-dates", table, one.window.after, one.window.end, puts=one.lost, statement=text)


def _is_same(known: Mapping[TableName, LakeTable], name: TableName, table: LakeTable | None) -> bool:
    """Whether the table is where it was: its newest commit counts, also where the record of it fails."""
    before = known.get(name.folded)
    return table is not None and before is not None and before.place == table.place
