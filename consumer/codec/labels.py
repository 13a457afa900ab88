"""Turns the numbers of ENUM and SET, as change tables have them, into the labels."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import RowRefused
from consumer.model.columns import Column, Family


def label_texts(column: Column, values: pa.ChunkedArray, in_key: bool = False) -> pa.ChunkedArray:
    """Returns the labels. An ENUM's number is the position of its label, from 1; a SET's number is the sum of its
    labels' bits; 0 is ''. Raises RowRefused, in a key (`in_key`) also for a value that is written as another is."""
    try:
        numbers = pc.cast(values, pa.uint64()).combine_chunks()
        if in_key and "" in column.elements and _hold_twin(column, numbers):
            raise label_error(column, "the label '' and the value 0 are both written '', and two keys would be one")
        if column.family is Family.SET:
            coded = pc.dictionary_encode(numbers)
            texts = [_set_text(column, mask) for mask in coded.dictionary.to_pylist()]
            return pa.chunked_array([pa.array(texts, pa.string()).take(coded.indices)], pa.string())
        return pa.chunked_array([pa.array(["", *column.elements], pa.string()).take(numbers)], pa.string())
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise label_error(column, str(error)) from error


def _hold_twin(column: Column, numbers: pa.Array) -> bool:
    """Returns whether one of `numbers` is an ENUM's error value, or a SET of the label '' alone: their text '' stands
    for another value."""
    twin = 0 if column.family is Family.ENUM else 1 << column.elements.index("")
    return bool(pc.any(pc.equal(numbers, pa.scalar(twin, pa.uint64()))).as_py())


def _set_text(column: Column, mask: int) -> str:
    if mask >> len(column.elements):
        raise label_error(column, f"{mask} is above the last of its labels")
    return ",".join(label for bit, label in enumerate(column.elements) if mask >> bit & 1)


def label_error(column: Column, why: str) -> RowRefused:
    """Returns the error of a column that holds a value that is not of its type."""
    kind = f"{column.type}{' UNSIGNED' if column.unsigned else ''}"
    return RowRefused(
        f"column {column.name} ({kind}) holds an invalid value: {why}",
        hint="the data file is damaged, or its schema file does not belong to it",
    )
