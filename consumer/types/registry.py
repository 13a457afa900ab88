"""Which Arrow type each column has between codec and sink."""

from __future__ import annotations

import pyarrow as pa

from consumer.model.columns import Column, Family


def arrow_type(column: Column) -> pa.DataType:
    """``large_binary`` for binary columns, else ``large_string``: the text exactly as canal-JSON carries it. The small
    types end at 2 GiB of a column, which one task can hold.

    ENUM, SET, BIT and YEAR are decimal numbers, dates and JSON text. KeyError for a type that TiCDC does not write.
    """
    return pa.large_binary() if column.family is Family.BINARY else pa.large_string()
