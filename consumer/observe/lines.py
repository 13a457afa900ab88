"""Logs a line for each event that is worth one."""

from __future__ import annotations

import time
from collections import Counter

from consumer.errors import ConsumerError
from consumer.model.events import (
    ConsumerFailed,
    Event,
    RoundFinished,
    RoundStarted,
    RunEnded,
    StepFinished,
    TableResumed,
    TableStopped,
    WorkStarted,
    WorkUnit,
)
from consumer.model.hints import hint_with_options
from consumer.model.names import TableName, without_table_name
from consumer.model.texts import duration_text
from consumer.model.times import seconds_behind
from consumer.observe.logs import Log

MANY = 20
"""If a round reads more tables than this, the lines of single loads are only for debugging."""


class Lines:
    """A listener that logs. `options` are the flags that a command in a hint needs as well. `summed_up`: the summary at
    the end of the same stream says what to do about stopped tables, so a line only says why."""

    def __init__(self, log: Log, options: str, summed_up: bool) -> None:
        self._log, self._options, self._summed_up = log, options, summed_up
        self.stopped: set[TableName] = set()
        """The tables whose reason is told; the summary need not repeat it."""
        self._tables, self._done = 0, Counter[str]()

    def tell(self, event: Event) -> None:
        match event:
            case RoundStarted(checkpoint, tables, files, size):
                self._tables, self._done = tables, Counter()
                # A round with nothing to read is every second one of `run`: not worth loading what writes the line.
                write = self._log.info if files else self._log.debug
                write("round started", commit_ts=checkpoint, tables=tables, files=files, bytes=size)
            case RoundFinished():
                self._round_finished(event)
            case WorkStarted(work):
                self._load_started(work)
            case StepFinished():
                self._step_finished(event)
            case TableStopped(table, error, beside):
                self._stopped(table, error, beside)
            case TableResumed(table):
                self.stopped.discard(table)
                self._log.info("table resumed", table=str(table))
            case ConsumerFailed(error, seconds):
                self._failed(error, seconds)
            case RunEnded(signal):
                self._log.info("ended by a signal", signal=signal)

    def _round_finished(self, event: RoundFinished) -> None:
        done, seconds = self._done, event.seconds
        counts = {"tables": self._tables, **done, "stopped": event.stopped, "waiting": event.waiting}
        if done["rows"]:
            counts["rows_per_second"] = round(done["rows"] / max(seconds, 0.001))
        lag = seconds_behind(event.checkpoint, time.time() * 1000)
        write = self._log.info if done and self._tables > MANY else self._log.debug
        fields = {name: count for name, count in counts.items() if count}
        write("round finished", commit_ts=event.checkpoint, **fields, lag=duration_text(lag), seconds=round(seconds, 3))

    def _load_started(self, work: WorkUnit) -> None:
        if not work.statement:
            name = {"table": str(work.tables[0])} if len(work.tables) == 1 else {"tables": len(work.tables)}
            self._of_table("load started", **name, files=work.files, bytes=work.bytes)

    def _of_table(self, line: str, **fields: object) -> None:
        (self._log.debug if self._tables > MANY else self._log.info)(line, **fields)

    def _step_finished(self, event: StepFinished) -> None:
        row = event.row
        counts = {"changes": row.changes, "rows": row.rows, "puts": row.puts, "deletes": row.deletes}
        counts |= {"dropped_rows": row.dropped_rows}
        fields: dict[str, object] = {name: count for name, count in counts.items() if count}
        if row.statement:
            fields |= {"version": row.to_ts, "statement": row.statement}
        elif row.to_ts:
            fields["commit_ts"] = row.to_ts
        self._done.update(
            {"statements": 1} if row.statement else {"changes": row.changes, "rows": row.rows, "bytes": event.bytes}
        )
        write = self._log.info if row.statement else self._of_table
        write(f"{row.step} finished", table=str(row.table), **fields, seconds=round(event.seconds, 3))

    def _failed(self, error: Exception, seconds: float) -> None:
        sentence, hint = f"this is a bug in the consumer: {type(error).__name__}: {error}", ""
        if isinstance(error, ConsumerError):
            sentence, hint = error.sentence(), hint_with_options(error.hint, self._options)
        more = {"hint": hint} if hint else {}
        self._log.error("ended by an error", error=sentence, tried_again_in=f"{seconds:.0f}s", **more)

    def _stopped(self, table: TableName, error: ConsumerError, beside: bool) -> None:
        reason = without_table_name(table, error.sentence())
        hint = {} if self._summed_up else {"hint": hint_with_options(error.hint, self._options)}
        what = "parallel load stopped, the table continues" if beside else "table stopped"
        self._log.error(what, table=str(table), error=reason, **hint)
        if self._summed_up:
            self.stopped.add(table)
