"""RECOVER TABLE and FLASHBACK TABLE: what to do where the target did not keep the table that they bring back."""

from __future__ import annotations

from consumer.model.hints import skip_ddl_command
from consumer.model.names import TableName

NOT_KEPT = "a lost table came back upstream, with rows that TiCDC does not write again, and the target did not keep it"


def not_kept_hint(table: TableName, version: int) -> str:
    """The way out. Only rows above `version` come from the storage afterwards."""
    return (
        f"copy the table from upstream as of {version} into the target, then: {skip_ddl_command(table, version)};"
        " with action = 'rename' for drop-table and truncate-table in [consumer.ddl] the target"
        " keeps such tables"
    )
