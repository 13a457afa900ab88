"""The cells of a column -> its canonical values, as canal-JSON has them (see `types.registry`)."""

from __future__ import annotations

import binascii
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.csv.form import BARE, RowForm
from consumer.errors import CorruptFile
from consumer.model.columns import Column, Family
from consumer.model.hints import WITH_A_COPY
from consumer.types.blobs import base64_to_binary, hex_to_binary, holds_only
from consumer.types.floats import without_exponent
from consumer.types.labels import enum_numbers, set_numbers
from consumer.types.registry import arrow_type
from consumer.types.times import to_utc

_INTEGER, _FRACTION = re.compile(rb"-?[0-9]+"), re.compile(rb"[-+.0-9eE]+")
_OF_INTEGERS, _OF_FRACTIONS = (
    np.isin(np.arange(256), list(allowed)) for allowed in (b"-0123456789", b"-+.0123456789eE")
)
_MAX_SHOWN = 60
_NUMBERS = (
    "check that `null` and the rest of [sink.csv], and `terminator`, are the changefeed's; if they are, the file is "
    "damaged, or has other columns than its schema file: restore it, or remove it and accept the loss of its rows "
    "with --accept-gap"
)
_TEXTUAL = frozenset({Family.TEXT, Family.BINARY, Family.ENUM, Family.SET, Family.JSON})


def is_quoted(column: Column) -> bool:
    """Whether the column's cells are strings to TiCDC, which it quotes."""
    return column.family not in BARE


def canonical(values: pa.BinaryArray, written: Column, target: Column, form: RowForm) -> pa.Array:
    """The values of the column `written` in the file, in the type of `target`. Nulls stay null. Raises CorruptFile."""
    converted = _converted(values, written, target, form)
    return converted if converted.type == arrow_type(target) else _cast(converted, arrow_type(target))


def _converted(values: pa.BinaryArray, written: Column, target: Column, form: RowForm) -> pa.Array:
    family = written.family
    if family is Family.BINARY:
        return hex_to_binary(values) if form.hexadecimal else base64_to_binary(values)
    if family in BARE:
        _check_number(values, fraction=family in (Family.FLOAT, Family.DOUBLE))
    text = _cast(values, pa.string())
    if family in (Family.FLOAT, Family.DOUBLE):
        return without_exponent(text)
    if family is Family.ENUM:
        return enum_numbers(text, target.elements or written.elements)
    if family is Family.SET:
        return set_numbers(text, target.elements or written.elements)
    if family is Family.TIMESTAMP:
        return to_utc(text, form.clock)
    return text


def _check_number(values: pa.BinaryArray, fraction: bool) -> None:
    """A value with a byte that no number has, or with none at all, comes of wrong settings or damage. Raises
    CorruptFile."""
    if (
        holds_only(values, _OF_FRACTIONS if fraction else _OF_INTEGERS)
        and pc.min(pc.binary_length(values)).as_py() != 0
    ):
        return
    right = _FRACTION if fraction else _INTEGER
    wrong = next((value for value in values.to_pylist() if value is not None and not right.fullmatch(value)), b"")
    shown = repr(wrong[:_MAX_SHOWN].decode(errors="replace"))
    raise CorruptFile(f"{shown} is not a number", hint=_NUMBERS)


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise CorruptFile("a text is not UTF-8", hint=f"replace the value upstream; {WITH_A_COPY}") from error


def may_be_text(column: Column, form: RowForm) -> bool:
    """Whether a cell of this column that is written just as NULL is may be a value instead."""
    text = form.text_as_null
    if text is None or column.family not in _TEXTUAL:
        return False
    match column.family:
        case Family.TEXT:
            return True
        case Family.BINARY:
            return _is_encoded(text, form)
        case Family.ENUM:
            return text.decode() in column.elements
        case Family.SET:
            return not text or set(text.decode().split(",")) <= set(column.elements)
        case _:
            return text == b"null"


def _is_encoded(text: bytes, form: RowForm) -> bool:
    try:
        (binascii.unhexlify if form.hexadecimal else binascii.a2b_base64)(text)
    except binascii.Error:
        return False
    return True
