"""What all parts of a round share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from consumer.errors import ConsumerError, Retryable
from consumer.model.events import Event, Note, NoteKind, Retrying, TableStopped
from consumer.model.files import Folder
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress, ProgressChange, is_beside
from consumer.pipeline.ledger import Ledger
from consumer.pipeline.lessons import Lessons
from consumer.pipeline.others import Others
from consumer.pipeline.table_consumer import TableConsumer
from consumer.pipeline.waiting import Deferred, SideBySide
from consumer.plan.assembly import Assembly
from consumer.plan.options import RoundOptions
from consumer.plan.round import Round
from consumer.ports import DeadLetters, Loader, Observer, StorageReader
from consumer.target import Sink


@dataclass(frozen=True, slots=True)
class Ports:
    """The storage, Spark, the target, the observer, and where bad rows go (None: they stop their table)."""

    reader: StorageReader
    loader: Loader
    sink: Sink
    observer: Observer
    letters: DeadLetters | None = None
    spark_before: float = 0.0
    """How long Spark had taken to start for other commands."""

    @property
    def spark_seconds(self) -> float:
        """How long Spark took to start for this command."""
        return self.loader.start_seconds - self.spark_before


def loss_notes(table: TableName, losses: Iterable[Loss]) -> Iterator[Note]:
    """What a run says once of losses that it accepts."""
    for loss in losses:
        yield Note(NoteKind.ACCEPTED_LOSS, f"{table}: accepted as lost: {loss.sentence()}", table)


@dataclass(frozen=True, slots=True)
class RoundContext:
    """A round, for all who take a part in it."""

    ports: Ports
    options: RoundOptions
    ledger: Ledger
    lessons: Lessons
    assembly: Assembly
    round: Round
    consumers: Mapping[TableName, TableConsumer]
    deferred: Deferred
    """The tables that are retried."""
    side: SideBySide
    others: Others
    loaded: set[TableName] = field(default_factory=set)
    """The tables that this round found in the target, and wrote to."""

    @property
    def progress(self) -> Progress:
        return self.ledger.progress

    def tell(self, event: Event) -> None:
        self.ports.observer.tell(event)

    def defer(self, names: Sequence[TableName], what: str, error: Retryable, again: Callable[[], None]) -> None:
        """The current step of `names` failed for now. The others go on, and `again` lets it be retried later."""
        self.tell(Retrying(what, error, self.deferred.add(names, error, again) or 0.0))

    def settled(self, names: Sequence[TableName], seconds: float = 0.0) -> None:
        """The step of the tables succeeded, which took `seconds`: nothing waits for it any more."""
        for name in names:
            self.blocked(name, self.deferred.blocked(name) - seconds)
        self.deferred.settled(names)

    def blocked(self, name: TableName, seconds: float) -> None:
        """The table waited for the target for so long."""
        if name in self.consumers and seconds > 0:
            self.consumers[name].result.target_seconds += seconds

    def accept(
        self, name: TableName, losses: Iterable[Loss], folders: Mapping[Folder, FolderProgress] | None = None
    ) -> None:
        """The table goes on without these rows, as the settings allow: that is recorded before anything is read, with
        its `folders` as they are then."""
        known = self.progress.losses.get(name, {})
        new = {loss.id: loss for loss in losses if loss.id not in known}
        if new or folders:
            self.ledger.record(ProgressChange(losses={name: new}, folders=folders or {}))
        for note in loss_notes(name, new.values()):
            self.tell(note)

    def stop(self, name: TableName, error: ConsumerError) -> None:
        """Stop one table: its reason is recorded, the others go on. One that the table rules leave out keeps its place:
        its rows were not read."""
        error.table, error.hint = error.table or str(name), self.assembly.advised(error.hint, name, self.options.replay)
        self.round.stopped(name, error)
        if not self.options.rules.wanted(name):
            return
        self.deferred.settled([name])
        self.ledger.record(self.consumers[name].stop(error, self.progress))
        self.tell(TableStopped(name, error, beside=is_beside(self.options.rules.naming.target(name))))
