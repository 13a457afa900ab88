"""Loading a table again from the storage, from the statement that created it on: whether that can be, and what is
recorded of it."""

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
from consumer.pipeline.others import Others
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import schema_missing
from consumer.plan.foreign_keys import changed_under_keys, outgrown_references
from consumer.plan.gaps import find_gaps, gone_upto
from consumer.plan.options import RoundOptions
from consumer.plan.unread import folder_without
from consumer.ports import StorageReader
from consumer.target import Sink

_Referred = Callable[[], Mapping[TableName, Collection[str]]]

_SNAPSHOT = "export the table with Dumpling, and load that with `load-export` and its --table"
_OF_A_VIEW = "resync the tables that it shows, or run `once`, which goes on with what is pending"
_BACKFILL = "run the whole storage into an empty target with backfill"


def born(change: ProgressChange, table: TableName) -> int:
    """The version of the statement that makes the table again by the `change` of `start_over`."""
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
    """The progress of the table once it is empty and not read: its statements from its birth on are pending again.

    Raises BadConfig for a table that is unknown, left out or dropped, CheckpointBehind while `metadata` is below what
    was applied, CannotBeExact where the storage does not hold the table from its beginning, GapFound where the head of
    its files was cleaned up.
    """
    incarnation, birth = _made_anew(table, assembly.there(progress), assembly, progress, options, _referred(sink))
    read = [folder for folder in progress.folders if assembly.catalog.owner(folder) == table]
    own = {folder: None for folder in read if assembly.catalog.table_of(folder) is incarnation}
    change = ProgressChange(
        tables={table: TableProgress(birth.version - 1)},
        folders={**own, **dict(_of_others(table, incarnation, birth.version, assembly, progress, reader))},
        forget_ddls=tuple(ddl for ddl in map(ddl_id, incarnation.statements) if ddl in progress.ddls),
        starts={table: 0} if progress.start_of(table) >= birth.version else {},
        rewind=True,
    )
    files, folders = assembly.files.get(table, ()), {folder: progress.folders[folder] for folder in read}
    gone = gone_upto(files, folders, progress.table(table).applied_ts, reader.bounds)
    if not options.rules.accept_gap(table):
        again = assembly_of(reader, assembly.listing, progress.after(change), options)
        _check_files(table, gone > birth.version, again, progress.after(change), birth.version)
    elif gone > birth.version:
        loss = Loss("files of it that were read are gone, or were written again", "", birth.version, gone)
        change = replace(change, losses={table: {loss.id: loss}})
    return change


def beside_end(table: TableName, birth: int, assembly: Assembly) -> int:
    """Up to where the table can be loaded beside the one that the target has: as long as upstream's has its name. What
    comes then is done once it has taken the other one's place."""
    incarnation = assembly.history.at(table, birth)
    assert incarnation is not None
    ends = [*incarnation.since[1:], *([incarnation.end.version] if incarnation.end is not None else [])]
    return min([assembly.checkpoint, *(version - 1 for version in ends)])


def begun_beside(table: TableName, birth: int, again: Progress, assembly: Assembly, naming: Naming) -> ProgressChange:
    """What the consumer begins with that loads the table beside the one that the target has: what is older than the
    table counts as given. `again` is the replica's progress as `start_over` leaves it, `naming` that consumer's own."""
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


def taken_over(
    table: TableName, change: ProgressChange, beside: Progress, loaded: tuple[int, int], assembly: Assembly
) -> ProgressChange:
    """The replica's progress once the table is the one that was loaded `beside` it. `change` is that of `start_over`,
    `loaded` is how many row changes were read and how many rows were written."""
    place = beside.table(table)
    own = tuple(record for ddl, record in beside.ddls.items() if (ddl.database, ddl.table) == table)
    executed = {record.id for record in own}
    folders = {f: read for f, read in beside.folders.items() if assembly.catalog.owner(f) == table}
    return replace(
        change,
        tables={table: TableProgress(place.applied_ts)},
        folders={**change.folders, **folders},
        ddls=own,
        forget_ddls=tuple(ddl for ddl in change.forget_ddls if ddl not in executed),
        losses={table: {**change.losses.get(table, {}), **beside.losses.get(table, {})}},
        quarantined={table: beside.bad_rows.get(table, {})},
        audit=(AuditRow("resync", table, born(change, table) - 1, place.applied_ts, *loaded),),
    )


def ended_loads(names: Iterable[str], name: str, assembly: Assembly, progress: Progress) -> Mapping[str, TableName]:
    """Of the consumer `names` those under which the consumer `name` has begun to load a table again that ended since,
    each with that table. Of a table that the storage does not name, as its folder is away, nobody knows that."""
    begun = [other for other in names if is_resync_of(other, name)]
    if not begun:
        return {}
    tables = [*assembly.there(progress).items(), *assembly.history.alive.items()]
    going_on = {resync_name(name, table, found.birth.version) for table, found in tables if found.birth is not None}
    known = assembly.catalog.by_table
    tables_of = {other: [table for table in known if is_resync_of(other, name, table)] for other in begun}
    return {other: of[0] for other, of in tables_of.items() if of and other not in going_on}


def not_beside(table: TableName, birth: int, assembly: Assembly, progress: Progress) -> str:
    """Why the table cannot be loaded beside the one that the target has, "" if it can."""
    incarnation = assembly.history.at(table, birth)
    assert incarnation is not None
    records = ((file, progress.ddls.get(ddl_id(file))) for file in incarnation.statements)
    by_hand = (file for file, record in records if record is not None and record.kind is DdlKind.BY_HAND)
    file = next(by_hand, None)
    return "" if file is None else f"a statement of it was done by hand ({file.query}), and can be so again only there"


def give_up(
    table: TableName, moment: int, assembly: Assembly, progress: Progress, options: RoundOptions, reader: StorageReader
) -> ProgressChange:
    """The progress of the table once it is dropped, to be given to the target as it was at `moment`, which an export
    has: what came behind that is pending again.

    Raises BadConfig for one that was no table of that name then, or is none now, CheckpointBehind while `metadata` is
    below what was applied, CannotBeExact where what came behind the moment cannot be done to this table alone.
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
    passed = passed_files(table, moment, assembly, progress, reader)
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


def passed_files(
    table: TableName, moment: int, assembly: Assembly, progress: Progress, reader: StorageReader
) -> dict[Folder, FolderProgress]:
    """The folders of the table once it has all rows up to `moment`: the files before the first one that has more of
    them need not be there. One that lacks its neighbour, and begins behind the moment, is looked for. What was read of
    a folder of another table, which had the name before, stays; of its files only those with rows behind `moment` are
    read again."""
    incarnation = assembly.history.at(table, moment)
    if incarnation is None:
        return {}
    files = [file for file in assembly.files.get(table, ()) if assembly.catalog.table_of(file.folder) is incarnation]
    bounds = reader.bounds(files)
    found = dict(_of_others(table, incarnation, moment, assembly, progress, reader))
    for folder, group in groupby(files, key=lambda file: file.folder):
        own = list(group)
        first = next((file for file in own if _is_above(bounds.get(file.path), moment, unknown=True)), None)
        before = [file.index for file in own if first is None or file.index < first.index]
        begun = bounds.get(first.path) if first is not None else None
        if first is not None and isinstance(begun, Bounds) and begun.first <= moment:
            before = [first.index - 1]
        if done := max(before, default=0):
            found[folder] = FolderProgress(done)
    return found


def offered(
    sink: Sink, tables: Iterable[TableName], assembly: Assembly, progress: Progress, options: RoundOptions
) -> set[TableName]:
    """Those of `tables` for which a hint may name a resync: `start_over` can load them again, as far as that is known
    without looking at their files, and they belong to no other consumer."""
    wanted, referred = [table for table in tables if table.table], _referred(sink)
    there = assembly.there(progress) if wanted else {}
    found = set()
    for table in wanted:
        with contextlib.suppress(ConsumerError):
            _made_anew(table, there, assembly, progress, options, referred)
            found.add(table)
    others = Others(sink.of_others, assembly, lambda: progress, options.rules.naming)
    return found - others.owned(found).keys() if found else found


def _made_anew(
    table: TableName,
    there: Mapping[TableName, Incarnation],
    assembly: Assembly,
    progress: Progress,
    options: RoundOptions,
    referred: _Referred | None,
) -> tuple[Incarnation, SchemaFile]:
    """The table and the statement that makes it; `there` are the target's tables. `referred` is
    the sink's, None where it has no foreign keys. Raises what `start_over` raises."""
    if options.replay:
        raise BadConfig(
            "this --name is that of a replay: its tables cannot be loaded again from their beginning",
            hint=in_a_replay(RESYNC),
        )
    check_name(table, assembly)
    _check_own_table(table, options.rules.naming)
    _check_moment(table, assembly, progress)
    incarnation = there.get(table) or assembly.history.alive.get(table)
    if incarnation is None:
        raise BadConfig(
            f"{table} was dropped or renamed upstream: loading it would bring it back",
            hint="what is left of it in the target can be dropped by hand",
        )
    birth = _birth(table, incarnation, assembly)
    if table not in there:
        _check_order(table, birth, assembly)
    _check_statements(table, birth, incarnation, progress, options)
    _check_schemas(table, birth, assembly)
    if referred is not None:
        _check_foreign_keys(table, incarnation, assembly, options, referred)
    return incarnation, birth


def _check_own_table(table: TableName, naming: Naming) -> None:
    """Raises CannotBeExact for one whose rows are beside those of others in the target."""
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
    """Raises BadConfig for a table that the storage does not have, as where it is the target's name under a route, and
    for one that the rules leave out."""
    if table not in assembly.catalog.by_table:
        raise BadConfig(
            f"there is no table {table} in the storage", hint="names are case-sensitive; `inspect` lists the tables"
        )
    if not assembly.wanted(table):
        raise BadConfig(f"the table filter leaves {table} out", hint="let it through with --tables")


def _check_moment(table: TableName, assembly: Assembly, progress: Progress) -> None:
    """Statements above the checkpoint are not due. Those that already ran would be missing in the new table."""
    applied_ts = max(progress.applied_ts, progress.table(table).applied_ts)
    if assembly.checkpoint < applied_ts:
        raise CheckpointBehind(
            f"checkpoint-ts {assembly.checkpoint} is below what was applied already ({applied_ts}): the table could"
            " only be made as it was then",
            hint="resync it once TiCDC is past that again",
            table=str(table),
        )


def _check_order(table: TableName, birth: SchemaFile, assembly: Assembly) -> None:
    """What the target does not have yet comes after whatever had its name: a place past statements that are still to
    run would leave them out."""
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
    if (why := incarnation.not_anew) is not None:
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
    """All of them must be for this program to execute, the birth above all: what a person made is not thrown away."""
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
    """It would stop again at the rows that nobody can read, without those that it has."""
    for file in assembly.files.get(table, ()):
        version = file.folder.version
        if birth.version <= version <= assembly.checkpoint and assembly.catalog.schema(file.folder) is None:
            raise schema_missing(table, file)


def _check_foreign_keys(
    table: TableName, incarnation: Incarnation, assembly: Assembly, options: RoundOptions, referred: _Referred
) -> None:
    """Its statements run beside the other tables as these are now."""
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


def _of_others(
    name: TableName,
    table: Incarnation,
    moment: int,
    assembly: Assembly,
    progress: Progress,
    reader: StorageReader,
) -> Iterator[tuple[Folder, FolderProgress]]:
    """Folders of other tables that had the `name` before hold their rows, and those that TiCDC put there for the sake
    of their columns: of the files that were read, those whose last row is above `moment` are unread again."""
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


def _is_above(found: Bounds | ConsumerError | None, version: int, unknown: bool = False) -> bool:
    """`unknown` for what cannot be told: such a file of an older table was passed over when that was."""
    if isinstance(found, Retryable):
        raise found
    if not isinstance(found, Bounds):
        return unknown
    return found.last > version if found.exact else tso_to_ms(found.last) > tso_to_ms(version)
