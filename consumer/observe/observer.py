"""The Observer that commands use: a log line an event, a heartbeat, and a progress bar where a person watches."""

from __future__ import annotations

import time
from collections.abc import Callable

from consumer.errors import ConsumerError
from consumer.model.commands import completed
from consumer.model.load import Part
from consumer.model.names import TableName, behind_name, tso_to_ms, tso_to_time
from consumer.model.progress import AuditRow
from consumer.model.texts import duration_text
from consumer.model.work import Work
from consumer.observe.logs import Log
from consumer.observe.meter import Meter
from consumer.observe.progress_bar import ProgressBar
from consumer.observe.pulse import Pulse
from consumer.observe.troubles import Places, Told, Troubles

SILENT_SECONDS = 10.0
"""Long work says so after as many seconds without a line."""
IDLE_SECONDS = 300.0
"""A `run` that finds nothing new says so as often."""
SHOWN_AFTER = 1.0
"""On a terminal, what takes no longer than this passes without a bar."""


class LogObserver:
    """Implements ports.Observer. `with_bar`: a person watches, and the lines are about trouble only.
    `options` are the flags that a command in a hint needs as well. `summed_up`: what to do about stopped tables follows
    at the end, on the same stream; so a line tells only why."""

    def __init__(
        self,
        log: Log,
        with_bar: bool = False,
        places: Places | None = None,
        options: str = "",
        summed_up: bool = False,
        clock: Callable[[], float] = time.monotonic,
        pulse_seconds: float = 1.0,
    ) -> None:
        self._log, self._clock, self._options = log, clock, options
        self._summed_up = summed_up
        self.told: dict[TableName, str] = {}
        """Why tables are stopped, as the end of this stream need not repeat it."""
        self._meter = Meter(clock)
        self._troubles = Troubles(places or Places(), clock)
        self._bar = ProgressBar(self._shown, self._meter.reading) if with_bar else None
        self._pulse = Pulse(self.beat, pulse_seconds)
        self._noted: set[str] = set()
        self._begun = 0.0
        self._doing, self._up_to_date, self._since = "", "", clock()
        self._applied: int | None = None
        """While it is idle: what everything is applied up to."""
        self._said = clock()
        self._told_idle = False

    def doing(self, what: str) -> None:
        self._doing, self._since, self._applied = what, self._clock(), None
        self._begun = self._begun or self._since
        self._pulse.start()

    def idle(self, applied_ts: int) -> None:
        self.doing("waits for new files")
        self._applied = applied_ts
        self._up_to_date = f"all is applied up to {tso_to_time(applied_ts):%Y-%m-%d %H:%M:%S} UTC, waits for new files"
        if not self._told_idle:
            self._told_idle = True
            self._tell_idle(applied_ts)

    def round_started(self, checkpoint: int, tables: int, files: int, size: int) -> None:
        self.doing("goes through its steps")
        self._meter.begin(size)
        # A round with nothing to read is every second one of `run`: not worth a line, nor loading what writes it.
        if files:
            self._info("round started", commit_ts=checkpoint, tables=tables, files=files, bytes=size)
        else:
            self._log.debug("round started", commit_ts=checkpoint, tables=tables, files=files, bytes=size)

    def work_started(self, work: Work) -> None:
        self._meter.started(work)
        if not work.statement:
            name = {"table": str(work.tables[0])} if len(work.tables) == 1 else {"tables": len(work.tables)}
            self._info("load started", **name, files=work.files, bytes=work.bytes)

    def work_moved(self, work: Work, part: Part) -> None:
        self._meter.moved(work, part)

    def work_ended(self, work: Work) -> None:
        self._meter.ended(work)

    def step_finished(self, row: AuditRow, seconds: float, size: int = 0) -> None:
        self._say_all(self._troubles.passed(str(row.table)))
        rows = row.puts + row.deletes
        self._meter.finished(Part(size, row.changes, rows))
        counts = {"changes": row.changes, "rows": rows, "puts": row.puts, "deletes": row.deletes}
        counts |= {"dropped_rows": row.dropped_rows}
        said: dict[str, object] = {name: count for name, count in counts.items() if count}
        if row.statement:
            said |= {"version": row.to_ts, "statement": row.statement}
        elif row.to_ts:
            said["commit_ts"] = row.to_ts
        self._info(f"{row.step} finished", table=str(row.table), **said, seconds=round(seconds, 3))

    def table_stopped(self, table: TableName, error: ConsumerError) -> None:
        self._troubles.forget(str(table))
        reason = behind_name(table, error.sentence())
        hint = {} if self._summed_up else {"hint": completed(error.hint, self._options)}
        self._log.error("table stopped", table=str(table), error=reason, **hint)
        if self._summed_up:
            self.told[table] = reason

    def retrying(self, what: str, error: ConsumerError, seconds: float | None) -> None:
        self._up_to_date = ""
        told = self._troubles.failed(what, error, seconds)
        self._say_all([told] if told else [])

    def passed(self, what: str) -> None:
        self._say_all(self._troubles.passed(what))

    def note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._log.warning(text)

    def beat(self) -> None:
        """Say what is done now, where nothing was said for long: on the pulse's thread."""
        now, applied, since = self._clock(), self._applied, self._since
        if self._bar is not None:
            if now - self._begun >= SHOWN_AFTER or self._meter.reading().oldest:
                self._bar.show()
        elif applied is not None:
            if now - self._said >= IDLE_SECONDS:
                self._tell_idle(applied)
        elif now - max(self._said, since) >= SILENT_SECONDS:
            self._tell_work(now - since)

    def _shown(self) -> str:
        """What the bar says where no work is in hand: an idle `run` looks again and again, which is not worth a word
        while it takes no time."""
        quick = self._clock() - self._since < SHOWN_AFTER
        return self._up_to_date if self._up_to_date and (quick or self._applied is not None) else self._doing

    def _tell_idle(self, applied_ts: int) -> None:
        behind = max(0.0, time.time() - tso_to_ms(applied_ts) / 1000)
        self._info("nothing new, waits for new files", commit_ts=applied_ts, behind=duration_text(behind))

    def _tell_work(self, seconds: float) -> None:
        reading = self._meter.reading()
        if not reading.oldest:
            self._info("at work", doing=self._doing, seconds=round(seconds))
            return
        done, counts = reading.done, {"loads": reading.loads, "statements": reading.statements}
        said: dict[str, object] = {name: count for name, count in counts.items() if count}
        if reading.loads:
            said |= {"bytes": done.bytes, "of": reading.total, "changes": done.changes, "rows": done.rows}
        if reading.left is not None:
            said |= {"bytes_per_second": round(reading.rate), "left": duration_text(reading.left)}
        self._info("at work", **said, longest=reading.oldest)

    def _info(self, event: str, **values: object) -> None:
        self._said = self._clock()
        self._log.info(event, **values)

    def _say_all(self, lines: list[Told]) -> None:
        for line in lines:
            self._said = self._clock()
            self._log.warning(line.event, **line.values)

    def close_bar(self) -> None:
        """Clear the bar, so that other output can follow."""
        self._pulse.stop()
        if self._bar:
            self._bar.stop()

    def close(self) -> None:
        """Clear the bar, close the log."""
        self.close_bar()
        self._log.close()
