"""Decides which statements are still to be executed, in upstream order, and which tables each of them touches."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from consumer.ddl.changes import Fate, recovered_table, statement_changes
from consumer.history.history import Event, History
from consumer.history.incarnations import Incarnation, makes_temporary
from consumer.history.target_tables import is_left_undone, is_pending, needs_other_files
from consumer.layout.schema_file import is_view
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import DdlPolicy, PolicyOf, evolve, trash_name
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import DdlState, Progress, State
from consumer.model.steps import ddl_id
from consumer.plan.catalog import Catalog
from consumer.plan.foreign_keys import ForeignKeys
from consumer.plan.statement import FormerName, Statement, UnreadTable


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is still to be done, and the history from which it follows."""

    pending: tuple[Statement, ...]
    """The pending statements, in upstream order."""
    live: Mapping[TableName, tuple[Column, ...]]
    """The tables that exist in the target before any of the pending statements has run."""
    overdue: tuple[SchemaFile, ...]
    """Statements older than the progress that were never recorded."""
    history: History


def build_timeline(
    catalog: Catalog,
    progress: Progress,
    checkpoint: int,
    wanted: Callable[[TableName], bool],
    policy_of: PolicyOf = evolve,
    settled: bool = False,
    naming: Naming = SAME,
) -> Timeline:
    """Walks the schema files in upstream order and collects the pending statements. A stopped table can have pending
    ones while later ones of other tables have run.

    Only for pending statements the touched tables are determined: there are few of them, and thousands that ran.
    """
    history = History()
    agenda = _Agenda(history, progress, wanted, policy_of, naming)
    due = bisect_right(catalog.files, checkpoint, key=lambda file: file.version)
    early: list[SchemaFile] = []
    for file in history.in_order(catalog.files[:due]):
        if file.version == checkpoint and not settled and needs_other_files(file, progress):
            early.append(file)
        else:
            agenda.process(file)
    history.reach_checkpoint()
    for file in chain(early, history.in_order(catalog.files[due:])):
        history.follow(file, history.look(file), _fate(file, progress))
    live = dict(_live_tables(agenda.live, catalog, progress, checkpoint))
    return Timeline(tuple(agenda.pending), live, tuple(agenda.overdue), history)


class _Agenda:
    """Subtracts the progress from the history: what is `pending`, and the tables that are `live` in the target
    meanwhile."""

    def __init__(
        self,
        history: History,
        progress: Progress,
        wanted: Callable[[TableName], bool],
        policy_of: PolicyOf,
        naming: Naming,
    ) -> None:
        self.pending: list[Statement] = []
        self.overdue: list[SchemaFile] = []
        self.live: dict[TableName, tuple[Column, ...]] = {}
        self._history = history
        self._progress, self._wanted, self._policy_of, self._naming = progress, wanted, policy_of, naming
        self._numbers: dict[str, int] = {}
        """The indexes of pending statements in `pending`, by path."""
        self._named: defaultdict[TableName, list[int]] = defaultdict(list)
        """The indexes of pending statements, by the tables that they name."""
        self._held: set[TableName] = set()
        self._keys = ForeignKeys()
        self._unmade: set[TableName] = set()
        """Tables that were excluded when they were created, and that nothing creates now."""

    def process(self, file: SchemaFile) -> None:
        """Processes the next file. The history is as it was before the file, and is after it when this returns."""
        event, tables = self._history.look(file), self._history.tables
        if event is None:
            self._meet_older([file.name] if file.table and file.name not in tables else [])
            self._history.follow(file, None)
            if file.table and file.name not in self._held and file.name not in self._unmade:
                self.live[file.name] = file.columns
            return
        statement = Statement(file, (), event.old_name, self._drops(event))
        older = [name for name in statement.changes() if name not in tables]
        self._meet_older(older)
        moved = self._moved(event)
        is_wanted = any(map(self._wanted, (file.name, *statement.changes(), *moved)))
        if is_wanted and is_pending(file, self._progress):
            statement = self._pending(event, statement.drops, moved)
        made = [name for name in statement.drops if name in tables and name not in self._unmade]
        self._history.follow(file, event, _fate(file, self._progress, statement.policy))
        self._keys.follow(statement, pending=is_wanted and bool(statement.touches))
        self._unmade -= {statement.creates, *statement.drops}
        if is_wanted and statement.touches:
            self._add(statement)
            for name in older:
                self.live[name] = file.columns
        else:
            self._pass(statement, made, is_wanted)

    def _meet_older(self, names: Sequence[TableName]) -> None:
        """The tables `names` existed all along: statements from before their first schema file can name them too."""
        for name in filter(self._wanted, names):
            for number in self._named.get(name.folded, ()):
                self.pending[number] = _touching(self.pending[number], {name})

    def _drops(self, event: Event) -> tuple[TableName, ...]:
        """Returns the names that no longer exist after the statement: upstream, and for a database in the target
        too."""
        if event.action is not Action.DROP_SCHEMA:
            return event.drops
        # A table that a stopped table's rename has not moved yet still exists, and is dropped too.
        live_in_database = (name for name in self.live if name.database == event.file.database)
        return tuple(sorted({*event.drops, *live_in_database}))

    def _moved(self, event: Event) -> tuple[TableName, ...]:
        """Returns the tables whose rows must be complete before the statement moves them into another table."""
        if event.action is Action.EXCHANGE_PARTITION:
            return tuple(sorted({event.file.name, *self._history.named(event.file)}))
        return () if event.old_name is None else (event.old_name,)

    def _pending(self, event: Event, drops: tuple[TableName, ...], moved: Sequence[TableName]) -> Statement:
        """Returns the pending statement, with all that is known before it runs."""
        file, action = event.file, event.action
        touches, lost, trash = self._touched(event, drops), self._not_read(event, moved), None
        table, before_statement = self._history.tables.get(event.old_name or file.name), self._history.before(event)
        shows = is_view(file.columns) or (table is not None and table.is_view)
        before_statement = replace(
            before_statement, is_view=action is Action.CREATE_VIEW or (action in RENAME_ACTIONS and shows)
        )
        made = action in CREATE_ACTIONS
        temporary = makes_temporary(file) if made else table is not None and table.is_temporary
        policy = DdlPolicy.IGNORE if temporary else self._policy_of(action, file.name, file.query)
        if policy is DdlPolicy.EVOLVE and action is Action.DROP_SCHEMA and any(map(self._naming.keeps_ended, drops)):
            policy = DdlPolicy.RENAME  # tables that are no mirrors are kept, as by a DROP TABLE
        if policy is DdlPolicy.RENAME:
            trash = trash_name(file.version, self._naming.target(file.name))
        if lost is not None:
            # The statement will not run: the table that nobody reads must not count as read up to it.
            touches = {name for name in touches if self._wanted(name) and name != lost.name}
        if (end := self._lost_by(event)) is not None:
            touches |= set(filter(self._wanted, [end.name]))
            trash = trash_name(end.version, self._naming.target(end.name))
        statement = Statement(
            file,
            tuple(sorted(touches)),
            event.old_name,
            drops,
            before_statement,
            policy,
            trash,
            lost,
            temporary=temporary,
            session=self._history.session(file),
            naming=self._naming,
            shapes=self._history.shapes,
        )
        behind = {name for name in self._keys.preceding_tables(statement) if self._wanted(name)} - touches
        return _touching(replace(statement, follows=tuple(sorted(behind))), behind) if behind else statement

    def _touched(self, event: Event, drops: Iterable[TableName]) -> set[TableName]:
        """Returns the tables that the statement touches. Excluded tables are not waited for: nobody reads their
        rows."""
        named: set[TableName] = set()
        if event.action == Action.DROP_SCHEMA:
            named = {*drops}
        elif event.action not in DATABASE_ACTIONS | DROP_ACTIONS:
            named = {*self._history.named(event.file), *drops}
        return {event.file.name, *filter(self._wanted, named)}

    def _lost_by(self, event: Event) -> SchemaFile | None:
        """Returns the statement that a RECOVER TABLE undoes: the last one that removed the table."""
        lost = recovered_table(event.file) if event.action is Action.RECOVER_TABLE else None
        return None if lost is None else self._history.end_of(lost)

    def _not_read(self, event: Event, moved: Sequence[TableName]) -> UnreadTable | None:
        """Returns a table that the statement moves or copies as it was then, and that the target does not have in that
        state."""
        for name in moved:
            if not self._wanted(name) or name in self._unmade:
                return UnreadTable(name, never_made=self._wanted(name))
        if not (starts := self._progress.starts):
            return None
        names = (*moved, *([event.copied] if event.copied is not None else []))
        later = (
            UnreadTable(name, begins_at=starts[name]) for name in names if starts.get(name, -1) >= event.file.version
        )
        return next(later, None)

    def _add(self, statement: Statement) -> None:
        if statement.action is Action.DROP_TABLE:
            statement = replace(statement, former=self._former(self._history.table_of(statement.file)))
        number = len(self.pending)
        for reference in statement_changes(statement.file).names:
            named = reference.within(statement.file.database)
            self._named[named.folded].append(number)
        self._numbers[statement.file.path] = number
        self.pending.append(statement)
        self._held.update(statement.touches)

    def _pass(self, statement: Statement, made: Sequence[TableName], is_wanted: bool) -> None:
        """Handles a statement that is not executed now: it was executed, or never will be. `made` are the tables that
        it drops upstream and that were created in the target."""
        file, progress = statement.file, self._progress
        if is_wanted and ddl_id(file) not in progress.ddls and file.version > progress.start_of(file.name):
            self.overdue.append(file)
            self._unmade |= {file.name} if statement.creates is not None else set()
        if is_left_undone(file, progress):
            self._unmade |= {file.name} if statement.creates is not None else set()
            for name in made:
                self.live.pop(name, None)
            return
        for name in statement.drops:
            if name not in self._history.tables:
                self.live.pop(name, None)
        if file.table and statement.action not in DROP_ACTIONS:
            self.live[file.name] = file.columns

    def _former(self, table: Incarnation | None) -> tuple[FormerName, ...]:
        """Returns the names that the table had before pending RENAMEs, the last one first."""
        renames: list[Statement] = []
        since = 0
        for file in reversed(table.statements if table is not None else []):
            statement = self.pending[self._numbers[file.path]] if file.path in self._numbers else None
            if statement is None and file.action in CREATE_ACTIONS | RENAME_ACTIONS:
                break
            if statement is None or statement.creates is None:
                continue
            if statement.action in RENAME_ACTIONS and statement.old_name is not None and statement.not_read is None:
                renames.append(statement)
                continue
            since = statement.version
            break
        begins = [*(rename.version for rename in renames[1:]), since]
        return tuple(
            FormerName(rename.old_name, begin, rename.version)
            for rename, begin in zip(renames, begins, strict=False)
            if rename.old_name is not None
        )


class LaterName(NamedTuple):
    """A name that a RENAME of `version` gives to a table."""

    name: TableName
    version: int


class LaterNames:
    """The names that tables will have once the `pending` RENAMEs have run, in their order."""

    def __init__(self, history: History, pending: Sequence[Statement]) -> None:
        self._history = history
        self._renames = {(s.file.name, s.version) for s in pending if s.action in RENAME_ACTIONS and s.old_name}
        self.now: dict[TableName, tuple[LaterName, ...]] = {}
        """The later names of tables that exist before the RENAMEs, by their present names."""
        made: set[int] = set()
        for statement in pending:
            table = history.table_of(statement.file) if statement.creates is not None else None
            if (
                table is not None
                and id(table) not in made
                and (statement.file.name, statement.version) in self._renames
            ):
                self.now[statement.old_name or statement.file.name] = self._of(table, table.name_index(statement.file))
            made.add(id(table))

    def after(self, statement: Statement) -> Mapping[TableName, Sequence[LaterName]]:
        """Returns the later names of the tables that a pending `statement` touches, by their names after it."""
        file, later_names = statement.file, {}
        for name in {file.name, *statement.touches}:
            by_statement = name == file.name and statement.creates is not None
            table = self._history.table_of(file) if by_statement else self._history.at(name, file.version)
            if table is None:
                continue
            first = table.name_index(file) + 1 if by_statement else bisect_right(table.since, file.version)
            if (
                by_statement or table.since[first - 1] < file.version
            ):  # otherwise the table gets that name in the same statement, later
                later_names[name] = self._of(table, first)
        return {name: names for name, names in later_names.items() if names}

    def _of(self, table: Incarnation, first: int) -> tuple[LaterName, ...]:
        """Returns those of the table's later names that start at the index `first`."""
        names = zip(table.names[first:], table.since[first:], strict=True)
        return tuple(LaterName(*pair) for pair in names if pair in self._renames)


def _live_tables(
    live: Mapping[TableName, tuple[Column, ...]], catalog: Catalog, progress: Progress, checkpoint: int
) -> Iterator[tuple[TableName, tuple[Column, ...]]]:
    """Yields the tables of `live` with their columns. If the checkpoint went back, the target is further: a table has
    ended, or its name has the table or view that statements above the checkpoint created."""
    for name, columns in live.items():
        place = progress.table(name)
        if place.applied_ts <= checkpoint:
            yield name, columns
        elif place.state is not State.DROPPED:
            files = catalog.by_table.get(name, ())
            last = bisect_right(files, place.applied_ts, key=lambda file: file.version)
            yield name, files[last - 1].columns if last else columns


def _touching(statement: Statement, tables: Iterable[TableName]) -> Statement:
    """Returns the statement with `tables` among those that it touches."""
    return replace(statement, touches=tuple(sorted({*statement.touches, *tables})))


def _fate(file: SchemaFile, progress: Progress, policy: DdlPolicy = DdlPolicy.EVOLVE) -> Fate:
    """Returns what became of the statement in the target, or becomes of it by its policy."""
    statement = ddl_id(file)
    record, given = progress.ddls.get(statement), progress.was_preloaded(statement)
    skipped = record is not None and record.state is DdlState.SKIPPED
    return Fate((skipped and not given) or policy is DdlPolicy.IGNORE, given)
