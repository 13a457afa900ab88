"""Labels of ENUM and SET -> the numbers that files carry."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.model.columns import Column, Family


def numbered(column: Column, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts of a column that has no known labels stay."""
    if not (column.labelled and column.elements):
        return texts
    coded = pc.dictionary_encode(texts.combine_chunks())
    numbers = [_number(column, text) for text in coded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(numbers, pa.large_string()).take(coded.indices)])


def _number(column: Column, text: str) -> str:
    """Of a text that is no label, a number that none has."""
    elements = column.elements
    if text in elements and column.family is Family.ENUM:
        return str(elements.index(text) + 1)
    labels = text.split(",") if text and column.family is Family.SET else []
    known = all(label in elements for label in labels) and (labels or not text)
    return str(sum(1 << elements.index(label) for label in set(labels))) if known else str(1 << len(elements))
