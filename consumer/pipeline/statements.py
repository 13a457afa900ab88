"""One wave of statements: all that are ready, none touching a table of another."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from consumer.errors import ConsumerError, DdlRefused, Retryable
from consumer.model.actions import Action
from consumer.model.commands import skip_ddl_command
from consumer.model.ddl_policy import DdlPolicy, ignored_reason, trash_name
from consumer.model.progress import AuditRow, DdlRecord, DdlState, ProgressChange, State, TableProgress
from consumer.model.steps import ApplyDdl, ddl_id
from consumer.plan.statement import Statement, refusal
from consumer.ports import DdlOutcome

if TYPE_CHECKING:
    from consumer.pipeline.manager import ConsumerManager


class StatementRunner:
    """Runs statements through the sink and tells the round and the table consumers what became of them."""

    def __init__(self, manager: ConsumerManager) -> None:
        self._manager = manager

    def run_wave(self) -> bool:
        """False when no statement is ready. Raises Retryable (the rest of the wave is recorded)."""
        manager = self._manager
        ready = manager.round.ready_statements()
        steps: list[tuple[Statement, ApplyDdl]] = []
        for statement in ready:
            try:
                step = self._step(statement)
                if statement.policy is DdlPolicy.IGNORE:
                    self._ignore(statement, step)
                else:
                    steps.append((statement, step))
            except DdlRefused as error:
                self._refused(statement, error)
        if steps:
            started = time.monotonic()
            known = manager.progress.ddls
            unfinished = {step.id: known[step.id] for _, step in steps if step.id in known}
            outcomes = manager.sink.apply_ddls([step for _, step in steps], unfinished)
            manager.progress = manager.progress.after(ProgressChange().merged(*(o.recorded for o in outcomes)))
            seconds = (time.monotonic() - started) / len(steps)
            for (statement, _), outcome in zip(steps, outcomes, strict=True):
                self._follow(statement, outcome, seconds)
            broken = next((outcome.error for outcome in outcomes if isinstance(outcome.error, Retryable)), None)
            if broken is not None:
                raise broken
        return bool(ready)

    def _step(self, statement: Statement) -> ApplyDdl:
        refused = refusal(statement)
        if refused is not None:
            raise refused
        overtaken = tuple(
            DdlRecord(ddl_id(other.file), DdlState.SKIPPED, reason=f"overtaken by {statement.file.query}")
            for other in self._manager.round.overtaken(statement)
        )
        step = statement.step(self._manager.progress)
        renames = self._manager.round.overtaken_renames(statement)
        if renames:
            # Until the table is gone under its old name, the RENAMEs are pending.
            gone = {o.old_name: TableProgress(o.version, State.DROPPED) for o in renames if o.old_name is not None}
            after = ProgressChange(tables=gone, ddls=overtaken).merged(step.after)
            step = replace(step, old_name=renames[0].old_name, before=ProgressChange(), after=after)
        else:
            # With W at this version the overtaken ones no longer count, so both become durable at once.
            step = replace(step, before=step.before.merged(ProgressChange(ddls=overtaken)))
        incomplete = bool(renames) or self._manager.round.incomplete(statement)
        if statement.policy is DdlPolicy.RENAME and statement.file.table and incomplete:
            step = replace(step, trash=trash_name(statement.version, statement.file.name, complete=False))
        if statement.heals:
            for name in sorted(name for name in self._manager.round.ended(statement) if name.table):
                files = self._manager.round.lost(name, statement.until(name))
                lost = self._manager.consumers[name].lost(files, self._manager.progress)
                step = replace(step, after=step.after.merged(ProgressChange(folders=lost)))
        return step

    def _ignore(self, statement: Statement, step: ApplyDdl) -> None:
        """Record the statement as skipped. A table that was made by hand must be empty where its CREATE is ignored."""
        manager, name = self._manager, statement.file.name
        creates = statement.action in (Action.CREATE_TABLE, Action.CREATE_TABLES)
        if creates and manager.sink.has_rows([name]):
            raise DdlRefused(
                f"the policy for create-table is ignore, but the target's table holds rows: {statement.file.query}",
                hint="empty the target's table and run again, or take its rows for upstream's own with:"
                f" {skip_ddl_command(name, statement.version)}",
                table=str(name),
                version=statement.version,
            )
        reason = ignored_reason(statement.action)
        row = AuditRow("ignore-ddl", name, statement.version, statement.version, statement=statement.file.query)
        record = DdlRecord(step.id, DdlState.SKIPPED, reason=reason)
        manager.record(step.before.merged(step.after).merged(ProgressChange(ddls=(record,), audit=(row,))))
        self._done(statement, row, 0.0)
        manager.observer.note(f"{name}: not executed, as {reason}: {statement.file.query}")

    def _follow(self, statement: Statement, outcome: DdlOutcome, seconds: float) -> None:
        manager, name = self._manager, statement.file.name
        if isinstance(outcome.error, Retryable):
            return
        if outcome.error is not None:
            self._refused(statement, outcome.error)
            return
        self._tell_lost(statement)
        if name in manager.consumers:
            manager.consumers[name].result.ddl += 1
        row = AuditRow("ddl", name, statement.version, statement.version, statement=statement.file.query)
        self._done(statement, row, seconds)
        if outcome.note:
            manager.observer.note(f"{name}: {outcome.note}")

    def _done(self, statement: Statement, row: AuditRow, seconds: float) -> None:
        """The statement is recorded: the round goes on behind it."""
        manager = self._manager
        moved = [name for other in manager.round.overtaken_renames(statement) for name in other.drops]
        manager.round.applied(statement)
        self._check_files(statement)
        for gone in (*moved, *statement.drops):
            if gone in manager.consumers:
                manager.consumers[gone].drop(statement.version)
        manager.observer.step_finished(row, seconds)

    def _tell_lost(self, statement: Statement) -> None:
        for table in sorted(self._manager.round.ended(statement)) if statement.heals else ():
            lost = self._manager.round.lost(table, statement.until(table))
            if lost:
                self._manager.observer.note(
                    f"{table}: {len(lost)} files from before {statement.file.query} were never read: rows began anew"
                )

    def _check_files(self, statement: Statement) -> None:
        """A table that begins with `statement` must have all of its files before the first of them is read."""
        manager, name = self._manager, statement.begins
        gap = None if manager.options.accept_gap else manager.assembly.gap_after(statement, manager.progress)
        if gap is not None and name is not None:
            manager.stop(name, gap)

    def _refused(self, statement: Statement, error: ConsumerError) -> None:
        """A refused statement stops every table it touches: none of them may go past it."""
        self._manager.round.refused(statement, error)
        for name in statement.touches:
            self._manager.stop(name, error)
