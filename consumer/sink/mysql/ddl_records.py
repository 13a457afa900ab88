"""What is recorded of statements: intents before they run, facts and refusals behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from consumer.errors import DdlRefused
from consumer.model.progress import AuditRow, DdlId, DdlRecord, DdlState, ProgressChange
from consumer.model.steps import ApplyDdl
from consumer.ports import DdlOutcome
from consumer.sink.mysql.ddl_plan import PlannedDdl


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
    done = ProgressChange(ddls=(DdlRecord(intent.id, DdlState.DONE),), audit=(_audit(outcome.step),))
    return outcome.step.after.merged(done)


def _audit(step: ApplyDdl) -> AuditRow:
    return AuditRow("ddl", step.file.name, step.file.version, step.file.version, statement=step.file.query)
