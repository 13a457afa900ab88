"""Tables with no key: rows are counted. Rows and progress change in one transaction, so a window takes effect once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.changes.identity import identities
from consumer.codec.change_table import added_and_removed
from consumer.errors import CannotBeExact, RowRefused
from consumer.model.columns import Family
from consumer.model.hints import load_again
from consumer.model.load import LoadTarget, Receipt
from consumer.model.names import TableName, quote
from consumer.model.progress import ProgressChange, TableProgress
from consumer.model.steps import Window
from consumer.model.texts import count_text
from consumer.sink.mysql.progress.store import store
from consumer.sink.mysql.rows.statements import by_statements, near, row_slices, same_bytes
from consumer.sink.mysql.rows.values import key_literals, sql
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.target import mysql_target, table_of
from consumer.sink.progress_layout import COLUMNS
from consumer.sink.progress_sql import begins_too_early

_ROWS = 20_000
_BYTES = 32 << 20


def apply_counts(
    cursor: pymysql.cursors.Cursor,
    settings: MySqlSettings,
    epoch: int,
    target: LoadTarget,
    changes: pa.Table,
    window: Window,
    packet: int,
) -> Receipt:
    """Adds and removes the copies that `changes` (``n int64, c0 .. cN``) count, and advances the table's progress, in
    the current transaction. Raises ProgressMoved, CannotBeExact, RowRefused, CorruptFile; pymysql's errors pass
    through."""
    counts = changes.column("n")
    added, removed = changes.filter(pc.greater(counts, 0)), changes.filter(pc.less(counts, 0))
    receipt = Receipt(*added_and_removed(changes))
    applied = _locked_progress(cursor, settings.name, target.table)
    if applied >= window.end:
        return receipt
    if applied > window.after:
        raise begins_too_early(target.table, window, applied)
    for rows in row_slices(removed, _ROWS, _BYTES):
        _remove(cursor, target, rows, packet)
    for rows in row_slices(added, _ROWS, _BYTES):
        by_statements(cursor, target, _copies(rows), packet, "INSERT")
    change = ProgressChange(tables={target.table: TableProgress.moved(window.end)})
    store(cursor, settings.name, epoch, change, touched=[target.table])
    return receipt


def make_copies(cursor: pymysql.cursors.Cursor, target: LoadTarget, rows: pa.Table, packet: int) -> tuple[int, int]:
    """Changes the copies of each of `rows` to ``n``, in the current transaction. Returns how many copies it has added
    and removed. Raises RowRefused, CorruptFile, CannotBeExact; pymysql's errors pass through."""
    head = f"SELECT COUNT(*) FROM {table_of(target)} WHERE ".encode()
    held = []
    for condition in conditions(target, rows):
        _execute(cursor, target, head + condition + b" FOR UPDATE", packet)
        held.append(cursor.fetchone()[0])
    more = rows.set_column(rows.column_names.index("n"), "n", pc.subtract(rows.column("n"), pa.array(held, pa.int64())))
    added, removed = (more.filter(wanted(more.column("n"), 0)) for wanted in (pc.greater, pc.less))
    _remove(cursor, target, removed, packet)
    by_statements(cursor, target, _copies(added), packet, "INSERT")
    return added_and_removed(more)


def _locked_progress(cursor: pymysql.cursors.Cursor, name: str, table: TableName) -> int:
    """Returns the table's applied-ts, which no other transaction can change until this one ends.

    A table at the global applied-ts has no row of its own. It gets one, because there is nothing else to lock.
    """
    key, columns = (name, table.database, table.table), COLUMNS["table_progress"]
    fixed = {
        "name": "name",
        "database_name": "%s",
        "table_name": "%s",
        "applied_ts": "applied_ts",
        "state": "'ok'",
    }
    values = ", ".join(fixed.get(column, "''") for column in columns)
    cursor.execute(
        f"INSERT IGNORE INTO storage_consumer.table_progress ({', '.join(columns)}) "
        f"SELECT {values} FROM storage_consumer.consumer WHERE name = %s",
        (table.database, table.table, name),
    )
    cursor.execute(
        "SELECT applied_ts FROM storage_consumer.table_progress "
        "WHERE name = %s AND database_name = %s AND table_name = %s FOR UPDATE",
        key,
    )
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _copies(changes: pa.Table) -> pa.Table:
    counts = changes.column("n").to_numpy()
    return changes.take(np.repeat(np.arange(changes.num_rows), counts))


def _remove(cursor: pymysql.cursors.Cursor, target: LoadTarget, changes: pa.Table, packet: int) -> None:
    lacking: list[tuple[int, bool, str]] = []
    counted = zip(conditions(target, changes), changes.column("n").to_pylist(), strict=True)
    for row, (condition, count) in enumerate(counted):
        _execute(cursor, target, delete_copies(target, condition, -count), packet)
        if cursor.rowcount != -count:
            shown = condition[:300].decode(errors="replace")
            copies = count_text(-count, "copy of a row is", "copies of a row are")
            message = f"{copies} to be removed, the target has {cursor.rowcount}: {shown}"
            if target.load.quarantine is None:
                raise CannotBeExact(message, hint=load_again(), table=str(target.table))
            lacking.append((int(identities(changes.slice(row, 1), ())[0]), False, message))
    if lacking:
        raise RowRefused(lacking[0][2], hint=load_again(), table=str(target.table), more=lacking)


def delete_copies(target: LoadTarget, condition: bytes, count: int) -> bytes:
    """Returns the statement that removes `count` of the rows that meet `condition`."""
    return b"DELETE FROM %b WHERE %b LIMIT %d" % (table_of(target).encode(), condition, count)


def _execute(cursor: pymysql.cursors.Cursor, target: LoadTarget, statement: bytes, packet: int) -> None:
    if len(statement) >= packet:
        raise RowRefused(
            f"a row to be removed takes {len(statement)} bytes, the target's max_allowed_packet is {packet}",
            hint="raise max_allowed_packet on the target's server, then run again",
            table=str(target.table),
        )
    cursor.execute(statement)


def conditions(target: LoadTarget, changes: pa.Table, plain: bool = False) -> Iterator[bytes]:
    """Yields one condition per row: every column holds exactly this value."""
    positions = tuple(range(len(target.columns)))
    literals = key_literals(target, changes, positions, plain)
    parts = [_same(target, position, literal) for position, literal in zip(positions, literals, strict=True)]
    return iter(sql(*parts, between=" AND ").to_pylist())


def _same(target: LoadTarget, position: int, literal: pa.Array) -> pa.Array:
    name = quote(target.names[position])
    settings = mysql_target(target)
    match target.columns[position].family, settings.columns[position].data_type:
        case _, "vector":  # <=> does not compare it with NULL
            return sql(f"HEX({name}) <=> HEX(", literal, ")")
        case Family.JSON, "json":  # 1 and 1.0 are equal, but written differently
            typed = sql("CAST(", literal, " AS JSON)")
            text = same_bytes(f"CAST({name} AS CHAR)", sql("CAST(", typed, " AS CHAR)"))
            return sql(f"{name} <=> ", typed, " AND ", text)
        case ((Family.TEXT | Family.JSON), _):
            return same_bytes(name, literal)
        case ((Family.BIT | Family.ENUM | Family.SET | Family.YEAR), _):
            return sql(f"CAST({name} AS UNSIGNED) <=> ", literal)
    equal = sql(f"{name} <=> ", literal)
    if (rounded := near(name, settings.columns[position], literal)) is not None:
        return sql("(", equal, " OR ", rounded, ")")
    return equal
