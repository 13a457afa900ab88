"""Book of what the statements say of tables and no schema file does, kept while they are walked in upstream order, and
of the character sets of databases."""

from __future__ import annotations

from dataclasses import replace

from consumer.ddl.changes import Fate, Shape, Told, changes_of, counts_partitions, recovered_table
from consumer.ddl.charsets import TIDB_DEFAULT
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
from consumer.model.names import TableName
from consumer.model.progress import DdlState, Progress
from consumer.model.steps import TableBefore, ddl_id
from consumer.model.table_definition import UNTOLD, Charset
from consumer.plan.renames import Renames
from consumer.plan.statement import Statement


class TableBook:
    """A table that no CREATE TABLE in the storage made is known as far as its later statements tell. What is followed
    is only looked at when somebody asks: in most rounds nobody does."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._unread: list[tuple[SchemaFile, Statement | None, TableName | None]] = []
        self._told: dict[str, Told] = {}
        self._tables: dict[TableName, Told] = {}
        self._ended: dict[TableName, Told] = {}
        self._databases: dict[str, Charset] = {}
        self._renames = Renames(self._tables)

    def about(self, statement: Statement) -> Statement:
        """The statement with what is known of its table before it."""
        name, action = statement.file.name, statement.action
        divided = action in PARTITION_ACTIONS or counts_partitions(statement.file)
        if not divided and action not in INDEX_ACTIONS | CREATE_ACTIONS:
            return statement
        self._read()
        told = self._tables.get(name.folded)
        known = TableBefore(
            statement.known.columns,
            told.partitioned().partitioning if told is not None and divided else None,
            told.shape().indexes if told is not None and action in INDEX_ACTIONS else UNTOLD,
            # TiDB's own default where no statement tells what the database has.
            self._databases.get(name.database, TIDB_DEFAULT) if action in CREATE_ACTIONS else None,
        )
        return replace(statement, known=known)

    def shape(self, file: SchemaFile) -> Shape:
        """What the statements up to `file` tell of its table."""
        self._read()
        told = self._told.get(file.path)
        return Shape() if told is None else told.shape()

    def shapes(self, file: SchemaFile) -> tuple[Shape, Shape]:
        """What the statements tell of its table before `file` and behind it."""
        self._read()
        told = self._told.get(file.path)
        if told is None:
            return Shape(), Shape()
        return Shape() if told.before is None or told.copy else told.before.shape(), told.shape()

    def follow(self, file: SchemaFile, statement: Statement | None, origin: TableName | None) -> None:
        """Take the file in, with its statement, if it has one; `origin` is what a RENAME moves, or a LIKE copies."""
        self._unread.append((file, statement, origin))

    def _read(self) -> None:
        for file, statement, origin in self._unread:
            if statement is not None:
                self._execute(statement, origin, _fate(statement, self._progress))
            if (told := self._tables.get(file.name.folded)) is not None:
                self._told[file.path] = told
        self._unread.clear()

    def _execute(self, statement: Statement, origin: TableName | None, fate: Fate) -> None:
        file, action = statement.file, statement.action
        if action in RENAME_ACTIONS:
            old = None if origin is None else origin.folded
            self._put(file.name, self._renames.take(old, file.name.folded, file.version))
            return
        for name in statement.drops:
            if (told := self._tables.pop(name.folded, None)) is not None:
                self._ended[name.folded] = told
        if action in DATABASE_ACTIONS:
            self._database(file, action)
        elif action is Action.RECOVER_TABLE:
            self._put(file.name, self._recovered(file))
        elif action in CREATE_ACTIONS:
            self._put(file.name, self._created(file, origin, fate))
        elif file.name not in statement.drops:
            self._put(file.name, Told(file, fate, self._tables.get(file.name.folded)))

    def _put(self, name: TableName, told: Told | None) -> None:
        if told is not None:
            self._tables[name.folded] = told
        else:
            self._tables.pop(name.folded, None)

    def _database(self, file: SchemaFile, action: Action) -> None:
        if action == Action.DROP_SCHEMA:
            self._databases.pop(file.database, None)
            return
        declared = changes_of(file).charset
        if action == Action.CREATE_SCHEMA or declared is not None:
            self._databases[file.database] = declared or TIDB_DEFAULT

    def _created(self, file: SchemaFile, origin: TableName | None, fate: Fate) -> Told:
        if origin is not None or changes_of(file).named("like") is not None:
            return Told(file, fate, None if origin is None else self._tables.get(origin.folded), copy=True)
        known = self._databases.get(file.database)
        return Told(file, fate, collation="" if known is None else known.collation)

    def _recovered(self, file: SchemaFile) -> Told | None:
        """A table that was dropped, or truncated and is still there."""
        lost = recovered_table(file)
        return None if lost is None else self._ended.get(lost.folded) or self._tables.get(lost.folded)


def _fate(statement: Statement, progress: Progress) -> Fate:
    record = progress.ddls.get(ddl_id(statement.file))
    skipped = record is not None and record.state is DdlState.SKIPPED
    given = progress.was_given(ddl_id(statement.file))
    return Fate((skipped and not given) or statement.policy is DdlPolicy.IGNORE, given)
