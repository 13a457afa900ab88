"""Keeps one round as a state machine: which statements and loads are ready after what has happened so far.

Steps form a graph. The caller asks for ready steps, gets each once, and reports the result of each (`applied`,
`loaded`, `stopped`, `refused`) in any order, for a real round or to print a plan. Until then nothing that depends on
the step is ready. The class does no IO. A waiting step is checked again only when what it waits for changes, so the
cost of a round is linear in its steps.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from consumer.errors import ConsumerError
from consumer.layout.schema_file import is_view
from consumer.model.actions import Action
from consumer.model.files import Bounds, DataFile, Folder
from consumer.model.names import TableName
from consumer.model.steps import Barrier, LoadRows, Window
from consumer.model.table_rules import Batches
from consumer.model.times import MAX_TSO
from consumer.plan.options import FileOptions
from consumer.plan.queue import Obstacles, Queue, may_pass_stuck
from consumer.plan.statement import Statement
from consumer.plan.timeline import Timeline
from consumer.plan.unread import TableInRound
from consumer.plan.windows import plan_load


class Round:
    """Brings every table in `tables` to `checkpoint`, statement by statement, window by window.

    `is_over(folder, version)`: a table's rows begin again at `version`, and `folder` is older. It returns True if no
    row above `version` can be in that folder. If rows have no time, folders decide which files come before a statement.
    """

    def __init__(
        self,
        checkpoint: int,
        timeline: Timeline,
        tables: Mapping[TableName, TableInRound],
        is_over: Callable[[Folder, int], bool],
        files: FileOptions,
        batches: Batches,
    ) -> None:
        self._is_over = is_over
        self.checkpoint = checkpoint
        self._files = files
        self._batches = batches
        self.tables = dict(tables)
        self.live = set(timeline.live)
        # A view can have the name of a table that has ended. That table's files can still come, and they lie in
        # folders of the same name.
        self.views = {name for name, columns in timeline.live.items() if is_view(columns)}
        self.changes = 0
        """A counter that grows when a table advances or stops, or a statement runs."""
        self.troubles = 0
        """A counter that grows when a table stops, or a statement is refused."""
        self._queue = Queue(timeline.pending)
        self._obstacles = Obstacles(self._queue, self.tables, self.live)
        self._bounds: dict[str, Bounds] = {}
        self._looking_again = [state for state in tables.values() if any(e.read_to is not None for e in state.unread)]
        self._moving: set[TableName] = set(self.tables)
        self._waiting_for_rows: defaultdict[TableName, list[Statement]] = defaultdict(list)
        self._waiting_for_stopped: defaultdict[TableName, list[Statement]] = defaultdict(list)
        self._waiting_to_pass: dict[int, Statement] = {}
        self.snapshot_after: int | None = None
        """The moment from which tables go to the checkpoint in one load each; None if no table has to be consistent
        with others."""
        self._returned: set[int] = set()
        self._held: set[TableName] = set()
        for statement in timeline.pending:
            for name in statement.touches:
                if name in self.tables:
                    self.tables[name].boundaries.add(statement.version)

    @property
    def timeless(self) -> bool:
        """Whether rows have no time."""
        return self._files.dialect.timeless

    @property
    def pending(self) -> list[Statement]:
        """The statements that have not run, in upstream order."""
        return list(self._queue)

    # What is ready

    def ready_statements(self) -> list[Statement]:
        """Returns the statements that can run now, each once. No two touch the same table."""
        ready = [statement for statement in self._queue.take() if self._is_ready(statement)]
        self._returned.update(map(id, ready))
        for statement in ready:
            self._reach(statement, (name for name in statement.touches if self.tables[name].error is None))
        return ready

    def followers_of(self, statement: Statement, most: int) -> list[Statement]:
        """Returns up to `most` statements that can run right after `statement`, a ready one, because they change only
        the same table and there are no rows in between. Each is returned once."""
        followers: list[Statement] = []
        last = statement
        for other in self._queue.followers_of(statement, most) if statement.only_alters else ():
            if not other.only_alters or id(other) in self._returned or self._has_rows_between(last, other):
                break
            followers.append(other)
            last = other
        self._returned.update(map(id, followers))
        return followers

    def _has_rows_between(self, former: Statement, later: Statement) -> bool:
        state = self.tables[former.file.name]
        if state.error is not None or not state.unread:
            return state.error is not None
        load = self._load(state, Window(former.version, later.version))
        return self.timeless or bool(load.files) or load.window.end < later.version

    def _reach(self, statement: Statement, names: Iterable[TableName]) -> None:
        """All rows before `statement` are in the target, or will never be: moves the tables `names` to its version."""
        for name in () if self.overtaken_renames(statement) else names:
            self.tables[name].position = max(self.tables[name].position, statement.version)

    def waiting(self) -> Iterator[tuple[Statement, str]]:
        """Yields the statements that cannot run, and what each waits for."""
        stuck = self._obstacles.stuck()
        for statement in self._queue:
            obstacle = stuck.get(self._queue.number(statement))
            if obstacle is None and (blocker := self._queue.blocker(statement, stuck)) is not None:
                obstacle = f"the statement of {blocker.file.name}, version {blocker.version}"
            elif obstacle is None and (name := self._obstacles.rows_left(statement)) is not None:
                obstacle = f"rows of {name}"
            if obstacle is not None:
                yield statement, obstacle

    def barriers(self) -> Iterator[Barrier]:
        """Yields the statements that cannot run, and why."""
        for statement, obstacle in self.waiting():
            yield Barrier(statement.file, statement.touches, obstacle)

    def incomplete(self, statement: Statement) -> bool:
        """Returns whether rows below `statement` never reached the target because its table was stopped."""
        states = [self.tables[name] for name in statement.tables]
        return any(state.error is not None or state.passed_unread_rows(statement.version) for state in states)

    def wants_bounds(self) -> list[DataFile]:
        """Returns the files whose first and last commit-ts `ready_loads` needs to separate intervals or bounded
        rounds."""
        wanted: list[DataFile] = []
        for state, boundary in () if self.timeless else self._loadable():
            if state.name in self.views:
                continue
            split = boundary < self.checkpoint
            if split or sum(entry.file.size for entry in state.unread) > state.round_bytes:
                wanted += [entry.file for entry in state.unread if entry.file.path not in self._bounds]
            else:
                wanted += [e.file for e in state.unread if e.read_to is not None and e.file.path not in self._bounds]
        return wanted

    def ready_loads(self) -> list[LoadRows]:
        """Returns one load for each table that is not yet at its next statement or at the checkpoint, each once.

        Tables with nothing to read simply advance.
        """
        loads: list[LoadRows] = []
        for state, boundary in self._loadable():
            if state.name in self.views:
                self._move(state, boundary)
                continue
            window = Window(state.position, boundary)
            load = self._load(state, window)
            if load.files:
                loads.append(load)
                self._held.add(state.name)
            else:
                self._move(state, load.window.end)
        return loads

    def _load(self, state: TableInRound, window: Window) -> LoadRows:
        bounded = self.snapshot_after is None or window.after < self.snapshot_after
        size = state.round_bytes if bounded else sys.maxsize
        most = self._batches.published_bytes
        return plan_load(state.name, window, state.unread, self._bounds, state.boundaries, self._files, size, most)

    def never_read_files(self, name: TableName, version: int) -> list[DataFile]:
        """Returns what a stopped table will never read once its rows begin again at `version`: its unread files from
        before, if no later row can be in them."""
        state = self.tables[name]
        older = [entry.file for entry in state.unread if entry.file.folder.version < version]
        finished = (file for file in older if self.timeless or self._is_over(file.folder, version))
        return list(finished) if state.error is not None else []

    # Results

    def learned(self, bounds: Mapping[str, Bounds]) -> None:
        self._bounds |= bounds
        for state in self._looking_again:
            state.unread = [e for e in state.unread if e.needed(self._bounds.get(e.file.path), state.position, MAX_TSO)]

    def applied(self, statement: Statement) -> None:
        """`statement` is in the target and recorded."""
        self._reach(statement, statement.touches)
        finished_statements, names = (*self.overtaken(statement), statement), self.touched_tables(statement)
        renames = self.overtaken_renames(statement)
        for other in (*renames, statement) if renames else ():
            for name in other.drops:
                self.tables[name].position = max(self.tables[name].position, other.version)
        for other in finished_statements:
            self._queue.remove(other)
        if statement.heals:
            for name in names:
                self.tables[name].accept_lost(self.never_read_files(name, statement.until(name)))
            if self._obstacles.heal(names, len(finished_statements)):
                self._trouble_changed()
            self._queue.requeue(other for name in names for other in self._waiting_for_stopped.pop(name, ()))
        self.live.difference_update(*(other.drops for other in finished_statements))
        self.views -= {*statement.drops, statement.file.name}
        if statement.action == Action.CREATE_VIEW:
            self.views.add(statement.file.name)
        if statement.begins is not None:
            self.live.add(statement.begins)
            if self.timeless:
                self.tables[statement.begins].begin(statement.version)
        for name in names:
            self._changed(name)

    def loaded(self, load: LoadRows, read: Mapping[str, int]) -> None:
        """`load` is in the target and recorded. `read` maps each path to its lowest commit-ts not yet applied, 0 for
        none."""
        self._held.discard(load.table)
        state = self.tables[load.table]
        state.unread = [
            replace(entry, next_ts=read.get(entry.file.path, entry.next_ts))
            for entry in state.unread
            if read.get(entry.file.path) != 0
        ]
        self._move(state, load.window.end)

    def stopped(self, table: TableName, error: ConsumerError) -> None:
        """`table` does not advance any more in this round."""
        self.troubles += 1
        self._held.discard(table)
        self.tables[table].error = error
        if self._obstacles.stop(table):
            self._trouble_changed()
        self._changed(table)

    def refused(self, statement: Statement, error: ConsumerError) -> None:
        """`statement` cannot be executed: it is not tried again in this round."""
        self._reach(statement, statement.touches)
        self.troubles += 1
        self._obstacles.refuse(statement, error)
        self._trouble_changed()

    def requeue(self, statement: Statement) -> None:
        """`statement` was returned, and failed for now or did not run: it is ready again once no other one is before
        it."""
        self._returned.discard(id(statement))
        if self._queue.is_at_front(statement):
            self._queue.requeue([statement])

    def mark_missing(self, table: TableName) -> None:
        """The target does not have the table, and no statement creates it."""
        self.live.discard(table)

    def hold(self, table: TableName) -> None:
        """No load of `table` is ready until it is released."""
        self._held.add(table)

    def release(self, table: TableName) -> None:
        """The load of `table` failed for now, or is no longer held: its next step is ready."""
        self._held.discard(table)
        self._moving.add(table)

    def overtaken(self, statement: Statement) -> list[Statement]:
        """Returns the earlier statements of stopped tables that no longer matter once `statement` has run."""
        return self._queue.overtaken(statement)

    def overtaken_renames(self, statement: Statement) -> list[Statement]:
        """Returns, in order, the RENAMEs that will never run because a DROP removes the table to which they were to
        give its name."""
        former = {(had.name, had.until) for had in statement.former}
        return [other for other in self.overtaken(statement) if (other.old_name, other.version) in former]

    def touched_tables(self, statement: Statement) -> set[TableName]:
        """Returns the tables that `statement` touches, under all of their names."""
        return {name for other in (statement, *self.overtaken(statement)) for name in other.touches}

    def _move(self, state: TableInRound, position: int) -> None:
        state.position = position
        self._changed(state.name)

    def _changed(self, table: TableName) -> None:
        """Something about the table has changed: it may have rows to load, and steps that wait for them may be
        ready."""
        self.changes += 1
        self._moving.add(table)
        self._queue.requeue(self._waiting_for_rows.pop(table, ()))

    def _trouble_changed(self) -> None:
        """A table stopped or resumed: other statements are stuck now, and others may pass them."""
        self._queue.requeue(self._waiting_to_pass.values())
        self._waiting_to_pass.clear()

    # Search for ready steps

    def _is_ready(self, statement: Statement) -> bool:
        """Returns whether a statement at the front can run. If not, it is checked again when what it waits for
        changes."""
        if id(statement) in self._returned:
            return False
        if (
            may_pass_stuck(statement)
            and (blocker := self._queue.blocker(statement, self._obstacles.stuck())) is not None
        ):
            self._waiting_to_pass[id(statement)] = statement
            self._queue.wait(statement, blocker)
            return False
        if (stopped := self._obstacles.stopped(statement)) is not None:
            self._waiting_for_stopped[stopped].append(statement)
            return False
        if (late := self._obstacles.rows_left(statement)) is not None:
            self._waiting_for_rows[late].append(statement)
            return False
        return True

    def _loadable(self) -> list[tuple[TableInRound, int]]:
        """Returns the tables that can advance now, each with the version of its next statement, or the checkpoint."""
        loadable: list[tuple[TableInRound, int]] = []
        for name in sorted(self._moving - self._held):
            state, boundary = self.tables[name], self._queue.next_version(name)
            boundary = self.checkpoint if boundary is None else boundary
            if self.snapshot_after is not None and state.position < self.snapshot_after:
                boundary = min(boundary, self.snapshot_after)
            if state.error is None and name in self.live and state.position < boundary:
                loadable.append((state, boundary))
            else:
                self._moving.discard(name)
        return loadable
