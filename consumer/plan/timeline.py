"""Which statements are still to execute, in upstream order, and which tables each of them touches."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from consumer.ddl.live_tables import LiveTables
from consumer.ddl.recover import recovered_table
from consumer.ddl.references import TableReference, like_source, references
from consumer.ddl.renames import find_old_name, order_same_version
from consumer.model.actions import (
    CREATE_ACTIONS,
    DATABASE_ACTIONS,
    DROP_ACTIONS,
    MULTI_FILE_ACTIONS,
    RENAME_ACTIONS,
    Action,
)
from consumer.model.columns import Column
from consumer.model.ddl_policy import DdlPolicy, PolicyOf, evolve, trash_name
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlState, Progress, State
from consumer.model.steps import ddl_id
from consumer.plan.catalog import Catalog
from consumer.plan.foreign_keys import ForeignKeys
from consumer.plan.standing import is_left_undone
from consumer.plan.statement import Statement, action_of
from consumer.plan.table_book import TableBook, fate_of

_ENDS = frozenset({Action.DROP_TABLE, Action.TRUNCATE_TABLE})
"""What FLASHBACK TABLE brings a table back from."""

Live = Mapping[TableName, tuple[Column, ...]]


@dataclass(frozen=True, slots=True)
class Timeline:
    """`pending` statements in upstream order; `live` are the tables that exist while none of them has run, `upstream`
    those that exist once all have; `overdue` are statements older than the progress that were never recorded. `origins`
    are the tables that RENAMEs moved and LIKEs copied, by the paths of their schema files."""

    pending: tuple[Statement, ...]
    live: Live
    upstream: Live
    overdue: tuple[SchemaFile, ...]
    origins: Mapping[str, TableName] = field(default_factory=dict)


def build_timeline(
    catalog: Catalog,
    progress: Progress,
    checkpoint: int,
    wanted: Callable[[TableName], bool],
    policy_of: PolicyOf = evolve,
    settled: bool = False,
) -> Timeline:
    """Walk the schema files in upstream order, keeping book of the tables that exist: upstream, where every statement
    ran, and in the target, where a stopped table's statements can be pending while later ones of others have run.

    Only pending statements are looked at for the tables that they touch: there are few of them, and thousands that ran.
    """
    upstream, live = LiveTables(), LiveTables()
    ends: dict[tuple[str, str], SchemaFile] = {}
    book, keys = TableBook(), ForeignKeys()
    pending: list[Statement] = []
    named = _NamedBy()
    held: set[TableName] = set()
    overdue: list[SchemaFile] = []
    origins: dict[str, TableName] = {}
    former: dict[TableName, tuple[tuple[TableName, int], ...]] = {}
    unmade: set[TableName] = set()  # of tables that were left out when they were made, and that nobody makes now
    for file in upstream_order(catalog.files):
        if file.version > checkpoint:
            break
        if file.version == checkpoint and not settled and needs_company(file, progress):
            continue
        statement = _statement(file, upstream, live) if file.query else None
        known = statement.changes() if statement is not None else (file.name,) if file.table else ()
        older = [name for name in known if name not in upstream]
        for name in filter(wanted, older):
            # They were there all along: statements from before their first schema file can name them too.
            for number in named.numbers(name):
                pending[number] = _touching(pending[number], {name})
        moved = _moved(statement, upstream) if statement is not None else ()
        is_wanted = statement is not None and any(map(wanted, (file.name, *statement.changes(), *moved)))
        if statement is not None and is_wanted and _is_pending(file, progress):
            lost = next((name for name in moved if not wanted(name) or name in unmade), None)
            statement = replace(statement, left_out=lost, never_made=lost is not None and wanted(lost))
            statement = _with_policy(replace(statement, touches=_touches(statement, upstream, wanted)), policy_of)
            if statement.left_out is not None:
                # It will not run: the table that nobody reads must not pass for one that was read up to it.
                read = (name for name in statement.touches if wanted(name) and name != lost)
                statement = replace(statement, touches=tuple(read))
            if statement.action is Action.RECOVER_TABLE:
                statement = _recovering(statement, ends, wanted)
            statement = _touching(book.about(statement), filter(wanted, keys.behind(statement)))
        if statement is not None and (source := _origin(statement, upstream)) is not None:
            origins[file.path] = source
        made = [name for name in statement.drops if name in upstream and name not in unmade] if statement else []
        _follow(upstream, file, statement)
        if statement is not None:
            unmade -= {statement.creates, *statement.drops}
            book.follow(statement, fate_of(statement, progress))
            keys.follow(statement, pending=is_wanted and bool(statement.touches))
        if statement is not None and statement.action in _ENDS:
            ends[_folded(file.name)] = file
        if statement is not None and is_wanted:
            if statement.touches:
                statement = _formerly(statement, former)
                named.add(len(pending), statement)
                pending.append(statement)
                held.update(statement.touches)
                for name in older:
                    live.put(name, file.columns)
                continue
            if ddl_id(file) not in progress.ddls and file.version > progress.start_ts:
                overdue.append(file)
                unmade |= {file.name} if statement.creates is not None else set()
        if statement is not None and is_left_undone(file, progress):
            unmade |= {file.name} if statement.creates is not None else set()
            for name in made:
                live.remove(name)
        elif statement is not None or file.name not in held | unmade:
            _follow(live, file, statement)
    there = dict(_there(live, catalog, progress, checkpoint))
    return Timeline(tuple(pending), there, upstream.columns, tuple(overdue), origins)


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


def _formerly(statement: Statement, former: dict[TableName, tuple[tuple[TableName, int], ...]]) -> Statement:
    """The statement with the names that its table had before pending RENAMEs; `former` is the book of these."""
    known = former.pop(statement.file.name, ())
    if statement.action in RENAME_ACTIONS and statement.old_name is not None and statement.left_out is None:
        before = former.pop(statement.old_name, ())
        former[statement.file.name] = ((statement.old_name, statement.version), *before)
    elif statement.action == Action.DROP_TABLE:
        return replace(statement, former=known)
    elif statement.creates is None:
        former[statement.file.name] = known
    return statement


def upstream_order(files: Iterable[SchemaFile]) -> Iterable[SchemaFile]:
    """`files`, which are sorted by version, with the renames of one version in the order in which they ran."""
    for _, group in groupby(files, key=lambda file: file.version):
        same = list(group)
        if len(same) == 1:
            yield same[0]
            continue
        renames = [file for file in same if file.query and file.type in RENAME_ACTIONS]
        yield from (file for file in same if file not in renames)
        for cycle in order_same_version(renames):
            yield from cycle


def needs_company(file: SchemaFile, progress: Progress) -> bool:
    """At C == V the other files of a version may not be written yet: its statement waits for C > V."""
    return bool(file.query) and file.type in MULTI_FILE_ACTIONS and ddl_id(file) not in progress.ddls


def _is_pending(file: SchemaFile, progress: Progress) -> bool:
    record = progress.ddls.get(ddl_id(file))
    if record is not None:
        return record.state in (DdlState.INTENT, DdlState.REFUSED)
    applied_ts = progress.table(file.name).applied_ts
    return file.version > applied_ts or file.version == applied_ts != progress.start_ts


def _statement(file: SchemaFile, upstream: LiveTables, live: LiveTables) -> Statement:
    """The statement without the tables that it touches."""
    action = action_of(file)
    old_name = find_old_name(file, upstream) if action in RENAME_ACTIONS else None
    drops: tuple[TableName, ...] = () if old_name is None else (old_name,)
    if action == Action.DROP_SCHEMA:
        # What a stopped table's rename has not moved yet is still there, and goes too.
        drops = tuple(sorted(name for name in {*upstream, *live} if name.database == file.database))
    elif action in DROP_ACTIONS:
        drops = (file.name,)
    return Statement(file, (), old_name, upstream.columns.get(old_name or file.name), drops)


def _touches(statement: Statement, upstream: LiveTables, wanted: Callable[[TableName], bool]) -> tuple[TableName, ...]:
    """Tables that the filter leaves out are not waited for: nobody reads their rows."""
    named: set[TableName] = set()
    if statement.action == Action.DROP_SCHEMA:
        named = set(statement.drops)
    elif statement.action not in DATABASE_ACTIONS | DROP_ACTIONS:
        named = {*_named(statement.file, statement.action, upstream), *statement.drops}
    return tuple(sorted({statement.file.name, *filter(wanted, named)}))


def _moved(statement: Statement, upstream: LiveTables) -> tuple[TableName, ...]:
    """The tables whose rows have to be complete for what the statement moves into another table."""
    if statement.action is Action.EXCHANGE_PARTITION:
        return tuple(sorted({statement.file.name, *_named(statement.file, statement.action, upstream)}))
    return () if statement.old_name is None else (statement.old_name,)


class _NamedBy:
    """The pending statements by the tables that their texts name."""

    def __init__(self) -> None:
        self._numbers: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def add(self, number: int, statement: Statement) -> None:
        for reference in references(statement.file.query, statement.action):
            database = (reference.database or statement.file.database).lower()
            self._numbers[database, reference.table.lower()].append(number)

    def numbers(self, name: TableName) -> Sequence[int]:
        return self._numbers.get(_folded(name), ())


def _touching(statement: Statement, tables: Iterable[TableName]) -> Statement:
    """The statement with `tables` among those that it touches."""
    return replace(statement, touches=tuple(sorted({*statement.touches, *tables})))


def _with_policy(statement: Statement, policy_of: PolicyOf) -> Statement:
    policy = policy_of(statement.action, statement.file.name)
    trash = trash_name(statement.version, statement.file.name) if policy is DdlPolicy.RENAME else None
    return replace(statement, policy=policy, trash=trash)


def _recovering(
    statement: Statement, ends: Mapping[tuple[str, str], SchemaFile], wanted: Callable[[TableName], bool]
) -> Statement:
    """RECOVER TABLE comes behind the statement that took the table away: the last such of `ends`."""
    lost = recovered_table(statement.file)
    end = None if lost is None else ends.get(_folded(lost))
    if end is None:
        return statement
    behind = {*statement.touches, *filter(wanted, [end.name])}
    return replace(statement, touches=tuple(sorted(behind)), trash=trash_name(end.version, end.name))


def _folded(name: TableName) -> tuple[str, str]:
    return name.database.lower(), name.table.lower()


def _named(file: SchemaFile, action: Action, live: LiveTables) -> set[TableName]:
    """The live tables that the statement names. One without a database that its own does not have is found by its
    name: TiCDC leaves names as typed, and they may have been relative to another database."""
    found: set[TableName] = set()
    for reference in references(file.query, action):
        found.update(_meant(reference, file, live))
    return found


def _meant(reference: TableReference, file: SchemaFile, live: LiveTables) -> Sequence[TableName]:
    same = live.called(reference.table)
    own = live.called(reference.table, reference.database or file.database)
    return own or (same if reference.database is None and len(same) == 1 else ())


def _origin(statement: Statement, live: LiveTables) -> TableName | None:
    """The table that a RENAME moves or a LIKE copies."""
    if statement.old_name is not None or statement.action not in CREATE_ACTIONS or "LIKE" not in statement.file.query:
        return statement.old_name
    source = like_source(statement.file.query)
    return None if source is None else next(iter(_meant(source, statement.file, live)), None)


def _follow(live: LiveTables, file: SchemaFile, statement: Statement | None) -> None:
    if statement is not None:
        for name in statement.drops:
            live.remove(name)
        if statement.action in DROP_ACTIONS:
            return
    if file.table:
        live.put(file.name, file.columns)
