"""RECOVER TABLE and FLASHBACK TABLE: which table they bring back, and what to do where the target did not keep it."""

from __future__ import annotations

from consumer.ddl.references import references
from consumer.model.actions import Action
from consumer.model.commands import skip_ddl_command
from consumer.model.files import SchemaFile
from consumer.model.names import TableName

NOT_KEPT = "a lost table came back upstream, with rows that TiCDC does not write again, and the target did not keep it"


def recovered_table(file: SchemaFile) -> TableName | None:
    """The name under which the table was lost; None where a job number tells."""
    lost = next(iter(references(file.query, Action.RECOVER_TABLE)), None)
    return None if lost is None else TableName(lost.database or file.database, lost.table)


def not_kept_hint(table: TableName, version: int) -> str:
    """The way out. Only rows above `version` come from the storage afterwards."""
    return (
        f"copy the table from upstream as of {version} into the target, then: {skip_ddl_command(table, version)};"
        " with action = 'rename' for drop-table and truncate-table in [consumer.ddl] the target"
        " keeps such tables"
    )
