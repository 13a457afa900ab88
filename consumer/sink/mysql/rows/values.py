"""How values of each type are written so that the target stores exactly the upstream's values. No other module knows
this.

Rows have the values of canal-JSON: text, and bytes for the binary types. This module makes three things of them: texts
(for LOAD DATA), literals (for statements that write) and key literals (for statements that look up rows: a literal must
have the column's own type, because MySQL compares a number with a string as doubles).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import are_puts
from consumer.codec.values import binary_to_hex, float32_exact
from consumer.errors import CorruptFile, RowRefused, SchemaDrift
from consumer.model.columns import Column, Family
from consumer.model.hints import load_again
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.target import mysql_target, table_of
from consumer.sink.refused import refused_changes

_VECTOR_FROM_TEXT = {"mysql": "STRING_TO_VECTOR", "mariadb": "VEC_FromText", "tidb": "VEC_FROM_TEXT"}
_NUMBERS = (Family.BIT, Family.ENUM, Family.SET)
_SMALL = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_WHOLE = r"^[0-9]+$"
_CONTROLS = ((b"\0", b"0"), (b"\n", b"n"), (b"\r", b"r"), (b"\x1a", b"Z"))
"""Characters that a client which reads statements from a file does not send unchanged."""
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"


class ValueForm(enum.Enum):
    """The form in which a value must reach its column."""

    TEXT = enum.auto()
    NUMBER = enum.auto()
    """Never a string: '1' selects the label '1' of an ENUM or SET, and is the byte 0x31 in a BIT."""
    HEX = enum.auto()
    VECTOR = enum.auto()


def bytes_of(name: str) -> str:
    """Returns the bytes, as UTF-8, of a text column. They distinguish texts that its collation treats as equal."""
    return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"


def value_form(target: LoadTarget, position: int) -> ValueForm:
    """Returns the form. Raises SchemaDrift if a number's meaning would get lost: an ENUM's in a VARCHAR, an INT in an
    ENUM."""
    column, data_type = target.columns[position], mysql_target(target).columns[position].data_type
    if (column.family in _NUMBERS or data_type in _NUMBERS) and column.family != data_type:
        raise SchemaDrift(
            f"column {column.name} is {column.type} upstream and {data_type.upper()} in the target",
            hint="give the target's column the upstream's type, or " + load_again(),
            table=str(target.table),
        )
    if column.family in _NUMBERS:
        return ValueForm.NUMBER
    if column.family is Family.BINARY:
        return ValueForm.HEX
    return ValueForm.VECTOR if data_type == "vector" else ValueForm.TEXT


def column_texts(target: LoadTarget, rows: pa.Table) -> list[pa.Array]:
    """Returns columns ``c0 .. cN`` as UTF-8 text that the target's column reads as the same value; bytes as hex. Raises
    CorruptFile."""
    return [_text(column, _written(target, rows, position)) for position, column in enumerate(target.columns)]


def column_literals(target: LoadTarget, rows: pa.Table, plain: bool = False) -> list[pa.Array]:
    """Returns columns ``c0 .. cN`` as SQL literals for writing, in bytes. null is the word NULL. `plain` says that all
    is text in one line, for a file. Raises CorruptFile."""
    return [_literal(target, n, _written(target, rows, n), plain) for n in range(len(target.columns))]


def key_literals(target: LoadTarget, rows: pa.Table, positions: tuple[int, ...], plain: bool = False) -> list[pa.Array]:
    """Returns the columns at `positions` as SQL literals, in bytes, for comparisons with these columns: exact, and by
    an index.

    Raises CorruptFile for a value that is not of its type.
    """
    return [_key_literal(target, position, _array(rows, position), plain) for position in positions]


def as_signed(column: Column, numbers: pa.Array) -> pa.Array:
    """Returns whole-number literals below 2**64 as seen by servers that read 64 bits as a signed number. Raises
    CorruptFile for a greater one."""
    try:
        return pc.cast(pc.cast(pc.cast(numbers, pa.string()), pa.uint64()).view(pa.int64()), pa.string())
    except pa.ArrowInvalid as error:
        raise _not_a_value(column, str(error)) from error


def sql(*parts: str | pa.Array, between: str = "") -> pa.Array:
    """Joins parts of statements row by row, in bytes."""
    as_bytes = (part.encode() if isinstance(part, str) else pc.cast(part, pa.binary()) for part in parts)
    return pc.binary_join_element_wise(*as_bytes, between.encode())


def value_expression(target: LoadTarget, position: int, text: str) -> str:
    """Returns the SQL expression that turns `text`, an expression with a value of `column_texts`, into the column's
    value."""
    match value_form(target, position):
        case ValueForm.NUMBER:
            return f"CAST({text} AS UNSIGNED)"
        case ValueForm.HEX:
            return f"UNHEX({text})"
        case ValueForm.VECTOR:
            return f"{_VECTOR_FROM_TEXT[mysql_target(target).server.flavor]}({text})"
        case ValueForm.TEXT:
            return text


def error_values(target: LoadTarget, rows: pa.Table) -> pa.Array:
    """Returns int64 per row: how many ENUM columns hold 0, the '' error value, which strict mode refuses."""
    counts: pa.Array = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    for position, column in enumerate(target.columns):
        if column.family is Family.ENUM:
            zero = pc.fill_null(pc.equal(_array(rows, position), "0"), False)
            counts = pc.add(counts, pc.cast(zero, pa.int64()))
    return counts


def odd_rows(target: LoadTarget, rows: pa.Table) -> pa.BooleanArray | None:
    """Returns which rows hold an error value, and must be written by a session that is not strict. None if no row
    does."""
    if not any(column.family is Family.ENUM for column in target.columns):
        return None
    odd = pc.greater(error_values(target, rows), 0)
    return odd if pc.any(odd).as_py() else None


def by_key(target: LoadTarget, rows: pa.Table) -> pa.Table:
    """Returns `rows` in the order of their handle key, as far as that is cheap: sessions then lock in one order, and a
    clustered index fills page by page. Raises CorruptFile."""
    if not rows.num_rows:
        return rows
    keys = {f"c{position}": _sortable(target.columns[position], rows.column(f"c{position}")) for position in target.key}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    in_order = np.array_equal(order.to_numpy(), np.arange(rows.num_rows))
    return rows if in_order else rows.take(order)


def _sortable(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.family is not Family.INTEGER:
        return values
    try:
        return pc.cast(values, pa.uint64() if column.unsigned else pa.int64())
    except pa.ArrowInvalid as error:
        raise _not_a_value(column, str(error)) from error


def _array(rows: pa.Table, position: int) -> pa.Array:
    """Returns a column of rows that are sent together, so of far less than 2 GiB."""
    values = rows.column(f"c{position}").combine_chunks()
    return pc.cast(values, _SMALL.get(values.type, values.type))


def _written(target: LoadTarget, rows: pa.Table, position: int) -> pa.Array:
    """As `_array`, for values that are to be stored."""
    values, name = _array(rows, position), target.names[position]
    column = mysql_target(target).columns[position]
    if values.null_count and column.filled:
        raise CorruptFile(
            f"column {name} is NULL upstream, and the target would put a value of its own there",
            hint=f"ALTER TABLE {table_of(target)} MODIFY COLUMN {quote(name)} {column.type} NULL; then run again",
        )
    return values


def _text(column: Column, values: pa.Array) -> pa.Array:
    match column.family:
        case Family.BINARY:
            return binary_to_hex(values)
        case Family.FLOAT:
            return float32_exact(values)
        case Family.YEAR:
            return pc.utf8_lpad(values, 4, "0")  # '0' would be the year 2000
        case _:
            return values


def _literal(target: LoadTarget, position: int, values: pa.Array, plain: bool) -> pa.Array:
    column = target.columns[position]
    match value_form(target, position):
        case ValueForm.NUMBER:
            return _bare(_checked(column, values, _WHOLE))
        case ValueForm.HEX if plain:
            return _quoted(binary_to_hex(values), "X'")
        case ValueForm.HEX:
            return _quoted(values, "_binary'")  # hex digits would double the size, which a statement limits
        case ValueForm.VECTOR:
            return _quoted(values, f"{_VECTOR_FROM_TEXT[mysql_target(target).server.flavor]}('", "')")
        case ValueForm.TEXT:
            return _quoted(_text(column, values), "'", plain=plain)


def _key_literal(target: LoadTarget, position: int, values: pa.Array, plain: bool) -> pa.Array:
    column = target.columns[position]
    if mysql_target(target).columns[position].collation:  # a text next to a number is compared as a double
        return _literal(target, position, values, plain)
    match column.family:
        case Family.INTEGER | Family.DECIMAL:
            return _bare(_checked(column, values, _DECIMAL))
        case Family.YEAR:
            return _bare(_checked(column, values, _WHOLE))
        case Family.FLOAT | Family.DOUBLE:
            return _bare(_double(column, values))
        case _:
            return _literal(target, position, values, plain)


def _double(column: Column, values: pa.Array) -> pa.Array:
    """Returns literals with an exponent, which makes them doubles and not decimals. A FLOAT's literal is the double
    that equals it."""
    try:
        numbers = pc.cast(values, pa.float32() if column.family is Family.FLOAT else pa.float64())
    except pa.ArrowInvalid as error:
        raise _not_a_value(column, str(error)) from error
    text = pc.cast(pc.cast(numbers, pa.float64()), pa.string())
    return pc.if_else(pc.match_substring(text, "e"), text, pc.binary_join_element_wise(text, "e0", ""))


def _checked(column: Column, values: pa.Array, pattern: str) -> pa.Array:
    """Returns `values` unchanged once they match `pattern`: they go into a statement without quotes."""
    matches = pc.match_substring_regex(values, pattern)
    if pc.all(matches).as_py() is False:
        wrong = values.filter(pc.invert(matches))[0].as_py()
        raise _not_a_value(column, repr(wrong[:80]))
    return values


def _not_a_value(column: Column, what: str) -> CorruptFile:
    return CorruptFile(
        f"column {column.name} ({column.type}) holds an invalid value: {what}",
        hint="the data file is damaged, or its schema file does not belong to it",
    )


def _quoted(values: pa.Array, opening: str, closing: str = "'", plain: bool = False) -> pa.Array:
    """Returns texts or bytes in quotes. The connection uses UTF-8, where neither a quote nor a backslash is part of
    another character."""
    escaped = pc.cast(values, pa.binary())
    for byte in (b"\\", b"'"):
        escaped = pc.replace_substring(escaped, byte, b"\\" + byte)
    for byte, letter in _CONTROLS if plain else ():
        escaped = pc.replace_substring(escaped, byte, b"\\" + letter)
    return _bare(sql(opening, escaped, closing))


def _bare(text: pa.Array) -> pa.Array:
    return pc.fill_null(pc.cast(text, pa.binary()), b"NULL")


@contextmanager
def refused_row_named(target: LoadTarget, changes: pa.Table) -> Iterator[None]:
    """Turns a CorruptFile about values of `changes` into a RowRefused that identifies the row."""
    try:
        yield
    except CorruptFile as error:
        refused = _refused(target, changes)
        if refused is None:
            raise
        raise refused from error


def _refused(target: LoadTarget, changes: pa.Table) -> RowRefused | None:
    """Returns the error of the first of `changes` with an invalid value, None if all are valid."""
    try:
        check_values(target, changes)
    except CorruptFile:
        return refused_changes(partial(check_values, target), changes, target, changes)
    return None


def check_values(target: LoadTarget, changes: pa.Table) -> None:
    """Raises CorruptFile if `changes` have an invalid value."""
    if target.key:
        by_key(target, changes)
    key_literals(target, changes, target.key or tuple(range(len(target.columns))))
    column_literals(target, changes.filter(are_puts(changes)))
