"""One round as a state machine: which statements and loads are ready, given what has happened so far.

Steps form a graph that runs in waves: all ready statements, then all ready loads, until nothing is ready. The class
does no IO: whoever runs it tells it what happened (`applied`, `loaded`, `stopped`), be it for real or to print a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from consumer.errors import ConsumerError
from consumer.layout.schema_file import is_view
from consumer.model.actions import Action
from consumer.model.files import Bounds, DataFile
from consumer.model.names import TableName
from consumer.model.progress import DdlId
from consumer.model.steps import Barrier, LoadRows, Window, ddl_id
from consumer.plan.queue import Queue
from consumer.plan.statement import Statement
from consumer.plan.timeline import Timeline
from consumer.plan.unread import Unread
from consumer.plan.windows import plan_load, plan_timeless_load


@dataclass(slots=True)
class TableState:
    """Where one table is in the round. Every row up to `position` is in the target, or was found not to exist."""

    name: TableName
    position: int
    unread: list[Unread]
    round_bytes: int
    error: ConsumerError | None = None
    boundaries: set[int] = field(default_factory=set)

    def lost(self, version: int) -> list[DataFile]:
        """What a stopped table will never read once its rows begin anew at `version`: TiCDC writes no later rows into
        folders that are older than that."""
        if self.error is None:
            return []
        return [entry.file for entry in self.unread if entry.file.folder.version < version]

    def lost_rows(self, version: int) -> bool:
        """Whether files from before `version` were not read to their rows below it, though the table is past it."""
        unread = (entry for entry in self.unread if entry.file.folder.version < version)
        return any(entry.next_ts < version for entry in unread)

    def begin(self, version: int) -> None:
        """The table's rows begin anew at `version`: older folders hold nothing of them."""
        self.unread = [entry for entry in self.unread if entry.file.folder.version >= version]

    def give_up(self, version: int) -> None:
        """A stopped table lives again: its rows begin anew at `version`."""
        lost = self.lost(version)
        self.unread = [entry for entry in self.unread if entry.file not in lost]
        self.error = None


class Round:
    """Brings every table in `tables` to `checkpoint`, statement by statement, window by window.

    `timeless`: rows say nothing of their time, so folders tell which files come before a statement.
    """

    def __init__(
        self, checkpoint: int, timeline: Timeline, tables: Mapping[TableName, TableState], timeless: bool = False
    ) -> None:
        self.checkpoint = checkpoint
        self.timeless = timeless
        self.tables = dict(tables)
        self.live = set(timeline.live)
        # A view can have the name of a table that is gone, whose files may still come, and still lie there.
        self.views = {name for name, columns in timeline.live.items() if is_view(columns)}
        self.pending: list[Statement] = list(timeline.pending)
        self._bounds: dict[str, Bounds] = {}
        self._refused: dict[DdlId, ConsumerError] = {}
        for statement in self.pending:
            for name in statement.touches:
                if name in self.tables:
                    self.tables[name].boundaries.add(statement.version)

    # What is ready

    def ready_statements(self) -> list[Statement]:
        """The statements that can run now; none of them touches a table of another."""
        ready: list[Statement] = []
        for statement, obstacle in self._examine():
            if obstacle is None:
                ready.append(statement)
        for statement in ready:
            for name in statement.touches:
                self.tables[name].position = max(self.tables[name].position, statement.version)
        return ready

    def waiting(self) -> Iterator[tuple[Statement, str]]:
        """The statements that cannot run, and what each waits for."""
        for statement, obstacle in self._examine():
            if obstacle is not None:
                yield statement, obstacle

    def barriers(self) -> Iterator[Barrier]:
        """The statements that cannot run, and why."""
        for statement, obstacle in self.waiting():
            yield Barrier(statement.file, statement.touches, obstacle)

    def incomplete(self, statement: Statement) -> bool:
        """Whether rows below `statement` that its table had upstream never reached the target: it was stopped."""
        states = [self.tables[name] for name in statement.tables]
        return any(state.error is not None or state.lost_rows(statement.version) for state in states)

    def wants_bounds(self) -> list[DataFile]:
        """Files whose first and last commit-ts `ready_loads` needs to tell intervals or bounded rounds apart."""
        wanted: list[DataFile] = []
        for state, boundary in () if self.timeless else self._loadable():
            if state.name in self.views:
                continue
            split = boundary < self.checkpoint
            if split or sum(entry.file.size for entry in state.unread) > state.round_bytes:
                wanted += [entry.file for entry in state.unread if entry.file.path not in self._bounds]
        return wanted

    def ready_loads(self) -> list[LoadRows]:
        """One load for each table that is not yet at its next statement or at the checkpoint.

        Tables with nothing to read simply move on.
        """
        loads: list[LoadRows] = []
        for state, boundary in self._loadable():
            if state.name in self.views:
                state.position = boundary
                continue
            window = Window(state.position, boundary)
            if self.timeless:
                load = plan_timeless_load(state.name, window, state.unread, state.boundaries)
            else:
                load = plan_load(state.name, window, state.unread, self._bounds, state.boundaries, state.round_bytes)
            if load.files:
                loads.append(load)
            else:
                state.position = window.upto
        return loads

    # What happened

    def learned(self, bounds: Mapping[str, Bounds]) -> None:
        self._bounds |= bounds

    def applied(self, statement: Statement) -> None:
        """`statement` is in the target and recorded."""
        overtaken = self.overtaken(statement)
        self.pending = [other for other in self.pending if other is not statement and other not in overtaken]
        if statement.heals:
            for name in statement.touches:
                self.tables[name].give_up(statement.version)
        self.live -= set(statement.drops)
        self.views -= {*statement.drops, statement.file.name}
        if statement.action == Action.CREATE_VIEW:
            self.views.add(statement.file.name)
        if statement.begins is not None:
            self.live.add(statement.begins)
            if self.timeless:
                self.tables[statement.begins].begin(statement.version)

    def loaded(self, load: LoadRows, read: Mapping[str, int]) -> None:
        """`load` is in the target and recorded; `read` maps each path to its lowest commit-ts left, 0 for none."""
        state = self.tables[load.table]
        state.position = load.window.upto
        state.unread = [
            Unread(entry.file, read.get(entry.file.path, entry.next_ts))
            for entry in state.unread
            if read.get(entry.file.path) != 0
        ]

    def stopped(self, table: TableName, error: ConsumerError) -> None:
        """`table` goes no further in this round."""
        self.tables[table].error = error

    def refused(self, statement: Statement, error: ConsumerError) -> None:
        """`statement` cannot be executed: it is not tried again in this round."""
        self._refused[ddl_id(statement.file)] = error

    def overtaken(self, statement: Statement) -> list[Statement]:
        """Earlier statements of stopped tables that no longer matter once `statement` has run."""
        return [other for other in self.pending if statement.overtakes(other)]

    # How it is found

    def _examine(self) -> Iterator[tuple[Statement, str | None]]:
        """Each pending statement with what it waits for, None when it is ready."""
        queue = Queue()
        for statement in self.pending:
            blocker = queue.blocker(statement)
            stuck = self._stop(statement) or (None if blocker is None else queue.stuck(blocker))
            queue.append(statement, stuck)
            if stuck is None and blocker is not None:
                yield statement, f"{blocker.file.name} at {blocker.version}"
            else:
                yield statement, stuck or self._rows_left(statement)

    def _stop(self, statement: Statement) -> str | None:
        """The stopped table that `statement` cannot go past."""
        if (refusal := self._refused.get(ddl_id(statement.file))) is not None:
            return f"{statement.file.name}: {refusal.message}"
        # A table that will be emptied needs its definition, not its rows.
        free = statement.heals or any(other.empties_after(statement) for other in self._truncates)
        errors = {name: self.tables[name].error for name in statement.touches if not free}
        return next((f"{name}: {error.message}" for name, error in errors.items() if error is not None), None)

    @property
    def _truncates(self) -> list[Statement]:
        return [other for other in self.pending if other.action == Action.TRUNCATE_TABLE]

    def _rows_left(self, statement: Statement) -> str | None:
        incomplete = (name for name in statement.touches if not self._complete(self.tables[name], statement))
        return next((f"rows of {name}" for name in incomplete), None)

    def _complete(self, state: TableState, statement: Statement) -> bool:
        """Whether no row of this table below the statement's version is left to load; none is of a table that does not
        exist, whatever its old files hold."""
        done = state.position >= statement.version or not state.unread
        return done or state.error is not None or state.name not in self.live

    def _loadable(self) -> list[tuple[TableState, int]]:
        """Tables that can move now, each with the version of its next statement, or the checkpoint."""
        boundary: dict[TableName, int] = {}
        for statement in self.pending:
            for name in statement.touches:
                boundary.setdefault(name, statement.version)
        return [
            (state, boundary.get(state.name, self.checkpoint))
            for state in self.tables.values()
            if state.error is None
            and state.name in self.live
            and state.position < boundary.get(state.name, self.checkpoint)
        ]
