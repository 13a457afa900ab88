"""Which statements are still to execute, in upstream order, and which tables each of them touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from consumer.ddl.references import references
from consumer.ddl.renames import find_old_name, order_same_version
from consumer.errors import DdlRefused
from consumer.model.actions import (
    CREATE_ACTIONS,
    DATABASE_ACTIONS,
    DROP_ACTIONS,
    HEALING_ACTIONS,
    MULTI_FILE_ACTIONS,
    RENAME_ACTIONS,
    Action,
)
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlState, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ApplyDdl, ddl_id
from consumer.plan.catalog import Catalog

BEGINNING_ACTIONS = CREATE_ACTIONS | RENAME_ACTIONS | {Action.TRUNCATE_TABLE}

Live = dict[TableName, tuple[Column, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement to execute. `touches` are the tables that must be complete up to its version first, and the database
    itself where the statement is about one. `drops` are the names that are gone once it ran."""

    file: SchemaFile
    touches: tuple[TableName, ...]
    old_name: TableName | None
    columns_before: tuple[Column, ...] | None
    drops: tuple[TableName, ...] = ()

    @property
    def version(self) -> int:
        return self.file.version

    @property
    def action(self) -> Action:
        return action_of(self.file)

    @property
    def lacks_old_name(self) -> bool:
        """A rename whose source cannot be told from what is known."""
        return self.action in RENAME_ACTIONS and self.old_name is None

    @property
    def creates(self) -> TableName | None:
        """The name that this statement brings to life."""
        return self.file.name if self.action in CREATE_ACTIONS | RENAME_ACTIONS else None

    @property
    def heals(self) -> bool:
        return self.action in HEALING_ACTIONS

    @property
    def begins(self) -> TableName | None:
        """The table whose rows begin anew with it: what lies in older folders no longer matters."""
        return self.file.name if self.action in BEGINNING_ACTIONS else None

    def overtakes(self, other: Statement) -> bool:
        """Whether a stuck `other` no longer matters once this one has run: what it was about is gone then."""
        gone = self.heals and self.action != Action.TRUNCATE_TABLE
        return gone and other.version < self.version and set(self.touches).issuperset(other.touches)

    def empties_after(self, other: Statement) -> bool:
        """Whether no row below `other`, a statement about this table alone, matters any more once this one has run."""
        later = self.action == Action.TRUNCATE_TABLE and other.version < self.version
        return later and other.touches == (self.file.name,)

    def changes(self) -> tuple[TableName, ...]:
        """The tables that must have been there before it, as far as it tells: one that no statement created is older
        than the changefeed."""
        if self.action in RENAME_ACTIONS:
            return (self.old_name,) if self.old_name is not None else ()
        return () if self.action in CREATE_ACTIONS | DATABASE_ACTIONS else (self.file.name,)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables in `touches`."""
        return tuple(name for name in self.touches if name.table)

    def step(self, progress: Progress) -> ApplyDdl:
        """The statement as a step, with the progress that goes with its intent and with its fact.

        A table that is further already (another's statement is applied anew) stays where it is.
        """
        gone = {name: TableProgress(self.version, State.DROPPED) for name in self.drops}
        own = {} if self.action in DATABASE_ACTIONS or self.file.name in gone else {self.file.name: self._at()}
        return ApplyDdl(
            self.file,
            self.tables,
            before=ProgressChange(tables={name: self._at() for name in self.tables if self._moves(name, progress)}),
            after=ProgressChange(tables={**own, **gone}),
            old_name=self.old_name,
            columns_before=self.columns_before,
        )

    def _moves(self, name: TableName, progress: Progress) -> bool:
        return name == self.file.name or progress.table(name).applied_ts <= self.version

    def _at(self) -> TableProgress:
        return TableProgress(self.version)


@dataclass(frozen=True, slots=True)
class Timeline:
    """`pending` statements in upstream order; `live` are the tables that exist while none of them has run, `upstream`
    those that exist once all have; `overdue` are statements older than the progress that were never recorded."""

    pending: tuple[Statement, ...]
    live: Live
    upstream: Live
    overdue: tuple[SchemaFile, ...]


def lacks_old_name(statement: Statement) -> DdlRefused:
    """Why such a rename cannot be executed."""
    return DdlRefused(
        f"cannot tell which table was renamed to {statement.file.name}: {statement.file.query}",
        hint=f"rename it by hand, then: storage-consumer skip-ddl --table '{statement.file.name}'"
        f" --version {statement.version}",
        version=statement.version,
    )


def build_timeline(
    catalog: Catalog, progress: Progress, checkpoint: int, wanted: Callable[[TableName], bool]
) -> Timeline:
    """Walk the schema files in upstream order, keeping book of the tables that exist: upstream, where every statement
    ran, and in the target, where a stopped table's statements can be pending while later ones of others have run."""
    upstream: Live = {}
    live: Live = {}
    pending: list[Statement] = []
    held: set[TableName] = set()
    overdue: list[SchemaFile] = []
    for file in _upstream_order(catalog.files):
        if file.version > checkpoint:
            break
        if file.version == checkpoint and _needs_company(file, progress):
            continue
        statement = _statement(file, upstream, live, wanted) if file.query else None
        older = [name for name in statement.changes() if name not in upstream] if statement is not None else []
        _follow(upstream, file, statement)
        if statement is not None and any(map(wanted, (file.name, *statement.changes()))):
            if _is_pending(file, progress):
                pending.append(statement)
                held.update(statement.touches)
                live |= dict.fromkeys(older, file.columns)
                continue
            if ddl_id(file) not in progress.ddls:
                overdue.append(file)
        if statement is not None or file.name not in held:
            _follow(live, file, statement)
    return Timeline(tuple(pending), live, upstream, tuple(overdue))


def _upstream_order(files: Iterable[SchemaFile]) -> Iterable[SchemaFile]:
    for _, group in groupby(files, key=lambda file: file.version):
        same = list(group)
        if len(same) == 1:
            yield same[0]
            continue
        renames = [file for file in same if file.query and file.type in RENAME_ACTIONS]
        yield from (file for file in same if file not in renames)
        for cycle in order_same_version(renames):
            yield from cycle


def _needs_company(file: SchemaFile, progress: Progress) -> bool:
    """At C == V the other files of a version may not be written yet: its statement waits for C > V."""
    return bool(file.query) and file.type in MULTI_FILE_ACTIONS and ddl_id(file) not in progress.ddls


def _is_pending(file: SchemaFile, progress: Progress) -> bool:
    record = progress.ddls.get(ddl_id(file))
    if record is not None:
        return record.state is DdlState.INTENT
    return file.version >= progress.table(file.name).applied_ts


def _statement(file: SchemaFile, upstream: Live, live: Live, wanted: Callable[[TableName], bool]) -> Statement:
    """Tables that the filter leaves out are not waited for: nobody reads their rows."""
    action = action_of(file)
    old_name = find_old_name(file, upstream) if action in RENAME_ACTIONS else None
    drops: tuple[TableName, ...] = () if old_name is None else (old_name,)
    named: set[TableName] = set()
    if action == Action.DROP_SCHEMA:
        # What a stopped table's rename has not moved yet is still there, and goes too.
        drops = tuple(sorted(name for name in {*upstream, *live} if name.database == file.database))
        named = set(drops)
    elif action in DROP_ACTIONS:
        drops = (file.name,)
    elif action not in DATABASE_ACTIONS:
        named = {*_named(file, action, upstream), *drops}
    touches = tuple(sorted({file.name, *filter(wanted, named)}))
    return Statement(file, touches, old_name, upstream.get(old_name or file.name), drops)


def _named(file: SchemaFile, action: Action, live: Live) -> set[TableName]:
    """The live tables that the statement names. One without a database that its own does not have is found by its
    name: TiCDC leaves names as typed, and they may have been relative to another database."""
    found: set[TableName] = set()
    for reference in references(file.query, action):
        same = [name for name in live if name.table.lower() == reference.table.lower()]
        database = (reference.database or file.database).lower()
        own = [name for name in same if name.database.lower() == database]
        found.update(own or (same if reference.database is None and len(same) == 1 else ()))
    return found


def _follow(live: Live, file: SchemaFile, statement: Statement | None) -> None:
    if statement is not None:
        for name in statement.drops:
            live.pop(name, None)
        if statement.action in DROP_ACTIONS:
            return
    if file.table:
        live[file.name] = file.columns


def action_of(file: SchemaFile) -> Action:
    """The file's action type; NONE for a number that no TiCDC lets through."""
    try:
        return Action(file.type)
    except ValueError:
        return Action.NONE
