"""Reports where tables are, from the progress: what `status` prints, and what a run reports of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from consumer.model.bad_rows import first_row_text
from consumer.model.hints import Hint
from consumer.model.names import TableName
from consumer.model.naming import naming_from
from consumer.model.progress import DdlState, Progress, State
from consumer.results import AcceptedLoss, TableStatus


def table_statuses(progress: Progress, reloadable: Collection[TableName] = ()) -> Iterator[TableStatus]:
    """Yields the tables that differ from the others in place or state. `reloadable` are the stopped ones that the
    storage can rebuild."""
    refused = {
        TableName(ddl.database, ddl.table): ddl.version
        for ddl, record in progress.ddls.items()
        if record.state is DdlState.REFUSED
    }
    naming = naming_from(progress.routes)
    for name in sorted({*progress.tables, *progress.quarantined_rows, *progress.accepted_losses}):
        table, bad = progress.table(name), progress.bad_rows.get(name, {})
        version = refused.get(name, 0) if table.state is State.STOPPED else 0
        first = first_row_text(bad.values()) if bad else ""
        yield TableStatus(
            table=name,
            watermark=table.applied_ts,
            state=table.state.value,
            code=table.code,
            error=table.reason,
            hint=Hint.of(table.hint),
            version=version,
            resync=name in reloadable,
            quarantined=len(bad),
            bad_row=first,
            accepted=AcceptedLoss.of(progress.losses.get(name, {}).values()),
            target_table=naming.other_name(name),
        )
