"""Writes puts and deletes of one table by key in the current transaction: of a task's session, or of the publication of
a round.

Puts go by LOAD DATA LOCAL INFILE if possible: CSV from Arrow, sent from memory. If a value does not fit, LOAD DATA
LOCAL stores another one and counts a warning. Then it is rolled back, and strict statements write the rows and find the
one that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pymysql

from consumer.errors import RowRefused
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.model.texts import count_text
from consumer.sink.mysql.rows.staged import (
    begin_unlocked,
    end_versions,
    keys_of,
    make_key_stage,
    make_stage,
    stage_as_target,
    staged_keys,
    write_staged,
)
from consumer.sink.mysql.rows.statements import by_statements, delete_statements, not_strict, row_slices
from consumer.sink.mysql.rows.values import ValueForm, column_texts, odd_rows, value_expression, value_form
from consumer.sink.mysql.server.errors import LOCAL_INFILE_OFF, TOO_LARGE, errno, server_error
from consumer.sink.mysql.server.wire import load_local
from consumer.sink.mysql.tables.blanks import end_in_blanks, record_blanks
from consumer.sink.mysql.target import mysql_target, table_of

PUT_ROWS = 100_000
PUT_BYTES = 32 << 20
DELETE_ROWS = 20_000
NEIGHBOURS_ROWS = 10_000
"""The rows of a transaction on a table with another unique key. A put also locks the neighbouring rows in that key.
Another task, which may have to write these, waits for its end."""

Put = Callable[[pymysql.cursors.Cursor, LoadTarget, pa.Table, int], None]
"""Writes rows into a target, by LOAD DATA or by statements."""
_FORMAT = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid", null_string="NULL")
_CLAUSES = (
    "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'"
)


def can_load(target: LoadTarget, shared: bool = False) -> bool:
    """Returns whether LOAD DATA may write the puts. It is quicker for any number of rows. TiDB's LOAD DATA is
    optimistic: it fails if two loads write one key. `shared` says that several loads share the transaction; not every
    TiDB then keeps it one."""
    settings = mysql_target(target)
    safe = settings.server.flavor != "tidb" or not (shared or settings.secondary_unique or settings.is_staged)
    return safe and settings.server.local_infile


def by_load_data(cursor: pymysql.cursors.Cursor, target: LoadTarget, puts: pa.Table, packet: int) -> None:
    """The `Put` by LOAD DATA. Raises NotLoaded."""
    if (odd := odd_rows(target, puts)) is not None:
        by_statements(cursor, target, puts.filter(odd), packet)
        puts = puts.filter(pc.invert(odd))
    load_rows(cursor.connection, target, puts)


def write_rows(
    cursor: pymysql.cursors.Cursor,
    target: LoadTarget,
    puts: Sequence[pa.Table],
    deletes: Sequence[pa.Table],
    packet: int,
    put: Put,
) -> int:
    """Writes all deletes (columns of the key), then all puts (``c0 .. cN``). `packet` is the server's
    max_allowed_packet. The stages of `make_stages` exist and are empty. Returns how many puts got the target's
    defaults."""
    if target.ending is not None:
        _end_versions(cursor, target, deletes, packet, put)
        deletes = ()
    for part in deletes:
        for piece in row_slices(part, DELETE_ROWS, PUT_BYTES):
            for statement in delete_statements(target, piece):
                cursor.execute(statement)
    destination = stage_as_target(target) if mysql_target(target).is_staged else target
    for part in puts:
        for piece in row_slices(part, PUT_ROWS, PUT_BYTES):
            put(cursor, destination, piece, packet)
    if not puts or not mysql_target(target).is_staged:
        return 0
    if any(end_in_blanks(target, part) for part in puts):
        record_blanks(cursor, target, True)
    odd = any(odd_rows(target, part) is not None for part in puts)
    with not_strict(cursor) if odd else nullcontext():
        return write_staged(cursor, target)


def _end_versions(
    cursor: pymysql.cursors.Cursor, target: LoadTarget, deletes: Sequence[pa.Table], packet: int, put: Put
) -> None:
    stage = staged_keys(target)
    write = by_statements if mysql_target(target).server.flavor == "tidb" else put
    for part in deletes:
        for piece in row_slices(keys_of(target, part), PUT_ROWS, PUT_BYTES):
            write(cursor, stage, piece, packet)
    if deletes:
        end_versions(cursor, target)


def make_stages(cursor: pymysql.cursors.Cursor, target: LoadTarget, puts: bool) -> None:
    """Prepares a transaction: creates the stages that it needs, with puts or without, and begins it unlocked."""
    if target.ending is not None:
        make_key_stage(cursor, target)
    if puts and mysql_target(target).is_staged:
        make_stage(cursor, target)
    begin_unlocked(cursor, mysql_target(target).server)


class NotLoaded(Exception):
    """LOAD DATA did not store the rows unchanged, and the transaction must be rolled back. `switched_off` says that it
    never will."""

    def __init__(self, reason: str, switched_off: bool = False) -> None:
        super().__init__(reason)
        self.switched_off = switched_off


def load_rows(connection: pymysql.Connection, target: LoadTarget, rows: pa.Table) -> None:
    """Replaces `rows` (columns ``c0 .. cN``) in the current transaction. Raises NotLoaded. pymysql's errors of the
    connection and of locks pass through."""
    try:
        warnings = load_local(connection, load_statement(target), memoryview(csv_for_load(target, rows)))
    except pymysql.MySQLError as error:
        if errno(error) in LOCAL_INFILE_OFF:
            raise NotLoaded("local_infile is off", switched_off=True) from error
        if errno(error) not in TOO_LARGE and isinstance(server_error(error), RowRefused):
            raise NotLoaded(str(error)) from error
        raise
    if warnings:
        raise NotLoaded(count_text(warnings, "warning"))


def load_statement(target: LoadTarget) -> str:
    """Returns the statement for CSV of `csv_for_load`. Values that need an expression pass through a user variable.

    With any SET, servers forget that the AUTO_INCREMENT column was read from the file, and give a 0 a new number
    whatever sql_mode says. So that column is SET, too.
    """
    counts = [column.counts for column in mysql_target(target).columns]
    expressed = [value_form(target, position) is not ValueForm.TEXT for position in range(len(target.names))]
    places, assignments = [], []
    for position, name in enumerate(target.names):
        if expressed[position] or (counts[position] and any(expressed)):
            places.append(f"@v{position}")
            assignments.append(f"{quote(name)} = {value_expression(target, position, f'@v{position}')}")
        else:
            places.append(quote(name))
    setting = f" SET {', '.join(assignments)}" if assignments else ""
    return (
        f"LOAD DATA LOCAL INFILE 'rows' REPLACE INTO TABLE {table_of(target)} {_CLAUSES} ({', '.join(places)}){setting}"
    )


def csv_for_load(target: LoadTarget, rows: pa.Table) -> pa.Buffer:
    """Returns the rows as CSV: every value quoted, null as the bare word NULL."""
    sink = pa.BufferOutputStream()
    table = pa.table(column_texts(target, rows), names=[f"c{position}" for position in range(len(target.columns))])
    pyarrow.csv.write_csv(table, sink, _FORMAT)
    return sink.getvalue()
