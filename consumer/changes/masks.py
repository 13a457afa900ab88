"""Masks: the replica has other values in place of a column's own."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import META, arrow_type
from consumer.model.columns import Column, Family
from consumer.model.names import same_name
from consumer.model.rules import Mask, MaskKind, Shaping
from consumer.model.types.numbers import limits

HEX_DIGITS, HASH_BYTES = 64, 32
_LENGTHS = {"TINYTEXT": 255, "TEXT": 65_535, "TINYBLOB": 255, "BLOB": 65_535}
_UNBOUNDED = ("MEDIUMTEXT", "LONGTEXT", "MEDIUMBLOB", "LONGBLOB")
_TIMES = {Family.DATE: "%Y-%m-%d", Family.DATETIME: "%Y-%m-%d %H:%M:%S"}


def masked(changes: pa.Table, shaping: Shaping, columns: Sequence[Column]) -> pa.Table:
    """Returns a change table with the masks of its table applied. NULL stays NULL, except under `fixed`. A hashed key
    still distinguishes rows."""
    for position, column in enumerate(columns):
        mask = shaping.mask_of(column.name)
        if mask is not None:
            values = changes.column(META + position).combine_chunks()
            field = changes.schema.field(META + position)
            changes = changes.set_column(META + position, field, _applied(values, column, mask))
    return changes


def mask_fault(shaping: Shaping, columns: Collection[Column], keys: Collection[str], parts: Collection[str]) -> str:
    """Returns why masks cannot replace the values of these columns, or "". `keys` are the columns, in lower case, of
    the primary key and of unique keys; `parts` are those of which a unique key has only the beginning."""
    for column in columns:
        mask = shaping.mask_of(column.name)
        if mask is None:
            continue
        name = same_name(column.name)
        if name in keys and (mask.kind is not MaskKind.HASH or name in parts):
            return f"column {column.name} is one of a key, and with the mask {mask.kind} rows would have the same key"
        if why := _misfit(column, mask):
            return f"column {column.name} ({column.type}): {why}"
    return ""


def _applied(values: pa.Array, column: Column, mask: Mask) -> pa.Array:
    match mask.kind:
        case MaskKind.NULL:
            return pa.nulls(len(values), values.type)
        case MaskKind.FIXED:
            return pa.repeat(pa.scalar(mask.value, values.type), len(values))
        case MaskKind.HASH:
            return _hashed(values, column, mask.key)
        case MaskKind.TRUNCATE if column.family is Family.BINARY:
            return pc.binary_slice(values.cast(pa.binary()), 0, mask.length).cast(values.type)
        case MaskKind.TRUNCATE:
            return pc.utf8_slice_codeunits(values, 0, mask.length)
        case MaskKind.PARTIAL:
            return _partial(values, mask.length)


def _hashed(values: pa.Array, column: Column, key: bytes) -> pa.Array:
    """Returns HMAC-SHA256: its bytes, or for a text its hexadecimal digits. Each distinct value is hashed once; Arrow
    has no such kernel."""
    encoded = values.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    digests = [hmac.digest(key, text, "sha256") for text in texts]
    hashes = digests if column.family is Family.BINARY else [digest.hex() for digest in digests]
    return pa.array(hashes, arrow_type(column)).take(encoded.indices)


def _partial(values: pa.Array, shown: int) -> pa.Array:
    """Returns stars followed by the last `shown` characters. A text that is not longer becomes stars alone."""
    lengths = pc.utf8_length(values)
    longer = pc.greater(lengths, shown)
    stars = pc.binary_repeat(pa.scalar("*", values.type), pc.if_else(longer, pc.subtract(lengths, shown), lengths))
    rest = pc.utf8_slice_codeunits(values, -shown, None) if shown else pa.scalar("", values.type)
    rest = pc.if_else(longer, rest, pa.scalar("", values.type))
    return pc.binary_join_element_wise(stars, rest, pa.scalar("", values.type))


def _misfit(column: Column, mask: Mask) -> str:
    """Returns why the masked value is not valid in the column, or ""."""
    text, binary = column.family is Family.TEXT, column.family is Family.BINARY
    match mask.kind:
        case MaskKind.NULL:
            return "" if column.nullable else "it is NOT NULL, so null cannot stand there"
        case MaskKind.FIXED:
            return "" if _fits(column, mask.value) else f"'{mask.value}' is no value of it"
        case MaskKind.HASH:
            needed = HEX_DIGITS if text else HASH_BYTES
            enough = (text or (binary and column.type != "BINARY")) and _room(column) >= needed
            return "" if enough else (
                f"a hash needs a text of {HEX_DIGITS} characters, or a VARBINARY or BLOB of {HASH_BYTES} bytes"
            )  # fmt: skip
        case MaskKind.TRUNCATE:
            return "" if text or (binary and column.type != "BINARY") else "truncate is for texts and binary values"
        case MaskKind.PARTIAL:
            return "" if text else "partial is for texts"


def _room(column: Column) -> int:
    """Returns how many characters or bytes fit, 0 where that is not known."""
    if column.type in _UNBOUNDED:
        return 1 << 24
    return _LENGTHS.get(column.type, column.length or 0)


def _fits(column: Column, value: str) -> bool:
    match column.family:
        case Family.TEXT:
            size = len(value.encode()) if column.type in _LENGTHS else len(value)
            return size <= _room(column) and not (column.type == "CHAR" and value.endswith(" "))
        case Family.INTEGER:
            if not re.fullmatch(r"0|-?[1-9][0-9]*", value):
                return False
            least, most = limits(column)
            return least <= int(value) <= most
        case Family.DECIMAL:
            return _is_decimal(value, column)
        case Family.DATE | Family.DATETIME if not column.scale:
            form = _TIMES[column.family]
            try:
                return datetime.strptime(value, form).strftime(form) == value
            except ValueError:
                return False
        case _:
            return False


def _is_decimal(value: str, column: Column) -> bool:
    """Returns whether the value is written as in the files: with all digits after the point."""
    digits, scale = column.digits
    try:
        number = Decimal(value)
    except InvalidOperation:
        return False
    is_negative = column.unsigned and number < 0
    fits = len(number.as_tuple().digits) <= digits and number.is_finite()
    return fits and not is_negative and f"{number:.{scale}f}" == value
