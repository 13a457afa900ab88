"""A target with a server's manners, around the memory sink: connections drop, answers get lost, tables are locked,
statements are refused and commit by themselves, a fail-over takes the last second back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from consumer.errors import Code, DdlRefused, LeaseHeld, ProgressMoved, TableMissing, TargetBusy, TargetUnavailable
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.load import LoadOutcome, LoadTarget
from consumer.model.names import TableName
from consumer.model.progress import (
    DdlRecord,
    DdlState,
    Progress,
    ProgressChange,
    State,
)
from consumer.model.steps import ApplyDdl
from consumer.model.times import MAX_TSO
from consumer.sink.lake.formats import Commit
from consumer.sink.lake.statements import statement_text
from consumer.sink.progress_sql import begins_too_early
from consumer.target import DdlOutcome, Script, Writer
from tests.simulate.direct import SimulatedWriter
from tests.simulate.machine import EXECUTED, LOADED, Failure, Machine
from tests.simulate.script import LinesOfJson
from tests.support.memory import sink as memory
from tests.support.memory.sink import MemorySink
from tests.support.memory.statements import execute
from tests.support.memory.store import MemoryStore, copied

LEASE_SECONDS = 15.0
LABEL = "simulated"


@dataclass
class Server:
    """`direct`: writers write into the tables; else they stage, and the driver publishes. `by_itself`: a statement
    commits by itself, between intent and fact. `by_table`: as in a lake a commit is of one table, then the progress
    follows, and who takes the target makes good what it lacks. `locks` are tables and until when; `refuses` tables
    whose statements are refused: all of them, or those that do not take rows away."""

    machine: Machine
    direct: bool = False
    by_itself: bool = False
    by_table: bool = False
    goes_back: bool = False
    """Whether a fail-over may come, for which the past is kept."""
    locks: dict[TableName, float] = field(default_factory=dict)
    refuses: dict[TableName, bool] = field(default_factory=dict)
    down_until: float = 0.0
    holder: object = None
    renewed: float = 0.0
    newest: dict[int, Commit] = field(default_factory=dict)
    """By place, what the newest commit of a table says; `recorded`: the number of the one that the progress knows."""
    recorded: dict[int, int] = field(default_factory=dict)
    left: bool = False
    """Whether the last consumer has said that the progress has all of them."""
    past: list[tuple[int, MemoryStore]] = field(default_factory=list)
    """The last mark, and what there was then."""
    marks: int = 0
    watched: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around each commit."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """Stretches of marks (after, up to) that a fail-over took."""

    def __post_init__(self) -> None:
        memory._STORES[LABEL] = MemoryStore()

    @property
    def store(self) -> MemoryStore:
        return memory._STORES[LABEL]

    @property
    def progress(self) -> Progress:
        return self.store.progress.get("default", Progress())

    def connect(self) -> Connection:
        return Connection(self)

    def check_up(self) -> None:
        if self.machine.now < self.down_until:
            raise TargetUnavailable("the server does not answer")

    def check_lock(self, names: Sequence[TableName]) -> None:
        locked = [name for name in names if self.locks.get(name, 0.0) > self.machine.now]
        if locked:
            raise TargetBusy(f"{locked[0]} is locked", table=str(locked[0]))

    def keep_past(self) -> None:
        if self.goes_back:
            if self.past and self.past[-1][0] == self.marks:
                self.past.pop()
            self.past = [*self.past[-20:], (self.marks, _copied(self.store))]

    def mark(self) -> int:
        """A number for what has just been written, which no other write ever has."""
        self.marks += 1
        return self.marks

    def said(self, name: TableName) -> Commit:
        """By the newest commit of a table."""
        table = self.store.tables.get(name)
        return self.newest.get(table.place, Commit()) if table is not None else Commit()

    def newest_of(self, place: int) -> Commit:
        """As who takes the lake sees it."""
        return self.newest.get(place, Commit())

    def follows(self, place: int, commit: Commit) -> bool:
        """Whether it is behind the newest one of that place."""
        return self.newest.get(place, Commit()).generation == commit.generation - 1

    def has(self, mark: int) -> bool:
        """Whether what was written with `mark` is still there."""
        return not any(after < mark <= end for after, end in self.lost)

    def fail_over(self, writes: int) -> None:
        """The last `writes` never happened, as far as they are remembered."""
        if len(self.past) > writes:
            del self.past[len(self.past) - writes :]
            mark, store = self.past[-1]
            self.lost.append((mark, self.marks))
            memory._STORES[LABEL] = _copied(store)
        self.down_until = self.machine.now + 0.5


_CALLS = frozenset(
    {"acquire", "progress", "fence", "prepare", "writer", "end", "commit", "record", "apply_ddls", "empty_table",
     "replace_table", "has_rows"}
)  # fmt: skip


def _copied(store: MemoryStore) -> MemoryStore:
    return replace(
        store,
        tables=copied(store.tables),
        progress=dict(store.progress),
        staged=dict(store.staged),
        at_work=set(store.at_work),
    )


class Connection:
    """A sink whose calls can fail before and behind what they do."""

    def __init__(self, server: Server) -> None:
        self._server, self._sink = server, ServerSink(server)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._sink, name)
        return partial(self._call, name, found) if name in _CALLS else found

    def _call(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        server = self._server
        server.machine.moment(f"before {name}")
        server.check_up()
        with server.watched() if name == "commit" else nullcontext():
            result = call(*given, **named)
        server.keep_past()
        server.renewed = server.machine.now
        if name == "apply_ddls" and server.by_itself:
            return result  # it has recorded what it did, and says so, also of what the server did not answer
        server.machine.moment(f"after {name}")
        server.check_up()
        return result


class ServerSink(MemorySink):
    statements = 2

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known = 0
        """The mark of what this one has written last."""
        self._tables: dict[TableName, tuple[int, Commit]] = {}
        """Of a lake, as this one has last seen them: where they are, and their newest commits."""
        self._settled, self._left = True, False
        """Whether the progress has all commits of tables, and says so."""
        super().__init__(LABEL, "default")
        if server.by_table:
            self.statements = 0

    @property
    def _store(self) -> MemoryStore:
        return self._server.store

    @_store.setter
    def _store(self, store: MemoryStore) -> None:
        """Whichever the server has."""

    def acquire(self, upstream: str) -> Progress:
        server = self._server
        if self._is_held():
            raise LeaseHeld("another consumer is running on this target")
        self._store.held = False
        server.holder = self
        super().acquire(upstream)
        left, server.left, self._left = server.left, False, False
        return self._seen() if left else self._repaired()

    def _repaired(self) -> Progress:
        """What tables' own commits say counts, where the progress did not follow."""
        known, ahead = self.progress(), self._ahead()
        places = {
            name: replace(known.table(name), applied_ts=end, code=Code.MOVED_BY_WRITER)
            for commit in ahead.values()
            for name, end in commit.applied.items()
            if known.table(name).applied_ts < end
        }
        if ahead:
            self._save(ProgressChange(tables=places))
            self._server.recorded |= {place: commit.generation for place, commit in ahead.items()}
        return self._seen()

    def _ahead(self) -> dict[int, Commit]:
        """By place, the newest commits that the progress does not know."""
        server = self._server
        there = {table.place for table in self._store.tables.values()} & server.newest.keys()
        found = {place: server.newest[place] for place in sorted(there)}
        return {place: said for place, said in found.items() if said.generation > server.recorded.get(place, 0)}

    def _seen(self) -> Progress:
        """Of the tables, what the progress has of them: with what they say themselves, where it has that."""
        server = self._server
        self._tables = {
            name: (table.place, server.newest_of(table.place)) for name, table in self._store.tables.items()
        }
        return self.progress()

    def rest(self) -> None:
        if self._server.by_table and self._settled and not self._left:
            self._check()
            self._server.left = self._left = True

    def _unsettle(self) -> None:
        """Before a commit of a table, which the progress follows."""
        if self._left:
            self._check()
            self._server.left = False
        self._settled = self._left = False

    def close(self) -> None:
        if self._server.holder is self:
            self._server.holder = None

    @contextmanager
    def still(self) -> Iterator[Progress]:
        if self._is_held():
            raise LeaseHeld("another consumer is running on this target")
        yield self.progress()

    def script(self, target: LoadTarget) -> Script:
        return LinesOfJson()

    def _is_held(self) -> bool:
        """By another one, as far as it can be known."""
        server = self._server
        return server.holder not in (None, self) and server.machine.now < server.renewed + LEASE_SECONDS

    def writer(self) -> Writer:
        if not self._server.direct:
            return super().writer()
        self._check()
        number = self._server.mark()
        self._store.at_work.add(number)
        return SimulatedWriter(self._server, self._epoch or 0, number, self._known)

    def end(self, writer: Writer) -> None:
        if isinstance(writer, SimulatedWriter):
            self._check()
            self._store.at_work.discard(writer.number)
        else:
            super().end(writer)

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        if self._server.direct:
            self._check_marks(proof for outcome in outcomes for receipt in outcome.receipts for proof in receipt.proofs)
            return self._save(change)
        if not self._server.by_table:
            return super().commit(outcomes, change)
        done = {}
        for outcome in outcomes:
            if outcome.error is None:
                self._unsettle()
                done |= self._commit_of(outcome)
                self._moment(LOADED)
        self._save(change)
        self._server.recorded |= done
        self._settled = True
        return change

    def _commit_of(self, outcome: LoadOutcome) -> dict[int, int]:
        """The number of the commit, by the table's place. Nothing but that number keeps a late writer away."""
        target, window, server = outcome.task.target, outcome.task.window, self._server
        place, known = self._tables.get(target.name, (0, Commit()))
        table = next((table for table in self._store.tables.values() if table.place == place), None)
        if table is None:
            raise TableMissing("the table is gone since the load began", table=str(outcome.table))
        load = " ".join(sorted(receipt.staged for receipt in outcome.receipts if receipt.staged))
        if not load or load == known.load:
            return {place: known.generation}
        if not target.key and window.end != MAX_TSO:
            applied = max(self.progress().table(target.table).applied_ts, known.applied.get(target.table, 0))
            if window.after < applied < window.end:
                raise begins_too_early(target.table, window, applied)
            if applied >= window.end:
                return {place: known.generation}
        ends = {target.table: window.end} if window.end != MAX_TSO and not outcome.task.dialect.timeless else {}
        commit = known.following(applied={**known.applied, **ends}, load=load)
        if not server.follows(place, commit):
            raise ProgressMoved("another writer has committed to the table meanwhile")
        self._publish(table, outcome)
        server.newest[place] = commit
        self._tables[target.name] = place, commit
        return {place: commit.generation}

    def _apply(self, step: ApplyDdl) -> DdlOutcome:
        """What changes the rows or columns of one table is a commit of that table; names are in the progress."""
        server, tables = self._server, copied(self._store.tables)
        if not server.by_table or step.file.type in _OF_NAMES or step.trash is not None:
            outcome = super()._apply(step)
            self._seen()
            return outcome
        place, known = self._tables.get(step.name, (0, Commit()))
        text, note = statement_text(step), ""
        if known.statement != text:
            try:
                note = execute(tables, step)
            except DdlRefused as error:
                return DdlOutcome(step, error)
            if tables != self._store.tables:
                commit = known.following(statement=text)
                self._unsettle()
                if not server.follows(place, commit):
                    raise ProgressMoved("another writer has committed to the table meanwhile")
                self._store.tables = tables
                server.newest[place] = commit
                self._tables[step.name] = place, commit
                self._moment(EXECUTED)
        recorded = self._save(step.before.merged(step.done(note)))
        server.recorded |= {place: self._tables[step.name][1].generation} if place else {}
        self._settled = True
        return DdlOutcome(step, note=note, recorded=recorded)

    def _moment(self, what: str) -> None:
        self._server.machine.moment(what)
        self._server.check_up()

    def _one(self, step: ApplyDdl, known: DdlRecord | None) -> DdlOutcome:
        server = self._server
        try:
            server.check_lock(step.touches)
        except TargetBusy as error:
            return DdlOutcome(step, error)
        ends = step.file.type in (Action.DROP_TABLE, Action.TRUNCATE_TABLE)
        every = server.refuses.get(step.file.name)
        refusal: DdlRefused | None = None
        if every or (every is not None and not ends):
            refusal = DdlRefused(f"the target refuses it: {step.file.query}", table=str(step.file.name))
        done = self.progress().ddls.get(step.id)
        if done is not None and done.state is DdlState.DONE:  # nobody heard of it
            return DdlOutcome(step, note=done.reason, recorded=step.before.merged(step.done(done.reason)))
        if server.by_itself:
            return self._by_itself(step, known, refusal)
        return self._apply(step) if refusal is None else DdlOutcome(step, refusal)

    def _by_itself(self, step: ApplyDdl, known: DdlRecord | None, refusal: DdlRefused | None) -> DdlOutcome:
        """Intent, statement, fact; who finds an intent looks whether its statement ran."""
        machine = self._server.machine
        resumed = known is not None and known.state is DdlState.INTENT
        before = known.before if known is not None and resumed else self._shape(step)
        intent = DdlRecord(step.id, DdlState.INTENT, before)
        self._save(step.before.merged(ProgressChange(ddls=(intent,))))
        self._server.keep_past()
        machine.moment("between intent and statement")
        self._server.check_up()
        self._check()
        note = ""
        if not resumed or self._shape(step) == before:
            try:
                if refusal is not None:
                    raise refusal
                note = execute(self._store.tables, step)
            except DdlRefused as error:
                ended = ProgressChange(ddls=(replace(intent, state=DdlState.REFUSED, reason=error.message),))
                self._save(ended)
                return DdlOutcome(step, error, recorded=step.before.merged(ended))
        proof = self._server.mark()
        self._server.keep_past()
        try:
            machine.moment("between statement and fact")
            self._server.check_up()
        except TargetUnavailable as error:
            return DdlOutcome(step, error, recorded=step.before.merged(ProgressChange(ddls=(intent,))))
        self._check_marks([proof])
        recorded = self._save(step.before.merged(step.done(note)))
        return DdlOutcome(step, note=note, recorded=recorded)

    def _shape(self, step: ApplyDdl) -> str:
        """What tells whether the statement ran: names and columns of what it is about."""
        names = {step.file.name, *step.touches, *((step.old_name,) if step.old_name else ())}
        tables = self._store.tables
        if not step.file.table:
            names |= {name for name in tables if name.database == step.file.database}
        return repr([(str(n), [c.name for c in tables[n].columns] if n in tables else None) for n in sorted(names)])

    def fence(self) -> Progress:
        if self._epoch is None or self._store.epoch > self._epoch or self._server.holder not in (None, self):
            raise LeaseHeld("this consumer is not the writer of the target")
        self._raise_epoch()
        return self._repaired()

    def _raise_epoch(self) -> None:
        self._epoch = self._known = self._store.epoch = self._server.mark()
        self._store.at_work.clear()

    def _check(self) -> int:
        if self._epoch is None or self._store.epoch > self._epoch:
            raise LeaseHeld("this consumer is not the writer of the target")
        self._check_marks([self._known])
        return self._epoch

    def _check_marks(self, marks: Iterable[int]) -> None:
        if not all(map(self._server.has, marks)):
            raise ProgressMoved("the target has lost what was written last")

    def _save(self, change: ProgressChange) -> ProgressChange:
        self._check()
        before = self._server.progress
        super()._save(change)
        self._known = self._server.mark()
        if not change.rewind:
            refuse_falling(before, self._server.progress)
        return change


def refuse_falling(before: Progress, after: Progress) -> None:
    """Raises Failure where a watermark is lower than it was, of what is not gone meanwhile."""
    places = [(name, before.table(name), after.table(name)) for name in (*before.tables, *after.tables)]
    for name, old, new in [*places, (TableName("", ""), before.table(_NOBODY), after.table(_NOBODY))]:
        if State.DROPPED not in (old.state, new.state) and new.applied_ts < old.applied_ts:
            raise Failure(f"the watermark of {name} falls from {old.applied_ts} to {new.applied_ts}")


_OF_NAMES = (Action.CREATE_TABLE, Action.DROP_TABLE, Action.CREATE_SCHEMA, Action.DROP_SCHEMA, *RENAME_ACTIONS)
_NOBODY = TableName("", "\0")
