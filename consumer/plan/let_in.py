"""Tables that the table rules take from now on: where they begin, and which statements of theirs no longer matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from consumer.errors import BadConfig
from consumer.model.actions import CREATE_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.ddl_policy import DdlPolicy, PolicyOf
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import DdlRecord, DdlState, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.lives import Life
from consumer.plan.routing import SharedNames
from consumer.plan.standing import (
    LEFT_OVER,
    NOT_MADE,
    PASSED_OVER,
    is_kept_by_policy,
    is_left_undone,
    is_settled,
    kept_by_policy,
    was_executed,
)
from consumer.plan.statement import action_of


def let_in(assembly: Assembly, progress: Progress, policy_of: PolicyOf, naming: Naming = SAME) -> ProgressChange | None:
    """What to record before a round in which names are no longer left out; None where there are none.

    A table that still exists upstream begins where the first of its statements that has not run gave it a name.
    Statements about tables that are gone are not executed: some of what they need may have run, under other rules. What
    is left of such a table in the target goes as it went upstream, or is taken away where its end was passed over; it
    stops where `policy_of` does not let DROP TABLE run, and stays where that is ignored.
    """
    left = {n: p for n, p in progress.tables.items() if p.state is State.EXCLUDED or is_kept_by_policy(n, p)}
    back = {name: place for name, place in left.items() if assembly.wanted(name)}
    if not back:
        return None
    found = _LetIn(assembly, progress, policy_of, SharedNames(naming, assembly, progress))
    for database in [name for name in back if not name.table]:
        found.pass_over_databases(database)
    found.look_at_lives({name for name in back if name.table})
    return found.change(back)


class _LetIn:
    def __init__(self, assembly: Assembly, progress: Progress, policy_of: PolicyOf, shared: SharedNames) -> None:
        self._assembly, self._progress, self._policy_of, self._shared = assembly, progress, policy_of, shared
        self._standings = assembly.standings(progress)
        self._pending = {s.file.path for s in assembly.timeline.pending if s.not_read is None}
        self._begins: defaultdict[TableName, list[int]] = defaultdict(list)
        self._skipped: dict[str, tuple[SchemaFile, str]] = {}
        self._emptied: set[TableName] = set()
        self._kept: set[TableName] = set()
        self._lost: set[int] = set()

    def pass_over_databases(self, database: TableName) -> None:
        """A DROP DATABASE that has not run, and behind which the target was given a table of that database, runs no
        more: the tables that it would have taken away go one by one."""
        own = [s for name, s in self._standings.there.items() if name.database == database.database]
        given = max((standing.since for standing in own), default=0)
        files = self._assembly.catalog.by_table.get(database, ())
        last = max((f.version for f in files if action_of(f) == Action.DROP_SCHEMA and f.version < given), default=0)
        due = [file for file in files if file.version <= last and not is_settled(file, self._progress)]
        if due:
            self._skip(due, PASSED_OVER)
            self._lost |= {id(standing.life) for standing in own}

    def look_at_lives(self, back: set[TableName]) -> None:
        """Those that have had a name of `back`, and those of databases that were passed over."""
        lives = [e for e in self._standings.lives if id(e) in self._lost or not back.isdisjoint(e.names)]
        alive = [life for life in lives if life.end is None and self._standings.alive.get(life.names[-1]) is life]
        needed = {file.name: file.version for life in alive for file in reversed(self._todo(life))}
        for life in lives:
            if life.end is not None and not self._goes_as_upstream(life, needed):
                self._pass_over(life)
        for life in alive:
            self._follow(life)

    def change(self, back: dict[TableName, TableProgress]) -> ProgressChange:
        places = {name: self._progress.table(name).applied_ts for name in {*back, *self._emptied, *self._kept}}
        starts = {n: max(place, min(self._begins[n], default=0) - 1) for n, place in places.items()}
        tables = {name: TableProgress(starts[name]) for name in back}
        tables |= {name: TableProgress(starts[name], State.EMPTYING, LEFT_OVER) for name in self._emptied}
        for name in self._kept:
            error = kept_by_policy(name)
            tables[name] = TableProgress(starts[name], State.STOPPED, error.sentence(), error.hint)
        skipped = (DdlRecord(ddl_id(file), DdlState.SKIPPED, reason=why) for file, why in self._skipped.values())
        return ProgressChange(tables=tables, ddls=tuple(skipped))

    def _todo(self, life: Life) -> list[SchemaFile]:
        """Its statements that have not run, in order, its own DROP TABLE among them."""
        own = [*life.statements, *([life.end] if life.end is not None and life.end.table else [])]
        return [file for file in own if not is_settled(file, self._progress)]

    def _goes_as_upstream(self, life: Life, needed: Mapping[TableName, int]) -> bool:
        """Whether the target has the table, and everything up to its end is to be executed. It does not where one that
        is alive had its name before it: `needed` are the first versions of these."""
        name, todo = self._standings.name(life), self._todo(life)
        if name is None or life.end is None or life.end.path in self._skipped:
            return False
        if any(is_left_undone(file, self._progress) for file in life.statements):
            return False
        if needed.get(name, MAX_TSO) <= self._standings.there[name].since:
            return False
        if not {life.end.path, *(file.path for file in todo)} <= self._pending or self._taken(life, todo):
            return False
        self._begin(name, todo)
        return True

    def _pass_over(self, life: Life) -> None:
        self._skip(self._todo(life), PASSED_OVER)
        self._empty(life)

    def _follow(self, life: Life) -> None:
        name, todo = self._standings.name(life), self._todo(life)
        taken = self._taken(life, todo)
        done = [file for file in life.statements if was_executed(file, self._progress)]
        if taken or (done and name is None):
            # What the next RENAME moves is not there, or went with its database: it is refused.
            self._skip([*done, *todo[:taken]], NOT_MADE)
            self._empty(life)
            name, todo = None, todo[taken:]
        self._begin(name, todo)

    def _taken(self, life: Life, todo: list[SchemaFile]) -> int:
        """How many of `todo` cannot be executed, as the target has another table of a name that they give since."""
        last = 0
        for number, file in enumerate(todo):
            other = self._standings.there.get(file.name)
            gives = action_of(file) in CREATE_ACTIONS | RENAME_ACTIONS
            if gives and other is not None and other.life is not life and other.since >= file.version:
                last = number + 1
        while last and last < len(todo) and action_of(todo[last]) not in RENAME_ACTIONS:
            last += 1
        return last

    def _begin(self, name: TableName | None, todo: Iterable[SchemaFile]) -> None:
        if name is not None:
            self._begins[name].append(self._standings.there[name].since + 1)
        for file in todo:
            self._begins[file.name].append(file.version)

    def _empty(self, life: Life) -> None:
        """Take away what the target has of the table, unless another table has its name there."""
        name = self._standings.name(life)
        if name is None or not self._standings.there[name].sure or not self._assembly.wanted(name):
            return
        if self._shared.error(name) is not None:
            return
        if self._assembly.naming.merges(name):
            raise BadConfig(
                f"{name} was left out when upstream took it away, and its rows are in a table of the target with those"
                " of others",
                hint="leave it out with --tables as before, or fill the target anew under another --name",
            )
        policy = self._policy_of(Action.DROP_TABLE, name)
        if policy is DdlPolicy.EVOLVE:
            self._emptied.add(name)
            self._standings.take_away(name)
        elif policy is not DdlPolicy.IGNORE:
            self._kept.add(name)

    def _skip(self, files: Iterable[SchemaFile], why: str) -> None:
        self._skipped |= {file.path: (file, why) for file in files}
