"""Defines what all parts of a round share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from consumer.errors import ConsumerError, Retryable
from consumer.model.events import Event, Note, NoteKind, Retrying, TableStopped
from consumer.model.files import Folder
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress, ProgressChange, is_parallel_load
from consumer.pipeline.ledger import Ledger
from consumer.pipeline.ownership import OwnershipGuard
from consumer.pipeline.retry_memory import RetryMemory
from consumer.pipeline.table_consumer import TableConsumer
from consumer.pipeline.waiting import BackgroundCalls, DeferredTables
from consumer.plan.assembly import Assembly
from consumer.plan.options import RoundOptions
from consumer.plan.round import Round
from consumer.ports import DeadLetters, Loader, Observer, StorageReader
from consumer.target import Sink


@dataclass(frozen=True, slots=True)
class Ports:
    """The storage, Spark, the target, the observer, and where bad rows go (None: a bad row stops its table)."""

    reader: StorageReader
    loader: Loader
    sink: Sink
    observer: Observer
    dead_letters: DeadLetters | None = None
    spark_before: float = 0.0
    """The seconds that Spark took to start for earlier commands of this process."""

    @property
    def spark_seconds(self) -> float:
        """Returns the seconds that Spark took to start for this command."""
        return self.loader.start_seconds - self.spark_before


def loss_notes(table: TableName, losses: Iterable[Loss]) -> Iterator[Note]:
    """Yields a note for each accepted loss of `table`. A run reports it once."""
    for loss in losses:
        yield Note(NoteKind.ACCEPTED_LOSS, f"{table}: accepted as lost: {loss.sentence()}", table)


@dataclass(frozen=True, slots=True)
class RoundContext:
    """What the parts of a round share."""

    ports: Ports
    options: RoundOptions
    ledger: Ledger
    memory: RetryMemory
    assembly: Assembly
    round: Round
    consumers: Mapping[TableName, TableConsumer]
    deferred: DeferredTables
    """The tables whose step is retried."""
    calls: BackgroundCalls
    ownership: OwnershipGuard
    loaded: set[TableName] = field(default_factory=set)
    """The tables that this round found in the target and wrote to."""

    @property
    def progress(self) -> Progress:
        return self.ledger.progress

    def tell(self, event: Event) -> None:
        self.ports.observer.tell(event)

    def defer(self, names: Sequence[TableName], what: str, error: Retryable, again: Callable[[], None]) -> None:
        """Defers `names`, whose current step failed for now: `again` retries it later. The other tables continue."""
        self.tell(Retrying(what, error, self.deferred.add(names, error, again) or 0.0))

    def settled(self, names: Sequence[TableName], seconds: float = 0.0) -> None:
        """The step of the tables succeeded and took `seconds`: nothing waits for it any more."""
        for name in names:
            self.add_target_seconds(name, self.deferred.blocked(name) - seconds)
        self.deferred.settled(names)

    def add_target_seconds(self, name: TableName, seconds: float) -> None:
        """Adds `seconds` to the time for which the table waited for the target."""
        if name in self.consumers and seconds > 0:
            self.consumers[name].result.target_seconds += seconds

    def accept(
        self, name: TableName, losses: Iterable[Loss], folders: Mapping[Folder, FolderProgress] | None = None
    ) -> None:
        """Lets the table continue without the lost rows, as the settings allow. The losses are recorded before anything
        is read, together with the table's `folders` as they are then."""
        recorded = self.progress.losses.get(name, {})
        new = {loss.id: loss for loss in losses if loss.id not in recorded}
        if new or folders:
            self.ledger.record(ProgressChange(losses={name: new}, folders=folders or {}))
        for note in loss_notes(name, new.values()):
            self.tell(note)

    def stop(self, name: TableName, error: ConsumerError) -> None:
        """Stops one table and records the reason. The other tables continue. A table that the table rules exclude keeps
        its place, because its rows were not read."""
        error.table, error.hint = error.table or str(name), self.assembly.advised(error.hint, name, self.options.replay)
        self.round.stopped(name, error)
        if not self.options.rules.wanted(name):
            return
        self.deferred.settled([name])
        self.ledger.record(self.consumers[name].stop(error, self.progress))
        self.tell(TableStopped(name, error, parallel_load=is_parallel_load(self.options.rules.naming.target(name))))
