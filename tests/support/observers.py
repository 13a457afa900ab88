"""An Observer that keeps what it is told."""

from __future__ import annotations

from consumer.errors import ConsumerError
from consumer.model.load import Part
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.model.work import Work


class Recorder:
    def __init__(self) -> None:
        self.steps: list[AuditRow] = []
        self.stopped: dict[TableName, ConsumerError] = {}
        self.notes: list[str] = []
        self.retries: list[str] = []
        self.begun: list[Work] = []

    def round_started(self, checkpoint: int, tables: int, files: int, size: int) -> None: ...

    def doing(self, what: str) -> None: ...

    def idle(self, applied_ts: int) -> None: ...

    def work_started(self, work: Work) -> None:
        self.begun.append(work)

    def work_moved(self, work: Work, part: Part) -> None: ...

    def work_ended(self, work: Work) -> None: ...

    def step_finished(self, row: AuditRow, seconds: float, size: int = 0) -> None:
        self.steps.append(row)

    def table_stopped(self, table: TableName, error: ConsumerError) -> None:
        self.stopped[table] = error

    def retrying(self, what: str, error: ConsumerError, seconds: float | None) -> None:
        self.retries.append(f"{what}: {error}")

    def passed(self, what: str) -> None: ...

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
