"""A table that the target had, and that somebody has dropped there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.errors import ConsumerError, TableMissing
from consumer.model.commands import resync_command
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.plan.assembly import Assembly

if TYPE_CHECKING:
    from consumer.pipeline.manager import ManagerOptions


def gone(
    table: TableName, error: ConsumerError, assembly: Assembly, progress: Progress, options: ManagerOptions
) -> ConsumerError:
    """What to say of the sink's `error` about `table`: itself, but where the target lacks a table that the storage can
    make anew, or to which rows were applied, that are gone with it: who creates it empty would lose them."""
    from consumer.pipeline.resync import remakable  # it knows the manager, which needs this

    if not isinstance(error, TableMissing):
        return error
    if remakable([table], assembly, progress, options):
        return TableMissing(
            f"the target has no table {table}: it was dropped there, not upstream",
            hint=f"make it anew from the storage: {resync_command(table)}",
            table=str(table),
        )
    if any(assembly.catalog.owner(folder) == table for folder in progress.folders):
        return TableMissing(
            f"the target has no table {table}: it was dropped there, with the rows that were applied to it",
            hint="restore it as it was from a backup of the target, or copy it from upstream as of a TSO and start a"
            " consumer under a new name with --start-ts: the storage does not hold it from its beginning",
            table=str(table),
        )
    return error
