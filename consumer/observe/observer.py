"""The Observer that commands use: a log line an event, and a progress bar where a person watches."""

from __future__ import annotations

from consumer.errors import ConsumerError
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.observe.logs import Log
from consumer.observe.progress_bar import ProgressBar


class LogObserver:
    """Implements ports.Observer. `bar` None: lines only."""

    def __init__(self, log: Log, bar: ProgressBar | None = None) -> None:
        self._log = log
        self._bar = bar
        self._noted: set[str] = set()

    def round_started(self, checkpoint: int, tables: int, files: int, size: int) -> None:
        # A round with nothing to read is every second one of `run`: not worth a line, nor loading what writes it.
        say = self._log.info if files else self._log.debug
        say("round started", commit_ts=checkpoint, tables=tables, files=files, bytes=size)
        if self._bar and files:
            self._bar.start(tables, size)

    def step_finished(self, row: AuditRow, seconds: float) -> None:
        counts = {"changes": row.changes, "rows": row.puts + row.deletes, "puts": row.puts, "deletes": row.deletes}
        counts |= {"dropped_rows": row.dropped_rows}
        said: dict[str, object] = {name: count for name, count in counts.items() if count}
        if row.statement:
            said |= {"version": row.to_ts, "statement": row.statement}
        elif row.to_ts:
            said["commit_ts"] = row.to_ts
        self._log.info(f"{row.step} finished", table=str(row.table), **said, seconds=round(seconds, 3))
        if self._bar:
            self._bar.advance(str(row.table), row.puts + row.deletes)

    def table_stopped(self, table: TableName, error: ConsumerError) -> None:
        self._log.error("table stopped", table=str(table), error=error.sentence(), hint=error.hint)

    def retrying(self, what: str, error: ConsumerError, attempt: int) -> None:
        self._log.warning("trying again", what=what, error=error.sentence(), attempt=attempt)

    def note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._log.warning(text)

    def close_bar(self) -> None:
        """Clear the bar, so that other output can follow."""
        if self._bar:
            self._bar.stop()

    def close(self) -> None:
        """Clear the bar, close the log."""
        self.close_bar()
        self._log.close()
