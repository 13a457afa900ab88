"""Includes tables that the table rules select from now on: decides where they begin, and which of their statements no
longer matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from consumer.errors import BadConfig
from consumer.history.incarnations import Incarnation
from consumer.history.target_tables import TargetTables, is_left_undone, is_settled, was_executed
from consumer.model.actions import CREATE_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.ddl_policy import DdlPolicy, PolicyOf
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import LEFT_UNDONE, DdlKind, DdlRecord, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.late import LEFT_OVER, is_kept_by_policy, kept_by_policy_error
from consumer.plan.routing import SharedNames


def include_tables(
    assembly: Assembly, progress: Progress, policy_of: PolicyOf, naming: Naming = SAME
) -> ProgressChange | None:
    """Returns what to record before a round in which excluded names become included; None if there are none.

    1. A table that still exists upstream begins where the first of its statements that has not run gave it a name.
    2. Statements about tables that have ended are not executed: some of what they need may have run, under other rules.
    3. What the target still has of such a table follows upstream's statements, or is dropped if its end was skipped.
       The table stops if `policy_of` does not let DROP TABLE run, and stays if that is ignored.
    """
    excluded = {n: p for n, p in progress.tables.items() if p.state is State.EXCLUDED or is_kept_by_policy(p)}
    included = {name: place for name, place in excluded.items() if assembly.wanted(name)}
    if not included:
        return None
    inclusion = _Inclusion(assembly, progress, policy_of, SharedNames(naming, assembly, progress))
    for database in [name for name in included if not name.table]:
        inclusion.pass_over_databases(database)
    inclusion.look_at_tables({name for name in included if name.table})
    return inclusion.change(included)


class _Inclusion:
    def __init__(self, assembly: Assembly, progress: Progress, policy_of: PolicyOf, shared: SharedNames) -> None:
        self._assembly, self._progress, self._policy_of, self._shared = assembly, progress, policy_of, shared
        self._target = TargetTables(assembly.history, lambda file: was_executed(file, progress))
        self._pending = {s.file.path for s in assembly.timeline.pending if s.not_read is None}
        self._begins: defaultdict[TableName, list[int]] = defaultdict(list)
        self._skipped: dict[str, tuple[SchemaFile, DdlKind]] = {}
        self._emptied: set[TableName] = set()
        self._kept: set[TableName] = set()
        self._lost: set[int] = set()

    def pass_over_databases(self, database: TableName) -> None:
        """Skips a DROP DATABASE that has not run, if the target got a table of that database after it: the tables that
        it would have dropped are dropped one by one."""
        tables = [
            target_table for name, target_table in self._target.tables.items() if name.database == database.database
        ]
        newest = max((target_table.since for target_table in tables), default=0)
        files = self._assembly.catalog.by_table.get(database, ())
        last = max((f.version for f in files if f.action == Action.DROP_SCHEMA and f.version < newest), default=0)
        due = [file for file in files if file.version <= last and not is_settled(file, self._progress)]
        if due:
            self._skip(due, DdlKind.PASSED_OVER)
            self._lost |= {id(target_table.table) for target_table in tables}

    def look_at_tables(self, included: set[TableName]) -> None:
        """Handles the tables that have had a name of `included`, and those of databases that were skipped."""
        history = self._assembly.history
        tables = [t for t in history.incarnations if id(t) in self._lost or not included.isdisjoint(t.names)]
        alive = [table for table in tables if history.alive.get(table.name) is table]
        needed = {file.name: file.version for table in alive for file in reversed(self._todo(table))}
        for table in tables:
            if table.end is not None and not self._goes_as_upstream(table, needed):
                self._pass_over(table)
        for table in alive:
            self._follow(table)

    def change(self, included: dict[TableName, TableProgress]) -> ProgressChange:
        places = {name: self._progress.table(name).applied_ts for name in {*included, *self._emptied, *self._kept}}
        starts = {n: max(place, min(self._begins[n], default=0) - 1) for n, place in places.items()}
        tables = {name: TableProgress(starts[name]) for name in included}
        tables |= {name: TableProgress(starts[name], State.EMPTYING, LEFT_OVER) for name in self._emptied}
        for name in self._kept:
            tables[name] = TableProgress.stopped(starts[name], kept_by_policy_error(name))
        skipped = (DdlRecord.skipped(ddl_id(f), kind, LEFT_UNDONE[kind]) for f, kind in self._skipped.values())
        return ProgressChange(tables=tables, ddls=tuple(skipped), moved_lacks=dict.fromkeys(self._emptied, ()))

    def _todo(self, table: Incarnation) -> list[SchemaFile]:
        """Returns the table's statements that have not run, in order, its own DROP TABLE among them."""
        statements = [*table.statements, *([table.end] if table.end is not None and table.end.table else [])]
        return [file for file in statements if not is_settled(file, self._progress)]

    def _goes_as_upstream(self, table: Incarnation, needed: Mapping[TableName, int]) -> bool:
        """Returns whether the target has the table, and everything up to its end is to be executed. That is not so if a
        living table had its name before it: `needed` are the first versions of these."""
        name, todo = self._target.name(table), self._todo(table)
        if name is None or table.end is None or table.end.path in self._skipped:
            return False
        if any(is_left_undone(file, self._progress) for file in table.statements):
            return False
        if needed.get(name, MAX_TSO) <= self._target.tables[name].since:
            return False
        if not {table.end.path, *(file.path for file in todo)} <= self._pending or self._blocked_count(table, todo):
            return False
        self._begin(name, todo)
        return True

    def _pass_over(self, table: Incarnation) -> None:
        self._skip(self._todo(table), DdlKind.PASSED_OVER)
        self._empty(table)

    def _follow(self, table: Incarnation) -> None:
        name, todo = self._target.name(table), self._todo(table)
        blocked = self._blocked_count(table, todo)
        done = [file for file in table.statements if was_executed(file, self._progress)]
        if blocked or (done and name is None):
            # The table that the next RENAME moves does not exist, or was dropped with its database: the RENAME would be
            # refused.
            self._skip([*done, *todo[:blocked]], DdlKind.NOT_MADE)
            self._empty(table)
            name, todo = None, todo[blocked:]
        self._begin(name, todo)

    def _blocked_count(self, table: Incarnation, todo: list[SchemaFile]) -> int:
        """Returns how many of `todo` cannot be executed, because the target already has another table of a name that
        they give."""
        last = 0
        for number, file in enumerate(todo):
            other = self._target.tables.get(file.name)
            gives = file.action in CREATE_ACTIONS | RENAME_ACTIONS
            if gives and other is not None and other.table is not table and other.since >= file.version:
                last = number + 1
        while last and last < len(todo) and todo[last].action not in RENAME_ACTIONS:
            last += 1
        return last

    def _begin(self, name: TableName | None, todo: Iterable[SchemaFile]) -> None:
        if name is not None:
            self._begins[name].append(self._target.tables[name].since + 1)
        for file in todo:
            self._begins[file.name].append(file.version)

    def _empty(self, table: Incarnation) -> None:
        """Drops what the target has of the table, unless another table has its name there."""
        name = self._target.name(table)
        if name is None or not self._target.tables[name].sure or not self._assembly.wanted(name):
            return
        if self._shared.error(name) is not None:
            return
        if self._assembly.naming.merges(name):
            raise BadConfig(
                f"{name} was left out when upstream took it away, and its rows are in a table of the target with those"
                " of others",
                hint="leave it out with --tables as before, or fill the target again under another --name",
            )
        policy = self._policy_of(Action.DROP_TABLE, name)
        if policy is DdlPolicy.EVOLVE:
            self._emptied.add(name)
            self._target.remove(name)
        elif policy is not DdlPolicy.IGNORE:
            self._kept.add(name)

    def _skip(self, files: Iterable[SchemaFile], kind: DdlKind) -> None:
        self._skipped |= {file.path: (file, kind) for file in files}
