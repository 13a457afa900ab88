"""Handles tables that the target lacks: somebody has dropped them there, or nothing has created them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from consumer.errors import ConsumerError, DdlRefused, TableMissing
from consumer.history.incarnations import Incarnation
from consumer.model.hints import RESYNC, in_a_replay, resync_command, table_rule
from consumer.model.names import TableName
from consumer.model.naming import Naming
from consumer.model.progress import DdlState, Progress, State
from consumer.model.steps import ddl_id
from consumer.pipeline.resync import reloadable_tables
from consumer.plan.assembly import Assembly
from consumer.plan.options import RoundOptions
from consumer.target import Sink

_EXPORT = "load an export of it with `load-export` and its --table"
_RESTORE = "restore it as it was from a backup of the target"


def missing_table_error(
    table: TableName, error: ConsumerError, sink: Sink, assembly: Assembly, progress: Progress, options: RoundOptions
) -> ConsumerError:
    """Returns the error to report for the sink's `error` about `table`, usually the same. It is another one if the
    target lacks a table that the storage can rebuild, or a table to which rows were applied: creating it empty would
    lose them."""
    if not isinstance(error, TableMissing):
        return error
    can_rebuild = table in reloadable_tables(sink, [table], assembly, progress, options)
    read = any(assembly.catalog.owner(folder) == table for folder in progress.folders)
    start = progress.start_of(table)
    if start and not read and not _ran(table, progress):
        return _not_there_at_start(table, start, table in progress.starts, can_rebuild, assembly, options)
    return _reported(table, error, can_rebuild, read, options)


def _reported(
    table: TableName, error: TableMissing, can_rebuild: bool, read: bool, options: RoundOptions
) -> TableMissing:
    """Returns the error of a table that the target lacks. `can_rebuild`: the storage has all of it; `read`: some of its
    files were read."""
    naming = options.rules.naming
    if read and options.replay:
        return _dropped(table, naming, f"{_RESTORE}, or " + in_a_replay(RESYNC))
    if can_rebuild:
        return _dropped(table, naming, "load it again from the storage: " + resync_command(table))
    if read and naming.merges(table):
        return _dropped(
            table, naming, f"{_RESTORE}, or `forget` this consumer and fill an empty target from the storage"
        )
    if read:
        return TableMissing(
            f"the target has no table {naming.shown(table)}: it was dropped there, with the rows that were applied to"
            " it",
            hint=f"{_EXPORT}, or {_RESTORE}: the storage does not hold it from its beginning",
            table=str(table),
        )
    return error


def _not_there_at_start(
    table: TableName, start_ts: int, alone: bool, can_rebuild: bool, assembly: Assembly, options: RoundOptions
) -> TableMissing:
    naming, incarnation = options.rules.naming, assembly.history.alive.get(table)
    copied = f"copy it from upstream as of {start_ts} and run again"
    if not options.replay:
        again = ", or load it from the storage: " + resync_command(table) if can_rebuild else ""
        hint, by = f"{_EXPORT}, or {copied}" + again, "--start-ts or an export"
    else:
        hint, by = copied, "--from-ts"
        if incarnation is not None and incarnation.birth is not None and incarnation.why_not_rebuildable is None:
            hint += f", or replay it from its CREATE TABLE on: --from-ts {incarnation.birth.version - 1} --tables "
            hint += table_rule(table)
    return TableMissing(
        f"the target has no table {naming.shown(table)}, although {by} declared that it holds"
        f" {'it' if alone else 'all tables'} as of {start_ts}",
        hint=hint,
        table=str(table),
    )


def _ran(table: TableName, progress: Progress) -> bool:
    return any((ddl.database, ddl.table) == table and not progress.was_preloaded(ddl) for ddl in progress.ddls)


def dropped_table_errors(
    sink: Sink, assembly: Assembly, progress: Progress, options: RoundOptions, loaded: Collection[TableName] = ()
) -> dict[TableName, ConsumerError]:
    """Returns the errors of tables that are healthy according to the progress and that somebody has dropped in the
    target. Two kinds are not checked: tables above the checkpoint, if it went back, because later statements may have
    dropped them; and tables that were `loaded` just now."""
    live = (name for name in assembly.timeline.live if options.rules.wanted(name) and name not in loaded)
    places = ((name, progress.table(name)) for name in live)
    checked = (n for n, p in places if p.state is State.OK and p.applied_ts <= assembly.checkpoint)
    targets = {name: options.rules.naming.target(name) for name in checked}
    absent = sink.missing(set(targets.values())) if targets else ()
    if not absent:
        return {}
    missing = [name for name, target in targets.items() if target in absent]
    incarnations = assembly.target_tables(progress)
    read: dict[TableName, int] = {}
    for folder in progress.folders:
        owner = assembly.catalog.owner(folder)
        read[owner] = max(folder.version, read.get(owner, 0))
    live_names = (name for name in missing if name in incarnations)
    names = sorted(name for name in live_names if _existed(incarnations[name], read.get(name, -1), progress))
    rebuildable = reloadable_tables(sink, names, assembly, progress, options)
    naming = options.rules.naming
    lost = {name: _dropped(name, naming, f"{_EXPORT}, or {_RESTORE}") for name in names}
    return {name: _reported(name, error, name in rebuildable, name in read, options) for name, error in lost.items()}


class UnbegunTables(NamedTuple):
    """Tables that have no CREATE TABLE in the storage, that follow an ended table of the same name, and of which the
    target has no rows yet. Somebody can create them by hand."""

    absent: Collection[TableName]
    """The target lacks these tables."""
    filled: Mapping[TableName, ConsumerError]
    """By table, the error of those under whose names the target holds the rows of other tables."""
    ready: Collection[TableName]
    """The other tables: they can begin."""


def find_unbegun_tables(sink: Sink, assembly: Assembly, progress: Progress, options: RoundOptions) -> UnbegunTables:
    naming, history = options.rules.naming, assembly.history
    since_of: dict[TableName, int] = {}
    for name in filter(options.rules.wanted, assembly.timeline.live):
        first, since, place = history.uncreated_since(name), history.ended_since(name), progress.table(name)
        # The table's rows are above its first file. A table that is OK has begun, and so has one that the target
        # already had.
        is_new = first is not None and place.applied_ts <= first and place.state is not State.OK
        if is_new and since is not None and progress.start_of(name) < since:
            since_of[name] = since
    targets = {name: naming.target(name) for name in since_of}
    absent = sink.missing(set(targets.values())) if targets else ()
    unmerged = {target for name, target in targets.items() if target not in absent and not naming.merges(name)}
    # A merged table has rows of others, and only CREATE TABLE statements show that the columns fit together.
    filled = {
        *(sink.has_rows(sorted(unmerged)) if unmerged else ()),
        *(set(targets.values()) - unmerged).difference(absent),
    }
    return UnbegunTables(
        [name for name in since_of if targets[name] in absent],
        {name: _holds_others(name, since, naming) for name, since in since_of.items() if targets[name] in filled},
        [name for name in since_of if targets[name] not in {*absent, *filled}],
    )


def _holds_others(name: TableName, since: int, naming: Naming) -> ConsumerError:
    made = f"was made after {since}, and its CREATE TABLE did not reach the storage"
    if naming.merges(name):
        return DdlRefused(
            f"a route merges it into {naming.shown(name)}, and the table that has the name now {made}",
            hint="leave the table out with --tables",
            table=str(name),
        )
    return DdlRefused(
        f"the target's table {naming.shown(name)} holds rows of an older table; the table that has the name now {made}",
        hint="move the target's table away, make an empty one as it is upstream, and run again; or leave the table out"
        " with --tables",
        table=str(name),
    )


def _dropped(name: TableName, naming: Naming, hint: str) -> TableMissing:
    return TableMissing(
        f"the target has no table {naming.shown(name)}: it was dropped there, not upstream", hint=hint, table=str(name)
    )


def _existed(incarnation: Incarnation, read: int, progress: Progress) -> bool:
    """Returns whether the table's rows were applied, its CREATE TABLE was executed, or the target already had it.
    `read` is the newest version among its files that were read. A view has no rows."""
    birth_version = 0 if incarnation.birth is None else incarnation.birth.version
    if incarnation.is_view:
        return False
    if incarnation.preloaded_at(progress) or read >= birth_version:
        return True
    if incarnation.birth is None or len(incarnation.names) > 1:
        return False
    record = progress.ddls.get(ddl_id(incarnation.birth))
    return record is not None and record.state is DdlState.DONE
