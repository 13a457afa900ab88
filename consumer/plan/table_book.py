"""Book of what the statements say of tables and no schema file does, kept while they are walked in upstream order: how
tables are partitioned, their indexes under upstream's names, the character sets of databases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from consumer.ddl.charsets import TIDB_DEFAULT, declared_charset
from consumer.ddl.definitions import statement_of
from consumer.ddl.indexes import after, copied
from consumer.ddl.partitions import PartitionedTable, altered, created
from consumer.ddl.recover import recovered_table
from consumer.ddl.references import references
from consumer.model.actions import (
    CREATE_ACTIONS,
    DATABASE_ACTIONS,
    INDEX_ACTIONS,
    PARTITION_ACTIONS,
    RENAME_ACTIONS,
    Action,
)
from consumer.model.ddl_policy import DdlPolicy
from consumer.model.files import SchemaFile
from consumer.model.indexes import UNTOLD, Charset, TableIndexes
from consumer.model.names import TableName
from consumer.model.partitions import Partitioning
from consumer.model.progress import DdlState, Progress
from consumer.model.steps import ddl_id
from consumer.plan.statement import Statement

_PARTITION_ALTERS = frozenset(
    {
        Action.ADD_PARTITION,
        Action.DROP_PARTITION,
        Action.REORGANIZE_PARTITION,
        Action.ALTER_TABLE_PARTITIONING,
        Action.REMOVE_PARTITIONING,
        Action.MULTI_SCHEMA_CHANGE,
        Action.MODIFY_COLUMN,
        Action.MODIFY_TABLE_CHARSET,
        Action.DROP_COLUMN,
        Action.DROP_COLUMNS,
    }
)
"""Statements that change how a table is partitioned, or what is known of its columns."""


_Folded = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a statement in the target. `skipped`: it was not, or will not be, executed. `restored`: the target
    was given with what it did."""

    skipped: bool = False
    restored: bool = False


@dataclass(slots=True)
class _Page:
    """One table: what was `read` of its partitioning, and the statements not read yet: its `creation` (CREATE TABLE,
    with the collation of its database), and the `alters` behind that. In the same way its `indexes` with the
    `changes` of them."""

    creation: tuple[str, str] | None = None
    read: PartitionedTable = field(default_factory=PartitionedTable)
    alters: list[str] = field(default_factory=list)
    indexes: TableIndexes = UNTOLD
    changes: list[tuple[SchemaFile, Fate]] = field(default_factory=list)

    def partitioning(self) -> Partitioning | None:
        if self.creation is not None:
            self.read = created(*self.creation)
        for query in self.alters:
            self.read = altered(self.read, query)
        self.creation, self.alters = None, []
        return self.read.partitioning

    def known_indexes(self) -> TableIndexes:
        for file, fate in self.changes:
            self.indexes = after(self.indexes, file.query, file.version, skipped=fate.skipped, restored=fate.restored)
        self.changes = []
        return self.indexes

    def copy(self) -> _Page:
        return _Page(self.creation, self.read, list(self.alters), self.known_indexes())

    def liken(self, fate: Fate) -> _Page:
        """What CREATE TABLE .. LIKE makes of it."""
        page = self.copy()
        indexes = copied(page.indexes)
        there = (replace(index, skipped=index.skipped or fate.skipped) for index in indexes.indexes)
        page.indexes = replace(indexes, indexes=tuple(there))
        return page


class TableBook:
    """A table that no CREATE TABLE in the storage made is known as far as its later statements tell. Statements are
    only taken apart when somebody asks for their table: of few tables anybody does, and there can be thousands."""

    def __init__(self) -> None:
        self._pages: dict[_Folded, _Page] = {}
        self._ended: dict[_Folded, _Page] = {}
        self._databases: dict[str, Charset] = {}
        self._renamed: tuple[int, set[_Folded]] = (0, set())

    def about(self, statement: Statement) -> Statement:
        """The statement with what is known of its table before it."""
        name = statement.file.name
        page = self._pages.get(_folded(name))
        if page is not None and statement.action in PARTITION_ACTIONS:
            statement = replace(statement, partitioning=page.partitioning())
        if page is not None and statement.action in INDEX_ACTIONS:
            statement = replace(statement, indexes=page.known_indexes())
        if statement.action in CREATE_ACTIONS:
            # TiDB's own default where no statement tells what the database has.
            statement = replace(statement, charset=self._databases.get(name.database, TIDB_DEFAULT))
        return statement

    def follow(self, statement: Statement, fate: Fate) -> None:
        """Take the statement in."""
        file, action = statement.file, statement.action
        if action in RENAME_ACTIONS:
            self._rename(file, statement.old_name)
            return
        for name in statement.drops:
            if (page := self._pages.pop(_folded(name), None)) is not None:
                self._ended[_folded(name)] = page
        if action in DATABASE_ACTIONS:
            self._database(file, action)
        elif action is Action.RECOVER_TABLE:
            self._pages[_folded(file.name)] = self._recovered(file)
        elif action in CREATE_ACTIONS:
            self._pages[_folded(file.name)] = self._created(file, fate)
        elif action in _PARTITION_ALTERS | INDEX_ACTIONS:
            page = self._pages.setdefault(_folded(file.name), _Page())
            if action in _PARTITION_ALTERS:
                page.alters.append(file.query)
            if action in INDEX_ACTIONS:
                page.changes.append((file, fate))

    def _database(self, file: SchemaFile, action: Action) -> None:
        if action == Action.DROP_SCHEMA:
            self._databases.pop(file.database, None)
            return
        declared = declared_charset(statement_of(file.query).options)
        if action == Action.CREATE_SCHEMA or declared is not None:
            self._databases[file.database] = declared or TIDB_DEFAULT

    def _rename(self, file: SchemaFile, old_name: TableName | None) -> None:
        """Where tables exchange their names in one statement, the second one's page is overwritten before it moves."""
        version, taken = self._renamed
        if version != file.version:
            taken = set()
        old = None if old_name is None else _folded(old_name)
        page = None if old is None or old in taken else self._pages.pop(old, None)
        self._pages[_folded(file.name)] = page or _Page()
        self._renamed = (file.version, {*taken, _folded(file.name)})

    def _created(self, file: SchemaFile, fate: Fate) -> _Page:
        source = _copied(file) if "LIKE" in file.query.upper() else None
        if source is None:
            known = self._databases.get(file.database)
            return _Page((file.query, "" if known is None else known.collation), changes=[(file, fate)])
        page = self._pages.get(_folded(source))
        return _Page() if page is None else page.liken(fate)

    def _recovered(self, file: SchemaFile) -> _Page:
        """A table that was dropped, or truncated and is still there."""
        lost = recovered_table(file)
        if lost is None:
            return _Page()
        page = self._ended.get(_folded(lost)) or self._pages.get(_folded(lost))
        return _Page() if page is None else page.copy()


def fate_of(statement: Statement, progress: Progress) -> Fate:
    record = progress.ddls.get(ddl_id(statement.file))
    skipped = record is not None and record.state is DdlState.SKIPPED
    return Fate(skipped or statement.policy is DdlPolicy.IGNORE, statement.version <= progress.start_ts)


def _copied(file: SchemaFile) -> TableName | None:
    """The table whose shape a CREATE TABLE .. LIKE copies; one that cannot be where its name stands alone and the new
    table's does not: then it is relative to a database that the file does not tell."""
    match references(file.query, Action.CREATE_TABLE):
        case [own, source] if source.role == "like":
            told = source.database is not None or own.database is None
            return TableName(source.database or file.database, source.table) if told else TableName("", "")
        case _:
            return None


def _folded(name: TableName) -> _Folded:
    """TiDB compares names without case."""
    return name.database.lower(), name.table.lower()
