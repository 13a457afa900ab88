"""How the values of MySQL's types are held in Arrow arrays, and converted from one written form to another.

Binary values: canal-JSON writes each byte as the code point of its number; CSV writes base64 or hexadecimal digits,
which SQL text needs too. FLOAT and DOUBLE are their shortest decimal text, in CSV with an exponent if they are large or
small. For ENUM and SET CSV writes the labels; everything else needs their numbers. TIMESTAMPs are the changefeed's
local time in the files, and UTC in targets.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import CorruptFile
from consumer.model.columns import Column, Family
from consumer.model.hints import AS_FILES_SHOW, WITH_A_COPY
from consumer.model.times import Clock

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.signedinteger[Any]]

_HEX_PAIRS = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
_LAST_TWO_BYTE_LEAD = 0xC3
"""In UTF-8, U+0080 to U+00FF are a byte 0xC2 or 0xC3 and one more; every code point above has a greater first byte."""
_MAX_SMALL = (1 << 31) - 1
_BACKSLASH = ord("\\")
_WIDEST = 8
"""The bytes of the widest BIT."""


def latin1_to_binary(values: pa.StringArray) -> pa.BinaryArray:
    """Returns the byte of each code point U+0000 to U+00FF; null stays null. `values` must be valid UTF-8.

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
    """Decodes standard base64, with each value padded by itself; null stays null. Raises CorruptFile."""
    offsets, data = _offsets_and_data(values)
    padding = data == ord("=")
    padded = np.concatenate([[0], np.cumsum(padding)])
    pads = np.diff(padded[offsets])
    ends = offsets[1:]
    # the pads of a value must be its last one or two characters
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
    """Decodes two lower-case digits for each byte; null stays null. Raises CorruptFile, also for upper case, which
    base64 has."""
    offsets, data = _offsets_and_data(values)
    if np.any(np.diff(offsets) % 2) or np.any((data >= ord("A")) & (data <= ord("F"))):
        raise _not_encoded("hex")
    try:
        decoded = binascii.unhexlify(data.tobytes())
    except binascii.Error as error:
        raise _not_encoded("hex") from error
    return _with_buffers(values, pa.large_binary, pa.binary, offsets // 2, np.frombuffer(decoded, np.uint8))


def binary_to_hex(values: pa.BinaryArray) -> pa.StringArray:
    """Returns two upper-case digits for each byte; null stays null. The array is a large one if 32-bit offsets are too
    small."""
    offsets, data = _offsets_and_data(values)
    if 2 * data.size > _MAX_SMALL:
        offsets = offsets.astype(np.int64)
    return _with_buffers(values, pa.large_string, pa.string, offsets * 2, _HEX_PAIRS[data].view(np.uint8))


_INTEGER, _FRACTION = re.compile(rb"-?[0-9]+"), re.compile(rb"[-+.0-9eE]+")
_OF_INTEGERS, _OF_FRACTIONS = (
    np.isin(np.arange(256), list(allowed)) for allowed in (b"-0123456789", b"-+.0123456789eE")
)
_MAX_SHOWN = 60


def check_numbers(values: pa.BinaryArray, hint: str, *, fraction: bool) -> None:
    """Raises CorruptFile for an empty value, or one with a byte that no number has: the settings are wrong, or the file
    is damaged."""
    allowed = _OF_FRACTIONS if fraction else _OF_INTEGERS
    if np.all(allowed[_offsets_and_data(values)[1]]) and pc.min(pc.binary_length(values)).as_py() != 0:
        return
    pattern = _FRACTION if fraction else _INTEGER
    wrong = next((value for value in values.to_pylist() if value is not None and not pattern.fullmatch(value)), b"")
    shown = repr(wrong[:_MAX_SHOWN].decode(errors="replace"))
    raise CorruptFile(f"{shown} is not a number", hint=hint)


def values_from_text(values: pa.BinaryArray, written: Column, elements: Sequence[str], clock: Clock) -> pa.StringArray:
    """Returns values of a column that is not binary, which a file holds as texts: labels become numbers, and times of
    the `clock` become UTC. `elements` are the target's labels, () if it has none. Raises CorruptFile."""
    try:
        text = values.cast(pa.large_string() if pa.types.is_large_binary(values.type) else pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFile("a text is not UTF-8", hint=f"replace the value upstream; {WITH_A_COPY}") from error
    match written.family:
        case Family.FLOAT | Family.DOUBLE:
            return without_exponent(text.cast(pa.string()))
        case Family.ENUM:
            return enum_numbers(text, elements or written.elements)
        case Family.SET:
            return set_numbers(text, elements or written.elements)
        case Family.TIMESTAMP:
            return to_utc(text, clock)
        case _:
            return text


def unescape(values: pa.BinaryArray, marks: Mapping[int, int], meanings: Mapping[int, int]) -> pa.BinaryArray:
    r"""Replaces each byte of `marks` by what it stands for, and a backslash with the next byte by what `meanings` has
    for that byte. Null stays null. Raises CorruptFile for a byte that has no meaning there."""
    offsets, data = _offsets_and_data(values)
    special = np.zeros(256, np.bool_)
    special[[_BACKSLASH, *marks]] = True
    if not np.any(special[data]):
        return values
    escaping = np.flatnonzero(data == _BACKSLASH)
    stands_for = np.arange(256, dtype=np.uint8)
    stands_for[list(marks)] = list(marks.values())
    plain = stands_for[data]
    has_meaning = np.zeros(256, np.bool_)
    has_meaning[list(meanings)] = True
    ends = offsets[np.searchsorted(offsets, escaping, side="right")]
    if np.any(escaping + 1 >= ends) or not np.all(has_meaning[next_bytes := data[escaping + 1]]):
        raise CorruptFile("a backslash stands before a character that is never escaped")
    stands_for[list(meanings)] = list(meanings.values())
    plain[escaping + 1] = stands_for[next_bytes]
    shorter = offsets - np.searchsorted(escaping, offsets).astype(offsets.dtype)
    return _with_buffers(values, pa.large_binary, pa.binary, shorter, np.delete(plain, escaping))


def big_endian_numbers(values: pa.BinaryArray) -> pa.StringArray:
    """Returns up to 8 bytes as the decimal digits of their number; null stays null. Raises CorruptFile for more
    bytes."""
    offsets, data = _offsets_and_data(values)
    sizes = np.diff(offsets)
    if np.any(sizes > _WIDEST):
        raise CorruptFile("a BIT value has more than 8 bytes")
    bytes_ = np.zeros((len(values), _WIDEST), np.uint8)
    rows = np.repeat(np.arange(len(values)), sizes)
    bytes_[rows, _WIDEST - np.repeat(offsets[1:], sizes) + np.arange(len(data))] = data
    null = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(bytes_.view(">u8").ravel().astype(np.uint64), mask=null).cast(pa.string())


def _not_encoded(encoding: str) -> CorruptFile:
    return CorruptFile(
        f"a binary value is not {encoding}",
        hint="`binary-encoding-method` in [sink.csv] must be the changefeed's: base64, where it is not set, or hex;"
        " " + AS_FILES_SHOW,
    )


def _is_large(values: pa.Array) -> bool:
    return bool(pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type))


def _offsets_and_data(values: pa.Array) -> tuple[_Offsets, _Bytes]:
    """Returns the offsets, one more than values and counted from 0, and the bytes between the first and the last of
    them."""
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
    """Returns an array with the nulls of `values` and these bytes."""
    type_ = large() if offsets.dtype == np.int64 else small()
    nulls = values.is_valid().buffers()[1] if values.null_count else None
    buffers = [nulls, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_, len(values), buffers, values.null_count)


_SCIENTIFIC = r"^(?P<sign>-?)(?P<whole>[0-9])(?:\.(?P<fraction>[0-9]+))?e\+?(?P<exponent>-?[0-9]{1,3})$"


def float32_exact(values: pa.Array) -> pa.StringArray:
    """Returns the shortest text of the double that equals each float32 exactly; null stays null.

    A server reads a literal as a double first. FLT_MAX's own shortest text, 3.4028235e38, is then above FLT_MAX and is
    refused in strict mode. Raises CorruptFile for text that is not a finite float32.
    """
    try:
        doubles = pc.cast(pc.cast(values, pa.float32()), pa.float64())
    except pa.ArrowInvalid as error:
        raise _not_a_float(str(error)) from error
    if pc.all(pc.is_finite(doubles)).as_py() is False:
        raise _not_a_float(f"{values.filter(pc.invert(pc.is_finite(doubles)))[0].as_py()!r} is no finite FLOAT")
    return pc.cast(doubles, pa.string())


def without_exponent(values: pa.StringArray) -> pa.StringArray:
    """Returns ``1.5e+06`` as ``1500000``, ``-1e-05`` as ``-0.00001``; texts without exponent and nulls stay as they
    are.

    Raises CorruptFile for an exponent that no double has.
    """
    rows = np.flatnonzero(pc.match_substring(values, "e").fill_null(False).to_numpy(zero_copy_only=False))
    if not rows.size:
        return values
    parts = pc.extract_regex(values.take(pa.array(rows)), _SCIENTIFIC)
    if parts.null_count:
        raise _not_a_float(repr(values[int(rows[_first_null(parts)])].as_py()))
    exponents = parts.field("exponent").cast(pa.int16()).to_numpy()
    texts = [
        _shifted(parts.filter(pa.array(exponents == exponent)), int(exponent)) for exponent in np.unique(exponents)
    ]
    order = np.argsort(np.argsort(exponents, kind="stable"), kind="stable")
    mask = np.zeros(len(values), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.concat_arrays(texts).take(pa.array(order)))


def _shifted(parts: pa.StructArray, exponent: int) -> pa.StringArray:
    """Returns `whole`, one digit, and `fraction` times ten to the `exponent`."""
    sign, whole, fraction = (parts.field(name) for name in ("sign", "whole", "fraction"))
    if exponent < 0:
        return pc.binary_join_element_wise(sign, "0." + "0" * (-exponent - 1), whole, fraction, "")
    digits = pc.utf8_rpad(fraction, exponent, "0")
    rest = pc.utf8_slice_codeunits(digits, exponent)
    point = pc.if_else(pc.equal(rest, ""), "", ".")
    return pc.binary_join_element_wise(sign, whole, pc.utf8_slice_codeunits(digits, 0, exponent), point, rest, "")


def _first_null(values: pa.Array) -> int:
    return int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))


def _not_a_float(what: str) -> CorruptFile:
    return CorruptFile(
        f"a FLOAT column holds an invalid value: {what}",
        hint="the data file is damaged, or its schema file does not belong to it",
    )


def enum_numbers(labels: pa.StringArray, elements: Sequence[str]) -> pa.StringArray:
    """Returns the position of each label among `elements`, from 1; null stays null. Raises CorruptFile for any other
    label."""
    numbers = {label: str(number) for number, label in enumerate(elements, 1)}
    return _each_distinct(labels, lambda label: numbers[label], "ENUM", elements)


def set_numbers(labels: pa.StringArray, elements: Sequence[str]) -> pa.StringArray:
    """Returns the sum of the bits of the labels that are set; the first element's bit is 1. Null stays null.

    Raises CorruptFile for any other label.
    """
    bits = {label: 1 << position for position, label in enumerate(elements)}
    return _each_distinct(
        labels, lambda text: str(sum(bits[label] for label in text.split(",") if text)), "SET", elements
    )


def _each_distinct(
    labels: pa.StringArray, number: Callable[[str], str], type_: str, elements: Sequence[str]
) -> pa.StringArray:
    encoded = labels.dictionary_encode()
    numbers = []
    for text in encoded.dictionary.to_pylist():
        try:
            numbers.append(number(text))
        except KeyError as error:
            raise CorruptFile(
                f"the label {error.args[0]!r} is none of {type_}({', '.join(map(repr, elements))})",
                hint="the target's column must have the labels that upstream's has, in the same order: alter it, then"
                " run again",
            ) from error
    return pa.array(numbers, pa.string()).take(encoded.indices)


_SECONDS = len("2006-01-02 15:04:05")
_ZERO = "0000-00-00"
_TZ = (
    "the changefeed has another time zone (that of the TiCDC server, unless its --tz says otherwise): fill an empty"
    " target under another --name with --tz set to it"
)
_NOWHERE = np.iinfo(np.int64).min


def to_utc(texts: pa.Array, clock: Clock) -> pa.Array:
    """Converts local times, texts of either size, to UTC, with their fraction digits. Null and '0000-00-00 00:00:00'
    stay.

    Raises CorruptFile for what is no time, or a time that the clock never showed.
    """
    if clock.is_utc or texts.null_count == len(texts):
        return texts
    zero = pc.starts_with(texts, _ZERO)
    local = pc.if_else(zero, None, pc.utf8_slice_codeunits(texts, 0, _SECONDS))
    try:
        seconds = pc.cast(pc.cast(local, pa.timestamp("s")), pa.int64())
    except pa.ArrowInvalid as error:
        raise CorruptFile("a value is not a time") from error
    is_time = seconds.is_valid().to_numpy(zero_copy_only=False)
    local_seconds = pc.fill_null(seconds, 0).to_numpy()
    offsets = np.array([_NOWHERE if offset is None else offset for offset in clock.offsets], np.int64)
    offset = offsets[np.searchsorted(np.array(clock.starts, np.int64), local_seconds, side="right")]
    if np.any(missing := is_time & (offset == _NOWHERE)):
        wrong = texts[int(np.argmax(missing))].as_py()
        raise CorruptFile(f"the clocks of {clock.name} were turned forward over '{wrong}'", hint=_TZ)
    utc_seconds = pc.cast(pc.cast(pa.array(local_seconds - offset, mask=~is_time), pa.timestamp("s")), texts.type)
    utc = pc.binary_join_element_wise(utc_seconds, pc.utf8_slice_codeunits(texts, _SECONDS), pa.scalar("", texts.type))
    return pc.if_else(zero, texts, utc)
