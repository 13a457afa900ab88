"""Derives which of upstream's tables the target has, from the statements that were executed there.

Under table rules that change, or with statements that a policy or a stop has skipped, the target's tables can have
other names than the upstream's, and tables can exist that the upstream no longer has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from consumer.history.history import History
from consumer.history.incarnations import Incarnation
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, MULTI_FILE_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import LEFT_UNDONE, DdlKind, DdlState, Progress, State
from consumer.model.steps import ddl_id


@dataclass(frozen=True, slots=True)
class TableInTarget:
    """A table that the target has under some name."""

    table: Incarnation
    since: int
    """The version of the statement that gave it the name there."""
    sure: bool
    """Whether a statement about it was executed there. Otherwise it is older than the changefeed and assumed to
    exist."""


class TargetTables:
    """The tables in the target, by their names `tables`: tables that exist or existed upstream. `ran` returns for each
    statement whether it was executed in the target."""

    def __init__(self, history: History, ran: Callable[[SchemaFile], bool]) -> None:
        self.tables: dict[TableName, TableInTarget] = {}
        self._names: dict[int, TableName] = {}
        self._ran = ran
        known_tables: set[int] = set()
        for file, table in history.followed_files:
            if table is not None and id(table) not in known_tables:
                known_tables.add(id(table))
                if table.birth is None and table.names[0] not in self.tables:
                    self._put(table.names[0], TableInTarget(table, 0, sure=False))
            if ran(file):
                self._executed(file, table)

    def name(self, table: Incarnation) -> TableName | None:
        """Returns the name of the table in the target, None if it does not exist there."""
        return self._names.get(id(table))

    def followed_name(self, table: Incarnation) -> TableName | None:
        """Returns the name of the table in the target if a statement about it ran there, else None."""
        name = self.name(table)
        return name if name is not None and self.tables[name].sure else None

    def followed_tables(self, progress: Progress) -> dict[TableName, Incarnation]:
        """Returns the tables that continue from what the target has, each as the statements executed there left it.
        Tables whose end was executed or skipped are left out: their remains belong to nobody."""
        tables: dict[TableName, Incarnation] = {}
        for name, entry in self.tables.items():
            table = entry.table
            ended = table.end is not None and (self._ran(table.end) or is_left_undone(table.end, progress))
            undone = any(f.version > entry.since and is_left_undone(f, progress) for f in table.statements)
            if ended or undone or progress.table(name).state is State.DROPPED:
                continue
            if (incarnation := table.as_executed(name, entry.since, self._ran)) is not None:
                tables[name] = incarnation
        return tables

    def remove(self, name: TableName) -> None:
        """The target's table no longer exists."""
        if (former := self.tables.pop(name, None)) is not None:
            del self._names[id(former.table)]

    def _executed(self, file: SchemaFile, table: Incarnation | None) -> None:
        action = file.action
        if action == Action.DROP_SCHEMA:
            for name in [name for name in self.tables if name.database == file.database]:
                self.remove(name)
        elif action in DROP_ACTIONS:
            self.remove(file.name)
        elif table is not None and action in CREATE_ACTIONS | RENAME_ACTIONS:
            self._put(file.name, TableInTarget(table, file.version, sure=True))
        elif table is not None and (name_there := self.name(table)) is not None:
            self.tables[name_there] = replace(self.tables[name_there], sure=True)

    def _put(self, name: TableName, entry: TableInTarget) -> None:
        if (former := self.name(entry.table)) is not None:
            self.remove(former)
        self.remove(name)
        self.tables[name] = entry
        self._names[id(entry.table)] = name


def is_pending(file: SchemaFile, progress: Progress) -> bool:
    """Returns whether the statement is still to run, or it is not known whether it has run."""
    record = progress.ddls.get(ddl_id(file))
    if record is not None:
        return record.state in (DdlState.INTENT, DdlState.REFUSED)
    applied_ts = progress.table(file.name).applied_ts
    return file.version > applied_ts or file.version == applied_ts != progress.start_of(file.name)


def needs_other_files(file: SchemaFile, progress: Progress) -> bool:
    """Returns whether the statement waits for C > V: at C == V the other files of its version may not be written
    yet."""
    return bool(file.query) and file.type in MULTI_FILE_ACTIONS and ddl_id(file) not in progress.ddls


def was_executed(file: SchemaFile, progress: Progress) -> bool:
    """Returns whether a statement ran, or somebody has done by hand what it means. One that broke off may have run."""
    if not file.query:
        return False
    record = progress.ddls.get(ddl_id(file))
    if record is None:
        return file.version <= progress.start_of(file.name)
    return record.state is not DdlState.REFUSED and record.kind not in (*LEFT_UNDONE, DdlKind.OVERTAKEN)


def is_settled(file: SchemaFile, progress: Progress) -> bool:
    """Returns whether a statement needs no more work."""
    record = progress.ddls.get(ddl_id(file))
    if record is None:
        return not file.query or file.version <= progress.start_of(file.name)
    return record.state in (DdlState.DONE, DdlState.SKIPPED)


def is_left_undone(file: SchemaFile, progress: Progress) -> bool:
    """Returns whether the statement will never be executed, because its table must not be created under that name."""
    record = progress.ddls.get(ddl_id(file))
    return record is not None and record.kind in LEFT_UNDONE
