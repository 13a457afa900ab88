"""Files that appear although their table is at the checkpoint. Nothing would read them until the checkpoint moves.

Mostly their rows are above it, which is recorded. Rows at or below it were sent again, or came late.
"""

from __future__ import annotations

from consumer.model.files import Bounds, Folder
from consumer.model.progress import FolderProgress, ProgressChange
from consumer.model.steps import LoadRows, Window, ddl_id
from consumer.pipeline.context import RoundContext
from consumer.plan.table_state import TableState
from consumer.plan.unread import Unread
from consumer.plan.windows import plan_load


def look_at_latecomers(context: RoundContext) -> list[LoadRows]:
    """Note the new files that are above the checkpoint, and return loads that read the others: of empty windows, so
    that no row of them is applied."""
    busy = {name for statement in context.round.pending for name in statement.touches}
    readable = context.round.live - context.round.views - busy
    resting = [
        consumer
        for name, consumer in context.consumers.items()
        if consumer.state.position >= context.assembly.checkpoint
        and consumer.state.error is None
        and name in readable
        and any(not entry.next_ts for entry in consumer.state.unread)
        and not _is_altered_next(context, consumer.state)
    ]
    wanted = [entry.file for consumer in resting for entry in consumer.state.unread if not entry.next_ts]
    bounds = {} if context.options.files.dialect.timeless else context.ports.reader.bounds(wanted)
    # What cannot be read yet is looked at when the checkpoint has moved.
    known = {path: found for path, found in bounds.items() if isinstance(found, Bounds)}
    context.round.learned(known)
    folders: dict[Folder, FolderProgress | None] = {}
    loads = []
    for consumer in resting:
        state = consumer.state
        unread = [entry for entry in state.unread if entry.next_ts or entry.file.path in known]
        load = plan_load(
            consumer.name, Window(state.position, state.position), unread, known, state.boundaries, state.round_bytes
        )
        first = {entry.file.path: known[entry.file.path].first for entry in unread if not entry.next_ts}
        above = {path: ts for path, ts in first.items() if ts > state.position}
        folders |= consumer.noted(above, context.progress)
        state.unread = [Unread(e.file, above.get(e.file.path, e.next_ts), e.read_to) for e in state.unread]
        loads += [load] if load.files else []
    if folders:
        context.ledger.record(ProgressChange(folders=folders))
    return loads


def _is_altered_next(context: RoundContext, state: TableState) -> bool:
    """Whether the table stands just in front of a statement that cannot run: the checkpoint went back, or not all files
    of the statement are there. New files would be read with the columns that it gives, and the target lacks them."""
    files = context.assembly.catalog.by_table.get(state.name, ())
    near = (file for file in files if file.query and context.assembly.checkpoint <= file.version <= state.position)
    return any(ddl_id(file) not in context.progress.ddls for file in near)
