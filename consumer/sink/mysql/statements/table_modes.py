"""Upstream's statements for a table that is not a mirror, merged tables included. They are made from the columns before
and after the statement, because its text is also about keys, indexes and defaults that such a table does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymysql

from consumer.ddl.changes import declared_columns
from consumer.ddl.declared import Definition, Definitions, NoExactValue, backfill_text
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, Action
from consumer.model.columns import Column, Family
from consumer.model.names import by_name, literal, qualified, quote, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import SOURCE, ModeDdl, source_of
from consumer.model.times import zone_of
from consumer.sink.common import closing_statement, merge_conflict, only_own_rows, rows_exist
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import MISSING, errno
from consumer.sink.mysql.tables.columns import column_type
from consumer.sink.progress_layout import SCHEMA

_WITHOUT_DEFAULT = ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "JSON", "VECTOR", "TIMESTAMP")
_ZERO_DATE = "0000-00-00"
_BLOBS = ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")


def mode_statements(step: ApplyDdl, mode_ddl: ModeDdl, zone: str, flavor: FlavorName) -> list[str]:
    """Returns the statements, none for a statement about something that such a table does not have. `zone` is the
    changefeed's. Raises DdlRefused."""
    table_sql = qualified(step.name.database, step.name.table)
    for column in mode_ddl.after:
        if column.labelled and not column.elements:
            raise DdlRefused(f"nothing shows the labels of column {column.name}")
    if mode_ddl.mode.merges:
        return merged_statements(Merged(step, mode_ddl, zone))
    if step.action in CREATE_ACTIONS:
        return [_created(mode_ddl, table_sql)]
    if step.action == Action.TRUNCATE_TABLE and not mode_ddl.mode.keeps_ended:
        return [f"TRUNCATE TABLE {table_sql}"]
    if step.action == Action.TRUNCATE_TABLE:
        stays = times_stay(mode_ddl.after[: -len(mode_ddl.mode.added)])
        return [
            closing_statement(
                mode_ddl,
                table_sql=table_sql,
                table=step.table,
                version=step.file.version,
                quote=quote,
                literal=literal,
                key_expression=_bytewise,
                stays=stays,
            )
        ]
    return list(_altered(step, mode_ddl, table_sql, zone, flavor))


def _created(mode_ddl: ModeDdl, table_sql: str) -> str:
    """Returns the CREATE TABLE. TiDB's own collation distinguishes everything that upstream distinguishes."""
    key = ", ".join(quote(column.name) for column in mode_ddl.after if column.is_pk)
    lines = [*map(_declared, mode_ddl.after), f"PRIMARY KEY ({key})"]
    return f"CREATE TABLE {table_sql} ({', '.join(lines)}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def _declared(column: Column) -> str:
    # A server fills a TIMESTAMP that is NOT NULL with values of its own, unless it has a default.
    default = " DEFAULT '2000-01-01 00:00:00'" if column.type == "TIMESTAMP" else ""
    # Rows carry vectors as text, as in a mirror.
    kind = "LONGTEXT" if column.family is Family.VECTOR else column_type(column)
    return f"{quote(column.name)} {kind} {f'NOT NULL{default}' if column.is_pk else 'NULL'}"


def _altered(step: ApplyDdl, mode_ddl: ModeDdl, table_sql: str, zone: str, flavor: FlavorName) -> Iterator[str]:
    parsed = declared_columns(step.file, mode_ddl.mode, mode_ddl.before)
    before = by_name(mode_ddl.before)
    clauses, fills, stayed, same = list[str](), list[str](), set[str](), list[Column]()
    position = "FIRST"
    for column in mode_ddl.after:
        old = _old(column, parsed, mode_ddl)
        if old is None or old not in before:
            default, fill = _backfill(step, column, parsed, zone)
            clauses.append(f"ADD COLUMN {_declared(column)}{default} {position}")
            fills += fill
        else:
            stayed.add(old)
            same += [column] if column not in mode_ddl.mode.added else []
            if _declared(before[old]) != _declared(column):
                clauses.append(f"CHANGE COLUMN {quote(before[old].name)} {_declared(column)}")
        position = f"AFTER {quote(column.name)}"
    clauses += [f"DROP COLUMN {quote(column.name)}" for name, column in before.items() if name not in stayed]
    # TiDB cannot place a column after one that the same statement adds or changes.
    for part in clauses if flavor == "tidb" else filter(None, [", ".join(clauses)]):
        yield f"ALTER TABLE {table_sql} {part}"
    if fills:
        yield f"UPDATE {table_sql} SET {', '.join([*fills, *times_stay(same)])}"


def _old(column: Column, parsed: Definitions, mode_ddl: ModeDdl) -> str | None:
    """Returns the column's name before the statement, in lower case."""
    return same_name(column.name) if column in mode_ddl.mode.added else parsed.old_name(column.name)


def _assigned(step: ApplyDdl, column: Column, parsed: Definitions, zone: str) -> str:
    """Returns the assignment that gives existing rows a new column's value."""
    default, fill = _backfill(step, column, parsed, zone)
    return next(iter(fill), f"{quote(column.name)} = {default.removeprefix(' DEFAULT ') or 'NULL'}")


def _backfill(step: ApplyDdl, column: Column, parsed: Definitions, zone: str) -> tuple[str, Sequence[str]]:
    """Returns what gives existing rows a new column's value: the text of a default, or an assignment."""
    definition = parsed.columns.get(same_name(column.name), Definition())
    try:
        text = backfill_text(column, definition, step.file.version, zone_of(zone))
    except NoExactValue as error:
        raise DdlRefused(
            f"the rows that are there cannot be given the values of column {column.name}: {error}"
        ) from error
    if text is None:
        return "", ()
    value = _value(column, text)
    if column.type == "TIMESTAMP":
        zero = text.startswith(_ZERO_DATE)  # it is the same in every zone, and CONVERT_TZ cannot convert it
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
    """A statement about a table that is merged with others. It affects only the rows of its own table, and adds columns
    that the merged table lacks. A column that only some of the tables have is NULL in the rows of the others. All of it
    can be repeated until it is recorded."""

    step: ApplyDdl
    mode_ddl: ModeDdl
    zone: str
    """The changefeed's."""

    @property
    def table_sql(self) -> str:
        return qualified(self.step.name.database, self.step.name.table)

    @property
    def own_rows(self) -> str:
        """Returns the condition for the rows of the statement's table."""
        source = quote(self.mode_ddl.mode.name(SOURCE))
        return f"{source} = {literal(source_of(self.step.table))}"

    def columns(self, table_sql: str) -> str:
        """Returns the columns with the source first in the key, so that the rows of one table are together."""
        ordered = sorted(self.mode_ddl.after, key=lambda column: column not in self.mode_ddl.mode.added)
        key = ", ".join(quote(column.name) for column in ordered if column.is_pk)
        lines = [*map(_declared, ordered), f"PRIMARY KEY ({key})"]
        return f"{table_sql} ({', '.join(lines)}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

    def added(self, column: Column) -> str:
        return f"ALTER TABLE {self.table_sql} ADD COLUMN {_declared(column)}"

    @property
    def brought(self) -> tuple[Column, ...]:
        """Returns the columns that are new to the statement's table."""
        old_name = declared_columns(self.step.file, self.mode_ddl.mode, self.mode_ddl.before).old_name
        before = {same_name(column.name) for column in self.mode_ddl.before}
        columns = self.mode_ddl.after[: -len(self.mode_ddl.mode.added)]
        return tuple(column for column in columns if old_name(column.name) not in before)

    @property
    def filled(self) -> Iterator[str]:
        """Yields the statement that gives the table's rows their values in new columns, and NULL in dropped columns."""
        names = {same_name(column.name) for column in self.mode_ddl.after}
        parsed = declared_columns(self.step.file, self.mode_ddl.mode, self.mode_ddl.before)
        values = [_assigned(self.step, column, parsed, self.zone) for column in self.brought]
        values += [f"{quote(c.name)} = NULL" for c in self.mode_ddl.before if same_name(c.name) not in names]
        if values:
            brought = {column.name for column in self.brought}
            columns = self.mode_ddl.after[: -len(self.mode_ddl.mode.added)]
            values += times_stay(column for column in columns if column.name not in brought)
            yield f"UPDATE {self.table_sql} SET {', '.join(values)} WHERE {self.own_rows}"


def times_stay(columns: Iterable[Column]) -> list[str]:
    """Returns assignments for an UPDATE that keep columns unchanged which may be ON UPDATE CURRENT_TIMESTAMP, if
    somebody else created the table."""
    names = (quote(column.name) for column in columns if column.type in ("TIMESTAMP", "DATETIME"))
    return [f"{name} = {name}" for name in names]


def merged_statements(merged: Merged) -> list[str]:
    """Returns the statements for the case that the merged table has none of the new columns."""
    action = merged.step.action
    if action in CREATE_ACTIONS:
        return [f"CREATE TABLE IF NOT EXISTS {merged.columns(merged.table_sql)}"]
    if action in (Action.TRUNCATE_TABLE, Action.DROP_TABLE):
        return [f"DELETE FROM {merged.table_sql} WHERE {merged.own_rows}"]
    return [*map(merged.added, merged.brought), *merged.filled]


def run_merged(cursor: pymysql.cursors.Cursor, merged: Merged, check: Callable[[], None]) -> str:
    """Executes the statement and returns a note. `check` raises if another run has begun. Raises DdlRefused, before
    rows are changed, if the statement's table cannot be merged into the table of the target."""
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
    shown = _check_columns(cursor, merged, complete=False)
    columns = merged.mode_ddl.after[: -len(merged.mode_ddl.mode.added)] if creates else merged.brought
    for column in columns:
        if same_name(column.name) not in shown and not column.is_pk:
            check()
            _add(cursor, merged.added(column))
    _check_columns(cursor, merged, complete=True)
    if creates:
        cursor.execute(f"SELECT 1 FROM {merged.table_sql} WHERE {merged.own_rows} LIMIT 1")
        if cursor.fetchone():
            raise rows_exist(step, f"DELETE FROM {merged.table_sql} WHERE {merged.own_rows}")
    for statement in () if creates else merged.filled:
        check()
        cursor.execute(statement)
    return ""


def _add(cursor: pymysql.cursors.Cursor, statement: str) -> None:
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if errno(error) != _COLUMN_EXISTS:  # the statement of another table has added it meanwhile
            raise


_Shown = Mapping[str, tuple[str, str, bool]]
"""Maps a column's lower-case name to its type, its collation, and whether it is in the primary key."""


def _shown(cursor: pymysql.cursors.Cursor, table_sql: str) -> _Shown:
    cursor.execute(f"SHOW FULL COLUMNS FROM {table_sql}")
    return {
        same_name(name): (kind, collation or "", key == "PRI")
        for name, kind, collation, _, key, *_ in cursor.fetchall()
    }


def _check_columns(cursor: pymysql.cursors.Cursor, merged: Merged, complete: bool) -> _Shown:
    """Returns the table's columns. The server shows how it would create the statement's columns. The table must have
    the same ones, all of them if `complete`. Raises DdlRefused otherwise."""
    # The user has the right to create temporary tables in this database.
    probe, step = qualified(SCHEMA, _PROBE), merged.step
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {probe}")
    cursor.execute(f"CREATE TEMPORARY TABLE {merged.columns(probe)}")
    wanted, present = _shown(cursor, probe), _shown(cursor, merged.table_sql)
    cursor.execute(f"DROP TEMPORARY TABLE {probe}")
    keys = [{name for name, (_, _, is_pk) in shown.items() if is_pk} for shown in (wanted, present)]
    if keys[0] != keys[1]:
        key_text, others = (", ".join(sorted(key)) or "none" for key in keys)
        raise merge_conflict(step, f"its key would be {key_text}, and that of {step.name} is {others}")
    for column in merged.mode_ddl.after:
        name = same_name(column.name)
        if name not in present and complete:
            raise merge_conflict(step, f"{step.name} of the target has no column {column.name}")
        if name in present and present[name][:2] != wanted[name][:2]:
            raise merge_conflict(
                step,
                f"its column {column.name} would be {wanted[name][0]}, and in {step.name} it is {present[name][0]}",
            )
    return present
