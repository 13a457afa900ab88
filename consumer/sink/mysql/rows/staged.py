"""Puts that are staged in the session and then replace exactly the rows with the same keys. No other row is touched. A
row that is equal to another one in a unique key ends the load. This is the way of writing for

- rows of a table with a unique key that may compare more coarsely than upstream's, or that upstream may not have;
- rows that lack some of the target's columns, which are completed from the target;
- rows with key columns that the target computes, which nobody may write.

All happens in one transaction, and all staged rows are completed before one is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pymysql

from consumer.errors import CannotBeExact, Code, RowsCollide, SchemaDrift
from consumer.model.columns import Family
from consumer.model.hints import RESYNC
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, qualified, quote
from consumer.model.times import LOGICAL_BITS
from consumer.sink.mysql.rows.values import bytes_of
from consumer.sink.mysql.server.errors import DUPLICATE, errno
from consumer.sink.mysql.target import Server, TargetColumn, mysql_target, table_of
from consumer.sink.progress_layout import SCHEMA

_STAGE, _OWN, _KEYS = "stage", "stage_own", "stage_keys"
_ROW = "storage_consumer_row"
"""A staged row's number, and the stage's key: some servers require a key for every table."""
STAGED, _COMPLETING = "storage_consumer_staged", "storage_consumer_own"
"""Aliases of the two stages in statements. A table of the target can have any short name."""
_KEY_NAME = re.compile(r"for key '(?:.*\.)?([^']*)'$")


def stage_of(target: LoadTarget) -> str:
    """Returns the stage's name for statements."""
    return qualified(SCHEMA, _numbered(target, _STAGE))


def _own_of(target: LoadTarget) -> str:
    """Returns the name of the stage for the columns that the rows lack."""
    return qualified(SCHEMA, _numbered(target, _OWN))


def _numbered(target: LoadTarget, name: str) -> str:
    number = mysql_target(target).stage
    return f"{name}_{number}" if number else name


def make_stage(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """Creates the session's empty temporary tables for rows of `target`."""
    settings = mysql_target(target)
    with _outside_transactions(cursor):
        _make(cursor, target, stage_of(target), f"{_ROW} BIGINT AUTO_INCREMENT PRIMARY KEY", settings.columns)
        if target.extra_columns:
            _make(cursor, target, _own_of(target), f"{_ROW} BIGINT DEFAULT 0 PRIMARY KEY", settings.own_columns)


def begin_unlocked(cursor: pymysql.cursors.Cursor, server: Server) -> None:
    """Ends the current transaction. The next one does not lock rows that it only reads, nor gaps where it looks for a
    row: otherwise sessions would wait for one another. A binary log of statements needs these locks."""
    cursor.connection.commit()
    if server.flavor != "tidb" and not server.logs_statements:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def make_key_stage(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """As `make_stage`, for the key columns only."""
    columns = [mysql_target(target).columns[position] for position in target.key]
    with _outside_transactions(cursor):
        _make(cursor, target, key_stage_of(target), f"{_ROW} BIGINT AUTO_INCREMENT PRIMARY KEY", columns)


def key_stage_of(target: LoadTarget) -> str:
    return qualified(SCHEMA, _numbered(target, _KEYS))


def staged_keys(target: LoadTarget) -> LoadTarget:
    """Returns the stage of keys as a target of rows that have only the key columns."""
    settings = mysql_target(target)
    stage = settings.staged(TableName(SCHEMA, _numbered(target, _KEYS)), [settings.columns[n] for n in target.key])
    columns, names = tuple(target.columns[n] for n in target.key), tuple(target.names[n] for n in target.key)
    return replace(
        target, columns=columns, names=names, key=tuple(range(len(target.key))), settings=stage, extra_columns=()
    )


def drop_stage(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """Removes the stages after the transaction."""
    every = (stage_of(target), _own_of(target), key_stage_of(target))
    with _outside_transactions(cursor):
        cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {', '.join(every)}")


@contextmanager
def _outside_transactions(cursor: pymysql.cursors.Cursor) -> Iterator[None]:
    """Ends the current transaction. Servers with GTIDs create and drop temporary tables only in sessions that commit by
    themselves."""
    connection = cursor.connection
    try:
        connection.autocommit(True)
        yield
        connection.autocommit(False)
    except BaseException:
        if connection.open:
            connection.close()  # no rows may be written in such a session
        raise


def _make(
    cursor: pymysql.cursors.Cursor, target: LoadTarget, stage: str, row_column: str, columns: Sequence[TargetColumn]
) -> None:
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {stage}")
    if mysql_target(target).server.flavor == "tidb":  # it has no CREATE TABLE .. SELECT
        typed = (
            f"{quote(column.name)} {column.type}{f' COLLATE {column.collation}' if column.collation else ''} NULL"
            for column in columns
        )
        cursor.execute(f"CREATE TEMPORARY TABLE {stage} ({row_column}, {', '.join(typed)})")
        return
    names, table = _listed([column.name for column in columns]), table_of(target)
    cursor.execute(f"CREATE TEMPORARY TABLE {stage} ({row_column}) AS SELECT {names} FROM {table} LIMIT 0")


def stage_as_target(target: LoadTarget) -> LoadTarget:
    """Returns the stage as a target of the same rows."""
    settings = mysql_target(target)
    stage = settings.staged(TableName(SCHEMA, _numbered(target, _STAGE)), settings.columns)
    return replace(target, settings=stage, extra_columns=())


def write_staged(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> int:
    """Writes the staged rows in the current transaction. Returns how many of them are new in the target.

    Raises SchemaDrift if a new row would have no value for a column, RowsCollide if a row is equal, in a unique key, to
    another row of the load or of the target, CannotBeExact if the target computes other keys than upstream did.
    pymysql's errors pass through.
    """
    new = _complete(cursor, target) if target.extra_columns else 0
    table, stage = table_of(target), stage_of(target)
    # With an alias for the table, servers require a current database.
    cursor.execute(f"DELETE {table} FROM {stage} {STAGED} STRAIGHT_JOIN {table} ON {_same_handle(target)}")
    try:
        for statement in _inserts(target, new):
            cursor.execute(statement)
    except pymysql.MySQLError as error:
        if errno(error) not in DUPLICATE:
            raise
        raise _collision(target, str(error.args[-1])) from error
    _check_computed(cursor, target)
    return new


def _inserts(target: LoadTarget, new: int) -> list[str]:
    computed, table, stage = mysql_target(target).computed, table_of(target), stage_of(target)
    written = [name for name in target.names if name not in computed]
    columns, values = _listed(written), _listed(written, f"{STAGED}.")
    if not target.extra_columns:
        return [f"INSERT INTO {table} ({columns}) SELECT {values} FROM {stage} {STAGED} ORDER BY {STAGED}.{_ROW}"]
    lacking, old, joined = (
        _listed(target.extra_columns),
        _listed(target.extra_columns, f"{_COMPLETING}."),
        f"JOIN {_own_of(target)} {_COMPLETING} ON {_COMPLETING}.{_ROW} = {STAGED}.{_ROW}",
    )
    completed = f"INSERT INTO {table} ({columns}, {lacking}) SELECT {values}, {old} FROM {stage} {STAGED} {joined}"
    alone = f"WHERE {_COMPLETING}.{_ROW} IS NULL"
    fresh = f"INSERT INTO {table} ({columns}) SELECT {values} FROM {stage} {STAGED} LEFT {joined} {alone}"
    return [completed, fresh] if new else [completed]


def _complete(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> int:
    """Fills the columns that the staged rows lack from the target's rows. Returns how many rows are new."""
    table, stage = table_of(target), stage_of(target)
    old = _listed(target.extra_columns, f"{table}.")
    completing = f"SELECT {STAGED}.{_ROW}, {old} FROM {stage} {STAGED} STRAIGHT_JOIN {table} ON {_same_handle(target)}"
    cursor.execute(f"INSERT INTO {_own_of(target)} ({_ROW}, {_listed(target.extra_columns)}) {completing}")
    existing = int(cursor.rowcount)
    cursor.execute(f"SELECT COUNT(*) FROM {stage}")
    new = int(cursor.fetchone()[0]) - existing
    required = [column.name for column in mysql_target(target).own_columns if column.required]
    if new and required:
        names = _listed(required)
        defaults = ", ".join(f"ALTER COLUMN {quote(name)} SET DEFAULT 0" for name in required)
        raise SchemaDrift(
            f"a new row has no value for the target table's columns {names}, which are NOT NULL and have no default",
            hint=f"give them a default, as here the one for numbers: ALTER TABLE {table} {defaults}",
            table=str(target.table),
        )
    return new


def _check_computed(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    computed = mysql_target(target).computed
    names = [name for position in target.key if (name := target.names[position]) in computed]
    if not names:
        return
    table, first = table_of(target), quote(target.names[target.key[0]])
    joined = f"{stage_of(target)} {STAGED} LEFT JOIN {table} ON {_same_handle(target)}"
    cursor.execute(f"SELECT 1 FROM {joined} WHERE {table}.{first} IS NULL LIMIT 1")
    if cursor.fetchone():
        raise CannotBeExact(
            f"the target computes other values of its key's columns {_listed(names)} than upstream did",
            hint=f"make them plain columns in {target.name}, then run again",
            table=str(target.table),
            code=Code.TARGET_KEY,
        )


def _collision(target: LoadTarget, reason: str) -> RowsCollide:
    match = _KEY_NAME.search(reason)
    key = f"unique key {quote(match[1])}" if match else "unique keys"
    older = (
        "take the quarantined rows in with `retry`, as the target may still have an older state of one of them with"
        " this value; or "
    )
    return RowsCollide(
        f"rows that are different upstream have one value in the target's {key}, which compares more coarsely than"
        " upstream's, or which upstream does not have, or a filter or policy kept one of them that upstream has no"
        f" more: one of them would be lost ({reason})",
        hint=(older if target.load.quarantine is not None else "")
        + f"give the columns of the {key} a collation that compares as upstream does (utf8mb4_bin, or one with NO PAD"
        " where upstream's keys differ in trailing blanks), or drop the key where upstream has none, or where rows were"
        " kept that upstream has no more; then run again, or where its rows are not upstream's load the table again"
        " from the storage: " + RESYNC,
        table=str(target.table),
    )


def _same_handle(target: LoadTarget) -> str:
    """Returns the condition that a staged row and a row of the table have exactly the same key."""
    return " AND ".join(same_values(target, position) for position in target.key)


def same_values(target: LoadTarget, position: int) -> str:
    """Returns the same condition for one column of the key."""
    name = quote(target.names[position])
    column = f"{table_of(target)}.{name}"
    equal = f"{column} = {STAGED}.{name}"
    if target.columns[position].family is not Family.TEXT:
        return equal
    # Like deletes: 'a' and 'a ' are two keys, though most collations treat them as equal.
    column_bytes, staged_bytes = (bytes_of(side) for side in (column, f"{STAGED}.{name}"))
    return f"{equal} AND {column_bytes} = {staged_bytes}"


def _listed(names: Sequence[str], before: str = "") -> str:
    return ", ".join(f"{before}{quote(name)}" for name in names)


def keys_of(target: LoadTarget, deletes: pa.Table) -> pa.Table:
    """Returns rows of the stage of keys. `deletes` have the key columns by their positions in `target`."""
    named = deletes.select([f"c{position}" for position in target.key])
    return named.rename_columns([f"c{position}" for position in range(len(target.key))])


def end_versions(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """Ends the current versions whose keys are staged, in the current transaction. It can be repeated: a version that
    has ended stays as it is."""
    ending = target.ending
    assert ending is not None
    table, stage = table_of(target), key_stage_of(target)
    began, ended, current = (quote(target.names[n]) for n in (ending.began, ending.ended, ending.current))
    same = " AND ".join(same_values(target, position) for position in target.key if position != ending.began)
    stays = "".join(f", {table}.{name} = {table}.{name}" for name in _stamped(target))
    # TiDB reads INTERVAL followed by a bracket as the function of this name.
    time = f"'1970-01-01' + INTERVAL 1000 * ({STAGED}.{began} >> {LOGICAL_BITS}) MICROSECOND"
    cursor.execute(
        f"UPDATE {stage} {STAGED} STRAIGHT_JOIN {table} ON {same} AND {table}.{began} < {STAGED}.{began}"
        f" AND {table}.{ended} IS NULL"
        f" SET {table}.{ended} = {time}, {table}.{current} = 0{stays}"
    )


def _stamped(target: LoadTarget) -> list[str]:
    """Returns the columns that may be ON UPDATE CURRENT_TIMESTAMP, if somebody else created the table. All keep their
    values."""
    ending, settings = target.ending, mysql_target(target)
    assert ending is not None
    written = [column for n, column in enumerate(settings.columns) if n not in (ending.ended, ending.current)]
    stay = [column for column in (*written, *settings.own_columns) if not column.generated]
    return [quote(column.name) for column in stay if column.data_type in ("timestamp", "datetime")]
