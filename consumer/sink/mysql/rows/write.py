"""Puts and deletes of one table by key, in the transaction at hand: of a task's session, or of the one that publishes
a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.model.load import LoadTarget
from consumer.sink.mysql.rows import load_data, replace
from consumer.sink.mysql.rows.batches import pieces
from consumer.sink.mysql.rows.blank_puts import end_in_blanks, record_blanks
from consumer.sink.mysql.rows.deletes import delete_statements
from consumer.sink.mysql.rows.ends import end_versions, keys_of
from consumer.sink.mysql.rows.staged import (
    begin_unlocked,
    make_key_stage,
    make_stage,
    staged,
    staged_keys,
    write_staged,
)
from consumer.sink.mysql.rows.values import odd_rows
from consumer.sink.mysql.target import mysql_target

PUT_ROWS = 100_000
PUT_BYTES = 32 << 20
DELETE_ROWS = 20_000
NEIGHBOURS_ROWS = 10_000
"""Of a transaction on a table with another unique key. A put locks the rows that are its neighbours in that key, too,
and another task, which may have to write these, waits for its end."""

Put = Callable[[pymysql.cursors.Cursor, LoadTarget, pa.Table, int], None]
"""Writes rows into a target: by LOAD DATA, or by statements."""


def can_load(target: LoadTarget) -> bool:
    """Whether LOAD DATA may write its puts. It is quicker for any number of rows. TiDB's is optimistic: it fails where
    two meet at a key."""
    settings = mysql_target(target)
    safe = settings.server.flavor != "tidb" or not (settings.secondary_unique or settings.is_staged)
    return safe and settings.server.local_infile


def by_load_data(cursor: pymysql.cursors.Cursor, target: LoadTarget, puts: pa.Table, packet: int) -> None:
    """`Put` by LOAD DATA. Raises NotLoaded."""
    if (odd := odd_rows(target, puts)) is not None:
        replace.put(cursor, target, puts.filter(odd), packet)
        puts = puts.filter(pc.invert(odd))
    load_data.load(cursor.connection, target, puts)


def write_rows(
    cursor: pymysql.cursors.Cursor,
    target: LoadTarget,
    puts: Sequence[pa.Table],
    deletes: Sequence[pa.Table],
    packet: int,
    put: Put,
) -> int:
    """All deletes (columns of the key), then all puts (``c0 .. cN``). `packet` is the server's max_allowed_packet.
    Returns how many puts took the target's defaults. The stages of `make_stages` are there, and empty."""
    if target.ending is not None:
        _end_versions(cursor, target, deletes, packet, put)
        deletes = ()
    for part in deletes:
        for piece in pieces(part, DELETE_ROWS, PUT_BYTES):
            for statement in delete_statements(target, piece):
                cursor.execute(statement)
    there = staged(target) if mysql_target(target).is_staged else target
    for part in puts:
        for piece in pieces(part, PUT_ROWS, PUT_BYTES):
            put(cursor, there, piece, packet)
    if not puts or not mysql_target(target).is_staged:
        return 0
    if any(end_in_blanks(target, part) for part in puts):
        record_blanks(cursor, target, True)
    odd = any(odd_rows(target, part) is not None for part in puts)
    with replace.not_strict(cursor) if odd else nullcontext():
        return write_staged(cursor, target)


def _end_versions(
    cursor: pymysql.cursors.Cursor, target: LoadTarget, deletes: Sequence[pa.Table], packet: int, put: Put
) -> None:
    stage = staged_keys(target)
    write = replace.put if mysql_target(target).server.flavor == "tidb" else put
    for part in deletes:
        for piece in pieces(keys_of(target, part), PUT_ROWS, PUT_BYTES):
            write(cursor, stage, piece, packet)
    if deletes:
        end_versions(cursor, target)


def make_stages(cursor: pymysql.cursors.Cursor, target: LoadTarget, puts: bool) -> None:
    """Before a transaction: make the stages that it needs, with puts or without, and begin it unlocked."""
    if target.ending is not None:
        make_key_stage(cursor, target)
    if puts and mysql_target(target).is_staged:
        make_stage(cursor, target)
    begin_unlocked(cursor, mysql_target(target).server)
