"""Steps that need more memory than DuckDB may use: they stop their own table."""

from __future__ import annotations

from consumer.errors import ConsumerError, DdlRefused, LoadFailed
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl


def merge_too_large(table: TableName, error: ConsumerError) -> LoadFailed:
    return LoadFailed(
        f"to merge its rows takes more memory than there is: {error.message}",
        hint="run where there is more memory, or set a smaller round-bytes, then run again",
        table=str(table),
    )


def statement_too_large(step: ApplyDdl, error: ConsumerError) -> DdlRefused:
    return DdlRefused(
        f"the statement takes more memory than there is: {error.message}: {step.file.query}",
        hint="run again where there is more memory",
        table=str(step.table),
        version=step.file.version,
    )
