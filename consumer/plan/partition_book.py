"""Book of the statements that say how tables are partitioned, kept while they are walked in upstream order."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.ddl.charsets import declared_collation
from consumer.ddl.definitions import statement_of
from consumer.ddl.partitions import PartitionedTable, altered, created
from consumer.ddl.references import references
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.partitions import Partitioning

_Folded = tuple[str, str]
_TIDB_COLLATION = "utf8mb4_bin"
_ALTERS = frozenset(
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


@dataclass(slots=True)
class _Page:
    """One table: what was `read` of it, and the statements not read yet: its `creation` (CREATE TABLE, with the
    collation of its database), and the `alters` behind that."""

    creation: tuple[str, str] | None = None
    read: PartitionedTable = field(default_factory=PartitionedTable)
    alters: list[str] = field(default_factory=list)

    def partitioning(self) -> Partitioning | None:
        if self.creation is not None:
            self.read = created(*self.creation)
        for query in self.alters:
            self.read = altered(self.read, query)
        self.creation, self.alters = None, []
        return self.read.partitioning

    def copy(self) -> _Page:
        return _Page(self.creation, self.read, list(self.alters))


class PartitionBook:
    """A table that no CREATE TABLE in the storage made is not in it: how it is partitioned is not known. Statements are
    only taken apart when `of` asks for their table: of few tables anybody asks, and there can be thousands."""

    def __init__(self) -> None:
        self._pages: dict[_Folded, _Page] = {}
        self._databases: dict[str, str] = {}
        self._renamed: tuple[int, set[_Folded]] = (0, set())

    def of(self, table: TableName) -> Partitioning | None:
        """None: it has no partitions, or they are not known."""
        page = self._pages.get(_folded(table))
        return None if page is None else page.partitioning()

    def follow(self, file: SchemaFile, action: Action, old_name: TableName | None, gone: tuple[TableName, ...]) -> None:
        """Take in the statement of `file`; `gone` are the names that are no more after it."""
        if action in RENAME_ACTIONS:
            self._rename(file, old_name)
            return
        for name in gone:
            self._pages.pop(_folded(name), None)
        if action in DATABASE_ACTIONS:
            self._database(file, action)
        elif action in CREATE_ACTIONS:
            self._pages[_folded(file.name)] = self._created(file)
        elif action in _ALTERS and _folded(file.name) in self._pages:
            self._pages[_folded(file.name)].alters.append(file.query)

    def _database(self, file: SchemaFile, action: Action) -> None:
        if action == Action.DROP_SCHEMA:
            self._databases.pop(file.database, None)
            return
        collation = declared_collation(statement_of(file.query).options)
        if action == Action.CREATE_SCHEMA or collation is not None:
            self._databases[file.database] = _TIDB_COLLATION if collation is None else collation

    def _rename(self, file: SchemaFile, old_name: TableName | None) -> None:
        """Where tables exchange their names in one statement, the second one's page is overwritten before it moves."""
        version, taken = self._renamed
        if version != file.version:
            taken = set()
        old = None if old_name is None else _folded(old_name)
        page = None if old is None or old in taken else self._pages.pop(old, None)
        self._pages[_folded(file.name)] = page or _Page()
        self._renamed = (file.version, {*taken, _folded(file.name)})

    def _created(self, file: SchemaFile) -> _Page:
        copied = _copied(file) if "LIKE" in file.query.upper() else None
        if copied is None:
            return _Page((file.query, self._databases.get(file.database, "")))
        page = self._pages.get(_folded(copied))
        return _Page() if page is None else page.copy()


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
