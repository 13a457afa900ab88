"""Plans upstream's statements by the state of the target and by what earlier runs recorded, and records the results:
intents before the statements run, proofs and facts, or refusals, afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pymysql

from consumer.errors import ConsumerError, DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, Action
from consumer.model.ddl_policy import trash_taken
from consumer.model.hints import too_long_hint
from consumer.model.names import qualified
from consumer.model.progress import DdlId, DdlRecord, DdlState, ProgressChange
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import PartitionKind
from consumer.sink.mysql.progress.epochs import (
    STATEMENTS,
    TIDB_SLOTS,
    lease_taken,
    leave_proof,
    new_proof,
    progress_lost,
)
from consumer.sink.mysql.progress.store import store
from consumer.sink.mysql.server.connection import SESSION_MARK, FlavorName, check_session
from consumer.sink.mysql.server.driver import Driver
from consumer.sink.mysql.server.errors import TOO_LONG, errno, server_error
from consumer.sink.mysql.statements.evidence import BeforeState, before_state, current_state
from consumer.sink.mysql.statements.operations import (
    Operations,
    about_step,
    check_names,
    operations,
    refused_statement,
    table_exists,
)
from consumer.sink.mysql.statements.target_now import TargetNow
from consumer.sink.mysql.statements.trash import is_occupied
from consumer.target import DdlOutcome

_BY_PARTITION = frozenset({Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION})


@dataclass(frozen=True, slots=True)
class PlannedDdl:
    """A step that is to be executed."""

    step: ApplyDdl
    operations: Operations
    before: BeforeState
    resumed: bool
    """An earlier run recorded the intent, and may have executed the statement."""

    def intent(self) -> DdlRecord:
        return DdlRecord(self.step.id, DdlState.INTENT, self.before.dump())


def plan_ddls(
    cursor: pymysql.cursors.Cursor,
    steps: Sequence[ApplyDdl],
    unfinished: Mapping[DdlId, DdlRecord],
    flavor: FlavorName,
    zone: str,
) -> list[PlannedDdl | DdlOutcome]:
    """Looks at what the steps touch. A step that cannot be planned is answered at once. pymysql's errors pass through,
    except those about a single step (a name that the server cannot hold). `zone` is the changefeed's."""
    now = TargetNow(cursor, flavor)
    plans: list[PlannedDdl | DdlOutcome] = []
    for step in steps:
        try:
            plans.append(_planned(cursor, step, unfinished.get(step.id), now, zone))
        except DdlRefused as error:
            plans.append(DdlOutcome(step, about_step(step, error)))
        except pymysql.MySQLError as error:
            refusal = step_error(error, step)
            if not isinstance(refusal, DdlRefused):
                raise
            plans.append(DdlOutcome(step, refusal))
    return plans


def _planned(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, record: DdlRecord | None, now: TargetNow, zone: str
) -> PlannedDdl:
    check_names(step, now.flavor)
    resumed = record is not None and record.state is DdlState.INTENT
    before = _before(cursor, step, record, now.flavor)
    if not resumed:
        _check(cursor, step, before, now.flavor)
    return PlannedDdl(step, operations(step, now, zone, resumed), before, resumed)


def _before(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, record: DdlRecord | None, flavor: FlavorName
) -> BeforeState:
    """Returns the state before `step`, as its intent says. A refused step begins from the present state, with the
    statement that was refused."""
    if record is None:
        return before_state(cursor, step, flavor)
    recorded = BeforeState.parse(record.before)
    if record.state is DdlState.INTENT:
        return recorded
    if step.file.type not in DATABASE_ACTIONS and step.name not in recorded.tables:
        return before_state(cursor, step, flavor)  # routes give it another name now
    return current_state(cursor, recorded, recorded.number, flavor)


def _check(cursor: pymysql.cursors.Cursor, step: ApplyDdl, before: BeforeState, flavor: FlavorName) -> None:
    """Raises DdlRefused if something in the target conflicts with a step that has not begun."""
    creates = step.file.type in CREATE_ACTIONS - {Action.CREATE_VIEW} and before.number == 0
    if creates and before.exists(step.name) and step.merged is None:
        raise table_exists(step)
    if reason := _misplaced(cursor, step, flavor):
        raise DdlRefused(reason)
    if step.trash is not None and is_occupied(cursor, step, step.trash, flavor):
        reason, hint = trash_taken(step.trash)
        raise DdlRefused(reason, hint=hint)


def _misplaced(cursor: pymysql.cursors.Cursor, step: ApplyDdl, flavor: FlavorName) -> str:
    """Returns why the statement would affect other rows here, "" if it would not.

    Upstream, a NULL counts as 0. MySQL and MariaDB treat it as the least BIGINT, whose partition is another one unless
    the number of partitions is a power of two. pymysql's errors pass through.
    """
    partitioning = step.table_before.partitioning
    if flavor == "tidb" or partitioning is None or step.file.type not in _BY_PARTITION:
        return ""
    if partitioning.kind is not PartitionKind.HASH or len(partitioning.partitions).bit_count() == 1:
        return ""
    table = qualified(*step.name)
    cursor.execute(f"SELECT 1 FROM {table} WHERE ({partitioning.by[0]}) IS NULL LIMIT 1")
    if cursor.fetchone() is None:
        return ""
    return "rows whose HASH is NULL are in another partition here than upstream"


def step_error(error: pymysql.MySQLError, step: ApplyDdl) -> ConsumerError:
    """Returns the consumer's error for a server error in `step`."""
    translated = server_error(error, "ddl")
    if isinstance(translated, DdlRefused):
        too_long = errno(error) in TOO_LONG and step.file.type not in CREATE_ACTIONS
        return refused_statement(
            step, translated.message, too_long_hint(step.file, qualified(*step.name)) if too_long else translated.hint
        )
    translated.table, translated.version = str(step.table), step.file.version
    return translated


class Records:
    """What is recorded in the sessions of statements that run in parallel. `saved` are their intents, `proofs` the
    proofs of the sessions in which some ran. Several threads can use it."""

    def __init__(self, driver: Driver, name: str, epoch: int, planned: Sequence[PlannedDdl]) -> None:
        self._driver, self._name, self._epoch = driver, name, epoch
        self.saved = {plan.step.id: plan.intent() for plan in planned}
        self.proofs: list[int] = []

    def check(self, cursor: pymysql.cursors.Cursor, statement: DdlId) -> None:
        """Raises ProgressMoved if the statement's intent is missing, LeaseHeld if a later round or another consumer has
        begun (the guard may be lost), and BadConfig in a session that is not this program's."""
        # No lock: a new round may be waiting for the guard, and this would wait for that round.
        cursor.execute(
            f"SELECT {SESSION_MARK}, (SELECT state FROM storage_consumer.ddl WHERE (name, database_name, table_name, "
            "version, checksum) = %s), epoch, holder, since FROM storage_consumer.lease WHERE name = %s AND slot = %s",
            ((self._name, *statement), self._name, STATEMENTS * TIDB_SLOTS),
        )
        row = cursor.fetchone()
        if row is not None:
            check_session(row[0], "ddl")
        if row is None or row[1] != DdlState.INTENT.value or row[2] < self._epoch:
            raise progress_lost(self._name)
        if row[2] > self._epoch:
            raise lease_taken(self._name, *row[3:])

    def save(self, cursor: pymysql.cursors.Cursor, record: DdlRecord) -> None:
        """Writes a later intent and commits. Raises as `check` does: the driver may be working on a later round."""
        cursor.connection.begin()
        with self._driver.writing(cursor, "ddl"):
            self.check(cursor, record.id)
            store(cursor, self._name, self._epoch, ProgressChange(ddls=(record,)))
        self.saved[record.id] = record

    def prove(self, cursor: pymysql.cursors.Cursor) -> None:
        """Writes a proof that statements have run in this session. An error here is not a refusal of these
        statements."""
        proof = new_proof()
        try:
            leave_proof(cursor, self._name, proof)
        except pymysql.MySQLError as error:
            raise server_error(error, "start") from error
        self.proofs.append(proof)


def intents(planned: Sequence[PlannedDdl]) -> ProgressChange:
    """Returns what must be durable before the statements run."""
    change = ProgressChange(ddls=tuple(plan.intent() for plan in planned))
    return change.merged(*(plan.step.before for plan in planned))


def facts(outcomes: Sequence[DdlOutcome], saved: Mapping[DdlId, DdlRecord]) -> list[ProgressChange]:
    """Returns one change for each outcome. A statement that ran has a fact, and one that the target refused has a
    refusal instead of its intent in `saved`. Any other error says nothing about the statement, which keeps its
    intent."""
    return [_fact(outcome, saved[outcome.step.id]) for outcome in outcomes]


def _fact(outcome: DdlOutcome, intent: DdlRecord) -> ProgressChange:
    if isinstance(outcome.error, DdlRefused):
        return ProgressChange(ddls=(replace(intent, state=DdlState.REFUSED, reason=outcome.error.message),))
    if outcome.error is not None:
        return ProgressChange()
    return outcome.step.done(outcome.note)
