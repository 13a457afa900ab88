"""Binary values: canal-JSON writes each byte as the code point of its number, CSV base64 or hexadecimal digits, which
SQL text wants too.

All ways work on the buffers of an array, whatever its offset, length and nulls. Arrays with 64-bit offsets stay such.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from consumer.errors import CorruptFile
from consumer.model.hints import AS_FILES_SHOW

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.signedinteger[Any]]

_HEX_PAIRS = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
_LAST_TWO_BYTE_LEAD = 0xC3
"""In UTF-8, U+0080 to U+00FF are a byte 0xC2 or 0xC3 and one more; every code point above has a greater first byte."""
_MAX_SMALL = (1 << 31) - 1


def latin1_to_binary(values: pa.StringArray) -> pa.BinaryArray:
    """Each code point U+0000 to U+00FF back to its one byte; null stays null. `values` must be valid UTF-8.

    Raises CorruptFile for a code point above U+00FF.
    """
    offsets, data = _offsets_and_data(values)
    if data.size == 0 or data.max() < 0x80:
        return values.cast(pa.large_binary() if _is_large(values) else pa.binary())
    if data.max() > _LAST_TWO_BYTE_LEAD:
        raise CorruptFile(
            "a binary value has a character above U+00FF, where each character stands for one byte",
            hint="the column is text in the data file and binary in its schema file: the two do not belong together",
        )
    leads = np.flatnonzero(data >= 0xC0)
    merged = data.copy()
    merged[leads + 1] = (data[leads] << 6) | (data[leads + 1] & 0x3F)
    shorter = offsets - np.searchsorted(leads, offsets).astype(offsets.dtype)
    return _with_buffers(values, pa.large_binary, pa.binary, shorter, np.delete(merged, leads))


def base64_to_binary(values: pa.BinaryArray) -> pa.BinaryArray:
    """Standard base64, each value padded by itself; null stays null. Raises CorruptFile."""
    offsets, data = _offsets_and_data(values)
    padding = data == ord("=")
    padded = np.concatenate([[0], np.cumsum(padding)])
    pads = np.diff(padded[offsets])
    ends = offsets[1:]
    # whatever the pads of a value are, they must be its last one or two characters
    trailing = padded[ends] - padded[np.maximum(ends - 2, offsets[:-1])]
    if np.any(np.diff(offsets) % 4) or np.any(pads != trailing) or not np.all(padding[ends[pads > 0] - 1]):
        raise _not_encoded("base64")
    try:
        decoded = binascii.a2b_base64(np.where(padding, np.uint8(ord("A")), data).tobytes(), strict_mode=True)
    except binascii.Error as error:
        raise _not_encoded("base64") from error
    keep = np.ones(len(decoded), np.bool_)
    for pad in (1, 2):
        keep[ends[pads >= pad] // 4 * 3 - pad] = False
    shorter = offsets // 4 * 3 - np.concatenate([[0], np.cumsum(pads)])
    return _with_buffers(
        values, pa.large_binary, pa.binary, shorter.astype(offsets.dtype), np.frombuffer(decoded, np.uint8)[keep]
    )


def hex_to_binary(values: pa.BinaryArray) -> pa.BinaryArray:
    """Two lower-case digits a byte; null stays null. Raises CorruptFile, also for upper case, which base64 has."""
    offsets, data = _offsets_and_data(values)
    if np.any(np.diff(offsets) % 2) or np.any((data >= ord("A")) & (data <= ord("F"))):
        raise _not_encoded("hex")
    try:
        decoded = binascii.unhexlify(data.tobytes())
    except binascii.Error as error:
        raise _not_encoded("hex") from error
    return _with_buffers(values, pa.large_binary, pa.binary, offsets // 2, np.frombuffer(decoded, np.uint8))


def binary_to_hex(values: pa.BinaryArray) -> pa.StringArray:
    """Two upper-case digits a byte; null stays null. Becomes a large array where 32-bit offsets would not do."""
    offsets, data = _offsets_and_data(values)
    if 2 * data.size > _MAX_SMALL:
        offsets = offsets.astype(np.int64)
    return _with_buffers(values, pa.large_string, pa.string, offsets * 2, _HEX_PAIRS[data].view(np.uint8))


def holds_only(values: pa.BinaryArray, allowed: npt.NDArray[np.bool_]) -> bool:
    """Whether all bytes of all values are `allowed`, which has a flag for each of the 256 bytes."""
    return bool(np.all(allowed[_offsets_and_data(values)[1]]))


def _not_encoded(encoding: str) -> CorruptFile:
    return CorruptFile(
        f"a binary value is not {encoding}",
        hint="`binary-encoding-method` in [sink.csv] must be the changefeed's: base64, where it is not set, or hex;"
        f" {AS_FILES_SHOW}",
    )


def _is_large(values: pa.Array) -> bool:
    return bool(pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type))


def _offsets_and_data(values: pa.Array) -> tuple[_Offsets, _Bytes]:
    """The offsets, one more than values and counted from 0, and the bytes between the first and the last of them."""
    width = np.int64 if _is_large(values) else np.int32
    _, offset_buffer, data_buffer = values.buffers()
    if len(values) == 0 or offset_buffer is None:
        return np.zeros(len(values) + 1, width), np.empty(0, np.uint8)
    offsets = np.frombuffer(offset_buffer, width)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    if first == last:
        return np.zeros(len(values) + 1, width), np.empty(0, np.uint8)
    return offsets - offsets[0], np.frombuffer(data_buffer, np.uint8)[first:last]


def _with_buffers(
    values: pa.Array,
    large: Callable[[], pa.DataType],
    small: Callable[[], pa.DataType],
    offsets: _Offsets,
    data: _Bytes,
) -> pa.Array:
    """An array of the nulls of `values` and these bytes."""
    type_ = large() if offsets.dtype == np.int64 else small()
    nulls = values.is_valid().buffers()[1] if values.null_count else None
    buffers = [nulls, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_, len(values), buffers, values.null_count)
