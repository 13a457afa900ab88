"""What is recorded of statements: intents before they run, proofs and facts, or refusals, behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pymysql

from consumer.errors import DdlRefused
from consumer.model.progress import DdlId, DdlRecord, DdlState, ProgressChange
from consumer.sink.mysql.progress.epochs import STATEMENTS, TIDB_SLOTS, gone_back, leave_proof, new_proof, taken_over
from consumer.sink.mysql.progress.store import store
from consumer.sink.mysql.server.connection import SESSION_MARK, check_session
from consumer.sink.mysql.server.driver import Driver
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.statements.plan import PlannedDdl
from consumer.target import DdlOutcome


class Records:
    """Of statements that run side by side: what is recorded in their own sessions. `saved` are their intents, `proofs`
    those of the sessions in which some ran. For several threads."""

    def __init__(self, driver: Driver, name: str, epoch: int, planned: Sequence[PlannedDdl]) -> None:
        self._driver, self._name, self._epoch = driver, name, epoch
        self.saved = {plan.step.id: plan.intent() for plan in planned}
        self.proofs: list[int] = []

    def check(self, cursor: pymysql.cursors.Cursor, statement: DdlId) -> None:
        """Raises ProgressMoved where the statement's intent is not there, LeaseHeld where a later round or another
        consumer has begun, as the guard may be lost; BadConfig in a session that is not ours."""
        # No lock: whoever begins anew may wait for the guard, and this would wait for them.
        cursor.execute(
            f"SELECT {SESSION_MARK}, (SELECT state FROM storage_consumer.ddl WHERE (name, database_name, table_name, "
            "version, checksum) = %s), epoch, holder, since FROM storage_consumer.lease WHERE name = %s AND slot = %s",
            ((self._name, *statement), self._name, STATEMENTS * TIDB_SLOTS),
        )
        row = cursor.fetchone()
        if row is not None:
            check_session(row[0], "ddl")
        if row is None or row[1] != DdlState.INTENT.value or row[2] < self._epoch:
            raise gone_back(self._name)
        if row[2] > self._epoch:
            raise taken_over(self._name, *row[3:])

    def save(self, cursor: pymysql.cursors.Cursor, record: DdlRecord) -> None:
        """Write a later intent and commit. Raises as `check`: the driver may have been busy with a later round."""
        cursor.connection.begin()
        with self._driver.writing(cursor, "ddl"):
            self.check(cursor, record.id)
            store(cursor, self._name, self._epoch, ProgressChange(ddls=(record,)))
        self.saved[record.id] = record

    def prove(self, cursor: pymysql.cursors.Cursor) -> None:
        """Statements have run in this session. What keeps the proof from being left is no refusal of theirs."""
        proof = new_proof()
        try:
            leave_proof(cursor, self._name, proof)
        except pymysql.MySQLError as error:
            raise translate(error, "start") from error
        self.proofs.append(proof)


def intents(planned: Sequence[PlannedDdl]) -> ProgressChange:
    """What must be durable before the statements run."""
    change = ProgressChange(ddls=tuple(plan.intent() for plan in planned))
    return change.merged(*(plan.step.before for plan in planned))


def facts(outcomes: Sequence[DdlOutcome], saved: Mapping[DdlId, DdlRecord]) -> list[ProgressChange]:
    """What is true once they were tried: of those that ran, and of those that the target refused, whose intents end
    with it; `saved` are the intents. Any other error says nothing of the statement, which keeps its intent."""
    return [_fact(outcome, saved[outcome.step.id]) for outcome in outcomes]


def _fact(outcome: DdlOutcome, intent: DdlRecord) -> ProgressChange:
    if isinstance(outcome.error, DdlRefused):
        return ProgressChange(ddls=(replace(intent, state=DdlState.REFUSED, reason=outcome.error.message),))
    if outcome.error is not None:
        return ProgressChange()
    return outcome.step.done(outcome.note)
