"""An Observer that keeps what it is told."""

from __future__ import annotations

from consumer.errors import ConsumerError
from consumer.model.names import TableName
from consumer.model.progress import AuditRow


class Recorder:
    def __init__(self) -> None:
        self.steps: list[AuditRow] = []
        self.stopped: dict[TableName, ConsumerError] = {}
        self.notes: list[str] = []
        self.retries: list[str] = []

    def round_started(self, checkpoint: int, tables: int, files: int, size: int) -> None: ...

    def step_finished(self, row: AuditRow, seconds: float) -> None:
        self.steps.append(row)

    def table_stopped(self, table: TableName, error: ConsumerError) -> None:
        self.stopped[table] = error

    def retrying(self, what: str, error: ConsumerError, attempt: int) -> None:
        self.retries.append(f"{what}: {error}")

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
