"""The columns of what is read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from consumer.codec.typed import typed_type
from consumer.model.columns import Column

OP, COMMIT_TS, COMMIT_TIME, VERSION, BEFORE = "_op", "_commit_ts", "_commit_time", "_version", "_before"
META_COLUMNS = frozenset({OP, COMMIT_TS, COMMIT_TIME, VERSION, BEFORE})
_META = (
    (OP, pa.string()),
    (COMMIT_TS, pa.int64()),
    (COMMIT_TIME, pa.timestamp("us", "UTC")),
    (VERSION, pa.int64()),
)


def values_schema(columns: Sequence[Column]) -> pa.Schema:
    """Of the rows of a table."""
    return pa.schema([(column.name, typed_type(column)) for column in columns])


def changes_schema(columns: Sequence[Column], before: bool) -> pa.Schema:
    """Of the changes of a table; `before`: with the values before each."""
    values = values_schema(columns)
    return pa.schema([*_META, *values, *([(BEFORE, pa.struct(list(values)))] if before else [])])
