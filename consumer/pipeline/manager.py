"""ConsumerManager: one round of all tables, statements and loads beside one another, progress after every step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from consumer.codec.protocol import Undecided
from consumer.errors import ConsumerError, Retryable
from consumer.model.ddl_policy import PolicyOf, evolve
from consumer.model.files import Folder, Listing
from consumer.model.load import Dialect
from consumer.model.names import MAX_TSO, TableName
from consumer.model.progress import Progress, ProgressChange, State, TableProgress
from consumer.model.result import TableResult
from consumer.model.steps import Barrier, LoadRows
from consumer.model.timekeeper import now
from consumer.model.work import Work
from consumer.pipeline.absent import AbsentColumns
from consumer.pipeline.collisions import Collisions
from consumer.pipeline.deferred import Deferred
from consumer.pipeline.latecomers import look_at_latecomers
from consumer.pipeline.loads import LoadRunner
from consumer.pipeline.retry import patiently
from consumer.pipeline.side_by_side import SideBySide
from consumer.pipeline.statements import StatementRunner
from consumer.pipeline.table_consumer import TableConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.date_order import check_dates
from consumer.plan.late import Stretches, settle_doubts
from consumer.plan.let_in import let_in
from consumer.plan.notes import notes
from consumer.plan.retention import NOT_KNOWN, Retention
from consumer.plan.table_state import TableState
from consumer.plan.undecided import check_decided, check_protocol
from consumer.ports import Loader, Observer, Sink, StorageReader

T = TypeVar("T")

_STATEMENT_SHOWN = 200
_LONGEST_LINGER = 0.2
_RESYNC_DIED = "a resync of it began and did not end"


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """`wanted` is the table filter; `round_bytes` bounds the change files that one load of a table reads; `policy_of`
    is [consumer.ddl]; `retention` is what is known of TiCDC's clean-up. `key_loss` says that the old keys of
    rows may not be told, and that this was accepted. `never_split` names tables that no two writers share. `date_order`
    says what orders the files of date folders where rows have no commit-ts: "time", "date", or "" where nobody says.
    `undecided` are its options that nobody gave. `max_wait`: for how many seconds a call to the target is tried."""

    dialect: Dialect
    wanted: Callable[[TableName], bool]
    round_bytes: int
    accept_gap: bool = False
    policy_of: PolicyOf = evolve
    retention: Retention = NOT_KNOWN
    accept_timestamp_key: bool = False
    key_loss: bool = False
    never_split: Callable[[TableName], bool] = lambda _: False
    date_order: str = ""
    undecided: tuple[Undecided, ...] = ()
    max_wait: float = 60.0

    def assembly(self, reader: StorageReader, listing: Listing, progress: Progress) -> Assembly:
        """`listing` beside `progress`; where it shows files written anew, or a gap that may be none, beside another."""
        found = self._assembly(listing, progress)
        whole, left_out = found.written_anew(reader, progress, self.dialect.timeless), found.left_out(progress)
        if whole or left_out:
            again = reader.listing(listing.checkpoint, progress, whole | left_out) if listing.partial else listing
            listing = replace(again, settled=listing.settled, reached=listing.reached)
            found = self._assembly(listing, progress, whole)
        if not found.doubts_gap(progress, self.accept_gap):
            return found
        full = replace(reader.listing(listing.checkpoint), settled=listing.settled, reached=listing.reached)
        return self._assembly(full, progress, whole)

    def _assembly(self, listing: Listing, progress: Progress, whole: Collection[Folder] = ()) -> Assembly:
        found = Assembly.of(listing, progress, self.wanted, self.policy_of, self.retention, whole)
        check_protocol(self.dialect.protocol, found)
        check_decided(self.undecided, found)
        return found


def waiting_text(barrier: Barrier) -> str:
    """What a table waits for, and which statement holds it up until then."""
    query = " ".join(barrier.file.query.split())
    shown = query if len(query) <= _STATEMENT_SHOWN else query[:_STATEMENT_SHOWN] + " ..."
    return f"waits for {barrier.waits_for}; held up until then: {shown} (version {barrier.file.version})"


class ConsumerManager:
    """Drives rounds. `progress` is what the sink last confirmed.

    `results` add up over the rounds of a run; `stopped` holds the tables that go no further in this run, with why.
    """

    beside: Callable[[], SideBySide] = SideBySide

    def __init__(
        self,
        reader: StorageReader,
        loader: Loader,
        sink: Sink,
        observer: Observer,
        options: ManagerOptions,
        progress: Progress,
    ) -> None:
        self.reader, self.loader, self.sink, self.observer = reader, loader, sink, observer
        self.options, self.progress = options, progress
        self.results: dict[TableName, TableResult] = {}
        self.stopped: dict[TableName, ConsumerError] = {}
        self.absent = AbsentColumns()
        self.collisions = Collisions()
        self.consumers: dict[TableName, TableConsumer] = {}
        self.deferred = Deferred(0.0)
        self.side = self.beside()
        self._confirmed = True
        self._start: Callable[[Progress], ProgressChange | None] = lambda _: None

    def begin(self, start: Callable[[Progress], ProgressChange | None]) -> None:
        """Record what `start` makes of the progress, now and whenever the target went back to where it was not."""
        self._start = start
        if (change := start(self.progress)) is not None:
            self.record(change)

    def confirmed(self) -> Progress:
        """The progress as the target has it: read anew after a round that broke off, once nothing of that round can
        move it any more. Raises Retryable, and then there is no round."""
        if not self._confirmed:
            self.sink.fence()
            self.progress = self.sink.progress()
            self.begin(self._start)
            self._confirmed = True
        return self.progress

    def run_round(self, listing: Listing, seconds: float = 0.0) -> None:
        """Bring every table to ``listing.checkpoint``, or to where it must stop. What keeps a table waiting (a lock, a
        file that cannot be read) holds up that one, and is tried again for so many `seconds`; then it is `deferred`.

        Raises Retryable for what all tables need; what was recorded until then stays recorded.
        """
        self.confirmed()
        self._confirmed = False
        self.deferred, self.side = Deferred(seconds), self.beside()
        self._run_round(listing)
        self._confirmed = True

    def _run_round(self, listing: Listing) -> None:
        self._empty_marked()
        assembly = self.options.assembly(self.reader, listing, self.progress)
        changes = (
            settle_doubts(assembly.files, self.progress),
            let_in(assembly, self.progress, self.options.policy_of),
        )
        if any(changes):
            self.record(ProgressChange().merged(*filter(None, changes)))
            self._empty_marked()
            assembly = self.options.assembly(self.reader, listing, self.progress)
        for note in notes(assembly, self.progress):
            self.observer.note(note)
        self.assembly = assembly
        self.consumers = {name: self._consumer(name) for name in assembly.tables}
        states = {name: consumer.state for name, consumer in self.consumers.items()}
        self.round = assembly.round(states, self.options.dialect.timeless, self.options.date_order)
        for name, error in assembly.faults(self.progress, self.options.accept_gap):
            self.stop(name, error)
        if self.options.dialect.timeless and not self.options.date_order:
            self._check_dates()
        self._tell_start(assembly.checkpoint, list(states.values()))
        statements, loads = StatementRunner(self), LoadRunner(self)
        loads.start(look_at_latecomers(self))
        self._drive(statements, loads)
        self._finish()

    def _tell_start(self, checkpoint: int, states: Sequence[TableState]) -> None:
        unread = [entry.file for state in states for entry in state.unread]
        size = sum(file.size for file in unread)
        self.observer.round_started(checkpoint, sum(bool(state.unread) for state in states), len(unread), size)

    def _check_dates(self) -> None:
        for name, consumer in self.consumers.items():
            if consumer.state.error is None and name in self.assembly.timeline.upstream:
                unread = [entry.file for entry in consumer.state.unread]
                if error := check_dates(name, unread, consumer.files, self.progress.folders):
                    self.stop(name, error)

    def _drive(self, statements: StatementRunner, loads: LoadRunner) -> None:
        """Begin whatever is ready, and follow what ends, until nothing is left to wait for."""
        while True:
            asked = now()
            self.deferred.try_due()
            while statements.begin() or loads.begin():
                pass
            due = self.deferred.next_due()
            if not self.side.running and due is None:
                return
            # Asking takes longer the more there is to do: not for every step that ends, then.
            self.side.follow(due, linger=min(4 * (now() - asked), _LONGEST_LINGER))

    def _consumer(self, name: TableName) -> TableConsumer:
        wanted = self.options.wanted(name)
        result = self.results.setdefault(name, TableResult()) if wanted else TableResult()
        files = self.assembly.files.get(name, ()) if wanted else ()
        timeless = self.options.dialect.timeless
        size, whole = self.options.round_bytes, self.assembly.whole
        indexes = self.assembly.listing.indexes
        return TableConsumer(name, files, self.progress, size, result, timeless, whole, indexes)

    def seen(self, load: LoadRows) -> Mapping[str, Stretches]:
        """By partition, the commit-ts that rows of `load` may have; empty where they have none or gaps are accepted."""
        if self.options.dialect.timeless or self.options.accept_gap:
            return {}
        roots = {planned.file.folder.root for planned in load.files}
        return self.assembly.seen(load.table, roots, self.progress, load.window.after)

    def defer(self, names: Sequence[TableName], what: str, error: Retryable, again: Callable[[], None]) -> None:
        """The step in hand of `names` did not go through now; the others go on, and `again` lets it be tried later."""
        self.observer.retrying(what, error, self.deferred.add(names, error, again))

    def followed(self, work: Work, then: Callable[[Any], None]) -> Callable[[Any], None]:
        """`then`, once the observer has been told that `work` is no longer in hand."""

        def ended(result: Any) -> None:
            self.observer.work_ended(work)
            then(result)

        return ended

    def stop(self, name: TableName, error: ConsumerError) -> None:
        """Stop one table: its reason is recorded, the others go on. One that the table rules leave out keeps its place:
        its rows were not read."""
        error.table = error.table or str(name)
        self.round.stopped(name, error)
        if not self.options.wanted(name):
            return
        self.stopped[name] = error
        self.deferred.settled([name])
        self.record(self.consumers[name].stop(error))
        self.observer.table_stopped(name, error)

    def left(self) -> None:
        """A signal ended the round in the middle: the results tell what is recorded of each table."""
        for name, consumer in self.consumers.items():
            consumer.result.watermark = self.progress.table(name).applied_ts

    def empty(self, name: TableName, change: ProgressChange) -> None:
        """Take a table away, to be made anew: `change` is its progress then. A run that dies in between is taken up by
        the next."""
        place = replace(change.tables[name] or TableProgress(0), state=State.EMPTYING, reason=_RESYNC_DIED)
        self.record(replace(change, tables={**change.tables, name: place}))
        self._empty(name)

    def _empty_marked(self) -> None:
        for name in [name for name, place in self.progress.tables.items() if place.state is State.EMPTYING]:
            self._empty(name)

    def _empty(self, name: TableName) -> None:
        gone = ProgressChange(tables={name: TableProgress(self.progress.table(name).applied_ts)})
        self.patiently(f"empty {name}", lambda: self.sink.empty_table(name, gone))
        self.progress = self.progress.after(gone)

    def patiently(self, what: str, call: Callable[[], T]) -> T:
        """`call` to the target, tried again for as long as the settings say."""
        return patiently(what, call, self.observer, self.options.max_wait)

    def record(self, change: ProgressChange) -> None:
        """Make `change` durable, patiently, and believe it only then."""
        self.patiently("record progress", lambda: self.sink.record(change))
        self.progress = self.progress.after(change)

    def _finish(self) -> None:
        """Raise the global applied-ts to the checkpoint; whoever is not there keeps a row of their own."""
        checkpoint, progress = self.assembly.checkpoint, self.progress
        waits = self.deferred.reasons()
        for barrier in self.round.barriers():
            for name in barrier.tables:
                waits.setdefault(name, waiting_text(barrier))
        applied = progress.applied_ts if checkpoint == MAX_TSO else max(progress.applied_ts, checkpoint)
        tables: dict[TableName, TableProgress | None] = {}
        for name, consumer in self.consumers.items():
            if not self.options.wanted(name):
                continue
            if name in self.round.live or consumer.state.error is not None or name in waits:
                place = consumer.finish(applied, waits.get(name))
                known = progress.table(name)
                if (known.state, known.applied_ts) == (State.DROPPED, consumer.state.position) and name not in waits:
                    place = known  # not alive yet, or `metadata` went back to before its end
                ungated = checkpoint == MAX_TSO and (place is None or place.state is State.OK)
                tables[name] = self._ungated(name) if ungated else place
            elif not name.table:
                # The statements of a database are all done up to here: nothing but them had a place.
                tables[name] = None if checkpoint >= applied else TableProgress(checkpoint)
                del self.results[name]
        tables |= self.assembly.exclusions(progress)
        tables |= dict.fromkeys(self.assembly.forgotten(progress))
        changed = {name: place for name, place in tables.items() if progress.tables.get(name) != place}
        gone = self.assembly.without_forgotten(progress)
        if applied > progress.applied_ts or changed or gone:
            self.record(ProgressChange(applied_ts=applied, tables=changed, folders=gone))
        self.stopped = {name: c.state.error for name, c in self.consumers.items() if c.state.error is not None}

    def _ungated(self, name: TableName) -> TableProgress | None:
        """Without a checkpoint a table stays where its last statement left it."""
        known = self.progress.tables.get(name)
        held = known is not None and known.state in (State.STOPPED, State.WAITS)
        return TableProgress(known.applied_ts) if known is not None and held else known
