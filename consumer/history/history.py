"""One pass over the schema files, in upstream order, that tells of every table who it was: its names, its statements,
what they declare, and what became of it. Each question about a table's past is asked here."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from consumer.ddl.changes import Fate, Shape, Told, changes_of, counts_partitions, recovered_table
from consumer.ddl.charsets import TIDB_DEFAULT
from consumer.history.incarnations import Incarnation, LiveTables
from consumer.history.renames import find_old_name, upstream_order
from consumer.history.upstream_session import Session, session_of
from consumer.model.actions import (
    CREATE_ACTIONS,
    DATABASE_ACTIONS,
    DROP_ACTIONS,
    INDEX_ACTIONS,
    PARTITION_ACTIONS,
    RENAME_ACTIONS,
    Action,
)
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name
from consumer.model.steps import TableBefore
from consumer.model.table_definition import UNTOLD, Charset

_ENDS = frozenset({Action.DROP_TABLE, Action.TRUNCATE_TABLE})
"""What FLASHBACK TABLE brings a table back from."""
_EXECUTED = Fate()


class Event(NamedTuple):
    """A statement of upstream's, with what the history before it tells of the names in it."""

    file: SchemaFile
    action: Action
    old_name: TableName | None
    """A rename's source; None where that is not known."""
    drops: tuple[TableName, ...]
    """The names that no longer exist after it."""
    copied: TableName | None
    """The table that a CREATE TABLE LIKE copies."""


class Met(NamedTuple):
    """A schema file, and the table that it is about; None for a database, or a table that is not known."""

    file: SchemaFile
    table: Incarnation | None


class _Held(NamedTuple):
    """From this version on, the table has a name; None: no table has it."""

    version: int
    table: Incarnation | None

    def is_unmade(self, name: TableName) -> bool:
        """Whether no statement of the storage gave the table the name, though another one had lost it before."""
        table = self.table
        return table is not None and (name, self.version) not in zip(table.names, table.since, strict=True)


class History:
    """Upstream's tables as the files so far tell of them."""

    def __init__(self) -> None:
        self.tables = LiveTables()
        """Those that exist."""
        self.alive: Mapping[TableName, Incarnation] = {}
        """Those that exist at the checkpoint."""
        self.incarnations: list[Incarnation] = []
        """All of them up to the checkpoint, as they were met."""
        self.met: list[Met] = []
        """The files up to the checkpoint."""
        self.known: set[TableName] = set()
        """The names of all files, as keys."""
        self.exchanges: list[SchemaFile] = []
        """The statements up to the checkpoint that exchanged partitions."""
        self._by_path: dict[str, Incarnation] = {}
        self._holders: defaultdict[TableName, list[_Held]] = defaultdict(list)
        self._told: dict[str, Told] = {}
        self._had: defaultdict[TableName, list[Incarnation]] = defaultdict(list)
        self._lost: dict[TableName, Told | None] = {}
        self._ends: dict[TableName, SchemaFile] = {}
        self._databases: dict[str, Charset] = {}
        self._beyond = False

    # The pass

    def in_order(self, files: Iterable[SchemaFile]) -> Iterator[SchemaFile]:
        """The next `files`, which are sorted by version, in upstream's order. Each is followed before the next."""
        return upstream_order(files, self.known, self.tables)

    def look(self, file: SchemaFile) -> Event | None:
        """The file's statement, if it has one, before it is followed."""
        if not file.query:
            return None
        action = file.action
        old_name = find_old_name(file, self.tables) if action in RENAME_ACTIONS else None
        drops: tuple[TableName, ...] = () if old_name is None else (old_name,)
        if action == Action.DROP_SCHEMA:
            drops = tuple(sorted(name for name in self.tables if name.database == file.database))
        elif action in DROP_ACTIONS:
            drops = (file.name,)
        return Event(file, action, old_name, drops, self._copied(file) if action in CREATE_ACTIONS else None)

    def follow(self, file: SchemaFile, event: Event | None, fate: Fate = _EXECUTED) -> None:
        """Take the file in, with its statement and what becomes of that in the target."""
        table: Incarnation | None = None
        if event is not None and event.action in DATABASE_ACTIONS:
            self._database(event)
        elif event is not None and event.action in DROP_ACTIONS:
            table = self._ended(file.name, file)
        elif file.table:
            table = self._told_of(file, event, fate)
        if event is not None and event.action in _ENDS:
            self._ends[file.name.folded] = file
        self.known.add(file.name.folded)
        if not self._beyond:
            if table is not None:
                self._by_path[file.path] = table
            if event is not None and event.action is Action.EXCHANGE_PARTITION:
                self.exchanges.append(file)
            self.met.append(Met(file, table))

    def reach_checkpoint(self) -> None:
        """The files that follow are above the checkpoint. Rows can lie in their folders already, so what they declare
        is told; the tables stay as they are at the checkpoint."""
        self.alive, self._beyond = {name: self.tables[name] for name in self.tables}, True

    # What is asked while the files are followed

    def session(self, file: SchemaFile) -> Session:
        """That of the statement, which is the next one."""
        return session_of(file, self.tables)

    def named(self, file: SchemaFile) -> set[TableName]:
        """The tables that exist and that the statement names. That of its own table is the file's."""
        own, session = ("table", same_name(file.table)), self.session(file)
        others = (name for name in changes_of(file).names if (name.role, same_name(name.table)) != own)
        return {name for reference in others if (name := session.meant(reference, self.tables)) is not None}

    def before(self, event: Event) -> TableBefore:
        """What is told of the statement's table before it, as far as the statement asks for it."""
        file, action = event.file, event.action
        table = self.tables.get(event.old_name or file.name)
        told = None if table is None else table.told
        divided = action in PARTITION_ACTIONS or counts_partitions(file)
        return TableBefore(
            None if table is None else table.columns,
            told.partitioned().partitioning if told is not None and divided else None,
            told.shape().indexes if told is not None and action in INDEX_ACTIONS else UNTOLD,
            # TiDB's own default where no statement tells what the database has.
            self._databases.get(file.database, TIDB_DEFAULT) if action in CREATE_ACTIONS else None,
        )

    def end_of(self, name: TableName) -> SchemaFile | None:
        """The last statement that took a table of the name away, whatever its case, or emptied it."""
        return self._ends.get(name.folded)

    # What is asked of the whole

    def table_of(self, file: SchemaFile) -> Incarnation | None:
        """The table that a file up to the checkpoint is about."""
        return self._by_path.get(file.path)

    def at(self, name: TableName, ts: int) -> Incarnation | None:
        """The table that had the name at that moment. One that the storage tells of only later was there all along,
        unless that made it."""
        held = self._holders.get(name, [])
        number = bisect_right(held, ts, key=lambda entry: entry.version)
        return held[number - 1].table if number else None

    def ended(self, name: TableName) -> int | None:
        """The version since which no table has had the name; None where one has it at the checkpoint, or none ever had.
        A view has no rows of its own, and one that is `unmade` counts as none."""
        since = None
        for held in reversed(self._holders.get(name, [])):
            if held.table is not None and not (held.table.is_view or held.is_unmade(name)):
                break
            since = held.version
        return since

    def unmade(self, name: TableName) -> int | None:
        """The version of the first file of the table that has the name at the checkpoint, where another table had lost
        the name before, and the statement that gave it to this one is not in the storage. None for any other."""
        held = self._holders.get(name, [])
        return held[-1].version if held and held[-1].is_unmade(name) else None

    def had(self, name: TableName, end: int) -> list[Incarnation]:
        """The tables that have had the name up to that moment."""
        tables = {id(table): table for table in self._had.get(name, ())}
        return [table for table in tables.values() if table.has_had(name, end)]

    def next_given(self, name: TableName, table: Incarnation, end: int) -> int:
        """The version below `end` at which the name was given again after `table` got it; 0 for none."""
        given = (pair for other in self.had(name, end) for pair in zip(other.names, other.since, strict=True))
        return min((since for own, since in given if own == name and table.since[-1] < since < end), default=0)

    def exchanges_of(self, table: Incarnation, end: int) -> Iterator[SchemaFile]:
        """The statements up to `end` that moved rows between the table and another's files."""
        own, born = {name.folded for name in table.names}, 0 if table.birth is None else table.birth.version
        for file in self.exchanges:
            if born < file.version <= end and not own.isdisjoint(name.folded for name in exchanged(file)):
                yield file

    def shape(self, file: SchemaFile) -> Shape:
        """What the statements up to `file` declare of its table."""
        return self.shapes(file)[1]

    def shapes(self, file: SchemaFile) -> tuple[Shape, Shape]:
        """What the statements declare of its table before `file` and behind it."""
        told = self._told.get(file.path)
        if told is None:
            return Shape(), Shape()
        if told.file is not file:  # a RENAME declares nothing
            return told.shape(), told.shape()
        return Shape() if told.before is None or told.copy else told.before.shape(), told.shape()

    # How it goes on

    def _told_of(self, file: SchemaFile, event: Event | None, fate: Fate) -> Incarnation:
        """The table whose columns the file tells."""
        if event is not None and event.action in RENAME_ACTIONS:
            table = self._renamed(event)
        elif event is not None and event.action in CREATE_ACTIONS:
            table = self._created(event, fate)
        else:
            table = self._there(file)
            table.told = table.told if event is None else Told(file, fate, table.told)
        table.columns = file.columns
        if table.told is not None:
            self._told[file.path] = table.told
        if not self._beyond:
            table.files.append(file)
        return table

    def _there(self, file: SchemaFile) -> Incarnation:
        """The table of the file's name; one that is not known yet is older than the changefeed."""
        table = self.tables.get(file.name)
        if table is None:
            table = self._new(Incarnation(None, [], []))
            # It was there all along, unless there was another one.
            self._name(table, file, 0, file.version if file.name in self._holders else 0)
        return table

    def _created(self, event: Event, fate: Fate) -> Incarnation:
        file, known = event.file, self._databases.get(event.file.database)
        if event.action is Action.RECOVER_TABLE:
            told = self._recovered(file)
        elif "LIKE" in file.query.upper() and changes_of(file).named("like") is not None:
            copied = self.tables.get(event.copied)
            told = Told(file, fate, None if copied is None else copied.told, copy=True)
        else:
            told = Told(file, fate, collation="" if known is None else known.collation)
        table = self._new(Incarnation(file, [], [], told=told))
        self._name(table, file, file.version)
        return table

    def _renamed(self, event: Event) -> Incarnation:
        file, old = event.file, event.old_name
        table = self.tables.move(old, file.name, file.version)
        if table is None:
            table = self._new(Incarnation(None, [], []) if old is None else Incarnation(None, [old], [0]))
            if old is not None and not self._beyond:
                self._had[old].append(table)
        if old is not None and old not in self.tables:
            self._hold(old, file.version, None)
        self._name(table, file, file.version)
        return table

    def _ended(self, name: TableName, file: SchemaFile) -> Incarnation | None:
        """The table of the name, which the statement of `file` takes away."""
        table = self.tables.remove(name)
        self._hold(name, file.version, None)
        if table is not None:
            self._lost[name.folded] = table.told
            if not self._beyond:
                table.end = file
        return table

    def _database(self, event: Event) -> None:
        file = event.file
        for name in event.drops:
            self._ended(name, file)
        declared = changes_of(file).charset
        if event.action == Action.DROP_SCHEMA:
            self._databases.pop(file.database, None)
        elif event.action == Action.CREATE_SCHEMA or declared is not None:
            self._databases[file.database] = declared or TIDB_DEFAULT

    def _new(self, table: Incarnation) -> Incarnation:
        if not self._beyond:
            self.incarnations.append(table)
        return table

    def _name(self, table: Incarnation, file: SchemaFile, version: int, held: int | None = None) -> None:
        """The table has the file's name from `version` on."""
        name = file.name
        self.tables.put(name, table)
        self._hold(name, version if held is None else held, table)
        if self._beyond:
            return
        table.names.append(name)
        table.since.append(version)
        self._had[name].append(table)

    def _hold(self, name: TableName, version: int, table: Incarnation | None) -> None:
        if not self._beyond:
            self._holders[name].append(_Held(version, table))

    def _recovered(self, file: SchemaFile) -> Told | None:
        """A table that was dropped, or truncated and is still there."""
        lost = recovered_table(file)
        if lost is None:
            return None
        live = (self.tables[name] for name in self.tables.called(lost.table, lost.database))
        return self._lost.get(lost.folded) or next((table.told for table in live), None)

    def _copied(self, file: SchemaFile) -> TableName | None:
        if "LIKE" not in file.query.upper():
            return None
        source = changes_of(file).named("like")
        return None if source is None else self.session(file).meant(source, self.tables)


def exchanged(file: SchemaFile) -> Iterator[TableName]:
    """The tables between which an EXCHANGE PARTITION moves rows."""
    yield file.name
    if (other := changes_of(file).named("exchange")) is not None:
        yield other.within(file.database)
