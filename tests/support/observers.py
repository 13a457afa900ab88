"""An observer that keeps what it is told."""

from __future__ import annotations

from consumer.errors import ConsumerError
from consumer.model.events import Event, Note, Retrying, StepFinished, TableResumed, TableStopped, WorkStarted, WorkUnit
from consumer.model.names import TableName
from consumer.model.progress import AuditRow


class Recorder:
    def __init__(self) -> None:
        self.steps: list[AuditRow] = []
        self.stopped: dict[TableName, ConsumerError] = {}
        self.resumed: list[TableName] = []
        self.noted: list[Note] = []
        self.retries: list[str] = []
        self.begun: list[WorkUnit] = []

    def tell(self, event: Event) -> None:
        match event:
            case WorkStarted(work):
                self.begun.append(work)
            case StepFinished(row):
                self.steps.append(row)
            case TableStopped(table, error):
                self.stopped[table] = error
            case TableResumed(table):
                self.resumed.append(table)
            case Retrying(what, error):
                self.retries.append(f"{what}: {error}")
            case Note() if event not in self.noted:
                self.noted.append(event)

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.noted]
