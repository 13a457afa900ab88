"""What all parts of a round share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consumer.errors import ConsumerError, Retryable
from consumer.model.events import Event, Retrying, TableStopped, Work, WorkEnded
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.model.rules import hidden
from consumer.model.steps import LoadRows
from consumer.pipeline.ledger import Ledger
from consumer.pipeline.lessons import Lessons
from consumer.pipeline.options import RoundOptions
from consumer.pipeline.others import Others
from consumer.pipeline.table_consumer import TableConsumer
from consumer.pipeline.waiting import Deferred, SideBySide
from consumer.plan.assembly import Assembly
from consumer.plan.late import Stretches
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


@dataclass(frozen=True, slots=True)
class RoundContext:
    """`stopped` are the tables that go no further, with the reason. `deferred` are those that are retried. `loaded` are
    those that this round found in the target, and wrote to."""

    ports: Ports
    options: RoundOptions
    ledger: Ledger
    lessons: Lessons
    assembly: Assembly
    round: Round
    consumers: Mapping[TableName, TableConsumer]
    deferred: Deferred
    side: SideBySide
    stopped: dict[TableName, ConsumerError]
    others: Others
    loaded: set[TableName] = field(default_factory=set)

    @property
    def progress(self) -> Progress:
        return self.ledger.progress

    def tell(self, event: Event) -> None:
        self.ports.observer.tell(event)

    def seen(self, load: LoadRows) -> Mapping[str, Stretches]:
        """By partition, the commit-ts that rows of `load` may have; empty where they have none or gaps are accepted."""
        if self.options.files.dialect.timeless or self.options.rules.accept_gap(load.table):
            return {}
        roots = {planned.file.folder.root for planned in load.files}
        return self.assembly.seen(load.table, roots, self.progress, load.window.after)

    def defer(self, names: Sequence[TableName], what: str, error: Retryable, again: Callable[[], None]) -> None:
        """The current step of `names` failed for now. The others go on, and `again` lets it be retried later."""
        self.tell(Retrying(what, error, self.deferred.add(names, error, again)))

    def followed(self, work: Work, then: Callable[[Any], None]) -> Callable[[Any], None]:
        """A function that reports the end of `work` to the observer, then calls `then`."""

        def ended(result: Any) -> None:
            self.tell(WorkEnded(work))
            then(result)

        return ended

    def settled(self, names: Sequence[TableName], seconds: float = 0.0) -> None:
        """The step of the tables succeeded, which took `seconds`: nothing waits for it any more."""
        for name in names:
            self.blocked(name, self.deferred.blocked(name) - seconds)
        self.deferred.settled(names)

    def blocked(self, name: TableName, seconds: float) -> None:
        """The table waited for the target for so long."""
        if name in self.consumers and seconds > 0:
            self.consumers[name].result.target_seconds += seconds

    def stop(self, name: TableName, error: ConsumerError) -> None:
        """Stop one table: its reason is recorded, the others go on. One that the table rules leave out keeps its place:
        its rows were not read."""
        error = hidden(error, self.options.rules.shaping_of(name))
        error.table = error.table or str(name)
        self.round.stopped(name, error)
        if not self.options.rules.wanted(name):
            return
        self.stopped[name] = error
        self.deferred.settled([name])
        self.ledger.record(self.consumers[name].stop(error, self.progress))
        self.tell(TableStopped(name, error))
