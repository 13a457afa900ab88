"""Keeps the progress that the target has confirmed, and makes every change of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from consumer.errors import TableMissing
from consumer.model.events import Recorded
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import OwnedTables, Progress, ProgressChange, State, TableProgress
from consumer.pipeline.waiting import with_observed_retries
from consumer.ports import Observer
from consumer.target import ProgressPort

T = TypeVar("T")
Start = Callable[[Progress], ProgressChange | None]

_RESYNC_DIED = "a resync of it began and did not end"
_EXCHANGE_DIED = "all of its rows were loaded beside it, and are to take its place"
_MARKS = (State.EMPTYING, State.EXCHANGING)


class Ledger:
    """Keeps the progress; nothing else changes it. A call to the target is tried for `seconds`. The target calls its
    tables as `naming` maps them."""

    def __init__(
        self, target: ProgressPort, observer: Observer, seconds: float, progress: Progress, naming: Naming = SAME
    ) -> None:
        self._target, self._observer, self._seconds, self._naming = target, observer, seconds, naming
        self.progress = progress
        self._confirmed = True
        self._at_syncpoint = False
        self._start: Start = lambda _: None

    def begin(self, start: Start) -> None:
        """Records the change that `start` derives from the progress, now and whenever the target has lost it."""
        self._start = start
        if (change := start(self.progress)) is not None:
            self.record(change)

    def confirmed(self) -> Progress:
        """Returns the progress in the target. After a round that broke off it is read again, once nothing of that round
        can change it any more. Raises Retryable; then no round may run."""
        if not self._confirmed:
            self.progress = self._target.fence()
            self.begin(self._start)
            self._confirmed = True
        return self.progress

    @property
    def progress(self) -> Progress:
        """The progress that the target last confirmed."""
        return self._progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self._progress = progress
        self._observer.tell(Recorded(progress))

    @contextmanager
    def round(self) -> Iterator[None]:
        """Encloses a round. If it breaks off, the state of the target is unknown."""
        self.confirmed()
        if self._at_syncpoint:
            self.record(ProgressChange(leaves=True))
        self._confirmed = False
        yield
        self._confirmed = True
        self._target.rest()

    def patiently(self, what: str, call: Callable[[], T]) -> T:
        """Makes `call` to the target, and retries it for as long as the settings say."""
        return with_observed_retries(what, call, self._observer, self._seconds)

    def record(self, change: ProgressChange) -> None:
        """Makes `change` durable, with retries, and only then part of `progress`. A table that stops stays marked."""
        stops = (name for name, place in change.tables.items() if place and place.state is State.STOPPED)
        marked = {*stops}.intersection(self._with(State.EXCHANGING))
        places = {n: replace(p, state=State.EXCHANGING) if n in marked and p else p for n, p in change.tables.items()}
        kept = self._naming.by_hand(replace(change, tables=places))
        self.believe(self.patiently("record progress", lambda: self._target.record(kept)))

    def take(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        """Does what the target's `take` does, with retries."""
        return self.patiently("record whose tables they are", lambda: self._target.take(wanted))

    def believe(self, recorded: ProgressChange) -> None:
        """Applies `recorded` to `progress`: the target has confirmed that it is durable, with the rows or statement it
        belongs to."""
        self._at_syncpoint = bool(recorded.syncpoint) or (self._at_syncpoint and not recorded.leaves)
        self.progress = self.progress.after(recorded)

    def empty(self, name: TableName, change: ProgressChange) -> None:
        """Drops a table that is to be loaded again. `change` is its progress then. If this run dies in between, the
        next run finishes it."""
        place = replace(change.tables[name] or TableProgress(0), state=State.EMPTYING, reason=_RESYNC_DIED)
        self.record(replace(change, tables={**change.tables, name: place}, moved_lacks={name: ()}))
        self._empty(name)

    def exchange(self, names: Collection[TableName], change: ProgressChange) -> None:
        """Lets loaded tables take the places of the tables that they were loaded to replace. `change` is the progress
        then. If this run dies in between, the next run finishes it."""
        places = {name: change.tables[name] or TableProgress(0) for name in names}
        marked = {n: replace(p, state=State.EXCHANGING, reason=_EXCHANGE_DIED) for n, p in places.items()}
        lacks = {**change.moved_lacks, **dict.fromkeys(names, ())}
        self.record(replace(change, tables={**change.tables, **marked}, moved_lacks=lacks))
        for name in names:
            self._exchange(name)

    def finish_marked(self) -> Mapping[TableName, TableMissing]:
        """Drops the tables that a run has marked, and replaces those that it has marked to be replaced, except for
        tables that belong to another consumer by now. Returns the tables whose replacement somebody has dropped: they
        stay marked, because their progress is already that of the replacement."""
        if (change := spared_tables_change(self.take, self.progress, self._naming)) is not None:
            self.record(change)
        for name in self.marked:
            self._empty(name)
        missing: dict[TableName, TableMissing] = {}
        for name in self._with(State.EXCHANGING):
            try:
                self._exchange(name)
            except TableMissing as error:
                missing[name] = error
        return missing

    @property
    def marked(self) -> list[TableName]:
        """The tables that a run has marked to be dropped."""
        return self._with(State.EMPTYING)

    def _with(self, mark: State) -> list[TableName]:
        return [name for name, place in self.progress.tables.items() if place.state is mark]

    def _empty(self, name: TableName) -> None:
        target, unmarked = self._naming.target(name), self._unmarked(name)
        self.believe(self.patiently(f"empty {name}", lambda: self._target.empty_table(target, unmarked)))

    def _exchange(self, name: TableName) -> None:
        target, unmarked = self._naming.target(name), self._unmarked(name)
        what = f"let {name} take its place"
        self.believe(self.patiently(what, lambda: self._target.replace_table(target, unmarked)))

    def _unmarked(self, name: TableName) -> ProgressChange:
        return ProgressChange(tables={name: TableProgress(self.progress.table(name).applied_ts)})


def spared_tables_change(
    take: Callable[[Mapping[TableName, int | None]], OwnedTables], progress: Progress, naming: Naming
) -> ProgressChange | None:
    """Returns the change that unmarks the marked tables which belong to another consumer and so stay as they are; None
    if there are none."""
    marked = {name: naming.target(name) for name, place in progress.tables.items() if place.state in _MARKS}
    owned = take(dict.fromkeys(marked.values())) if marked else {}
    places = {
        name: TableProgress(progress.table(name).applied_ts) for name, target in marked.items() if target in owned
    }
    return ProgressChange(tables=places) if places else None
