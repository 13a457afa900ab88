"""A table that rows or a statement are for, and that the target does not have."""

from __future__ import annotations

from consumer.errors import TableMissing
from consumer.target import LoadRequest


def table_missing(request: LoadRequest, create: str) -> TableMissing:
    """It is never created from its rows, because earlier rows would be missing. `create` is the CREATE TABLE that the
    schema file allows, in the target's words."""
    return TableMissing(
        f"the target has no table {request.name}: it is older than the changefeed, or it was dropped there",
        hint=f"restore it from a snapshot, or create it empty where it was empty upstream:\n{create};",
        table=str(request.table),
    )
