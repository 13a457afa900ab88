"""Values as canal-JSON carries them -> Arrow columns of their own types, without a loop over rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import RowRefused
from consumer.model.columns import Column, Family
from consumer.sink.columnar.table import Held

_INTEGERS = {
    "TINYINT": (pa.int8(), pa.uint8()),
    "SMALLINT": (pa.int16(), pa.uint16()),
    "MEDIUMINT": (pa.int32(), pa.uint32()),
    "INT": (pa.int32(), pa.uint32()),
    "BIGINT": (pa.int64(), pa.uint64()),
}
_NUMBERS = {
    Family.FLOAT: pa.float32(),
    Family.DOUBLE: pa.float64(),
    Family.BIT: pa.uint64(),
    Family.YEAR: pa.uint16(),
}
_SHOWN = 50
_TIMES = {Family.DATE: pa.date32(), Family.DATETIME: pa.timestamp("us"), Family.TIMESTAMP: pa.timestamp("us")}

_DAY, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}:\d{2}(\.\d{1,6})?"
_WRITTEN = {
    Family.DATE: f"^{_DAY}$",
    Family.DATETIME: f"^{_DAY} {_CLOCK}$",
    Family.TIMESTAMP: f"^{_DAY} {_CLOCK}$",
    Family.TIME: rf"^-?\d?{_CLOCK}$",
    Family.DECIMAL: r"^-?\d+(\.\d+)?$",
}
"""How values are written that are held as text: upstream has days that no calendar has, but no words."""


def to_arrow(column: Column, values: pa.ChunkedArray, held: Held, in_key: bool = False) -> pa.ChunkedArray:
    """`values` (string; binary for the binary types) for a column of a table that holds them as `held`.

    Dates and times come back as they are, as text, where one of them is no date: the zero date, '2024-00-00'. JSON and
    VECTOR stay text. Raises RowRefused for a number that its type cannot hold, for a text that is no date, time or
    number at all, for an element that is not declared, and in a key (`in_key`) for one that is written as another is.
    """
    if column.labelled and column.elements:
        return _labels(column, values, in_key)
    if held is Held.TEXT or column.family in (Family.BINARY, Family.JSON, Family.VECTOR):
        return _as_text(column, values)
    if column.family in _TIMES:
        return _times(column, values)
    try:
        return pc.cast(values, _number_type(column))
    except pa.ArrowInvalid as error:
        raise _refused(column, str(error)) from error


def _number_type(column: Column) -> pa.DataType:
    if column.family is Family.INTEGER:
        return _INTEGERS[column.type][column.unsigned]
    if column.family is Family.DECIMAL:
        return pa.decimal128(*column.digits)
    return _NUMBERS[column.family]


def _times(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pc.any(pc.starts_with(values, "0000")).as_py():  # Arrow has a year 0, MySQL only shows one
        return _as_text(column, values)
    try:
        return pc.cast(values, _TIMES[column.family])
    except pa.ArrowInvalid:
        return _as_text(column, values)


def _as_text(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.family in _WRITTEN:
        other = values.filter(pc.invert(pc.match_substring_regex(values, _WRITTEN[column.family])))
        if len(other):
            raise _refused(column, repr(other[0].as_py()[:_SHOWN]))
    return values


def _labels(column: Column, values: pa.ChunkedArray, in_key: bool) -> pa.ChunkedArray:
    """An ENUM's number is the position of its label, from 1; a SET's the sum of its labels' bits; 0 is ''."""
    try:
        numbers = pc.cast(values, pa.uint64()).combine_chunks()
        if in_key and "" in column.elements and _hold_twin(column, numbers):
            raise _refused(column, "the label '' and the value 0 are both written '', and two keys would be one")
        if column.family is Family.SET:
            coded = pc.dictionary_encode(numbers)
            texts = [_set_text(column, mask) for mask in coded.dictionary.to_pylist()]
            return pa.chunked_array([pa.array(texts, pa.string()).take(coded.indices)], pa.string())
        return pa.chunked_array([pa.array(["", *column.elements], pa.string()).take(numbers)], pa.string())
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise _refused(column, str(error)) from error


def _hold_twin(column: Column, numbers: pa.Array) -> bool:
    """Whether one of `numbers` is an ENUM's error value, or a SET of the label '' alone: '' is to be the other one."""
    twin = 0 if column.family is Family.ENUM else 1 << column.elements.index("")
    return bool(pc.any(pc.equal(numbers, pa.scalar(twin, pa.uint64()))).as_py())


def _set_text(column: Column, mask: int) -> str:
    if mask >> len(column.elements):
        raise _refused(column, f"{mask} is above the last of its labels")
    return ",".join(label for bit, label in enumerate(column.elements) if mask >> bit & 1)


def _refused(column: Column, why: str) -> RowRefused:
    kind = f"{column.type}{' UNSIGNED' if column.unsigned else ''}"
    return RowRefused(
        f"column {column.name} ({kind}) holds what is not such a value: {why}",
        hint="the data file is damaged, or its schema file does not belong to it",
    )
