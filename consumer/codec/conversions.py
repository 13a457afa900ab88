"""The conversions of `model.types`, of whole columns: a distinct value is converted once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import Flags, arrow_type
from consumer.model.types.conversions import Conversion, Value, Way
from consumer.model.types.values import NoValue


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
    make, made, lost = conversion.maker(), list[Value | None](), ""
    for value in coded.dictionary.to_pylist():
        try:
            made.append(None if value is None else make(value))
        except NoValue as error:
            made.append(None)
            lost = lost or str(error)
    return pa.array(made, kind).take(coded.indices), lost
