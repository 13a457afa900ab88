"""Which statements are still to execute, in upstream order, and which tables each of them touches."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from consumer.ddl.changes import changes_of
from consumer.ddl.renames import LiveTables
from consumer.history.history import History as UpstreamHistory
from consumer.history.target import is_left_undone, is_pending
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import DdlPolicy, PolicyOf, evolve
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import Progress, State
from consumer.model.steps import ddl_id
from consumer.plan.catalog import Catalog
from consumer.plan.foreign_keys import ForeignKeys
from consumer.plan.history import History, follow, needs_company, upstream_order
from consumer.plan.statement import FormerName, NotRead, Statement
from consumer.plan.table_book import TableBook

Live = Mapping[TableName, tuple[Column, ...]]


@dataclass(frozen=True, slots=True)
class Timeline:
    """`pending` statements in upstream order; `live` are the tables that exist while none of them has run, `upstream`
    those that exist once all have; `overdue` are statements older than the progress that were never recorded. `origins`
    are the tables that RENAMEs moved and LIKEs copied, by the paths of their schema files; `book` knows of all files,
    those above the checkpoint too."""

    pending: tuple[Statement, ...]
    live: Live
    upstream: Live
    overdue: tuple[SchemaFile, ...]
    origins: Mapping[str, TableName]
    book: TableBook
    history: UpstreamHistory


def build_timeline(
    catalog: Catalog,
    progress: Progress,
    checkpoint: int,
    wanted: Callable[[TableName], bool],
    policy_of: PolicyOf = evolve,
    settled: bool = False,
    naming: Naming = SAME,
) -> Timeline:
    """Walk the schema files in upstream order, keeping book of the tables that exist: upstream, where every statement
    ran, and in the target, where a stopped table's statements can be pending while later ones of others have run.

    Only pending statements are looked at for the tables that they touch: there are few of them, and thousands that ran.
    """
    history, agenda = History(progress), _Agenda(progress, wanted, policy_of, naming)
    later: list[SchemaFile] = []
    for file in upstream_order(catalog.files):
        if file.version > checkpoint or (file.version == checkpoint and not settled and needs_company(file, progress)):
            later.append(file)
        else:
            agenda.meet(file, history)
    upstream, origins = dict(history.tables.columns), dict(history.origins)
    for file in later:  # rows can lie in their folders already
        history.follow(file, history.statement(file, agenda.live))
    told = UpstreamHistory()
    for file in told.in_order(file for file in catalog.files if file.version <= checkpoint):
        if file.version < checkpoint or settled or not needs_company(file, progress):
            told.follow(file, told.look(file))
    told.reach_checkpoint()
    there = dict(_there(agenda.live, catalog, progress, checkpoint))
    return Timeline(tuple(agenda.pending), there, upstream, tuple(agenda.overdue), origins, history.book, told)


class _Agenda:
    """The history minus the progress: what is `pending`, and the tables that are `live` in the target meanwhile."""

    def __init__(
        self, progress: Progress, wanted: Callable[[TableName], bool], policy_of: PolicyOf, naming: Naming
    ) -> None:
        self.pending: list[Statement] = []
        self.overdue: list[SchemaFile] = []
        self.live = LiveTables()
        self._progress, self._wanted, self._policy_of, self._naming = progress, wanted, policy_of, naming
        self._named: defaultdict[TableName, list[int]] = defaultdict(list)  # pending ones, by what they name
        self._former: dict[TableName, tuple[int, tuple[FormerName, ...]]] = {}
        """By the name that a table has: from which pending statement on, and its names before that."""
        self._held: set[TableName] = set()
        self._keys = ForeignKeys()
        self._unmade: set[TableName] = set()
        """Tables that were left out when they were made, and that nobody makes now."""

    def meet(self, file: SchemaFile, history: History) -> None:
        """Take the next file in; `history` is as it was before, and goes on behind it."""
        statement = history.statement(file, self.live)
        if statement is None:
            self._meet_older([file.name] if file.table and file.name not in history.tables else [])
            history.follow(file, None)
            if file.name not in self._held | self._unmade:
                follow(self.live, file, None)
            return
        older = [name for name in statement.changes() if name not in history.tables]
        self._meet_older(older)
        moved = history.moved(statement)
        is_wanted = any(map(self._wanted, (file.name, *statement.changes(), *moved)))
        if is_wanted and is_pending(file, self._progress):
            statement = self._prepared(statement, moved, history)
        made = [name for name in statement.drops if name in history.tables and name not in self._unmade]
        history.follow(file, statement)
        self._keys.follow(statement, pending=is_wanted and bool(statement.touches))
        self._unmade -= {statement.creates, *statement.drops}
        if is_wanted and statement.touches:
            self._add(statement)
            for name in older:
                self.live.put(name, file.columns)
        else:
            self._pass(statement, made, is_wanted)

    def _meet_older(self, names: Sequence[TableName]) -> None:
        """They were there all along: statements from before their first schema file can name them too."""
        for name in filter(self._wanted, names):
            for number in self._named.get(name.folded, ()):
                self.pending[number] = _touching(self.pending[number], {name})

    def _prepared(self, statement: Statement, moved: Sequence[TableName], history: History) -> Statement:
        """A pending statement with all that is known of it before it runs."""
        lost = self._not_read(statement, moved, history)
        statement = replace(statement, not_read=lost, naming=self._naming, shapes=history.book.shapes)
        statement = _with_policy(history.touching(statement, self._wanted), self._policy_of)
        if lost is not None:
            # It will not run: the table that nobody reads must not pass for one that was read up to it.
            read = (name for name in statement.touches if self._wanted(name) and name != lost.name)
            statement = replace(statement, touches=tuple(read))
        statement = history.book.about(history.recovering(statement, self._wanted))
        behind = {name for name in self._keys.behind(statement) if self._wanted(name)} - {*statement.touches}
        return _touching(replace(statement, behind=tuple(sorted(behind))), behind)

    def _not_read(self, statement: Statement, moved: Sequence[TableName], history: History) -> NotRead | None:
        """A table that the statement moves, or copies, as it was then, and that the target does not have so."""
        for name in moved:
            if not self._wanted(name) or name in self._unmade:
                return NotRead(name, never_made=self._wanted(name))
        if not (starts := self._progress.starts):
            return None
        copied = history.origin(statement)
        names = (*moved, *([copied] if copied is not None else []))
        later = (NotRead(name, begins_at=starts[name]) for name in names if starts.get(name, -1) >= statement.version)
        return next(later, None)

    def _add(self, statement: Statement) -> None:
        statement = self._formerly(statement)
        for reference in changes_of(statement.file).names:
            named = reference.within(statement.file.database)
            self._named[named.folded].append(len(self.pending))
        self.pending.append(statement)
        self._held.update(statement.touches)

    def _pass(self, statement: Statement, made: Sequence[TableName], is_wanted: bool) -> None:
        """A statement that is not to be executed: it was, or it will not be. `made` are the tables that it drops
        upstream and that were made here."""
        file, progress = statement.file, self._progress
        if is_wanted and ddl_id(file) not in progress.ddls and file.version > progress.start_of(file.name):
            self.overdue.append(file)
            self._unmade |= {file.name} if statement.creates is not None else set()
        if is_left_undone(file, progress):
            self._unmade |= {file.name} if statement.creates is not None else set()
            for name in made:
                self.live.remove(name)
        else:
            follow(self.live, file, statement)

    def _formerly(self, statement: Statement) -> Statement:
        """The statement with the names that its table had before pending RENAMEs."""
        name, old, former = statement.file.name, statement.old_name, self._former
        since, known = former.pop(name, (0, ()))
        if statement.action in RENAME_ACTIONS and old is not None and statement.not_read is None:
            since, known = former.pop(old, (0, ()))
            former[name] = statement.version, (FormerName(old, since, statement.version), *known)
        elif statement.action == Action.DROP_TABLE:
            return replace(statement, former=known)
        else:
            former[name] = (since, known) if statement.creates is None else (statement.version, ())
        return statement


def _there(
    live: LiveTables, catalog: Catalog, progress: Progress, checkpoint: int
) -> Iterator[tuple[TableName, tuple[Column, ...]]]:
    """The tables of `live` with their columns. Where the checkpoint went back since, the target is further: a table has
    ended, or its name has the table or view that statements above the checkpoint made."""
    for name, columns in live.columns.items():
        place = progress.table(name)
        if place.applied_ts <= checkpoint:
            yield name, columns
        elif place.state is not State.DROPPED:
            files = catalog.by_table.get(name, ())
            last = bisect_right(files, place.applied_ts, key=lambda file: file.version)
            yield name, files[last - 1].columns if last else columns


def _touching(statement: Statement, tables: Iterable[TableName]) -> Statement:
    """The statement with `tables` among those that it touches."""
    return replace(statement, touches=tuple(sorted({*statement.touches, *tables})))


def _with_policy(statement: Statement, policy_of: PolicyOf) -> Statement:
    policy = policy_of(statement.action, statement.file.name, statement.file.query)
    if policy is DdlPolicy.EVOLVE and statement.action is Action.DROP_SCHEMA:
        # What is no mirror is kept, as by a DROP TABLE.
        policy = DdlPolicy.RENAME if any(map(statement.naming.keeps_ended, statement.drops)) else policy
    return replace(statement, policy=policy, trash=statement.kept_as() if policy is DdlPolicy.RENAME else None)
