"""The schemas of what a read gives."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from consumer.codec.typed import typed_type
from consumer.model.columns import Column
from consumer.source.columns import COMMIT_TIME, COMMIT_TS, FILE, LINE, OP, ROW, SEQ, TABLE, VERSION

SEQ_DIGITS = 10
"""The last digits of a `SEQ`, which number the changes of one commit-ts. Those before them are the commit-ts."""
PLACES = (pa.field(FILE, pa.string()), pa.field(LINE, pa.int64()))
_META = (
    (OP, pa.string()),
    (COMMIT_TS, pa.int64()),
    (COMMIT_TIME, pa.timestamp("us", "UTC")),
    (VERSION, pa.int64()),
    (SEQ, pa.decimal128(19 + SEQ_DIGITS)),
)


def values_schema(columns: Sequence[Column]) -> pa.Schema:
    """Returns the schema of a table's rows."""
    return pa.schema([(column.name, typed_type(column)) for column in columns])


def changes_schema(columns: Sequence[Column]) -> pa.Schema:
    """Returns the schema of a table's changes."""
    return pa.schema([*_META, *values_schema(columns)])


def several_schema(changes: bool) -> pa.Schema:
    """Returns the schema of the changes, or the states, of several tables."""
    return pa.schema([(TABLE, pa.string()), *(_META if changes else ()), (ROW, pa.string())])
