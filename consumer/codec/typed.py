"""Values in types of their own: those Arrow types that Spark has, one for each type of upstream."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.labels import label_texts
from consumer.errors import CannotBeExact
from consumer.model.columns import Column, Family

_INTEGERS = {
    "TINYINT": (pa.int8(), pa.int16()),
    "SMALLINT": (pa.int16(), pa.int32()),
    "MEDIUMINT": (pa.int32(), pa.int32()),
    "INT": (pa.int32(), pa.int64()),
    "BIGINT": (pa.int64(), pa.decimal128(20, 0)),
}
"""The signed and unsigned form of each type: Spark has no unsigned numbers."""
_OTHERS = {
    Family.FLOAT: pa.float32(),
    Family.DOUBLE: pa.float64(),
    Family.YEAR: pa.int16(),
    Family.DATE: pa.date32(),
    Family.DATETIME: pa.timestamp("us"),
    Family.TIMESTAMP: pa.timestamp("us", "UTC"),
    Family.BINARY: pa.binary(),
    Family.VECTOR: pa.list_(pa.float32()),
}
_MOST_DIGITS = 38
"""The digits of a decimal number in 128 bits."""
_WIDEST_LONG = 63
"""The bits of a number that is not below zero, in a long."""
DAYS = frozenset({Family.DATE, Family.DATETIME, Family.TIMESTAMP})
"""Families whose values can be days that no calendar has."""
_DAY, _DAY_LENGTH = "%Y-%m-%d", len("2006-01-02")


def typed_type(column: Column) -> pa.DataType:
    """Returns the type of all values of the column. Raises KeyError for a type that TiCDC does not write."""
    if column.family is Family.INTEGER:
        return _INTEGERS[column.type][column.unsigned]
    if column.family is Family.BIT:
        return pa.int64() if (column.length or 1) <= _WIDEST_LONG else pa.decimal128(20, 0)
    if column.family is Family.DECIMAL and column.digits[0] <= _MOST_DIGITS:
        return pa.decimal128(*column.digits)
    return _OTHERS.get(column.family, pa.string())


def typed_values(column: Column, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
    """Returns values of change tables in the `typed_type` of the column, and how many of them became NULL: days that no
    calendar has, which upstream can have. ENUM and SET are their labels, and their numbers if the labels are unknown.
    Raises CannotBeExact for what the type cannot hold, RowRefused for a label that the column does not have."""
    if column.labelled and column.elements:
        return label_texts(column, values).cast(pa.string()), 0
    kind = typed_type(column)
    try:
        if column.family in DAYS:
            return _days(values, kind)
        if column.family is Family.VECTOR:
            return _vectors(values, kind), 0
        return pc.cast(values, kind), 0
    except pa.ArrowInvalid as error:
        raise CannotBeExact(
            f"column {column.name} ({column.type}) has a value that {kind} cannot hold: {error}",
            hint="leave the column out",
        ) from error


def _days(values: pa.ChunkedArray, kind: pa.DataType) -> tuple[pa.ChunkedArray, int]:
    lost = 0
    zero = pc.any(pc.starts_with(values, "0000")).as_py()  # Arrow has a year 0, upstream only displays one
    try:
        days = None if zero else pc.cast(values, pa.date32() if kind == pa.date32() else pa.timestamp("us"))
    except pa.ArrowInvalid:
        days = None
    if days is None:
        valid_values = _known_days(values)
        lost = valid_values.null_count - values.null_count
        days = pc.cast(valid_values, pa.date32() if kind == pa.date32() else pa.timestamp("us"))
    # the decoder has TIMESTAMPs in UTC
    return (pc.assume_timezone(days, "UTC") if pa.types.is_timestamp(kind) and kind.tz else days), lost


def _known_days(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns `values` with NULL for days that no calendar has. A parser may take the 31st of February for a day of
    March."""
    days = pc.utf8_slice_codeunits(values, 0, _DAY_LENGTH)
    parsed = pc.strptime(days, format=_DAY, unit="s", error_is_null=True)
    same = pc.equal(pc.strftime(parsed, format=_DAY), days)
    right = pc.and_(pc.fill_null(same, False), pc.invert(pc.starts_with(pc.fill_null(values, ""), "0000")))
    return pc.if_else(right, values, pa.scalar(None, values.type))


def _vectors(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns ``[1,2.5]`` as a list of numbers."""
    inner = pc.utf8_slice_codeunits(pc.replace_substring(values, " ", ""), 1, -1)
    lists = pc.if_else(pc.equal(inner, ""), pa.scalar([], pa.list_(values.type)), pc.split_pattern(inner, ","))
    return pc.cast(lists, kind)


def floats_as_doubles(rows: pa.Table) -> pa.Table:
    """Returns `rows` with each FLOAT as the DOUBLE that has its digits: 0.1, not 0.10000000149011612."""
    fields = [pa.field(field.name, _wide(field.type)) for field in rows.schema]
    return pa.table([_widened(column) for column in rows.columns], schema=pa.schema(fields))


def _wide(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _wide(field.type)) for field in kind])
    return pa.float64() if kind == pa.float32() else kind


def _widened(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_struct(column.type):
        combined = column.combine_chunks()
        parts = [_widened(combined.field(number)) for number in range(column.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(_wide(column.type)), mask=combined.is_null())
    return column.cast(pa.string()).cast(pa.float64()) if column.type == pa.float32() else column
