"""The progress at the end of a round."""

from __future__ import annotations

from dataclasses import replace

from consumer.model.names import TableName
from consumer.model.progress import Progress, ProgressChange, State, TableProgress
from consumer.model.steps import Barrier
from consumer.model.texts import cut, one_line
from consumer.model.times import MAX_TSO
from consumer.pipeline.context import RoundContext
from consumer.pipeline.table_consumer import TableConsumer

_STATEMENT_SHOWN = 200


def finish(context: RoundContext) -> list[TableName]:
    """Raise the global applied-ts to the checkpoint. A table that is not there keeps a row of its own. Returns the
    databases whose statements are all done."""
    assembly, progress = context.assembly, context.progress
    checkpoint = assembly.checkpoint
    waits = _waiting(context)
    applied = progress.applied_ts if checkpoint == MAX_TSO else max(progress.applied_ts, checkpoint)
    tables: dict[TableName, TableProgress | None] = {}
    databases: list[TableName] = []
    for name, consumer in context.consumers.items():
        if not context.options.rules.wanted(name):
            continue
        if name in context.round.live or consumer.state.error is not None or name in waits:
            tables[name] = _place(name, consumer, applied, waits.get(name), checkpoint, progress)
        elif not name.table:
            # Nothing but its statements had a place.
            databases.append(name)
            tables[name] = None if checkpoint >= applied else TableProgress(checkpoint)
    tables |= assembly.exclusions(progress)
    tables |= dict.fromkeys(assembly.forgotten(progress))
    changed = {name: place for name, place in tables.items() if progress.tables.get(name) != place}
    gone = assembly.forgetting(progress)
    change = ProgressChange(applied_ts=applied, tables=changed, folders=gone)
    if context.options.syncpoints and checkpoint == applied < MAX_TSO and progress.after(change).at_one_moment:
        change = replace(change, syncpoint=context.options.syncpoints)
    if applied > progress.applied_ts or changed or gone or change.syncpoint:
        context.ledger.record(change)
    return databases


def _waiting(context: RoundContext) -> dict[TableName, str]:
    """By table, what it waits for."""
    waits = context.deferred.reasons()
    for barrier in context.round.barriers():
        for name in barrier.tables:
            waits.setdefault(name, _waiting_text(barrier))
    return waits


def _waiting_text(barrier: Barrier) -> str:
    """What a table waits for, and which statement holds it up until then."""
    query = one_line(barrier.file.query)
    shown = cut(query, _STATEMENT_SHOWN)
    return f"waits for {barrier.waits_for}; held up until then: {shown} (version {barrier.file.version})"


def _place(
    name: TableName, consumer: TableConsumer, applied: int, waits: str | None, checkpoint: int, progress: Progress
) -> TableProgress | None:
    place, known = consumer.finish(applied, waits), progress.table(name)
    if (known.state, known.applied_ts) == (State.DROPPED, consumer.state.position) and waits is None:
        place = known  # not alive yet, or `metadata` went back to before its end
    if checkpoint == MAX_TSO and (place is None or place.state is State.OK):
        return _ungated(name, progress)
    return place


def _ungated(name: TableName, progress: Progress) -> TableProgress | None:
    """Without a checkpoint a table stays where its last statement left it."""
    known = progress.tables.get(name)
    held = known is not None and known.state in (State.STOPPED, State.WAITS)
    return TableProgress(known.applied_ts) if known is not None and held else known
