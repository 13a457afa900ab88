"""Finds which rows are equal, bytewise: by a stable hash of their bytes, and by dense numbers ("codes") for distinct
rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import Ints

Hashes = npt.NDArray[np.uint64]

_WORD = 8
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(_WORD + 1)], dtype=np.uint64)
_SEED = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)
_SPREAD_AGAIN = np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(32)


def row_hash(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """Returns 64 bits for each row of text or binary columns without nulls. They depend on the bytes alone: they are
    the same in every process, for every chunking, and for text and binary alike."""
    hashed = _column_hash(columns[0])
    for column in columns[1:]:
        hashed = _mixed(hashed * _SEED + _column_hash(column))
    return hashed


def identities(rows: pa.Table, key: Sequence[int]) -> Hashes:
    """Returns 64 bits for each of `rows` (columns ``c0 .. cN`` among others) that identify it: by its key, or by all
    its values if `key` is empty. Null counts as a value. The bits do not reveal the values."""
    if key:
        return row_hash([rows.column(f"c{position}") for position in key])
    values = [rows.column(name) for name in rows.column_names if name[0] == "c" and name[1:].isdigit()]
    parts = ((pc.fill_null(column, pa.scalar(b"", column.type)), _null_texts(column)) for column in values)
    return row_hash([part for pair in parts for part in pair])


def _null_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_null(column), "null", "")


def key_codes(columns: Sequence[pa.ChunkedArray]) -> tuple[Ints, int]:
    """Returns a number for each row, the same for equal rows only, and the count that all numbers are below. The
    columns have no nulls.

    Numbering our own hashes of the bytes is three times as fast as numbering the texts. Rows of equal hash are
    compared; where they differ, the texts are numbered after all.
    """
    combined = [column.combine_chunks() for column in columns]
    codes, count = _numbered(pa.array(row_hash(columns)))
    twin = last_of(codes, np.arange(len(codes)), count)[codes]
    repeated = np.flatnonzero(twin != np.arange(len(codes)))
    if not repeated.size or all(_equal(column, repeated, twin[repeated]) for column in combined):
        return codes, count
    return row_codes(columns)


def row_codes(columns: Sequence[pa.ChunkedArray]) -> tuple[Ints, int]:
    """Returns a number for each row, the same for equal rows only, and the count that all numbers are below. Null
    equals null."""
    codes, count = _numbered(columns[0])
    for column in columns[1:]:
        column_codes, distinct = _numbered(column)
        codes, count = _numbered(pa.array(codes * distinct + column_codes))
    return codes, count


def last_of(slots: Ints, rows: Ints, count: int) -> Ints:
    """Returns the last of its `rows` for each slot below `count`. Every slot has one."""
    last = np.empty(count, dtype=np.int64)
    last[slots] = rows
    return last


def _numbered(values: pa.Array | pa.ChunkedArray) -> tuple[Ints, int]:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _equal(column: pa.Array, left: Ints, right: Ints) -> bool:
    equal = pc.all(pc.equal(column.take(pa.array(left)), column.take(pa.array(right))), min_count=0)
    return bool(equal.as_py())


def _column_hash(column: pa.ChunkedArray) -> Hashes:
    return np.concatenate([np.empty(0, dtype=np.uint64), *(_chunk_hash(chunk) for chunk in column.chunks)])


def _chunk_hash(chunk: pa.Array) -> Hashes:
    starts, lengths, words = _words(chunk)
    hashed = _mixed(lengths.astype(np.uint64) + _SEED)
    for offset, rows in _rows_by_word(lengths):
        word = words[starts[rows] + offset] & _MASKS[np.minimum(lengths[rows] - offset, _WORD)]
        hashed[rows] = _mixed(hashed[rows] ^ word)
    return hashed


def _words(chunk: pa.Array) -> tuple[Ints, Ints, Hashes]:
    """Returns where each value starts, how long it is, and the eight bytes that begin at every byte of the data."""
    wide = pa.types.is_large_string(chunk.type) or pa.types.is_large_binary(chunk.type)
    _, offsets_buffer, data_buffer = chunk.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64 if wide else np.int32)
    offsets = offsets[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
    size = int(offsets[-1] - offsets[0])
    padded = np.zeros(size + _WORD, dtype=np.uint8)
    if size:
        padded[:size] = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    words: Hashes = np.ndarray(size + 1, dtype="<u8", buffer=padded.data, strides=(1,))
    return offsets[:-1] - offsets[0], np.diff(offsets), words


def _rows_by_word(lengths: Ints) -> Iterator[tuple[int, Ints]]:
    """Yields the offset of each word within its value, with the rows whose values reach it."""
    rows = np.flatnonzero(lengths)
    offset = 0
    while rows.size:
        yield offset, rows
        offset += _WORD
        rows = rows[lengths[rows] > offset]


def _mixed(hashed: Hashes) -> Hashes:
    """Spreads every bit of the input over every bit of the output (the finalizer of MurmurHash3, shortened)."""
    hashed = (hashed ^ (hashed >> _HALF)) * _SPREAD
    hashed = (hashed ^ (hashed >> _HALF)) * _SPREAD_AGAIN
    return hashed ^ (hashed >> _HALF)


def first_of_equal(*ordered: Ints) -> Ints:
    """Returns where the tuples of sorted columns change, including the first row; nothing if there are no rows."""
    changed = np.zeros(len(ordered[0]), dtype=bool)
    changed[:1] = True
    for column in ordered:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)
