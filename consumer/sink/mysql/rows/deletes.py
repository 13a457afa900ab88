"""Deletes by handle key, exact and by an index.

A row is deleted only if its key has exactly the bytes of the deleted one. 'a' and 'a ' are equal in most collations,
and a delete of the one must not remove a put of the other, whichever comes first.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from consumer.model.columns import Family
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.rows.batches import joined
from consumer.sink.mysql.rows.values import as_signed, bytes_of, key_literals, sql
from consumer.sink.mysql.tables.rounded import near
from consumer.sink.mysql.target import mysql_target, table_of

_BYTES = 256 * 1024
_LIST_ROWS = 1000
_CONDITION_ROWS = 100
"""A server tries the conditions on each row that it finds, one after the other: with 500 it takes twice as long."""

_LISTED = (Family.INTEGER, Family.DECIMAL, Family.BIT, Family.ENUM, Family.YEAR, Family.BINARY)
"""Families whose literals have the column's own type, so that IN compares like =."""


def delete_statements(target: LoadTarget, rows: pa.Table, plain: bool = False) -> Iterator[bytes]:
    """Statements that remove the rows with the keys of `rows` (the key columns of ``c0 .. cN``). Raises CorruptFile."""
    head = f"DELETE FROM {table_of(target)} WHERE "
    literals = key_literals(target, rows, target.key, plain)
    if len(literals) == 1 and target.columns[target.key[0]].family in _LISTED:
        start = f"{head}{quote(target.names[target.key[0]])} IN (".encode()
        for piece in joined(sql(literals[0], ","), b",", _LIST_ROWS, _BYTES):
            yield start + piece.text + b")"
        return
    for piece in joined(sql("(", _have(target, literals), ") OR "), b" OR ", _CONDITION_ROWS, _BYTES):
        yield head.encode() + piece.text


def key_conditions(target: LoadTarget, rows: pa.Table) -> pa.Array:
    """Of each of `rows`, the condition that a row has its key, in one line, for a file. Raises CorruptFile."""
    return _have(target, key_literals(target, rows, target.key, plain=True))


def _have(target: LoadTarget, literals: list[pa.Array]) -> pa.Array:
    equal = [_equal(target, position, value) for position, value in zip(target.key, literals, strict=True)]
    return sql(*equal, between=" AND ")


def same_bytes(name: str, literal: pa.Array) -> pa.Array:
    """Conditions that a text column has the very bytes (as UTF-8) of the literals; null equals null."""
    return sql(f"{bytes_of(name)} <=> CAST(", literal, " AS BINARY)")


def _equal(target: LoadTarget, position: int, literal: pa.Array) -> pa.Array:
    name, column = quote(target.names[position]), target.columns[position]
    if (rounded := near(name, mysql_target(target).columns[position].type, literal)) is not None:
        return rounded
    if column.family is Family.SET:
        # Some servers look a SET with the 64th label up as a negative number; CAST compares exactly.
        either = sql(literal, ",", as_signed(column, literal))
        return sql(f"{name} IN (", either, f") AND CAST({name} AS UNSIGNED) = ", literal)
    condition = sql(f"{name} = ", literal)
    if column.family is not Family.TEXT:
        return condition
    return sql(condition, " AND ", same_bytes(name, literal))
