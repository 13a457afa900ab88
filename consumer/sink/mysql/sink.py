"""A MySQL-compatible target, on the driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import pymysql

from consumer.errors import ConsumerError, LeaseHeld, TargetBusy, TargetUnavailable
from consumer.model.actions import INDEX_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.load import LoadOutcome, LoadTarget
from consumer.model.names import TableName, qualified
from consumer.model.progress import DdlId, DdlRecord, Progress, ProgressChange, parallel_load_name
from consumer.model.readiness import Readiness
from consumer.model.steps import ApplyDdl, TargetDdl
from consumer.sink.common import completed_row, parallel_table_missing
from consumer.sink.mysql.progress.epochs import GENERATION, LOADS, check_proofs, raise_epoch, raise_lane
from consumer.sink.mysql.progress.lease import LeaseLock
from consumer.sink.mysql.progress.schema import ensure_schema
from consumer.sink.mysql.progress.store import ServerTables, store
from consumer.sink.mysql.server.connection import FlavorName, flavor_from_greeting, short_lock_waits
from consumer.sink.mysql.server.driver import Driver
from consumer.sink.mysql.server.statement_connections import StatementConnections, mark, unmark, wait_for_listening
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.statements.execute import execute_ddls
from consumer.sink.mysql.statements.operations import preview_statements
from consumer.sink.mysql.statements.planned import PlannedDdl, Records, facts, intents, plan_ddls
from consumer.sink.mysql.tables.blanks import blanks_moved, blanks_renamed, forget_looks
from consumer.sink.mysql.tables.describe import (
    describe_tables,
    has_row,
    matching_tables,
    missing_tables,
    referred_columns,
    row_count,
    tables_in,
)
from consumer.sink.mysql.tables.prepare import prepare_targets
from consumer.sink.mysql.waiting_room import WaitingRoom
from consumer.sink.progress_layout import SCHEMA
from consumer.sink.progress_sql import ProgressPorts, forget_consumer, give_away, owner_of, register, unfinished_tables
from consumer.sink.staging import end_load
from consumer.target import Comparer, DdlOutcome, LoadRequest, Only, Script, TargetOptions, Writer

_Found = TypeVar("_Found")
_GIVEN = ("name", "time_zone", "worker_count", "allow_triggers", "staged", "max_wait")
"""The options of any target that a server uses."""


def open_sink(uri: str, options: TargetOptions) -> MySqlSink:
    defaults = {name: getattr(options, name) for name in _GIVEN}
    return MySqlSink(MySqlSettings.from_uri(uri, **defaults))


class MySqlSink(ProgressPorts):
    """target.Sink for MySQL, MariaDB and TiDB. Writers write rows straight into the tables. If the settings say that
    rows are staged, they wait in files until `commit` writes them."""

    refers = True

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings, self._name = settings, settings.name
        self._driver = Driver(settings)
        self._statements = StatementConnections(settings)
        self.statements = self._statements.most
        self._lock: LeaseLock | None = None
        self._upstream = ""
        self._epoch = 0
        """The epoch of all lanes when the target was acquired. It stays the statements' epoch until the next time."""
        self._lanes: dict[int, int | None] = {}
        """Maps each lane of loads to the epoch of its next writer, None while a load uses the lane."""
        self._waiting: WaitingRoom | None = None
        """The folder for staged rows."""

    def acquire(self, upstream: str) -> Progress:
        with self._driver.cursor() as cursor:
            ensure_schema(cursor)
        lock = LeaseLock(self._settings)
        lock.take()
        try:
            self._begin(upstream)
        except BaseException:  # also a signal: the lock's thread would hold the lock as long as this process lives
            lock.release()
            raise
        self._lock, self._upstream = lock, upstream
        return self.progress()

    def forget(self, name: str = "") -> None:
        name = name or self._name
        with self._driver.cursor() as cursor:
            ensure_schema(cursor)
        with self._locking_out(name), self._driver.cursor() as cursor:
            for table in unfinished_tables(ServerTables(cursor), name, lambda names: describe_tables(cursor, names)):
                cursor.execute(f"DROP TABLE IF EXISTS {qualified(*table)}")
            forget_consumer(ServerTables(cursor), name)
            cursor.connection.commit()

    def fence(self) -> Progress:
        held = self._driver.epoch.possible
        assert self._lock is not None
        # The target's address may lead to another server than when these were opened.
        self._driver.close()
        self._statements.close()
        with self._driver.cursor() as cursor:
            ensure_schema(cursor)
            self._lock.follow(cursor)
        self._begin(self._upstream, held)
        return self.progress()

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        return self._driver.read(lambda cursor: prepare_targets(cursor, requests, self._settings))

    def writer(self) -> Writer:
        # The module imports Arrow. A run with nothing to load must not wait for that.
        from consumer.sink.mysql.rows.writer import MySqlWriter

        lane = next((lane for lane, epoch in self._lanes.items() if epoch is not None), LOADS + len(self._lanes))
        epoch = self._lanes.get(lane) or self._driver.retried(lambda: self._raise_lane(lane))
        self._lanes[lane] = None
        folder = "" if self._waiting is None else self._waiting.begin_load()
        return MySqlWriter(self._settings, epoch, lane, self._driver.epoch.now, folder)

    def end(self, writer: Writer) -> None:
        from consumer.sink.mysql.rows.writer import MySqlWriter

        assert isinstance(writer, MySqlWriter)
        self._lanes[writer.lane] = self._driver.retried(lambda: self._raise_lane(writer.lane))
        if writer.folder:
            end_load(writer.folder)

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        change, proofs = _with_audit(outcomes, change)
        if self._waiting is None:
            return self._store(change, {outcome.table for outcome in outcomes}, proofs)
        from consumer.sink.mysql.rows.publish import publish_staged

        staged = [(outcome, self._waiting.paths(outcome)) for outcome in outcomes if outcome.error is None]
        touched = {outcome.table for outcome, _ in staged}
        recorded = publish_staged(self._driver, self._settings, self._epoch, staged, change, touched, proofs)
        for _, paths in staged:
            self._waiting.remove(paths)
        return recorded

    def record(self, change: ProgressChange) -> ProgressChange:
        return self._store(change, set(), changing=change.by_hand)

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        epoch = self._epoch
        with self._statements.cursor() as cursor:
            flavor = flavor_from_greeting(cursor.connection).name
            answers = plan_ddls(cursor, steps, unfinished, flavor, self._settings.time_zone)
        planned = [answer for answer in answers if isinstance(answer, PlannedDdl)]
        if planned:
            moving = [plan.step.touches for plan in planned if _moves_rows(plan.step)]
            changing = {table for plan in planned if _changes_keys(plan.step) for table in plan.step.touches}
            touched = {plan.step.table for plan in planned}
            self._store(intents(planned), touched, moving=moving, changing=changing, begun=epoch)
        executed = self._execute(planned, flavor, epoch)
        return [executed[answer.step.id] if isinstance(answer, PlannedDdl) else answer for answer in answers]

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        if not steps:
            return []
        flavor = self._driver.flavor.name
        with self._driver.cursor("ddl") as cursor:
            return list(preview_statements(cursor, steps, flavor, self._settings.time_zone))

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        assert self._lock is not None
        # One connection for everything: a new one may lead to a server on which the table was not dropped.
        with self._lock.guarding(self._epoch), self._driver.cursor("ddl") as cursor:
            self._statements.wait_for_lost(cursor)
            mark(cursor, self._name, marked=len(self._statements.sessions))
            with self._driver.writing(cursor):
                pass  # fails on a target that has lost the record that the table is to be emptied: it keeps the table
            with short_lock_waits(cursor):
                _drop(cursor, table)
            with self._driver.writing(cursor):
                store(cursor, self._name, self._epoch, change)
            unmark(cursor, self._name)
        return change

    def parallel_name(self, table: TableName) -> TableName:
        """The parallel table is in another database, because names of foreign keys and checks are unique in a
        database."""
        return parallel_load_name(table, SCHEMA)

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        """Replaces the table in steps. The owner of the parallel table shows what remains to be done after a crash:
        once it has none, the table has been renamed, or the rename is next."""
        assert self._lock is not None
        parallel = self.parallel_name(table)
        owner = self._look(lambda tables: owner_of(tables, parallel))
        with self._locking_out(owner), self._lock.guarding(self._epoch), self._driver.cursor("ddl") as cursor:
            self._statements.wait_for_lost(cursor)
            mark(cursor, self._name, marked=len(self._statements.sessions))
            with self._driver.writing(cursor):
                pass  # as in `empty_table`
            if parallel in describe_tables(cursor, [parallel]):
                with short_lock_waits(cursor):
                    _drop(cursor, table)
                with self._driver.writing(cursor):
                    give_away(ServerTables(cursor), parallel)
                    blanks_renamed(cursor, parallel, table)
                with short_lock_waits(cursor):
                    cursor.execute(f"RENAME TABLE {qualified(*parallel)} TO {qualified(*table)}")
            elif owner or missing_tables(cursor, [table]):
                raise parallel_table_missing(table)
            with self._driver.writing(cursor):
                store(cursor, self._name, self._epoch, change)
            unmark(cursor, self._name)
        return change

    @contextmanager
    def _locking_out(self, name: str) -> Iterator[None]:
        """Keeps the consumer `name` from changing anything while the context lasts. Raises LeaseHeld if it is
        running."""
        if not name:
            yield
            return
        lock = LeaseLock(replace(self._settings, name=name))
        lock.take()
        try:
            with self._driver.cursor() as cursor:
                raise_epoch(cursor, name)
                cursor.connection.commit()
                wait_for_listening(cursor, name)
            yield
        finally:
            lock.release()

    @contextmanager
    def still(self) -> Iterator[Progress]:
        lock = LeaseLock(self._settings)
        lock.take()
        try:
            yield self.progress()
        finally:
            lock.release()

    def lease_generation(self) -> str:
        def look(cursor: pymysql.cursors.Cursor) -> str:
            cursor.execute(GENERATION.format("%s"), (self._name,))
            return str(cursor.fetchone()[0])

        return self._driver.read(look)

    def comparer(self, target: LoadTarget, only: Only | None = None) -> Comparer:
        from consumer.sink.mysql.rows.compare import MySqlComparer, bounds_of

        def look() -> Comparer:
            with self._driver.cursor() as cursor:
                return MySqlComparer(self._settings, target, bounds_of(cursor, target, only), only)

        return self._driver.retried(look)

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        from consumer.sink.mysql.rows.compare import values_of

        return self._driver.read(lambda cursor: values_of(cursor, target, position))

    def script(self, target: LoadTarget) -> Script:
        from consumer.sink.mysql.rows.script import MySqlScript

        return MySqlScript(self._settings, target)

    def rest(self) -> None:
        """Removes staged files of ended loads. There is no lock to release: a server admits others in parallel."""
        if self._waiting is not None:
            self._waiting.end_loads()

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        from consumer.sink.mysql.server.readiness import readiness

        yield from self._driver.read(lambda cursor: list(readiness(cursor, databases)))

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        def look(cursor: pymysql.cursors.Cursor) -> Sequence[TableName]:
            targets = describe_tables(cursor, tables)
            return [name for name, target in targets.items() if has_row(cursor, target.name)]

        return self._driver.read(look)

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        def count(cursor: pymysql.cursors.Cursor) -> Mapping[TableName, int]:
            targets = describe_tables(cursor, tables)
            return {name: row_count(cursor, target.name) for name, target in targets.items()}

        return self._driver.read(count)

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        return self._driver.read(lambda cursor: missing_tables(cursor, tables))

    def tables_in(self, database: str) -> Collection[TableName]:
        return self._driver.read(lambda cursor: tables_in(cursor, database))

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        return self._driver.read(lambda cursor: matching_tables(cursor, fits))

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        return self._driver.read(referred_columns)

    def close(self) -> None:
        self._driver.close()
        self._driver.begins_at(None)
        self._statements.close()
        if self._lock is not None:
            self._lock.release()
        self._lock = None
        if self._waiting is not None:
            self._waiting.close()
        self._waiting = None

    def _look(self, read: Callable[[ServerTables], _Found]) -> _Found:
        return self._driver.read(lambda cursor: read(ServerTables(cursor)))

    def _change(self, write: Callable[[ServerTables], _Found]) -> _Found:
        def save() -> _Found:
            with self._driver.transaction() as cursor:
                return write(ServerTables(cursor))

        return self._driver.retried(save)

    def _begin(self, upstream: str, held: Sequence[int] = ()) -> None:
        with self._driver.cursor() as cursor:
            register(ServerTables(cursor), self._name, upstream, self._settings.time_zone)
            epoch = raise_epoch(cursor, self._name, held)
            if held:
                self._driver.epoch.asked(epoch)
            cursor.connection.commit()
            wait_for_listening(cursor, self._name)
            # Set before the driver is released to statements that began earlier.
            self._epoch, self._lanes = epoch, {}
            self._driver.begins_at(epoch)
        if self._settings.staged:
            self._waiting = self._waiting or WaitingRoom(self._settings.staging)
            self._waiting.begin(epoch)

    def _raise_lane(self, lane: int) -> int:
        with self._driver.transaction() as cursor:
            return raise_lane(cursor, self._name, lane)

    def _store(
        self,
        change: ProgressChange,
        touched: set[TableName],
        proofs: Sequence[int] = (),
        moving: Sequence[Sequence[TableName]] = (),
        changing: Collection[TableName] = (),
        begun: int | None = None,
    ) -> ProgressChange:
        """Records `change`.

        `proofs` belong to what `change` builds on. `moving` are tables between which statements move rows next,
        `changing` the tables whose columns or keys may change next. `begun` is the epoch in which statements began, on
        a thread that may have been abandoned since. None: this is the thread that acquires the target.
        """

        def save() -> None:
            with self._driver.transaction() as cursor:
                if begun not in (None, self._epoch):
                    raise LeaseHeld("these statements come too late: a later round has begun")
                check_proofs(cursor, self._name, proofs)
                for tables in moving:
                    blanks_moved(cursor, tables)
                forget_looks(cursor, changing)
                store(cursor, self._name, self._epoch, change, touched)

        self._driver.retried(save)
        return change

    def _execute(self, planned: Sequence[PlannedDdl], flavor: FlavorName, epoch: int) -> dict[DdlId, DdlOutcome]:
        """Runs the statements, which began in `epoch`. Nobody can take over meanwhile. Between the statements and their
        facts somebody can, who then finds the intents."""
        if not planned:
            return {}
        assert self._lock is not None
        records = Records(self._driver, self._name, epoch, planned)
        try:
            with self._lock.guarding(epoch):
                outcomes = execute_ddls(self._statements, planned, flavor, records)
            recorded = facts(outcomes, records.saved)
            self._store(ProgressChange().merged(*recorded), set(), records.proofs, begun=epoch)
        except (LeaseHeld, TargetBusy, TargetUnavailable) as error:  # the next try starts from the intents
            outcomes, recorded = [DdlOutcome(plan.step, error) for plan in planned], [ProgressChange()] * len(planned)
        saved = records.saved
        intended = [outcome.step.before.merged(ProgressChange(ddls=(saved[outcome.step.id],))) for outcome in outcomes]
        return {
            outcome.step.id: replace(outcome, recorded=intent.merged(fact))
            for outcome, intent, fact in zip(outcomes, intended, recorded, strict=True)
        }


def _drop(cursor: pymysql.cursors.Cursor, table: TableName) -> None:
    """Drops the table or view if it exists."""
    for target in describe_tables(cursor, [table]).values():
        kind = "VIEW" if "VIEW" in target.kind else "TABLE"
        cursor.execute(f"DROP {kind} IF EXISTS {qualified(*target.name)}")


def _with_audit(outcomes: Sequence[LoadOutcome], change: ProgressChange) -> tuple[ProgressChange, list[int]]:
    """Returns `change` with the audit rows of `outcomes`, and the proofs of what it builds on."""
    audit = tuple(row for o in outcomes for row in completed_row(o, sum(receipt.defaulted for receipt in o.receipts)))
    proofs = {proof: None for outcome in outcomes for receipt in outcome.receipts for proof in receipt.proofs}
    return change.merged(ProgressChange(audit=audit)), [*proofs]


def _moves_rows(step: ApplyDdl) -> bool:
    """Returns whether this table or another one may contain rows afterwards that its own loads did not write."""
    return len(step.touches) > 1 or step.file.type in RENAME_ACTIONS or step.file.type == Action.RECOVER_TABLE


def _changes_keys(step: ApplyDdl) -> bool:
    """Returns whether the table may have other keys, or other texts in them, afterwards."""
    return step.file.type in INDEX_ACTIONS or step.file.type == Action.MODIFY_TABLE_CHARSET
