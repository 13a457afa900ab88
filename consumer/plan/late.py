"""Finds what came late: rows and statements that did not exist when their table was brought to its place, and tables
whose end the table rules excluded.

Every row up to a checkpoint is in the storage. So a row at or below a table's progress that appears in a new file was
either sent again after a restart, and then its first copy was read; or it was missing when the progress was recorded: a
file was copied later than `metadata`, or was lost and is back. A commit-ts outside of all ranges that were read belongs
to a row that was never read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from consumer.errors import CameLate, Code, ConsumerError, CorruptFile, DdlRefused, FileUnreadable
from consumer.model.actions import Action
from consumer.model.ddl_policy import kind_of
from consumer.model.files import Bounds, DataFile, Folder, SchemaFile
from consumer.model.hints import accept_command, load_again, skip_ddl_command
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress, ProgressChange, TableProgress
from consumer.model.times import MAX_TSO
from consumer.plan.timeline import Timeline
from consumer.plan.unread import UnreadFile, unread_files


class EndedName(NamedTuple):
    """A name that no table has had since the version `since`, and its unread files."""

    since: int
    unread: Sequence[UnreadFile]


class OrphanRows(NamedTuple):
    """What the unread files of an `EndedName` hold. A file in none of these may have rows that become due later."""

    due: Mapping[DataFile, ConsumerError]
    """Files with rows between the end of the name and the checkpoint, of a table that no statement created, and files
    that cannot be read and may have such rows."""
    due_and_later: Collection[DataFile]
    """Those of the `due` files that also have rows above the checkpoint."""
    finished: Sequence[DataFile]
    """Files with no row after the end of the name."""
    first_later_ts: Mapping[str, int]
    """By path, the first commit-ts of files that have no row up to the checkpoint."""


def orphan_rows(
    name: TableName,
    ended: EndedName,
    bounds: Mapping[str, Bounds | ConsumerError] | None,
    checkpoint: int,
    read: Mapping[Folder, FolderProgress],
    start: int,
    seen: Mapping[str, Stretches],
    were_read: WereRead,
) -> OrphanRows:
    """Returns what the files of an ended name hold.

    1. `bounds` are those of its files. They are None if rows have no time. Then a file can belong to another table if
       it is in a folder of the end or later, or is new in a place of which files were `read` until then.
    2. `start` is the commit-ts up to which the target already held everything.
    3. `seen` is as of `accounted_commit_ts` if the table lives on under another name with the rows that it had, else
       empty.
    """
    since, read_places = max(ended.since, start), {folder[:3] for folder in read} if bounds is None else set()
    due: dict[DataFile, ConsumerError] = {}
    due_and_later: set[DataFile] = set()
    finished: list[DataFile] = []
    first_later_ts: dict[str, int] = {}
    for entry in ended.unread:
        file, file_bounds = entry.file, Bounds(0, 0, exact=False) if bounds is None else bounds.get(entry.file.path)
        if isinstance(file_bounds, CorruptFile | FileUnreadable):
            due[file] = file_bounds.about(str(name))
            continue
        if not isinstance(file_bounds, Bounds):
            continue
        first, last = max(file_bounds.first, entry.next_ts), file_bounds.last
        which = f"of commit-ts {last if last <= checkpoint else first}"
        if bounds is None:
            is_new = file.index > read.get(file.folder, FolderProgress()).done
            newer = file.folder.version >= ended.since or (is_new and file.folder[:3] in read_places)
            is_due, which = newer and file.folder.version > start, "without a commit-ts"
        else:
            is_due = since < first <= checkpoint or since < last <= checkpoint
        if is_due:
            due[file] = _of_nobody(name, file, ended.since, which, timeless=bounds is None)
            due_and_later |= {file} if last > checkpoint else set()
        elif bounds is not None and last <= since:
            read_then = seen.get(file.folder.partition, ())
            doubtful = read_then and file_bounds.exact and not _within(read_then, first, last)
            if doubtful and not were_read(name, ended.since, file, read_then):
                due[file] = _of_moved(name, file, ended.since, last)
            else:
                finished.append(file)
        elif first > checkpoint:
            first_later_ts[file.path] = first
    return OrphanRows(due, due_and_later, finished, first_later_ts)


def _of_nobody(name: TableName, file: DataFile, since: int, rows: str, timeless: bool) -> CameLate:
    again = ", or they were sent again" if timeless else ""
    return CameLate(
        f"it has rows {rows}, but no table has had this name since {since}: they belong to a new table whose CREATE"
        f" TABLE is not in the storage{again}",
        hint="does an event filter of the changefeed leave out CREATE TABLE? Exclude the table with --tables, or"
        " continue without these rows: " + accept_command(name),
        table=str(name),
        path=file.path,
    )


def _of_moved(name: TableName, file: DataFile, since: int, last: int) -> CameLate:
    return CameLate(
        f"it has rows of commit-ts {last} and before, and the table was renamed at {since} without them: the file was"
        " not there then",
        hint="a copy of a storage must get `metadata` last; load the renamed table again, from an export with"
        " `load-export`, or continue without these rows: " + accept_command(name),
        table=str(name),
        path=file.path,
    )


Stretches = tuple[int, ...]
"""Begin, end, begin, end, .. of stretches of commit-ts, ascending, the ends not included."""
WereRead = Callable[[TableName, int, DataFile, Stretches], bool]
"""Returns whether all rows of a file of the table, up to its end, lie in such stretches, if its first and last
commit-ts do not show it."""

LEFT_OVER = "the table no longer exists upstream, and the table rules excluded the statement that removed it"


def accounted_commit_ts(folders: Mapping[Folder, FolderProgress], floor: int, position: int) -> dict[str, Stretches]:
    """Returns by partition the commit-ts that rows in new files of a table may have: the ranges that were read in its
    `folders`, all up to `floor` (the beginning of its rows, or of the target), and all above its `position`."""
    always = [(0, floor + 1), (position + 1, MAX_TSO)]
    read = [
        (folder.partition, (place.first_ts, place.last_ts + 1)) for folder, place in folders.items() if place.last_ts
    ]
    stretches = {}
    for partition in {folder.partition for folder in folders}:
        # If partitions have no folders of their own, or had none, their rows are in common folders.
        of_partition = [stretch for other, stretch in read if other in (partition, "") or not partition]
        stretches[partition] = _joined([*always, *of_partition])
    return stretches


def _within(stretches: Stretches, first: int, last: int) -> bool:
    """Returns whether one of the stretches contains both."""
    place = bisect_right(stretches, first)
    return place % 2 == 1 and place == bisect_right(stretches, last)


def settle_moved(files: Mapping[TableName, Sequence[DataFile]], progress: Progress) -> ProgressChange | None:
    """Returns what to record if writers have moved tables by themselves: rows up to there were read in any of the
    table's unread `files`. Returns None if there are no such tables."""
    moved = {name: place.applied_ts for name, place in progress.tables.items() if place.code is Code.MOVED_BY_WRITER}
    folders: dict[Folder, FolderProgress] = {}
    for name, end in moved.items():
        # A folder that nobody has recorded may have lost its first files: the writer's own round found that to be
        # right.
        unread = unread_files(files.get(name, ()), progress.folders)
        first = {entry.file.folder: entry.file.index for entry in reversed(unread)}
        roots = {folder.root for folder in first}
        read = max((place.last_ts for folder, place in progress.folders.items() if folder.root in roots), default=0)
        for folder, index in first.items():
            place = progress.folders.get(folder) or FolderProgress(index - 1)
            folders[folder] = place.with_rows((min(read + 1, end), end), end)
    return (
        ProgressChange(tables={n: TableProgress(end) for n, end in moved.items()}, folders=folders) if moved else None
    )


def _joined(stretches: Iterable[tuple[int, int]]) -> Stretches:
    joined: list[int] = []
    for begin, end in sorted(stretches):
        if joined and begin <= joined[-1]:
            joined[-1] = max(joined[-1], end)
        else:
            joined += [begin, end]
    return tuple(joined)


def overdue_statements(timeline: Timeline, progress: Progress) -> dict[TableName, CameLate]:
    """Returns by table (or database) the first of its statements that is older than the progress and did not exist
    then. A table that was created and dropped in the meantime is not reported; a database is created with its
    tables."""
    recorded = {(ddl.database, ddl.table) for ddl in progress.ddls}
    overdue: dict[TableName, CameLate] = {}
    for file in timeline.overdue:
        is_known = file.name in timeline.history.alive or (file.database, file.table) in recorded
        is_database = not file.table and file.type != Action.CREATE_SCHEMA
        if is_known or is_database:
            overdue.setdefault(file.name, _overdue(file, progress.table(file.name).applied_ts))
    return overdue


def _overdue(file: SchemaFile, applied_ts: int) -> CameLate:
    again = load_again(file.name) + "; or " if file.table else ""
    return CameLate(
        f"the statement of version {file.version} appeared after the table was complete up to {applied_ts}:"
        f" {file.query}",
        hint="a copy of a storage must get `metadata` last; "
        + again
        + "do by hand what the statement means and record it: "
        + skip_ddl_command(file.name, file.version),
        table=str(file.name),
        path=file.path,
        version=file.version,
    )


def kept_by_policy_error(name: TableName) -> DdlRefused:
    """Returns the error of a table that no longer exists upstream, whose DROP was not executed, and that is still in
    the target."""
    kind = kind_of(Action.DROP_TABLE)
    return DdlRefused(
        f"{LEFT_OVER}: the policy for {kind} keeps it in the target",
        hint=f"set evolve for {kind} in [consumer.ddl] and run again: the table is dropped in the target then; with"
        " ignore it stays",
        table=str(name),
        code=Code.KEPT_BY_POLICY,
    )


def is_kept_by_policy(place: TableProgress) -> bool:
    """Returns whether the table stopped because a policy keeps it."""
    return place.code is Code.KEPT_BY_POLICY


def tables_kept_by_policy(progress: Progress) -> dict[TableName, ConsumerError]:
    """Returns the errors of the tables that stopped because a policy keeps them."""
    return {name: kept_by_policy_error(name) for name, place in progress.tables.items() if is_kept_by_policy(place)}
