"""Applies the conversions of `model.types` to whole columns; a distinct value is converted once."""

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


def convert_known_values(conversions: Sequence[Conversion], values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Flags]:
    """Returns what TiDB makes of `values` by one conversion after the other; and flags of the values for which that is
    not known, which are NULL."""
    unknown = np.zeros(len(values), np.bool_)
    result = values.combine_chunks()
    for conversion in conversions:
        if conversion.refuses_null:  # upstream had no NULL, so what was made of it is unknown
            unknown |= result.is_null().to_numpy(zero_copy_only=False)
        before = result.null_count
        new, _ = convert_values(conversion, result)
        if new.null_count > before:
            unknown |= (new.is_null().to_numpy(zero_copy_only=False)) & result.is_valid().to_numpy(zero_copy_only=False)
        result = new
    return pa.chunked_array([result]), unknown


def convert_values(conversion: Conversion, values: pa.Array) -> tuple[pa.Array, str]:
    """Returns what TiDB makes of `values`, which are as change tables have them; NULL where that is not known, and the
    reason for the first such value, "" for none."""
    kind = arrow_type(conversion.new)
    if conversion.way is Way.KEPT:
        return values.cast(kind), ""
    coded = pc.dictionary_encode(values)
    distinct = coded.dictionary
    make, values_made, lost = conversion.maker(), list[Value | None](), ""
    become_others = pc.invert(_stay(conversion, distinct))
    for value in distinct.filter(become_others).to_pylist():
        try:
            values_made.append(None if value is None else make(value))
        except NoValue as error:
            values_made.append(None)
            lost = lost or str(error)
    as_they_are = pa.nulls(len(distinct), kind) if conversion.old.family is Family.BINARY else distinct.cast(kind)
    result = pc.replace_with_mask(as_they_are, become_others, pa.array(values_made, kind))
    return result.take(coded.indices), lost


def _stay(conversion: Conversion, values: pa.Array) -> pa.BooleanArray:
    """Returns which of `values` keep their text, as far as a kernel can decide: whole numbers that fit."""
    old, new = conversion.old, conversion.new
    if new.family is not Family.INTEGER or old.family not in (Family.INTEGER, Family.TEXT):
        return pa.repeat(False, len(values))
    low, high = limits(new)
    integers = pc.if_else(pc.match_substring_regex(values, _WHOLE), values, None).cast(pa.int64())
    fits = pc.and_(pc.greater_equal(integers, low), pc.less_equal(integers, min(high, _MOST)))
    return pc.fill_null(fits, False)
