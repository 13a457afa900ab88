"""Values in types of their own: those of Arrow that Spark has, one for each type of upstream."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.labels import labels
from consumer.errors import CannotBeExact
from consumer.model.columns import Column, Family

_INTEGERS = {
    "TINYINT": (pa.int8(), pa.int16()),
    "SMALLINT": (pa.int16(), pa.int32()),
    "MEDIUMINT": (pa.int32(), pa.int32()),
    "INT": (pa.int32(), pa.int64()),
    "BIGINT": (pa.int64(), pa.decimal128(20, 0)),
}
"""Signed and unsigned: Spark has no unsigned numbers."""
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
"""Of a decimal number in 128 bits."""
_WIDEST_LONG = 63
"""Bits of a number that is not below zero, in a long."""
DAYS = frozenset({Family.DATE, Family.DATETIME, Family.TIMESTAMP})
"""Families whose values can be days that no calendar has."""
_DAY, _DAY_LENGTH = "%Y-%m-%d", len("2006-01-02")


def typed_type(column: Column) -> pa.DataType:
    """Of all values of the column. KeyError for a type that TiCDC does not write."""
    if column.family is Family.INTEGER:
        return _INTEGERS[column.type][column.unsigned]
    if column.family is Family.BIT:
        return pa.int64() if (column.length or 1) <= _WIDEST_LONG else pa.decimal128(20, 0)
    if column.family is Family.DECIMAL and column.digits[0] <= _MOST_DIGITS:
        return pa.decimal128(*column.digits)
    return _OTHERS.get(column.family, pa.string())


def typed_values(column: Column, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
    """Values as change tables have them in the `typed_type` of the column, and how many of them became NULL: days that
    no calendar has, which upstream can have. ENUM and SET are their labels, and their numbers where nothing tells the
    labels. Raises CannotBeExact for what the type cannot hold, RowRefused for a label that the column does not have."""
    if column.labelled and column.elements:
        return labels(column, values).cast(pa.string()), 0
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
    zero = pc.any(pc.starts_with(values, "0000")).as_py()  # Arrow has a year 0, upstream only shows one
    try:
        found = None if zero else pc.cast(values, pa.date32() if kind == pa.date32() else pa.timestamp("us"))
    except pa.ArrowInvalid:
        found = None
    if found is None:
        known = _known_days(values)
        lost = known.null_count - values.null_count
        found = pc.cast(known, pa.date32() if kind == pa.date32() else pa.timestamp("us"))
    # the decoder has TIMESTAMPs in UTC
    return (pc.assume_timezone(found, "UTC") if pa.types.is_timestamp(kind) and kind.tz else found), lost


def _known_days(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """`values` with NULL for days that no calendar has. A parser may take the 31st of February for a day of March."""
    days = pc.utf8_slice_codeunits(values, 0, _DAY_LENGTH)
    parsed = pc.strptime(days, format=_DAY, unit="s", error_is_null=True)
    same = pc.equal(pc.strftime(parsed, format=_DAY), days)
    right = pc.and_(pc.fill_null(same, False), pc.invert(pc.starts_with(pc.fill_null(values, ""), "0000")))
    return pc.if_else(right, values, pa.scalar(None, values.type))


def _vectors(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """``[1,2.5]`` as a list of numbers."""
    inner = pc.utf8_slice_codeunits(pc.replace_substring(values, " ", ""), 1, -1)
    lists = pc.if_else(pc.equal(inner, ""), pa.scalar([], pa.list_(values.type)), pc.split_pattern(inner, ","))
    return pc.cast(lists, kind)


def with_few_digits(rows: pa.Table) -> pa.Table:
    """`rows` with each FLOAT as the DOUBLE that has its digits: 0.1, not 0.10000000149011612."""
    fields = [pa.field(field.name, _wide(field.type)) for field in rows.schema]
    return pa.table([_widened(column) for column in rows.columns], schema=pa.schema(fields))


def _wide(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _wide(field.type)) for field in kind])
    return pa.float64() if kind == pa.float32() else kind


def _widened(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_struct(column.type):
        whole = column.combine_chunks()
        parts = [_widened(whole.field(at)) for at in range(column.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(_wide(column.type)), mask=whole.is_null())
    return column.cast(pa.string()).cast(pa.float64()) if column.type == pa.float32() else column
