"""Upstream's history: the tables that exist there as its statements go by, and what the statements say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from consumer.ddl.changes import changes_of, recovered_table
from consumer.ddl.references import TableReference
from consumer.ddl.renames import LiveTables, find_old_name, order_same_version, overwritten_rename
from consumer.model.actions import (
    CREATE_ACTIONS,
    DATABASE_ACTIONS,
    DROP_ACTIONS,
    MULTI_FILE_ACTIONS,
    RENAME_ACTIONS,
    Action,
)
from consumer.model.ddl_policy import trash_name
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name
from consumer.model.progress import Progress
from consumer.model.steps import TableBefore, ddl_id
from consumer.plan.statement import Statement, action_of
from consumer.plan.table_book import TableBook

_ENDS = frozenset({Action.DROP_TABLE, Action.TRUNCATE_TABLE})
"""What FLASHBACK TABLE brings a table back from."""


class History:
    """Upstream as it is before the next statement. `origins` are the tables that RENAMEs moved and LIKEs copied, by the
    paths of their schema files."""

    def __init__(self, progress: Progress) -> None:
        self.tables = LiveTables()
        self.book = TableBook(progress)
        self.origins: dict[str, TableName] = {}
        self._ends: dict[tuple[str, str], SchemaFile] = {}

    def statement(self, file: SchemaFile, live: LiveTables) -> Statement | None:
        """The file's statement, if it has one, without the tables that it touches; `live` are the target's tables."""
        if not file.query:
            return None
        action = action_of(file)
        old_name = find_old_name(file, self.tables) if action in RENAME_ACTIONS else None
        drops: tuple[TableName, ...] = () if old_name is None else (old_name,)
        if action == Action.DROP_SCHEMA:
            # What a stopped table's rename has not moved yet is still there, and goes too.
            drops = tuple(sorted(name for name in {*self.tables, *live} if name.database == file.database))
        elif action in DROP_ACTIONS:
            drops = (file.name,)
        known = TableBefore(self.tables.columns.get(old_name or file.name))
        return Statement(file, (), old_name, drops, known)

    def moved(self, statement: Statement) -> tuple[TableName, ...]:
        """The tables whose rows have to be complete for what the statement moves into another table."""
        if statement.action is Action.EXCHANGE_PARTITION:
            return tuple(sorted({statement.file.name, *_named(statement.file, self.tables)}))
        return () if statement.old_name is None else (statement.old_name,)

    def touching(self, statement: Statement, wanted: Callable[[TableName], bool]) -> Statement:
        """The statement with the tables that it touches. Tables that the filter leaves out are not waited for: nobody
        reads their rows."""
        named: set[TableName] = set()
        if statement.action == Action.DROP_SCHEMA:
            named = set(statement.drops)
        elif statement.action not in DATABASE_ACTIONS | DROP_ACTIONS:
            named = {*_named(statement.file, self.tables), *statement.drops}
        return replace(statement, touches=tuple(sorted({statement.file.name, *filter(wanted, named)})))

    def recovering(self, statement: Statement, wanted: Callable[[TableName], bool]) -> Statement:
        """RECOVER TABLE comes behind the statement that took the table away: the last such."""
        lost = recovered_table(statement.file) if statement.action is Action.RECOVER_TABLE else None
        end = None if lost is None else self._ends.get(lost.folded)
        if end is None:
            return statement
        behind, kept = {*statement.touches, *filter(wanted, [end.name])}, statement.naming.target(end.name)
        return replace(statement, touches=tuple(sorted(behind)), trash=trash_name(end.version, kept))

    def follow(self, file: SchemaFile, statement: Statement | None) -> None:
        """Take the file in, with its statement."""
        origin = None if statement is None else self.origin(statement)
        if origin is not None:
            self.origins[file.path] = origin
        follow(self.tables, file, statement)
        self.book.follow(file, statement, origin)
        if statement is not None and statement.action in _ENDS:
            self._ends[file.name.folded] = file

    def origin(self, statement: Statement) -> TableName | None:
        """The table that a RENAME moves or a LIKE copies."""
        file = statement.file
        if statement.old_name is not None or statement.action not in CREATE_ACTIONS or "LIKE" not in file.query.upper():
            return statement.old_name
        source = changes_of(file).named("like")
        return None if source is None else next(iter(_meant(source, file, self.tables)), None)


def follow(tables: LiveTables, file: SchemaFile, statement: Statement | None) -> None:
    """What the file makes of the tables that exist."""
    if statement is not None:
        for name in statement.drops:
            tables.remove(name)
        if statement.action in DROP_ACTIONS:
            return
    if file.table:
        tables.put(file.name, file.columns)


def upstream_order(files: Iterable[SchemaFile]) -> Iterable[SchemaFile]:
    """`files`, which are sorted by version, with the renames of one version in the order in which they ran, and with
    the one among them that TiCDC has overwritten, if it has."""
    earlier = _Earlier()
    for _, group in groupby(files, key=lambda file: file.version):
        same = list(group)
        if len(same) > 1:
            renames = [file for file in same if file.query and file.type in RENAME_ACTIONS]
            lost = overwritten_rename(renames, earlier.names, earlier.live)
            others = (file for file in same if file not in renames)
            same = [*others, *lost, *(file for cycle in order_same_version(renames) for file in cycle)]
        yield from same
        earlier.add(same)


class _Earlier:
    """The tables of the files so far, in upstream's order: `names` as keys. What became of them is seldom asked."""

    def __init__(self) -> None:
        self.names: set[TableName] = set()
        self._history, self._waiting = History(Progress()), list[SchemaFile]()

    def add(self, files: Sequence[SchemaFile]) -> None:
        self.names.update(file.name.folded for file in files)
        self._waiting += files

    def live(self) -> LiveTables:
        """The tables that exist after them."""
        nowhere = LiveTables()
        for file in self._waiting:
            follow(self._history.tables, file, self._history.statement(file, nowhere))
        self._waiting.clear()
        return self._history.tables


def needs_company(file: SchemaFile, progress: Progress) -> bool:
    """At C == V the other files of a version may not be written yet: its statement waits for C > V."""
    return bool(file.query) and file.type in MULTI_FILE_ACTIONS and ddl_id(file) not in progress.ddls


def _named(file: SchemaFile, live: LiveTables) -> set[TableName]:
    """The live tables that the statement names. One without a database that its own does not have is found by its
    name: TiCDC leaves names as typed, and they may have been relative to another database. That of its own table is
    the file's."""
    own = ("table", same_name(file.table))
    others = (name for name in changes_of(file).names if (name.role, same_name(name.table)) != own)
    return {name for reference in others for name in _meant(reference, file, live)}


def _meant(reference: TableReference, file: SchemaFile, live: LiveTables) -> Sequence[TableName]:
    same = live.called(reference.table)
    own = live.called(reference.table, reference.database or file.database)
    return own or (same if reference.database is None and len(same) == 1 else ())
