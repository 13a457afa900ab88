"""Decides whether a statement was executed, by the definitions of what it touches, before it and now.

No rows above a statement's version are written before it is recorded. So a change here was made by the statement, or by
somebody else between the intent of the statement and the next run. In that case names decide (`may_run`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pymysql

from consumer.ddl.changes import counts_partitions, statement_changes
from consumer.ddl.indexes import IndexChanges, indexes_after
from consumer.ddl.partitions import PartitionClause, PartitionedTable, altered_table
from consumer.ddl.rewrite_mysql import is_never_created
from consumer.errors import TargetBusy
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.names import TableName, qualified, quote, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import Partition, TableIndexes
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import BROKEN_VIEW, MISSING, errno
from consumer.sink.mysql.tables.describe import describe_tables, has_row, table_indexes
from consumer.sink.progress_layout import damaged

_COUNTERS = re.compile(r" AUTO_(INCREMENT|RANDOM_BASE|ID_CACHE)=\d+|/\*T!\[auto_rand_base\] [^*]*\*/")
_NOT_A_BASE_TABLE, _NO_PRIVILEGE = 1347, 1044


@dataclass(frozen=True, slots=True)
class BeforeState:
    """The state before a statement.

    `number` is that of the statement that is about to run, if one query became several. `definitions` belong to
    `database` ("" for none) and `tables`. `contents` belong to `exchanged`, the tables whose rows an EXCHANGE PARTITION
    moves: their definitions stay the same. None stands for what does not exist.
    """

    number: int
    database: str
    tables: tuple[TableName, ...]
    exchanged: tuple[TableName, ...]
    definitions: tuple[str | None, ...]
    contents: tuple[str | None, ...]

    def dump(self) -> str:
        tables = [[name.database, name.table] for name in self.tables]
        exchanged = [[name.database, name.table] for name in self.exchanged]
        return json.dumps([self.number, self.database, tables, exchanged, self.definitions, self.contents])

    @classmethod
    def parse(cls, text: str) -> BeforeState:
        """Raises BadConfig for a text that `dump` has not written."""
        try:
            number, database, tables, exchanged, definitions, contents = json.loads(text)
        except ValueError as error:
            raise damaged(f"{text[:40]!r} is no state of a table") from error
        return cls(
            number,
            database,
            tuple(TableName(*name) for name in tables),
            tuple(TableName(*name) for name in exchanged),
            tuple(definitions),
            tuple(contents),
        )

    def exists(self, name: TableName) -> bool:
        """Returns whether the table, one of `tables`, existed."""
        return self.definition(name) is not None

    def definition(self, name: TableName) -> str | None:
        """Returns a hash of the definition of the table, one of `tables`. None if it did not exist."""
        return self.definitions[self.tables.index(name)]


def before_state(cursor: pymysql.cursors.Cursor, step: ApplyDdl, flavor: FlavorName) -> BeforeState:
    """Returns the state of what `step` is about to change."""
    database = step.name.database if step.file.type in DATABASE_ACTIONS else ""
    names = {*step.touches, step.name, *((step.old_name,) if step.old_name else ())}
    tables = () if database else tuple(sorted(name for name in names if name.table))
    exchange = step.file.type == Action.EXCHANGE_PARTITION
    exchanged = tuple(name for name in tables if name != step.name) if exchange else ()
    return observe_state(cursor, 0, database, tables, exchanged, flavor)


def current_state(cursor: pymysql.cursors.Cursor, before: BeforeState, number: int, flavor: FlavorName) -> BeforeState:
    """Returns the present state of what `before` describes, with statement `number` next."""
    return observe_state(cursor, number, before.database, before.tables, before.exchanged, flavor)


def has_taken_effect(step: ApplyDdl, before: BeforeState, now: BeforeState) -> bool:
    """Returns whether statement ``before.number`` of `step`, and not somebody else, turned `before` into `now`.

    1. A statement about a database has created or dropped it.
    2. An EXCHANGE PARTITION has exchanged rows.
    3. A RENAME, CREATE or DROP: the name that it creates exists, and the name that it removes no longer does.
    4. Any other statement has changed the definition of its own table.
    """
    table, action = step.name_before, step.file.type
    if action in DATABASE_ACTIONS:
        return (now.definitions[0] is None) != (before.definitions[0] is None)
    if action == Action.EXCHANGE_PARTITION:
        return now.contents != before.contents
    if before.number == 0 and action in RENAME_ACTIONS:
        old = step.old_name
        moved = old is None or (before.exists(old) and not now.exists(old))
        return moved and not before.exists(table) and now.exists(table)
    if before.number == 0 and action in DROP_ACTIONS:
        return not now.exists(table)
    if before.number == 0 and action in CREATE_ACTIONS and not before.exists(table):
        return now.exists(table)
    return now.definition(table) != before.definition(table)


def observe_state(
    cursor: pymysql.cursors.Cursor,
    number: int,
    database: str,
    tables: tuple[TableName, ...],
    exchanged: tuple[TableName, ...],
    flavor: FlavorName,
) -> BeforeState:
    """Returns the present state, with statement `number` next."""
    definitions = [_definition(cursor, f"SHOW CREATE DATABASE {quote(database)}")] if database else []
    definitions += [_definition(cursor, f"SHOW CREATE TABLE {qualified(t.database, t.table)}") for t in tables]
    contents = [_content(cursor, name, flavor) for name in exchanged]
    return BeforeState(number, database, tables, exchanged, tuple(definitions), tuple(contents))


def wait_for_running(cursor: pymysql.cursors.Cursor, tables: Sequence[TableName], flavor: FlavorName) -> None:
    """Waits for a statement on `tables` that an earlier run sent and the server still executes. Raises TargetBusy if it
    takes long."""
    for name in tables:
        if flavor == "tidb":
            _check_jobs(cursor, name)
            continue
        try:
            cursor.execute(f"LOCK TABLES {qualified(name.database, name.table)} WRITE")
        except pymysql.MySQLError as error:
            if errno(error) not in MISSING | {_NOT_A_BASE_TABLE, BROKEN_VIEW, _NO_PRIVILEGE}:
                raise
        cursor.execute("UNLOCK TABLES")


def _check_jobs(cursor: pymysql.cursors.Cursor, name: TableName) -> None:
    """Raises TargetBusy for a running job. A job has names in lower case. A job for a whole database has no table, and
    one that renames several tables has a list."""
    cursor.execute(
        "SELECT job_id FROM information_schema.ddl_jobs"
        " WHERE state NOT IN ('synced', 'done', 'cancelled', 'rollback done') AND (job_type = 'rename tables'"
        " OR (db_name = LOWER(%s) AND table_name IN ('', LOWER(%s))))",
        (name.database, name.table),
    )
    if job := cursor.fetchone():
        raise TargetBusy(f"the target still runs the DDL job {job[0]} on {name}", table=str(name))


def _definition(cursor: pymysql.cursors.Cursor, statement: str) -> str | None:
    """Returns a hash of the definition, without the counters that rows change."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if errno(error) in MISSING:
            return None
        if errno(error) == BROKEN_VIEW:
            return "broken view"
        raise
    return hashlib.sha256(_COUNTERS.sub("", cursor.fetchone()[1]).encode()).hexdigest()


def _content(cursor: pymysql.cursors.Cursor, name: TableName, flavor: FlavorName) -> str | None:
    if flavor == "tidb":
        cursor.execute(
            "SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (name.database, name.table),
        )
        row = cursor.fetchone()
        return str(row[0]) if row else None
    table = qualified(name.database, name.table)
    cursor.execute(f"CHECKSUM TABLE {table} EXTENDED")
    checksum = cursor.fetchone()[1]
    if checksum is None:
        return None
    cursor.execute(f"SELECT COUNT(*) FROM {table}")
    return f"{checksum} {cursor.fetchone()[0]}"


_REPEATED = frozenset(
    {
        Action.TRUNCATE_TABLE,
        Action.TRUNCATE_PARTITION,
        Action.SET_DEFAULT_VALUE,
        Action.REBASE_AUTO_ID,
        Action.MODIFY_TABLE_COMMENT,
        Action.MODIFY_TABLE_CHARSET,
        Action.ALTER_INDEX_VISIBILITY,
    }
)
"""Statements with the same result however often they run. Rows above their version never exist before they are
recorded."""
_MODIFY = frozenset({Action.MODIFY_COLUMN, Action.MULTI_SCHEMA_CHANGE})
"""The same holds for these if no name appears or disappears, and no name moves to another column."""
_SHOWN_OTHERWISE = (
    CREATE_ACTIONS | DROP_ACTIONS | RENAME_ACTIONS | DATABASE_ACTIONS | frozenset({Action.EXCHANGE_PARTITION})
)
_Names = frozenset[tuple[str, str]]
"""Names of columns, indexes, foreign keys and partitions in lower case, each after its kind."""


def may_run(cursor: pymysql.cursors.Cursor, step: ApplyDdl, flavor: FlavorName) -> bool:
    """Returns whether `step` is to be executed although its table's definition has changed since the intent. It is one
    statement about one table. Its execution is right in two cases:

    1. It has the same result however often it runs.
    2. It has certainly not run: a name that it creates does not exist, or a name that it removes does.
    """
    if step.file.type in _REPEATED:
        return True
    if step.mode_ddl is not None or step.file.type in _SHOWN_OTHERWISE:
        return False
    indexes = table_indexes(cursor, step.name_before)
    names = _names_there(cursor, step.name_before, indexes)
    parsed = statement_changes(step.statement).indexes
    unknown = not step.table_before.indexes.complete and _leaves_names_open(parsed)
    created, removed = _names_moved(step, indexes, names, unknown, flavor)
    if created or removed:
        return not created <= names or not removed.isdisjoint(names)
    moves = bool(parsed.renamed) or any(loss.renamed_to is not None for loss in parsed.losses)
    return step.file.type in _MODIFY and not moves and not unknown


def was_made_by_others(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> bool:
    """Returns whether the table that `step` creates exists and was certainly made by somebody else: it has rows."""
    if step.file.type not in (Action.CREATE_TABLE, Action.CREATE_TABLES):
        return False
    return has_row(cursor, step.name)


def _leaves_names_open(parsed: IndexChanges) -> bool:
    """Returns whether a statement creates an index or a foreign key without a name. It gets a name that no other has.
    That name is not known if the other names of that time are not."""
    return any(index.name is None for index in parsed.defined) or any(name is None for name, _ in parsed.foreign_keys)


def _names_moved(
    step: ApplyDdl, indexes: TableIndexes, names: _Names, unknown: bool, flavor: FlavorName
) -> tuple[_Names, _Names]:
    """Returns the names that the statement creates, and those that it removes. The target has these `indexes` and
    `names` now. `unknown` says that nothing is known of the names of indexes."""
    changes = statement_changes(step.statement)
    before = {*_of_columns(step.table_before.columns or ())}
    later = set() if step.table_before.columns is None else {*_of_columns(step.file.columns)}
    if not unknown:
        declared = (
            step.table_before.indexes
            if step.table_before.indexes.complete
            else step.table_before.indexes.completed_by(indexes)
        )
        before |= {*_of_indexes(_made(declared, flavor))}
        later |= {*_of_indexes(_made(indexes_after(declared, changes.indexes, step.file.version), flavor))}
    for clause in changes.partitions.clauses:
        later |= {*_named("partition", (part.name for part in _defined(clause)))}
        before |= {*_named("partition", clause.names)}
        if clause.verb == "REMOVE PARTITIONING":
            before |= {name for name in names if name[0] == "partition"}
    if counts_partitions(step.statement):
        known_parts = PartitionedTable(step.table_before.partitioning)
        before |= {*_of_partitions(known_parts)}
        later |= {*_of_partitions(altered_table(known_parts, changes.partitions))}
    return frozenset(later - before), frozenset(before - later)


def _names_there(cursor: pymysql.cursors.Cursor, table: TableName, indexes: TableIndexes) -> _Names:
    shown = describe_tables(cursor, [table]).get(table)
    cursor.execute(
        "SELECT partition_name FROM information_schema.partitions"
        " WHERE table_schema = %s AND table_name = %s AND partition_name IS NOT NULL",
        (table.database, table.table),
    )
    parts = _named("partition", (name for (name,) in cursor.fetchall()))
    columns = _named("column", (column.name for column in shown.columns) if shown else ())
    return frozenset([*columns, *_of_indexes(indexes), *parts])


def _defined(clause: PartitionClause) -> Iterable[Partition]:
    return (*clause.added, *(clause.by.partitions if clause.by is not None else ()))


def _of_columns(columns: Iterable[Column]) -> Iterator[tuple[str, str]]:
    return _named("column", (column.name for column in columns if not column.hidden))


def _of_partitions(table: PartitionedTable) -> Iterator[tuple[str, str]]:
    return _named("partition", (part.name for part in table.partitioning.partitions) if table.partitioning else ())


def _made(indexes: TableIndexes, flavor: FlavorName) -> TableIndexes:
    return replace(indexes, indexes=tuple(index for index in indexes.indexes if not is_never_created(index, flavor)))


def _of_indexes(indexes: TableIndexes) -> Iterator[tuple[str, str]]:
    yield from _named("index", (index.name for index in indexes.indexes))
    yield from _named("foreign key", (key.name_in_target for key in indexes.foreign_keys))


def _named(kind: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((kind, same_name(name)) for name in names)
