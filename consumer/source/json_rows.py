"""Writes rows of any table into one column, each as a JSON object. It runs on executors."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.typed import typed_values
from consumer.codec.values import binary_to_hex
from consumer.model.columns import Column, Family

_PLAIN = frozenset({Family.JSON, Family.VECTOR})
"""The families whose values are JSON already."""
NUMBERS = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.DOUBLE, Family.BIT, Family.YEAR})
_CONTROL = r"[\x00-\x1f]"


def json_rows(columns: Sequence[Column], values: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Returns each row as a JSON object. Numbers stay numbers, bytes become hexadecimal digits, JSON is kept, and all
    other values are texts as upstream writes them."""
    parts: list[pa.ChunkedArray | pa.Scalar] = []
    for number, (column, of_column) in enumerate(zip(columns, values, strict=True)):
        name = _quoted(pa.array([column.name], pa.large_string()))[0].as_py()
        parts.append(pa.scalar(f"{',' if number else '{'}{name}:", pa.large_string()))
        parts.append(pc.fill_null(_json(column, of_column), "null"))
    joined = pc.binary_join_element_wise(*parts, pa.scalar("}", pa.large_string()), pa.scalar("", pa.large_string()))
    return joined.cast(pa.string())


def _json(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.family in _PLAIN:
        return values
    if column.family is Family.BINARY:
        hexadecimal = [binary_to_hex(chunk).cast(pa.large_string()) for chunk in values.chunks]
        return _quoted(pa.chunked_array(hexadecimal, pa.large_string()))
    if column.family in NUMBERS:
        return pc.cast(typed_values(column, values)[0], pa.large_string())
    if column.labelled:
        values = pc.cast(typed_values(column, values)[0], pa.large_string())
    return _quoted(values)


def _quoted(texts: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        for code in range(32):
            texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    quote = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(quote, texts, quote, pa.scalar("", pa.large_string()))
