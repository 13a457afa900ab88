"""Changes as a reader of the table wants them: under the columns' names, in types of their own."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import PUT, SLICE, TS
from consumer.errors import CannotBeExact
from consumer.model.columns import Column, Family
from consumer.model.load import LoadTarget, LoadTask

OP, COMMIT_TS, PATH = "_op", "_commit_ts", "_path"
"""In front of the table's columns: ``put`` or ``delete``, the time of the change, the file that it stands in."""
_INTEGERS = {
    "TINYINT": (pa.int8(), pa.int16()),
    "SMALLINT": (pa.int16(), pa.int32()),
    "MEDIUMINT": (pa.int32(), pa.int32()),
    "INT": (pa.int32(), pa.int64()),
    "BIGINT": (pa.int64(), pa.decimal128(20, 0)),
}
"""Signed and unsigned: of types that Spark has."""
_OTHERS = {
    Family.FLOAT: pa.float32(),
    Family.DOUBLE: pa.float64(),
    Family.YEAR: pa.int16(),
    Family.DATE: pa.date32(),
    Family.DATETIME: pa.timestamp("us"),
    Family.TIMESTAMP: pa.timestamp("us", "UTC"),
    Family.BINARY: pa.binary(),
}
_MOST_DIGITS = 38
"""Of a decimal number in 128 bits."""


def typed_schema(target: LoadTarget) -> pa.Schema:
    """Of what `typed` gives. It depends on the columns alone."""
    meta = [(OP, pa.string()), (COMMIT_TS, pa.int64()), (PATH, pa.string())]
    return pa.schema([*meta, *((column.name, _type(column)) for column in target.columns)])


def typed(changes: pa.Table, task: LoadTask) -> pa.Table:
    """`changes` of the task, as `ports.Loader.changes` gives them. A deleted row can have values in its key alone.
    ENUM, SET and BIT are numbers in text, as the files have them; JSON and TIME are text. Raises CannotBeExact for a
    day that no calendar has, which upstream can have."""
    schema = typed_schema(task.source)
    paths = pa.array([piece.path for piece in task.slices], pa.string())
    meta = [
        pc.if_else(changes.column(PUT), "put", "delete"),
        changes.column(TS),
        paths.take(changes.column(SLICE).combine_chunks()),
    ]
    values = [_cast(column, changes.column(f"c{at}"), task) for at, column in enumerate(task.source.columns)]
    return pa.table([*meta, *values], schema=schema)


def _type(column: Column) -> pa.DataType:
    if column.family is Family.INTEGER:
        return _INTEGERS[column.type][column.unsigned]
    if column.family is Family.DECIMAL and column.digits[0] <= _MOST_DIGITS:
        return pa.decimal128(*column.digits)
    return _OTHERS.get(column.family, pa.string())


def _cast(column: Column, values: pa.ChunkedArray, task: LoadTask) -> pa.ChunkedArray:
    kind = _type(column)
    try:
        if column.family is Family.TIMESTAMP:  # the decoder has them in UTC
            return pc.assume_timezone(pc.cast(values, pa.timestamp("us")), "UTC")
        return pc.cast(values, kind)
    except pa.ArrowInvalid as error:
        raise CannotBeExact(
            f"column {column.name} ({column.type}) has a value that {kind} cannot hold: {error}",
            hint="leave the column out, or read its text",
            table=str(task.source.table),
        ) from error
