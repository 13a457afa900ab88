"""Walks the schema files once, in upstream order, and records for every table its names, its statements, what they
declare, and its fate. Every question about a table's past is asked here."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from consumer.ddl.changes import Fate, Shape, TableState, counts_partitions, recovered_table, statement_changes
from consumer.ddl.charsets import TIDB_DEFAULT
from consumer.history.incarnations import Incarnation, LiveTables
from consumer.history.renames import find_old_name, upstream_order
from consumer.history.upstream_session import UpstreamSession, upstream_session
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
"""The statements from which FLASHBACK TABLE brings a table back."""
_EXECUTED = Fate()


class Event(NamedTuple):
    """A statement of upstream, with what the history before it shows of the names in it."""

    file: SchemaFile
    action: Action
    old_name: TableName | None
    """The source of a rename; None if it is not known."""
    drops: tuple[TableName, ...]
    """The names that no longer exist after it."""
    copied: TableName | None
    """The table that a CREATE TABLE LIKE copies."""


class FollowedFile(NamedTuple):
    """A schema file, and its table; None for a database, or a table that is not known."""

    file: SchemaFile
    table: Incarnation | None


class _NameHolder(NamedTuple):
    """A table has a name from this version on; with None no table has it."""

    version: int
    table: Incarnation | None

    def is_unmade(self, name: TableName) -> bool:
        """Returns whether no statement of the storage gave the table the name, though another one had lost it
        before."""
        table = self.table
        return table is not None and (name, self.version) not in zip(table.names, table.since, strict=True)


class History:
    """Upstream's tables as the files so far show them."""

    def __init__(self) -> None:
        self.tables = LiveTables()
        """The tables that exist."""
        self.alive: Mapping[TableName, Incarnation] = {}
        """The tables that exist at the checkpoint."""
        self.incarnations: list[Incarnation] = []
        """All tables up to the checkpoint, in the order in which they appeared."""
        self.followed_files: list[FollowedFile] = []
        """The files up to the checkpoint."""
        self.known_names: set[TableName] = set()
        """The names of all files, as keys."""
        self.exchanges: list[SchemaFile] = []
        """The statements up to the checkpoint that exchanged partitions."""
        self._by_path: dict[str, Incarnation] = {}
        self._holders: defaultdict[TableName, list[_NameHolder]] = defaultdict(list)
        self._declared_by_path: dict[str, TableState] = {}
        self._all_holders: defaultdict[TableName, list[Incarnation]] = defaultdict(list)
        self._declared_by_lost_name: dict[TableName, TableState | None] = {}
        self._ends: dict[TableName, SchemaFile] = {}
        self._databases: dict[str, Charset] = {}
        self._beyond = False

    # The walk

    def in_order(self, files: Iterable[SchemaFile]) -> Iterator[SchemaFile]:
        """Yields the next `files`, which are sorted by version, in upstream's order. Each must be followed before the
        next is taken."""
        return upstream_order(files, self.known_names, self.tables)

    def look(self, file: SchemaFile) -> Event | None:
        """Returns the file's statement before it is followed, None if it has none."""
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
        """Records the file, with its statement and what becomes of that in the target."""
        table: Incarnation | None = None
        if event is not None and event.action in DATABASE_ACTIONS:
            self._database(event)
        elif event is not None and event.action in DROP_ACTIONS:
            table = self._ended(file.name, file)
        elif file.table:
            table = self._record(file, event, fate)
        if event is not None and event.action in _ENDS:
            self._ends[file.name.folded] = file
        self.known_names.add(file.name.folded)
        if not self._beyond:
            if table is not None:
                self._by_path[file.path] = table
            if event is not None and event.action is Action.EXCHANGE_PARTITION:
                self.exchanges.append(file)
            self.followed_files.append(FollowedFile(file, table))

    def reach_checkpoint(self) -> None:
        """The files that follow are above the checkpoint. Rows can be in their folders already, so what they declare is
        recorded; the tables stay as they are at the checkpoint."""
        self.alive, self._beyond = {name: self.tables[name] for name in self.tables}, True

    # Questions while the files are followed

    def session(self, file: SchemaFile) -> UpstreamSession:
        """Returns the session of the statement, which is the next one."""
        return upstream_session(file, self.tables)

    def named(self, file: SchemaFile) -> set[TableName]:
        """Returns the existing tables that the statement names. The name of its own table is taken from the file."""
        own_reference, session = ("table", same_name(file.table)), self.session(file)
        others = (name for name in statement_changes(file).names if (name.role, same_name(name.table)) != own_reference)
        return {name for reference in others if (name := session.meant(reference, self.tables)) is not None}

    def before(self, event: Event) -> TableBefore:
        """Returns what is known of the statement's table before it, as far as the statement needs it."""
        file, action = event.file, event.action
        table = self.tables.get(event.old_name or file.name)
        told = None if table is None else table.declared
        divided = action in PARTITION_ACTIONS or counts_partitions(file)
        return TableBefore(
            None if table is None else table.columns,
            told.partitioned().partitioning if told is not None and divided else None,
            told.shape().indexes if told is not None and action in INDEX_ACTIONS else UNTOLD,
            # TiDB's own default if no statement declares what the database has.
            self._databases.get(file.database, TIDB_DEFAULT) if action in CREATE_ACTIONS else None,
        )

    def end_of(self, name: TableName) -> SchemaFile | None:
        """Returns the last statement that dropped a table of the name, in any case, or emptied it."""
        return self._ends.get(name.folded)

    # Questions after the walk

    def table_of(self, file: SchemaFile) -> Incarnation | None:
        """Returns the table of a file up to the checkpoint."""
        return self._by_path.get(file.path)

    def at(self, name: TableName, ts: int) -> Incarnation | None:
        """Returns the table that had the name at that moment. A table that appears in the storage only later existed
        all along, unless its first statement created it."""
        holders = self._holders.get(name, [])
        number = bisect_right(holders, ts, key=lambda entry: entry.version)
        return holders[number - 1].table if number else None

    def ended_since(self, name: TableName) -> int | None:
        """Returns the version since which no table has had the name; None if one has it at the checkpoint, or none ever
        had. A view has no rows of its own and counts as none, and so does an `uncreated_since` table."""
        since = None
        for holder in reversed(self._holders.get(name, [])):
            if holder.table is not None and not (holder.table.is_view or holder.is_unmade(name)):
                break
            since = holder.version
        return since

    def uncreated_since(self, name: TableName) -> int | None:
        """Returns the version of the first file of the table that has the name at the checkpoint, if another table had
        lost the name before, and the statement that gave it to this one is not in the storage. Returns None for any
        other table."""
        holders = self._holders.get(name, [])
        return holders[-1].version if holders and holders[-1].is_unmade(name) else None

    def tables_named(self, name: TableName, end: int) -> list[Incarnation]:
        """Returns the tables that have had the name up to that moment."""
        tables = {id(table): table for table in self._all_holders.get(name, ())}
        return [table for table in tables.values() if table.had_name(name, end)]

    def next_named(self, name: TableName, table: Incarnation, end: int) -> int:
        """Returns the version below `end` at which the name was given again after `table` got it; 0 for none."""
        names_given = (
            pair for other in self.tables_named(name, end) for pair in zip(other.names, other.since, strict=True)
        )
        return min(
            (since for given_name, since in names_given if given_name == name and table.since[-1] < since < end),
            default=0,
        )

    def exchanges_of(self, table: Incarnation, end: int) -> Iterator[SchemaFile]:
        """Yields the statements up to `end` that moved rows between the table and another's files."""
        birth_version = 0 if table.birth is None else table.birth.version
        for file in self.exchanges:
            name = table.name_at(file.version - 1)
            if birth_version < file.version <= end and name.folded in {n.folded for n in exchanged_tables(file)}:
                yield file

    def shape(self, file: SchemaFile) -> Shape:
        """Returns what the statements up to `file` declare of its table."""
        return self.shapes(file)[1]

    def shapes(self, file: SchemaFile) -> tuple[Shape, Shape]:
        """Returns what the statements declare of its table before `file` and after it."""
        told = self._declared_by_path.get(file.path)
        if told is None:
            return Shape(), Shape()
        if told.file is not file:  # a RENAME declares nothing
            return told.shape(), told.shape()
        return Shape() if told.before is None or told.copy else told.before.shape(), told.shape()

    # How it is recorded

    def _record(self, file: SchemaFile, event: Event | None, fate: Fate) -> Incarnation:
        """Returns the table to which the file's columns belong, with these columns."""
        if event is not None and event.action in RENAME_ACTIONS:
            table = self._renamed(event)
        elif event is not None and event.action in CREATE_ACTIONS:
            table = self._created(event, fate)
        else:
            table = self._table_of(file)
            table.declared = table.declared if event is None else TableState(file, fate, table.declared)
        table.columns = file.columns
        if table.declared is not None:
            self._declared_by_path[file.path] = table.declared
        if not self._beyond:
            table.files.append(file)
        return table

    def _table_of(self, file: SchemaFile) -> Incarnation:
        """Returns the table of the file's name. One that is not known yet is older than the changefeed."""
        table = self.tables.get(file.name)
        if table is None:
            table = self._new(Incarnation(None, [], []))
            # It existed all along, unless there was another one.
            self._name(table, file, 0, file.version if file.name in self._holders else 0)
        return table

    def _created(self, event: Event, fate: Fate) -> Incarnation:
        file, database_charset = event.file, self._databases.get(event.file.database)
        if event.action is Action.RECOVER_TABLE:
            told = self._recovered(file)
        elif "LIKE" in file.query.upper() and statement_changes(file).named("like") is not None:
            copied = self.tables.get(event.copied)
            told = TableState(file, fate, None if copied is None else copied.declared, copy=True)
        else:
            told = TableState(file, fate, collation="" if database_charset is None else database_charset.collation)
        table = self._new(Incarnation(file, [], [], declared=told))
        self._name(table, file, file.version)
        return table

    def _renamed(self, event: Event) -> Incarnation:
        file, old = event.file, event.old_name
        table = self.tables.move(old, file.name, file.version)
        if table is None:
            table = self._new(Incarnation(None, [], []) if old is None else Incarnation(None, [old], [0]))
            if old is not None and not self._beyond:
                self._all_holders[old].append(table)
        if old is not None and old not in self.tables:
            self._hold(old, file.version, None)
        self._name(table, file, file.version)
        return table

    def _ended(self, name: TableName, file: SchemaFile) -> Incarnation | None:
        """Removes the table of the name, which the statement of `file` drops, and returns it."""
        table = self.tables.remove(name)
        self._hold(name, file.version, None)
        if table is not None:
            self._declared_by_lost_name[name.folded] = table.declared
            if not self._beyond:
                table.end = file
        return table

    def _database(self, event: Event) -> None:
        file = event.file
        for name in event.drops:
            self._ended(name, file)
        declared = statement_changes(file).charset
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
        self._all_holders[name].append(table)

    def _hold(self, name: TableName, version: int, table: Incarnation | None) -> None:
        if not self._beyond:
            self._holders[name].append(_NameHolder(version, table))

    def _recovered(self, file: SchemaFile) -> TableState | None:
        """Returns what is declared of a table that was dropped, or was truncated and still exists."""
        lost = recovered_table(file)
        if lost is None:
            return None
        live = (self.tables[name] for name in self.tables.called(lost.table, lost.database))
        return self._declared_by_lost_name.get(lost.folded) or next((table.declared for table in live), None)

    def _copied(self, file: SchemaFile) -> TableName | None:
        if "LIKE" not in file.query.upper():
            return None
        source = statement_changes(file).named("like")
        return None if source is None else self.session(file).meant(source, self.tables)


def exchanged_tables(file: SchemaFile) -> Iterator[TableName]:
    """Yields the tables between which an EXCHANGE PARTITION moves rows."""
    yield file.name
    if (other := statement_changes(file).named("exchange")) is not None:
        yield other.within(file.database)
