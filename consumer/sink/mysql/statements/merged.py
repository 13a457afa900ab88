"""What upstream's statements do to a table of which the rows are of several tables of upstream: each is about its own
table's rows, and brings columns that are not there yet. A column that only some of the tables have is NULL in the rows
of the others. All of it can run again until it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pymysql

from consumer.ddl.changes import declared_columns
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.names import literal, qualified, quote, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import SOURCE, FormedDdl, source_of
from consumer.sink.merging import conflict, only_own_rows, rows_there
from consumer.sink.mysql.server.errors import MISSING, errno
from consumer.sink.progress_layout import SCHEMA

_COLUMN_EXISTS = 1060
_PROBE = "merged_columns"

Declared = Callable[[Column], str]
Assigned = Callable[[Column], str]


@dataclass(frozen=True, slots=True)
class Merged:
    """`declared` writes a column for a CREATE or ALTER TABLE, `assigned` gives the rows that are there the value of a
    new one."""

    step: ApplyDdl
    formed: FormedDdl
    declared: Declared
    assigned: Assigned

    @property
    def there(self) -> str:
        return qualified(self.step.name.database, self.step.name.table)

    @property
    def own(self) -> str:
        """The condition for the rows of the statement's table."""
        source = quote(self.formed.mode.name(SOURCE))
        return f"{source} = {literal(source_of(self.step.table))}"

    def columns(self, there: str) -> str:
        """With the source at the beginning of the key, so that the rows of one table are together."""
        ordered = sorted(self.formed.after, key=lambda column: column not in self.formed.mode.added)
        key = ", ".join(quote(column.name) for column in ordered if column.is_pk)
        lines = [*map(self.declared, ordered), f"PRIMARY KEY ({key})"]
        return f"TABLE {there} ({', '.join(lines)}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

    def added(self, column: Column) -> str:
        return f"ALTER TABLE {self.there} ADD COLUMN {self.declared(column)}"

    @property
    def brought(self) -> tuple[Column, ...]:
        """The columns that are new to the statement's table."""
        old_name = declared_columns(self.step.file, self.formed.mode, self.formed.before).old_name
        before = {same_name(column.name) for column in self.formed.before}
        own = self.formed.after[: -len(self.formed.mode.added)]
        return tuple(column for column in own if old_name(column.name) not in before)

    @property
    def filled(self) -> Iterator[str]:
        """The statement that gives the table's rows their values in columns that come, and none in those that go."""
        there = {same_name(column.name) for column in self.formed.after}
        values = [*map(self.assigned, self.brought)]
        values += [f"{quote(c.name)} = NULL" for c in self.formed.before if same_name(c.name) not in there]
        if values:
            brought = {column.name for column in self.brought}
            own = self.formed.after[: -len(self.formed.mode.added)]
            values += times_stay(column for column in own if column.name not in brought)
            yield f"UPDATE {self.there} SET {', '.join(values)} WHERE {self.own}"


def times_stay(columns: Iterable[Column]) -> list[str]:
    """Assignments of an UPDATE which keep columns that can be ON UPDATE CURRENT_TIMESTAMP, where somebody made the
    table, as they are."""
    names = (quote(column.name) for column in columns if column.type in ("TIMESTAMP", "DATETIME"))
    return [f"{name} = {name}" for name in names]


def merged_statements(merged: Merged) -> list[str]:
    """What the statement comes to where the table has none of the columns that it brings."""
    action = merged.step.action
    if action in CREATE_ACTIONS:
        return [f"CREATE {merged.columns(merged.there).replace('TABLE', 'TABLE IF NOT EXISTS', 1)}"]
    if action in (Action.TRUNCATE_TABLE, Action.DROP_TABLE):
        return [f"DELETE FROM {merged.there} WHERE {merged.own}"]
    return [*map(merged.added, merged.brought), *merged.filled]


def run_merged(cursor: pymysql.cursors.Cursor, merged: Merged, check: Callable[[], None]) -> str:
    """Do it; returns a note. `check` raises where another run has begun. Raises DdlRefused where the table in the
    target is not one that the statement's table can be merged into, before rows are changed."""
    step, statements = merged.step, merged_statements(merged)
    if step.action in (Action.TRUNCATE_TABLE, Action.DROP_TABLE):
        try:
            cursor.execute(*statements)
        except pymysql.MySQLError as error:
            if errno(error) in MISSING and step.action in DROP_ACTIONS:
                return f"{step.name} was not there"
            raise
        return only_own_rows(step)
    creates = step.action in CREATE_ACTIONS
    if creates:
        cursor.execute(*statements)
    there = _check_columns(cursor, merged, whole=False)
    own = merged.formed.after[: -len(merged.formed.mode.added)] if creates else merged.brought
    for column in own:
        if same_name(column.name) not in there and not column.is_pk:
            check()
            _add(cursor, merged.added(column))
    _check_columns(cursor, merged, whole=True)
    if creates:
        cursor.execute(f"SELECT 1 FROM {merged.there} WHERE {merged.own} LIMIT 1")
        if cursor.fetchone():
            raise rows_there(step, f"DELETE FROM {merged.there} WHERE {merged.own}")
    for statement in () if creates else merged.filled:
        check()
        cursor.execute(statement)
    return ""


def _add(cursor: pymysql.cursors.Cursor, statement: str) -> None:
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if errno(error) != _COLUMN_EXISTS:  # the statement of another table brought it meanwhile
            raise


_Shown = Mapping[str, tuple[str, str, bool]]
"""By lower-case name of a column: its type, its collation, whether it is of the primary key."""


def _shown(cursor: pymysql.cursors.Cursor, there: str) -> _Shown:
    cursor.execute(f"SHOW FULL COLUMNS FROM {there}")
    return {
        same_name(name): (kind, collation or "", key == "PRI")
        for name, kind, collation, _, key, *_ in cursor.fetchall()
    }


def _check_columns(cursor: pymysql.cursors.Cursor, merged: Merged, whole: bool) -> _Shown:
    """The table's columns. The server says how it would make the statement's: the table must have them so, and must
    have all of them if `whole`."""
    probe, step = qualified(SCHEMA, _PROBE), merged.step  # temporary tables need a right that it has there
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
    cursor.execute(f"CREATE TEMPORARY {merged.columns(probe)}")
    wanted, there = _shown(cursor, probe), _shown(cursor, merged.there)
    cursor.execute(f"DROP TEMPORARY TABLE {probe}")
    keys = [{name for name, (_, _, is_pk) in shown.items() if is_pk} for shown in (wanted, there)]
    if keys[0] != keys[1]:
        own, others = (", ".join(sorted(key)) or "none" for key in keys)
        raise conflict(step, f"its key would be {own}, and that of {step.name} is {others}")
    for column in merged.formed.after:
        name = same_name(column.name)
        if name not in there and whole:
            raise conflict(step, f"{step.name} of the target has no column {column.name}")
        if name in there and there[name][:2] != wanted[name][:2]:
            raise conflict(
                step, f"its column {column.name} would be {wanted[name][0]}, and in {step.name} it is {there[name][0]}"
            )
    return there
