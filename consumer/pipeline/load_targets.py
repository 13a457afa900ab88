"""Where the rows of each load go: the sink's target of each table, or why the table stops."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.errors import CannotBeExact, ConsumerError
from consumer.model.bad_rows import ROW_DIGITS, Quarantine
from consumer.model.columns import Family
from consumer.model.load import LoadTarget, Purpose
from consumer.model.names import TableName
from consumer.model.steps import LoadRows
from consumer.model.times import MAX_TSO
from consumer.pipeline.context import RoundContext
from consumer.pipeline.gone import gone
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.target import LoadRequest

SINGLE_TASK_BYTES = 128 << 20
"""The round size of tables that only one task can load: what one task may hold in memory."""


def targets_of(context: RoundContext, loads: Sequence[LoadRows]) -> list[tuple[TableVersionConsumer, LoadTarget]]:
    """The target of each load that can run. The other tables are stopped."""
    versions = _versions(context, loads)
    if not versions:
        return []
    requests = [request for _, request in versions]
    found = []
    targets = context.ledger.patiently("look at the target", lambda: context.ports.sink.prepare(requests))
    for (version, _), target in zip(versions, targets, strict=True):
        table = version.load.table
        if isinstance(target, ConsumerError):
            why = gone(table, target, context.ports.sink, context.assembly, context.progress, context.options)
            context.stop(table, why)
            continue
        if (refusal := _refusal(context, version, target)) is not None:
            context.stop(table, refusal)
        else:
            found.append((version, target))
    return found


def too_large(context: RoundContext, load: LoadRows, target: LoadTarget) -> bool:
    """Whether a table that only one task can load must be planned again, in smaller rounds."""
    state = context.consumers[load.table].state
    most = max(SINGLE_TASK_BYTES, context.lessons.collisions.bytes_for(load))
    if (target.key and not target.whole) or load.bytes <= most:
        return False
    smaller = state.round_bytes > most
    state.round_bytes = most
    return smaller


def _versions(context: RoundContext, loads: Sequence[LoadRows]) -> list[tuple[TableVersionConsumer, LoadRequest]]:
    """The version consumer of each load with what it asks the sink. Tables that another consumer has, or whose columns
    do not fit, are stopped."""
    owned = context.others.take([load.table for load in loads], context.ledger.record)
    for table, error in owned.items():
        context.stop(table, error)
    options, lessons, found = context.options, context.lessons, []
    for load in (load for load in loads if load.table not in owned):
        version = TableVersionConsumer(
            load,
            context.assembly.catalog,
            options.files.dialect,
            options.rules,
            context.seen(load),
            {row.path for row in context.progress.bad_rows.get(load.table, {}).values()},
        )
        lessons.absent.begin(load.table, version.made)
        try:
            purpose = Purpose.LOAD_COLLIDED if lessons.collisions.has(load) else None
            request = version.request(lessons.absent.of(load), purpose, _quarantine(context, load))
            found.append((version, request))
        except ConsumerError as error:
            context.stop(load.table, error)
    return found


def _refusal(context: RoundContext, version: TableVersionConsumer, target: LoadTarget) -> ConsumerError | None:
    """Why rows of this table cannot be applied exactly."""
    load = version.load
    if not target.key and load.window.end == MAX_TSO:
        return keyless_without_checkpoint(load.table)
    try:
        version.check_rules(version.source(target))
    except CannotBeExact as error:
        return error
    column = _ambiguous(context, target)
    return None if column is None else ambiguous_key(load.table, column)


def _ambiguous(context: RoundContext, target: LoadTarget) -> str | None:
    """A column of the key whose values can be two moments each."""
    options = context.options
    if options.files.accept_timestamp_key or not options.files.dialect.clock.doubled:
        return None
    names = (target.names[n] for n in target.key if target.columns[n].family is Family.TIMESTAMP)
    return next(names, None)


def _quarantine(context: RoundContext, load: LoadRows) -> Quarantine | None:
    """How many bad rows may be quarantined, if any."""
    action = context.options.rules.bad_row_action(load.table)
    if context.options.rules.naming.mode(load.table) is not None:
        return None  # a letter names a row by upstream's key, of which such a table has many
    if context.ports.letters is None or not action.quarantines:
        return None
    known = frozenset(row[:ROW_DIGITS] for row in context.progress.bad_rows.get(load.table, ()))
    return Quarantine(action.most, context.lessons.absent.uneven(load), kept=known)


def ambiguous_key(table: TableName, column: str) -> CannotBeExact:
    """The error of a table whose key's `column` can hold values that are two moments each."""
    return CannotBeExact(
        f"its key holds the TIMESTAMP `{column}`, and the changefeed's clock shows one hour of the year twice: two rows"
        " could have one key",
        hint="where no key is in that hour, set accept-timestamp-key = true in [consumer] of the file of --config; else"
        " run TiCDC under --tz UTC, have it write to a new prefix, and load that under a new --name with --tz UTC",
        table=str(table),
    )


def keyless_without_checkpoint(table: TableName) -> CannotBeExact:
    """The error of a table without a key in a storage without a checkpoint."""
    return CannotBeExact(
        "a table with no key needs the checkpoint: without `metadata`, rows that were sent again cannot be recognized",
        hint="run again once TiCDC has written `metadata`, or leave the table out with --tables",
        table=str(table),
    )
