"""Loads a table again from the storage, from the statement that created it: decides whether that is possible, and what
is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import groupby

from consumer.errors import (
    BadConfig,
    CannotBeExact,
    CheckpointBehind,
    Code,
    ConsumerError,
    GapFound,
    Retryable,
)
from consumer.history.incarnations import Incarnation
from consumer.model.ddl_policy import DdlPolicy, kind_of
from consumer.model.files import Bounds, Folder, SchemaFile
from consumer.model.hints import RESYNC, in_a_replay, resync_command
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.naming import Naming
from consumer.model.progress import (
    AuditRow,
    DdlKind,
    FolderProgress,
    Progress,
    ProgressChange,
    TableProgress,
    is_resync_of,
    resync_name,
)
from consumer.model.steps import ddl_id
from consumer.model.times import tso_to_ms
from consumer.pipeline.opening import assembly_of
from consumer.pipeline.ownership import OwnershipGuard
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import schema_missing
from consumer.plan.foreign_keys import changed_under_keys, outgrown_references
from consumer.plan.gaps import find_gaps, lost_rows_up_to
from consumer.plan.options import RoundOptions
from consumer.plan.unread import folder_without
from consumer.ports import StorageReader
from consumer.target import Sink

_Referred = Callable[[], Mapping[TableName, Collection[str]]]

_SNAPSHOT = "export the table with Dumpling, and load that with `load-export` and its --table"
_OF_A_VIEW = "resync the tables that it shows, or run `once`, which continues with what is pending"
_BACKFILL = "run the whole storage into an empty target with backfill"


def birth_version(change: ProgressChange, table: TableName) -> int:
    """Returns the version of the statement that creates the table again, from the `change` of `start_over`."""
    place = change.tables[table]
    assert place is not None
    return place.applied_ts + 1


def start_over(
    table: TableName,
    assembly: Assembly,
    progress: Progress,
    options: RoundOptions,
    reader: StorageReader,
    sink: Sink,
) -> ProgressChange:
    """Returns the progress of the table once it is empty and unread: its statements from its birth on are pending
    again.

    Raises BadConfig for a table that is unknown, excluded or dropped, CheckpointBehind while `metadata` is below what
    was applied, CannotBeExact if the storage does not hold the table from its beginning, GapFound if the first ones of
    its files were cleaned up.
    """
    incarnation, birth = _incarnation_and_birth(
        table, assembly.target_tables(progress), assembly, progress, options, _referred(sink)
    )
    read = [folder for folder in progress.folders if assembly.catalog.owner(folder) == table]
    own_folders = {folder: None for folder in read if assembly.catalog.table_of(folder) is incarnation}
    change = ProgressChange(
        tables={table: TableProgress(birth.version - 1)},
        folders={
            **own_folders,
            **dict(_folders_of_others(table, incarnation, birth.version, assembly, progress, reader)),
        },
        forget_ddls=tuple(ddl for ddl in map(ddl_id, incarnation.statements) if ddl in progress.ddls),
        starts={table: 0} if progress.start_of(table) >= birth.version else {},
        rewind=True,
    )
    files, folders = assembly.files.get(table, ()), {folder: progress.folders[folder] for folder in read}
    gone_ts = lost_rows_up_to(files, folders, progress.table(table).applied_ts, reader.bounds)
    if not options.rules.accept_gap(table):
        again = assembly_of(reader, assembly.listing, progress.after(change), options)
        _check_files(table, gone_ts > birth.version, again, progress.after(change), birth.version)
    elif gone_ts > birth.version:
        loss = Loss("files of it that were read are gone, or were written again", "", birth.version, gone_ts)
        change = replace(change, losses={table: {loss.id: loss}})
    return change


def parallel_load_end(table: TableName, birth: int, assembly: Assembly) -> int:
    """Returns the commit-ts up to which the table can be loaded parallel to the one that the target has: as long as
    upstream's table has its name. Later changes are applied once it has replaced the other one."""
    incarnation = assembly.history.at(table, birth)
    assert incarnation is not None
    ends = [*incarnation.since[1:], *([incarnation.end.version] if incarnation.end is not None else [])]
    return min([assembly.checkpoint, *(version - 1 for version in ends)])


def parallel_load_start(
    table: TableName, birth: int, again: Progress, assembly: Assembly, naming: Naming
) -> ProgressChange:
    """Returns the initial progress of the consumer that loads the table parallel to the one that the target has:
    everything older than the table counts as pre-existing. `again` is the replica's progress as `start_over` leaves it,
    `naming` is that consumer's own."""
    folders = {folder: place for folder, place in again.folders.items() if assembly.catalog.owner(folder) == table}
    return ProgressChange(
        applied_ts=birth - 1,
        start_ts=birth - 1,
        tables={table: TableProgress(birth - 1)},
        folders=dict(folders),
        routes=naming.routes,
        modes=again.modes,
        filters=again.filters,
    )


def progress_after_replacement(
    table: TableName, change: ProgressChange, beside: Progress, loaded: tuple[int, int], assembly: Assembly
) -> ProgressChange:
    """Returns the change of the replica's progress once the table is the one that was loaded in parallel, with the
    progress `beside`. `change` is that of `start_over`. `loaded` is how many row changes were read and how many rows
    were written."""
    place = beside.table(table)
    own_records = tuple(record for ddl, record in beside.ddls.items() if (ddl.database, ddl.table) == table)
    executed = {record.id for record in own_records}
    folders = {f: read for f, read in beside.folders.items() if assembly.catalog.owner(f) == table}
    return replace(
        change,
        tables={table: TableProgress(place.applied_ts)},
        folders={**change.folders, **folders},
        ddls=own_records,
        forget_ddls=tuple(ddl for ddl in change.forget_ddls if ddl not in executed),
        losses={table: {**change.losses.get(table, {}), **beside.losses.get(table, {})}},
        quarantined={table: beside.bad_rows.get(table, {})},
        audit=(AuditRow("resync", table, birth_version(change, table) - 1, place.applied_ts, *loaded),),
    )


def ended_loads(names: Iterable[str], name: str, assembly: Assembly, progress: Progress) -> Mapping[str, TableName]:
    """Returns, with their table, those consumers in `names` under which the consumer `name` has begun to load a table
    again that has ended since. A table that the storage does not name, because its folder is missing, is not among
    them."""
    begun = [other for other in names if is_resync_of(other, name)]
    if not begun:
        return {}
    tables = [*assembly.target_tables(progress).items(), *assembly.history.alive.items()]
    ongoing = {
        resync_name(name, table, incarnation.birth.version)
        for table, incarnation in tables
        if incarnation.birth is not None
    }
    tables_in_storage = assembly.catalog.by_table
    tables_of = {other: [table for table in tables_in_storage if is_resync_of(other, name, table)] for other in begun}
    return {other: tables[0] for other, tables in tables_of.items() if tables and other not in ongoing}


def parallel_load_refusal(table: TableName, birth: int, assembly: Assembly, progress: Progress) -> str:
    """Returns why the table cannot be loaded parallel to the one that the target has, "" if it can."""
    incarnation = assembly.history.at(table, birth)
    assert incarnation is not None
    records = ((file, progress.ddls.get(ddl_id(file))) for file in incarnation.statements)
    by_hand = (file for file, record in records if record is not None and record.kind is DdlKind.BY_HAND)
    file = next(by_hand, None)
    if file is None:
        return ""
    return (
        f"a person executed one of its statements by hand ({file.query}), and can do that again only in a table with"
        " its own name"
    )


def restart_from_export(
    table: TableName, moment: int, assembly: Assembly, progress: Progress, options: RoundOptions, reader: StorageReader
) -> ProgressChange:
    """Returns the progress of the table once it is dropped and is to be loaded from an export as of `moment`: later
    statements and rows are pending again.

    Raises BadConfig if the name belonged to another table then, or belongs to none now, CheckpointBehind while
    `metadata` is below what was applied, CannotBeExact if the later statements cannot be repeated for this table alone.
    """
    _check_own_table(table, options.rules.naming)
    _check_moment(table, assembly, progress)
    incarnation = assembly.history.alive.get(table)
    if incarnation is None or assembly.history.at(table, moment) is not incarnation:
        raise BadConfig(
            f"{table} is another table now than at the moment of the export, or had another name then",
            hint="export it as it is now",
        )
    if (renamed := incarnation.since[-1]) > moment:
        raise CannotBeExact(
            f"it has had other names since the export, up to version {renamed}, and rows of it are under these",
            hint="export it as it is now",
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )
    for file in assembly.history.exchanges_of(incarnation, assembly.checkpoint):
        if file.version > moment:
            raise CannotBeExact(
                f"{file.query} moved rows between it and another table since the export (version {file.version})",
                hint="export both tables again, and load them under a new --name",
                table=str(table),
                code=Code.NOT_RELOADABLE,
            )
    passed = folders_up_to(table, moment, assembly, progress, reader)
    if (gap := next(find_gaps(table, assembly.files.get(table, ()), passed, moment), None)) is not None:
        raise GapFound(
            f"changes that are newer than the export are lost too: {gap.message}",
            hint="export again",
            table=str(table),
            path=gap.path,
        )
    later = (ddl_id(file) for file in incarnation.statements if file.version > moment)
    return ProgressChange(
        tables={table: TableProgress(moment)},
        forget_ddls=tuple(ddl for ddl in later if ddl in progress.ddls),
        rewind=True,
    )


def folders_up_to(
    table: TableName, moment: int, assembly: Assembly, progress: Progress, reader: StorageReader
) -> dict[Folder, FolderProgress]:
    """Returns the folders of the table once it has all rows up to `moment`.

    1. The files before the first one with later rows need not exist. A file that lacks the one before it, and begins
       after the moment, is reported as a gap.
    2. What was read of a folder of another table, which had the name before, stays read. Of its files only those with
       rows after `moment` are read again.
    """
    incarnation = assembly.history.at(table, moment)
    if incarnation is None:
        return {}
    files = [file for file in assembly.files.get(table, ()) if assembly.catalog.table_of(file.folder) is incarnation]
    bounds = reader.bounds(files)
    folders = dict(_folders_of_others(table, incarnation, moment, assembly, progress, reader))
    for folder, group in groupby(files, key=lambda file: file.folder):
        folder_files = list(group)
        first = next((file for file in folder_files if _is_above(bounds.get(file.path), moment, unknown=True)), None)
        before = [file.index for file in folder_files if first is None or file.index < first.index]
        first_bounds = bounds.get(first.path) if first is not None else None
        if first is not None and isinstance(first_bounds, Bounds) and first_bounds.first <= moment:
            before = [first.index - 1]
        if done := max(before, default=0):
            folders[folder] = FolderProgress(done)
    return folders


def reloadable_tables(
    sink: Sink, tables: Iterable[TableName], assembly: Assembly, progress: Progress, options: RoundOptions
) -> set[TableName]:
    """Returns those of `tables` for which a hint may name a resync: `start_over` can load them again, as far as that is
    known without reading their files, and they belong to no other consumer."""
    wanted, referred = [table for table in tables if table.table], _referred(sink)
    target_tables = assembly.target_tables(progress) if wanted else {}
    rebuildable = set()
    for table in wanted:
        with contextlib.suppress(ConsumerError):
            _incarnation_and_birth(table, target_tables, assembly, progress, options, referred)
            rebuildable.add(table)
    others = OwnershipGuard(sink.of_others, assembly, lambda: progress, options.rules.naming)
    return rebuildable - others.owned_by_others(rebuildable).keys() if rebuildable else rebuildable


def _incarnation_and_birth(
    table: TableName,
    target_tables: Mapping[TableName, Incarnation],
    assembly: Assembly,
    progress: Progress,
    options: RoundOptions,
    referred: _Referred | None,
) -> tuple[Incarnation, SchemaFile]:
    """Returns the table and the statement that creates it. `target_tables` are the target's tables. `referred` returns
    the sink's referred columns, None if the sink has no foreign keys. Raises what `start_over` raises."""
    if options.replay:
        raise BadConfig(
            "this --name is that of a replay: its tables cannot be loaded again from their beginning",
            hint=in_a_replay(RESYNC),
        )
    check_name(table, assembly)
    _check_own_table(table, options.rules.naming)
    _check_moment(table, assembly, progress)
    incarnation = target_tables.get(table) or assembly.history.alive.get(table)
    if incarnation is None:
        raise BadConfig(
            f"{table} was dropped or renamed upstream: loading it would bring it back",
            hint="what is left of it in the target can be dropped by hand",
        )
    birth = _birth(table, incarnation, assembly)
    if table not in target_tables:
        _check_order(table, birth, assembly)
    _check_statements(table, birth, incarnation, progress, options)
    _check_schemas(table, birth, assembly)
    if referred is not None:
        _check_foreign_keys(table, incarnation, assembly, options, referred)
    return incarnation, birth


def _check_own_table(table: TableName, naming: Naming) -> None:
    """Raises CannotBeExact for a table that shares its table in the target with others."""
    if naming.merges(table):
        raise CannotBeExact(
            f"a route merges it with others in {naming.target(table)}, which would be emptied",
            hint="fill the target again under another --name, with a route to another table",
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )


def _referred(sink: Sink) -> _Referred | None:
    return cache(sink.referred_columns) if sink.refers else None


def check_name(table: TableName, assembly: Assembly) -> None:
    """Raises BadConfig for a table that the storage does not have, for example because a route gives it that name only
    in the target, and for one that the rules exclude."""
    if table not in assembly.catalog.by_table:
        raise BadConfig(
            f"there is no table {table} in the storage", hint="names are case-sensitive; `inspect` lists the tables"
        )
    if not assembly.wanted(table):
        raise BadConfig(f"the table rules exclude {table}", hint="include it with --tables")


def _check_moment(table: TableName, assembly: Assembly, progress: Progress) -> None:
    """Raises CheckpointBehind if the checkpoint is below what was applied: statements above it are not due, and those
    that already ran would be missing in the new table."""
    applied_ts = max(progress.applied_ts, progress.table(table).applied_ts)
    if assembly.checkpoint < applied_ts:
        raise CheckpointBehind(
            f"checkpoint-ts {assembly.checkpoint} is below what was applied already ({applied_ts}): the table could"
            " only be made as it was then",
            hint="resync it once TiCDC is past that again",
            table=str(table),
        )


def _check_order(table: TableName, birth: SchemaFile, assembly: Assembly) -> None:
    """Raises CannotBeExact if statements before the table's birth are still to run. The table would begin at a place
    after these, and they would never run."""
    before = [s for s in assembly.timeline.pending if table in s.touches and s.version < birth.version]
    if before:
        raise CannotBeExact(
            f"the target does not have it yet: statements that come before its CREATE TABLE are still to run, the first"
            f" is {before[0].file.query} (version {before[0].version})",
            hint="fix what `status` names, then run `once`",
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )


def _birth(table: TableName, incarnation: Incarnation, assembly: Assembly) -> SchemaFile:
    if (why := incarnation.why_not_rebuildable) is not None:
        hint = _SNAPSHOT if incarnation.birth is None else _OF_A_VIEW if incarnation.is_view else _BACKFILL
        raise CannotBeExact(why, hint=hint, table=str(table), code=Code.NOT_RELOADABLE)
    assert incarnation.birth is not None
    for file in assembly.history.exchanges_of(incarnation, assembly.checkpoint):
        raise CannotBeExact(
            f"{file.query} moved rows between it and another table, so its rows are not all under its name",
            hint=_BACKFILL,
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )
    return incarnation.birth


def _check_statements(
    table: TableName, birth: SchemaFile, incarnation: Incarnation, progress: Progress, options: RoundOptions
) -> None:
    """Raises CannotBeExact unless this program executes all of the statements, the birth above all: what a person has
    created is not thrown away."""
    kind = kind_of(birth.action)
    if options.rules.policy_of(birth.action, table, birth.query) is DdlPolicy.IGNORE:
        raise CannotBeExact(
            f"the policy for {kind} is ignore: the table was made by hand, and would not be made again",
            hint=f"let [consumer.ddl] execute {kind} for it, then resync again",
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )
    record = progress.ddls.get(ddl_id(birth))
    if record is not None and record.kind not in (DdlKind.EXECUTED, DdlKind.GIVEN, DdlKind.IGNORED):
        how = "done by hand" if record.kind is DdlKind.BY_HAND else "not executed"
        raise CannotBeExact(
            f"its {kind} was {how} ({record.reason}), and would not be done again",
            hint=_SNAPSHOT,
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )
    for file in incarnation.statements:
        if options.rules.policy_of(file.action, table, file.query) is DdlPolicy.FAIL:
            raise CannotBeExact(
                f"the policy for {kind_of(file.action)} is fail, and the table would stop at {file.query}",
                hint="set another action for it in [consumer.ddl], then resync again",
                table=str(table),
                code=Code.NOT_RELOADABLE,
            )


def _check_schemas(table: TableName, birth: SchemaFile, assembly: Assembly) -> None:
    """Raises SchemaMissing if a schema file is missing: the table would stop again at these rows, without those that it
    has."""
    for file in assembly.files.get(table, ()):
        version = file.folder.version
        if birth.version <= version <= assembly.checkpoint and assembly.catalog.schema(file.folder) is None:
            raise schema_missing(table, file)


def _check_foreign_keys(
    table: TableName, incarnation: Incarnation, assembly: Assembly, options: RoundOptions, referred: _Referred
) -> None:
    """Raises CannotBeExact if foreign keys may not fit: the table's statements run while the other tables are as they
    are now."""
    executed = [
        f for f in incarnation.statements if options.rules.policy_of(f.action, table, f.query) is not DdlPolicy.IGNORE
    ]
    for made, changed in outgrown_references(assembly.catalog, executed, table, assembly.checkpoint):
        raise CannotBeExact(
            f"a foreign key of it ({made.query}) may not fit {changed.name} any more, which has changed since"
            f" ({changed.query}, version {changed.version})",
            hint=_BACKFILL,
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )
    later = [file for file in executed if file is not incarnation.birth]
    columns = referred().get(options.rules.naming.target(table).folded, ()) if later else ()
    if columns and (changed_too := changed_under_keys(later, columns)) is not None:
        raise CannotBeExact(
            "foreign keys of other tables refer to it, and its older definition may not fit them: what they refer to"
            f" has changed since it was made ({changed_too.query}, version {changed_too.version})",
            hint=_BACKFILL,
            table=str(table),
            code=Code.NOT_RELOADABLE,
        )


def _check_files(table: TableName, gone: bool, assembly: Assembly, progress: Progress, version: int) -> None:
    if gone or assembly.gap_from(table, progress, version) is not None:
        raise GapFound(
            "some of its files are gone from the storage, so it cannot be loaded from the start",
            hint=f"restore them, or {_SNAPSHOT}, or load it without them: " + resync_command(table, accepts=True),
            table=str(table),
        )


def _folders_of_others(
    name: TableName,
    table: Incarnation,
    moment: int,
    assembly: Assembly,
    progress: Progress,
    reader: StorageReader,
) -> Iterator[tuple[Folder, FolderProgress]]:
    """Yields the folders, named `name`, that belong to other tables: earlier tables of this name, and tables whose
    columns TiCDC wrote there. Of their files that were read, those whose last row is above `moment` become unread
    again."""
    files = [
        file
        for file in assembly.files.get(name, ())
        if file.folder in progress.folders and assembly.catalog.table_of(file.folder) is not table
    ]
    bounds = reader.bounds(files)
    again = [file for file in files if _is_above(bounds.get(file.path), moment)]
    for folder in sorted({file.folder for file in again}):
        listed = [file for file in files if file.folder == folder]
        unread = {file.index for file in again if file.folder == folder}
        yield folder, folder_without(progress.folders[folder], listed, unread)


def _is_above(bounds: Bounds | ConsumerError | None, version: int, unknown: bool = False) -> bool:
    """Returns whether the last row is above `version`. If the bounds are not known, `unknown` is returned."""
    if isinstance(bounds, Retryable):
        raise bounds
    if not isinstance(bounds, Bounds):
        return unknown
    return bounds.last > version if bounds.exact else tso_to_ms(bounds.last) > tso_to_ms(version)
