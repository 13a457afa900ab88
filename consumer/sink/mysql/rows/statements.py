"""Rows as statements of bounded size.

Puts of many rows, strict: used where LOAD DATA is not possible, and to find a refused row. Deletes go by handle key,
exactly and by an index: a row is deleted only if its key has exactly the bytes of the deleted one. 'a' and 'a ' are
equal in most collations, and a delete of the one must not remove a put of the other, in either order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.changes.identity import identities
from consumer.errors import RowRefused
from consumer.model.columns import Family
from consumer.model.hints import REFUSED_ROW
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.rows.values import (
    as_signed,
    bytes_of,
    column_literals,
    error_values,
    key_literals,
    odd_rows,
    sql,
)
from consumer.sink.mysql.server.errors import TOO_LARGE, errno, server_error
from consumer.sink.mysql.target import TargetColumn, mysql_target, table_of

Verb = Literal["REPLACE", "INSERT"]

_STATEMENT_ROWS = 1000
_STATEMENT_BYTES = 1 << 20
_SHOWN_CHARACTERS = 200
_DELETE_BYTES = 256 * 1024
_LIST_ROWS = 1000
_CONDITION_ROWS = 100
"""A server tests the conditions on each row that it finds, one after the other. With 500 it takes twice as long."""
_LISTED = (Family.INTEGER, Family.DECIMAL, Family.BIT, Family.ENUM, Family.YEAR, Family.BINARY)
"""Families whose literals have the column's own type, so that IN compares as = does."""


def by_statements(
    cursor: pymysql.cursors.Cursor, target: LoadTarget, rows: pa.Table, packet: int, verb: Verb = "REPLACE"
) -> None:
    """Writes `rows` (columns ``c0 .. cN``) in the current transaction. `packet` is the server's max_allowed_packet.

    Raises RowRefused for a row that the target does not store unchanged (the transaction is then rolled back) and
    CorruptFile. pymysql's errors of the connection and of locks pass through.
    """
    put = _Put(cursor, target, packet, verb)
    if (odd := odd_rows(target, rows)) is not None:
        with not_strict(cursor):
            put.write(rows.filter(odd))
        rows = rows.filter(pc.invert(odd))
    put.write(rows)


class _Put:
    def __init__(self, cursor: pymysql.cursors.Cursor, target: LoadTarget, packet: int, verb: Verb) -> None:
        names = ", ".join(quote(name) for name in target.names)
        self._cursor, self._target, self._packet = cursor, target, packet
        self._head = f"{verb} INTO {table_of(target)} ({names}) VALUES ".encode()

    def write(self, rows: pa.Table) -> None:
        for piece in self._statements(rows):
            part = rows.slice(piece.start, piece.stop - piece.start)
            reason = self._refusal(part, piece)
            if not reason:
                continue
            error = self._refused(part, reason)
            if (quarantined := self._target.load.quarantine) is not None:
                # All refused rows at once: each further write of the remaining rows costs as much as the first.
                refused_rows = islice(self._every_refused(rows.slice(piece.start)), quarantined.most + 1)
                error.more = tuple(row for row in refused_rows if row[0] != error.row)
                self._cursor.connection.rollback()
            raise error

    def _statements(self, rows: pa.Table) -> Iterator[RowRun]:
        tuples = sql("(", sql(*column_literals(self._target, rows), between=","), "),")
        limit = min(_STATEMENT_BYTES, self._packet - len(self._head) - 1)
        return joined(tuples, b",", _STATEMENT_ROWS, limit)

    def _refusal(self, rows: pa.Table, piece: RowRun) -> str:
        """Returns the target's reason for not storing the rows of `piece` unchanged; "" if it stored them.

        Every warning is a changed value: strict mode leaves a note where it cuts off blanks or digits. Each '' error
        value of an ENUM, which only occurs without strict mode, has one warning, and is stored unchanged.
        """
        statement = self._head + piece.text
        if len(statement) >= self._packet:
            return f"it takes {len(statement)} bytes, the target's max_allowed_packet is {self._packet}"
        try:
            self._cursor.execute(statement)
        except pymysql.MySQLError as error:
            translated = server_error(error)
            if not isinstance(translated, RowRefused) or errno(error) in TOO_LARGE:
                raise
            if self._target.load.quarantine is not None and not translated.of_data:
                raise translated from error
            return translated.message
        expected = pc.sum(error_values(self._target, rows)).as_py()
        return "" if self._cursor.warning_count == expected else self._warnings()

    def _warnings(self) -> str:
        self._cursor.execute("SHOW WARNINGS")
        notes = "; ".join(dict.fromkeys(str(row[2]) for row in self._cursor.fetchall()))
        return notes[:_SHOWN_CHARACTERS] or "it would store another value, and keeps no note of which (max_error_count)"

    def _refused(self, rows: pa.Table, reason: str) -> RowRefused:
        """Finds the row by halving. Not every message has its number, and the number does not count from a fixed
        position."""
        while rows.num_rows > 1:
            middle = rows.num_rows // 2
            first, second = rows.slice(0, middle), rows.slice(middle)
            rows = first if (reason_of_first := self._probe(first)) else second
            reason = reason_of_first or self._probe(second) or reason
        self._cursor.connection.rollback()
        return RowRefused(
            f"the target refuses the row {_shown_key(self._target, rows)}: {reason}",
            table=str(self._target.table),
            hint=REFUSED_ROW,
            row=int(identities(rows, self._target.key)[0]),
        )

    def _every_refused(self, rows: pa.Table) -> Iterator[tuple[int, bool, str]]:
        """Yields identity and reason of each refused row, found by halving the refused parts."""
        for piece in list(self._statements(rows)):
            part = rows.slice(piece.start, piece.stop - piece.start)
            if not (reason := self._probe(part)):
                continue
            if part.num_rows == 1:
                message = f"the target refuses the row {_shown_key(self._target, part)}: {reason}"
                yield int(identities(part, self._target.key)[0]), True, message
                continue
            middle = part.num_rows // 2
            yield from self._every_refused(part.slice(0, middle))
            yield from self._every_refused(part.slice(middle))

    def _probe(self, rows: pa.Table) -> str:
        self._cursor.connection.rollback()
        reasons = (self._refusal(rows.slice(p.start, p.stop - p.start), p) for p in self._statements(rows))
        return next(filter(None, reasons), "")


@contextmanager
def not_strict(cursor: pymysql.cursors.Cursor) -> Iterator[None]:
    """Leaves strict mode for rows with the '' error value (0) of an ENUM, which strict mode refuses although it is
    right.

    The connection is closed after an error in this context, so no later statement runs in this mode.
    """
    cursor.execute("SET SESSION sql_mode = REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', '')")
    try:
        yield
    except BaseException:
        cursor.connection.close()
        raise
    cursor.execute("SET SESSION sql_mode = CONCAT('STRICT_TRANS_TABLES,', @@sql_mode)")


def _shown_key(target: LoadTarget, rows: pa.Table) -> str:
    """Returns ``id=5, b='x'`` for the first row; its first columns if it has no key."""
    first = rows.slice(0, 1)
    positions = target.key or tuple(range(min(3, len(target.names))))
    values = (first.column(f"c{position}")[0].as_py() for position in positions)
    shown = (f"{target.names[position]}={value!r}" for position, value in zip(positions, values, strict=True))
    return ", ".join(shown)[:_SHOWN_CHARACTERS]


@dataclass(frozen=True, slots=True)
class RowRun:
    """Rows [start, stop), and their text if it has been rendered."""

    start: int
    stop: int
    text: bytes = b""


def row_slices(rows: pa.Table, max_rows: int, max_bytes: int) -> Iterator[pa.Table]:
    """Yields slices of `rows` with at most `max_rows` rows and about `max_bytes` bytes of values, at least one row
    each."""
    if 0 < rows.num_rows <= max_rows and rows.nbytes <= max_bytes:
        yield rows
        return
    sizes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if not pa.types.is_primitive(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    for start, stop in _cuts(np.concatenate(([0], np.cumsum(sizes))), max_rows, max_bytes):
        yield rows.slice(start, stop - start)


def joined(rows: pa.Array, separator: bytes, max_rows: int, max_bytes: int) -> Iterator[RowRun]:
    """Yields runs of `rows`, binary values that each end with `separator`. A run lacks the last separator.

    A run of several rows has at most `max_bytes` bytes.
    """
    if not len(rows):
        return
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = memoryview(rows.buffers()[2])
    for start, stop in _cuts(offsets, max_rows, max_bytes):
        yield RowRun(start, stop, bytes(data[offsets[start] : offsets[stop] - len(separator)]))


def _cuts(ends: npt.NDArray[np.int64], max_rows: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Yields runs of rows. Row i spans bytes [ends[i], ends[i + 1])."""
    start, count = 0, len(ends) - 1
    while start < count:
        fit = int(np.searchsorted(ends, ends[start] + max_bytes, side="right")) - 1
        stop = min(max(fit, start + 1), start + max_rows, count)
        yield start, stop
        start = stop


def delete_statements(target: LoadTarget, rows: pa.Table, plain: bool = False) -> Iterator[bytes]:
    """Yields statements that remove the rows with the keys of `rows` (the key columns of ``c0 .. cN``). Raises
    CorruptFile."""
    head = f"DELETE FROM {table_of(target)} WHERE "
    column_literals = key_literals(target, rows, target.key, plain)
    if len(column_literals) == 1 and target.columns[target.key[0]].family in _LISTED:
        start = f"{head}{quote(target.names[target.key[0]])} IN (".encode()
        for piece in joined(sql(column_literals[0], ","), b",", _LIST_ROWS, _DELETE_BYTES):
            yield start + piece.text + b")"
        return
    texts = [n for n, position in enumerate(target.key) if target.columns[position].family is Family.TEXT]
    ranged = texts[:1] if mysql_target(target).server.flavor == "tidb" else []
    for piece in joined(sql("(", _have(target, column_literals), ") OR "), b" OR ", _CONDITION_ROWS, _DELETE_BYTES):
        before = [_range(target, n, column_literals[n].slice(piece.start, piece.stop - piece.start)) for n in ranged]
        yield b"%b%b(%b)" % (head.encode(), b"".join(before), piece.text) if before else head.encode() + piece.text


def _range(target: LoadTarget, number: int, column_literals: pa.Array) -> bytes:
    """Returns a condition for which TiDB uses an index: it uses none for those of `_equal`. A single value would act
    like =."""
    return b"%b IN (%b, NULL) AND " % (
        quote(target.names[target.key[number]]).encode(),
        b",".join(column_literals.to_pylist()),
    )


def key_conditions(target: LoadTarget, rows: pa.Table) -> pa.Array:
    """Returns for each of `rows` the condition that a row has its key, in one line, for a file. Raises CorruptFile."""
    return _have(target, key_literals(target, rows, target.key, plain=True))


def _have(target: LoadTarget, column_literals: list[pa.Array]) -> pa.Array:
    equal = [_equal(target, position, value) for position, value in zip(target.key, column_literals, strict=True)]
    return sql(*equal, between=" AND ")


def same_bytes(name: str, literal: pa.Array) -> pa.Array:
    """Returns conditions that a text column has exactly the bytes (as UTF-8) of the literals. null equals null."""
    return sql(f"{bytes_of(name)} <=> CAST(", literal, " AS BINARY)")


def _equal(target: LoadTarget, position: int, literal: pa.Array) -> pa.Array:
    name, column = quote(target.names[position]), target.columns[position]
    if (rounded := near(name, mysql_target(target).columns[position], literal)) is not None:
        return rounded
    if column.family is Family.SET:
        # Some servers look up a SET with the 64th label as a negative number. CAST compares exactly.
        either = sql(literal, ",", as_signed(column, literal))
        return sql(f"{name} IN (", either, f") AND CAST({name} AS UNSIGNED) = ", literal)
    condition = sql(f"{name} = ", literal)
    if column.family is not Family.TEXT:
        return condition
    if mysql_target(target).server.flavor == "tidb":
        # With =, TiDB also uses the literal as the column's own bytes, and would delete a row that only looks the same.
        condition = sql(f"{name} BETWEEN ", literal, " AND ", literal)
    return sql(condition, " AND ", same_bytes(name, literal))


def near(name: str, column: TargetColumn, literal: pa.Array) -> pa.Array | None:
    """Returns conditions that the quoted `name` of `column` holds the number of each literal. None for a column that is
    not rounded (see `TargetColumn.rounded`). A null is near to nothing."""
    if column.rounded is None:
        return None
    reach = f"4e-{column.rounded[1] + 1}"
    return sql(f"{name} BETWEEN ", literal, f" - {reach} AND ", literal, f" + {reach}")
