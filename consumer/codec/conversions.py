"""The conversions of `model.types`, of whole columns: a distinct value is converted once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import Flags, arrow_type
from consumer.model.columns import Family
from consumer.model.types.conversions import Conversion, Value, Way
from consumer.model.types.numbers import limits
from consumer.model.types.values import NoValue

_WHOLE = r"^(?:0|-?[1-9][0-9]{0,17})$"
"""Whole numbers of 64 bits in their only form."""
_MOST = (1 << 63) - 1


def converted_where_known(conversions: Sequence[Conversion], values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Flags]:
    """What TiDB makes of `values` by one conversion behind the other; and which values it is not known of, which are
    NULL then."""
    unknown = np.zeros(len(values), np.bool_)
    found = values.combine_chunks()
    for conversion in conversions:
        if conversion.refuses_null:  # upstream had none, so nobody knows what was made of it
            unknown |= found.is_null().to_numpy(zero_copy_only=False)
        before = found.null_count
        made, _ = converted(conversion, found)
        if made.null_count > before:
            unknown |= (made.is_null().to_numpy(zero_copy_only=False)) & found.is_valid().to_numpy(zero_copy_only=False)
        found = made
    return pa.chunked_array([found]), unknown


def converted(conversion: Conversion, values: pa.Array) -> tuple[pa.Array, str]:
    """What TiDB makes of `values`, which are as change tables have them; NULL where that is not known, and why it is
    not of the first such value, "" for none."""
    kind = arrow_type(conversion.new)
    if conversion.way is Way.KEPT:
        return values.cast(kind), ""
    coded = pc.dictionary_encode(values)
    distinct = coded.dictionary
    make, made, lost = conversion.maker(), list[Value | None](), ""
    become_others = pc.invert(_stay(conversion, distinct))
    for value in distinct.filter(become_others).to_pylist():
        try:
            made.append(None if value is None else make(value))
        except NoValue as error:
            made.append(None)
            lost = lost or str(error)
    as_they_are = pa.nulls(len(distinct), kind) if conversion.old.family is Family.BINARY else distinct.cast(kind)
    found = pc.replace_with_mask(as_they_are, become_others, pa.array(made, kind))
    return found.take(coded.indices), lost


def _stay(conversion: Conversion, values: pa.Array) -> pa.BooleanArray:
    """Which of `values` are the same text then, as far as a kernel tells: whole numbers that fit."""
    old, new = conversion.old, conversion.new
    if new.family is not Family.INTEGER or old.family not in (Family.INTEGER, Family.TEXT):
        return pa.repeat(False, len(values))
    low, high = limits(new)
    whole = pc.if_else(pc.match_substring_regex(values, _WHOLE), values, None).cast(pa.int64())
    fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, min(high, _MOST)))
    return pc.fill_null(fits, False)
