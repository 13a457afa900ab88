"""Recording a statement as done by hand."""

from __future__ import annotations

from dataclasses import replace

from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, Progress, ProgressChange, State
from consumer.model.steps import ddl_id
from consumer.plan.assembly import Assembly


def record_as_done(
    table: TableName, version: int, reason: str, assembly: Assembly, progress: Progress
) -> ProgressChange:
    """The progress after a person has done a pending statement by hand. Raises BadConfig if there is none, or if rows
    below it are not applied yet."""
    for statement in assembly.timeline.pending:
        if statement.file.name != table or statement.version != version:
            continue
        behind = [
            name
            for name in statement.touches
            if progress.table(name).applied_ts < version
            and (name == table or progress.table(name).state is not State.DROPPED)
        ]
        if behind:
            raise BadConfig(
                f"rows of {behind[0]} below version {version} are not applied yet, so the statement is not due",
                hint="run once first; skip-ddl is for a statement that a run has stopped at",
            )
        record = DdlRecord(ddl_id(statement.file), DdlState.SKIPPED, reason=reason)
        return replace(statement.before(progress).merged(statement.after()), ddls=(record,))
    for file in assembly.timeline.overdue:
        if file.name == table and file.version == version:
            return ProgressChange(ddls=(DdlRecord(ddl_id(file), DdlState.SKIPPED, reason=reason),))
    pending = sorted({f"{s.file.name} {s.version}" for s in assembly.timeline.pending})
    raise BadConfig(
        f"no statement of {table} with version {version} is pending",
        hint="pending: " + (", ".join(pending) or "none"),
    )
