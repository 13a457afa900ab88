"""A table that the target had, and that somebody has dropped there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.errors import TableMissing
from consumer.model.commands import resync_command
from consumer.model.steps import LoadRows

if TYPE_CHECKING:
    from consumer.pipeline.manager import ConsumerManager


def gone(manager: ConsumerManager, load: LoadRows, error: TableMissing) -> TableMissing:
    """What to say where the target lacks the table of `load`: `error`, unless the storage can make the table anew, or
    rows of it were applied, which are gone with it: who creates it empty would lose them."""
    from consumer.pipeline.resync import remakable

    table = load.table
    if remakable([table], manager.assembly, manager.progress, manager.options):
        return TableMissing(
            f"the target has no table {table}: it was dropped there, not upstream",
            hint=f"make it anew from the storage: {resync_command(table)}",
            table=str(table),
        )
    if any(manager.assembly.catalog.owner(folder) == table for folder in manager.progress.folders):
        return TableMissing(
            f"the target has no table {table}: it was dropped there, with the rows that were applied to it",
            hint="restore it as it was from a backup of the target, or copy it from upstream as of a TSO and start a"
            " consumer under a new name with --start-ts: the storage does not hold it from its beginning",
            table=str(table),
        )
    return error
