"""What upstream's statements do to a table that is no mirror. They are made of the columns before and behind it: the
text is about keys, indexes and defaults that such a table does not have. Tables that are merged are among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymysql

from consumer.ddl.changes import declared_columns
from consumer.ddl.declared import Definition, Definitions, NotExact, backfill_text
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, Action
from consumer.model.columns import Column, Family
from consumer.model.names import by_name, literal, qualified, quote, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import SOURCE, ModeDdl, source_of
from consumer.model.times import zone_of
from consumer.sink.common import closing_statement, merge_conflict, only_own_rows, rows_there
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import MISSING, errno
from consumer.sink.mysql.tables.columns import column_type
from consumer.sink.progress_layout import SCHEMA

_WITHOUT_DEFAULT = ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "JSON", "VECTOR", "TIMESTAMP")
_ZERO_DATE = "0000-00-00"
_BLOBS = ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")


def mode_statements(step: ApplyDdl, mode_ddl: ModeDdl, zone: str, flavor: FlavorName) -> list[str]:
    """None for a statement about what such a table does not have. `zone` is the changefeed's. Raises DdlRefused."""
    there = qualified(step.name.database, step.name.table)
    for column in mode_ddl.after:
        if column.labelled and not column.elements:
            raise DdlRefused(f"nothing tells the labels of column {column.name}")
    if mode_ddl.mode.merges:
        return merged_statements(Merged(step, mode_ddl, zone))
    if step.action in CREATE_ACTIONS:
        return [_created(mode_ddl, there)]
    if step.action == Action.TRUNCATE_TABLE and not mode_ddl.mode.keeps_ended:
        return [f"TRUNCATE TABLE {there}"]
    if step.action == Action.TRUNCATE_TABLE:
        stays = times_stay(mode_ddl.after[: -len(mode_ddl.mode.added)])
        return [closing_statement(mode_ddl, there, step.table, step.file.version, quote, literal, _bytewise, stays)]
    return list(_altered(step, mode_ddl, there, zone, flavor))


def _created(mode_ddl: ModeDdl, there: str) -> str:
    """TiDB's own collation tells apart whatever upstream does."""
    key = ", ".join(quote(column.name) for column in mode_ddl.after if column.is_pk)
    lines = [*map(_declared, mode_ddl.after), f"PRIMARY KEY ({key})"]
    return f"CREATE TABLE {there} ({', '.join(lines)}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def _declared(column: Column) -> str:
    # A server gives a TIMESTAMP that is NOT NULL values of its own, unless it has a default.
    default = " DEFAULT '2000-01-01 00:00:00'" if column.type == "TIMESTAMP" else ""
    # Rows carry vectors as text, as in a mirror.
    kind = "LONGTEXT" if column.family is Family.VECTOR else column_type(column)
    return f"{quote(column.name)} {kind} {f'NOT NULL{default}' if column.is_pk else 'NULL'}"


def _altered(step: ApplyDdl, mode_ddl: ModeDdl, there: str, zone: str, flavor: FlavorName) -> Iterator[str]:
    parsed = declared_columns(step.file, mode_ddl.mode, mode_ddl.before)
    before = by_name(mode_ddl.before)
    clauses, fills, stayed, same = list[str](), list[str](), set[str](), list[Column]()
    place = "FIRST"
    for column in mode_ddl.after:
        old = _old(column, parsed, mode_ddl)
        if old is None or old not in before:
            default, fill = _backfill(step, column, parsed, zone)
            clauses.append(f"ADD COLUMN {_declared(column)}{default} {place}")
            fills += fill
        else:
            stayed.add(old)
            same += [column] if column not in mode_ddl.mode.added else []
            if _declared(before[old]) != _declared(column):
                clauses.append(f"CHANGE COLUMN {quote(before[old].name)} {_declared(column)}")
        place = f"AFTER {quote(column.name)}"
    clauses += [f"DROP COLUMN {quote(column.name)}" for name, column in before.items() if name not in stayed]
    # A TiDB puts no column behind one that the same statement makes or changes.
    for part in clauses if flavor == "tidb" else filter(None, [", ".join(clauses)]):
        yield f"ALTER TABLE {there} {part}"
    if fills:
        yield f"UPDATE {there} SET {', '.join([*fills, *times_stay(same)])}"


def _old(column: Column, parsed: Definitions, mode_ddl: ModeDdl) -> str | None:
    """The name, in lower case, that the column had before."""
    return same_name(column.name) if column in mode_ddl.mode.added else parsed.old_name(column.name)


def _assigned(step: ApplyDdl, column: Column, parsed: Definitions, zone: str) -> str:
    """The assignment that gives the rows that are there a new column's value."""
    default, fill = _backfill(step, column, parsed, zone)
    return next(iter(fill), f"{quote(column.name)} = {default.removeprefix(' DEFAULT ') or 'NULL'}")


def _backfill(step: ApplyDdl, column: Column, parsed: Definitions, zone: str) -> tuple[str, Sequence[str]]:
    """What gives the rows that are there a new column's value: a default, or an assignment."""
    definition = parsed.columns.get(same_name(column.name), Definition())
    try:
        text = backfill_text(column, definition, step.file.version, zone_of(zone))
    except NotExact as error:
        raise DdlRefused(
            f"the rows that are there cannot be given the values of column {column.name}: {error}"
        ) from error
    if text is None:
        return "", ()
    value = _value(column, text)
    if column.type == "TIMESTAMP":
        zero = text.startswith(_ZERO_DATE)  # it is the same in every zone, and CONVERT_TZ takes it for none
        moment = value if zero else f"CONVERT_TZ({value}, '+00:00', @@session.time_zone)"
        return "", [f"{quote(column.name)} = {moment}"]
    if column.type in _WITHOUT_DEFAULT or column.type in _BLOBS:
        return "", [f"{quote(column.name)} = {value}"]
    return f" DEFAULT {value}", ()


def _value(column: Column, text: str) -> str:
    match column.family:
        case Family.BINARY:
            return f"x'{text.encode().hex()}'"
        case Family.BIT:
            return text
        case Family.YEAR:
            return str(int(text))  # as a text, 0 is the year 2000
        case _:
            return literal(text)


def _bytewise(column: Column) -> str:
    return f"CAST({quote(column.name)} AS BINARY)" if column.family is Family.TEXT else quote(column.name)


_COLUMN_EXISTS = 1060
_PROBE = "merged_columns"


@dataclass(frozen=True, slots=True)
class Merged:
    """A statement about a table of which the rows are of several tables of upstream: it is about its own table's rows,
    and brings columns that are not there yet. A column that only some of the tables have is NULL in the rows of the
    others. All of it can run again until it is recorded."""

    step: ApplyDdl
    mode_ddl: ModeDdl
    zone: str
    """The changefeed's."""

    @property
    def there(self) -> str:
        return qualified(self.step.name.database, self.step.name.table)

    @property
    def own(self) -> str:
        """The condition for the rows of the statement's table."""
        source = quote(self.mode_ddl.mode.name(SOURCE))
        return f"{source} = {literal(source_of(self.step.table))}"

    def columns(self, there: str) -> str:
        """With the source at the beginning of the key, so that the rows of one table are together."""
        ordered = sorted(self.mode_ddl.after, key=lambda column: column not in self.mode_ddl.mode.added)
        key = ", ".join(quote(column.name) for column in ordered if column.is_pk)
        lines = [*map(_declared, ordered), f"PRIMARY KEY ({key})"]
        return f"{there} ({', '.join(lines)}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

    def added(self, column: Column) -> str:
        return f"ALTER TABLE {self.there} ADD COLUMN {_declared(column)}"

    @property
    def brought(self) -> tuple[Column, ...]:
        """The columns that are new to the statement's table."""
        old_name = declared_columns(self.step.file, self.mode_ddl.mode, self.mode_ddl.before).old_name
        before = {same_name(column.name) for column in self.mode_ddl.before}
        own = self.mode_ddl.after[: -len(self.mode_ddl.mode.added)]
        return tuple(column for column in own if old_name(column.name) not in before)

    @property
    def filled(self) -> Iterator[str]:
        """The statement that gives the table's rows their values in columns that come, and none in those that go."""
        there = {same_name(column.name) for column in self.mode_ddl.after}
        parsed = declared_columns(self.step.file, self.mode_ddl.mode, self.mode_ddl.before)
        values = [_assigned(self.step, column, parsed, self.zone) for column in self.brought]
        values += [f"{quote(c.name)} = NULL" for c in self.mode_ddl.before if same_name(c.name) not in there]
        if values:
            brought = {column.name for column in self.brought}
            own = self.mode_ddl.after[: -len(self.mode_ddl.mode.added)]
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
        return [f"CREATE TABLE IF NOT EXISTS {merged.columns(merged.there)}"]
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
    own = merged.mode_ddl.after[: -len(merged.mode_ddl.mode.added)] if creates else merged.brought
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
    cursor.execute(f"CREATE TEMPORARY TABLE {merged.columns(probe)}")
    wanted, there = _shown(cursor, probe), _shown(cursor, merged.there)
    cursor.execute(f"DROP TEMPORARY TABLE {probe}")
    keys = [{name for name, (_, _, is_pk) in shown.items() if is_pk} for shown in (wanted, there)]
    if keys[0] != keys[1]:
        own, others = (", ".join(sorted(key)) or "none" for key in keys)
        raise merge_conflict(step, f"its key would be {own}, and that of {step.name} is {others}")
    for column in merged.mode_ddl.after:
        name = same_name(column.name)
        if name not in there and whole:
            raise merge_conflict(step, f"{step.name} of the target has no column {column.name}")
        if name in there and there[name][:2] != wanted[name][:2]:
            raise merge_conflict(
                step, f"its column {column.name} would be {wanted[name][0]}, and in {step.name} it is {there[name][0]}"
            )
    return there
