"""Files that turn up while their table is at the checkpoint already: nothing would read them until that moves on.

Mostly they are above it, which is noted, so that nobody asks again. Rows at or below it were sent again, or came late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.model.files import Bounds
from consumer.model.progress import ProgressChange
from consumer.model.steps import LoadRows, Window
from consumer.plan.unread import Unread
from consumer.plan.windows import plan_load

if TYPE_CHECKING:
    from consumer.pipeline.manager import ConsumerManager


def look_at_latecomers(manager: ConsumerManager) -> list[LoadRows]:
    """Note the new files that are above the checkpoint, and return loads that read the others: of empty windows, so
    that no row of them is applied."""
    busy = {name for statement in manager.round.pending for name in statement.touches}
    resting = [
        consumer
        for name, consumer in manager.consumers.items()
        if consumer.state.position >= manager.assembly.checkpoint
        and consumer.state.error is None
        and name in manager.round.live - manager.round.views
        and name not in busy
        and any(not entry.next_ts for entry in consumer.state.unread)
    ]
    wanted = [entry.file for consumer in resting for entry in consumer.state.unread if not entry.next_ts]
    bounds = {} if manager.options.dialect.timeless else manager.reader.bounds(wanted)
    # What cannot be read yet is looked at when the checkpoint has moved.
    known = {path: found for path, found in bounds.items() if isinstance(found, Bounds)}
    change, loads = ProgressChange(), []
    for consumer in resting:
        state = consumer.state
        unread = [entry for entry in state.unread if entry.next_ts or entry.file.path in known]
        load = plan_load(
            consumer.name, Window(state.position, state.position), unread, known, state.boundaries, state.round_bytes
        )
        first = {entry.file.path: known[entry.file.path].first for entry in unread if not entry.next_ts}
        above = {path: ts for path, ts in first.items() if ts > state.position}
        change = change.merged(ProgressChange(folders=consumer.noted(above, manager.progress)))
        state.unread = [Unread(e.file, above.get(e.file.path, e.next_ts), e.read_to) for e in state.unread]
        loads += [load] if load.files else []
    if change.folders:
        manager.record(change)
    return loads
