"""What came late: rows and statements that were not there when their table was brought to where it is, and tables whose
end the table rules left out.

Every row up to a checkpoint is in the storage, so a row at or below a table's progress that turns up in a new file was
either sent again, after a restart, and then its first copy was read, or it was missing when the progress was made: a
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
from consumer.model.hints import accept_command, resync_command, skip_ddl_command
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress, ProgressChange, TableProgress
from consumer.model.times import MAX_TSO
from consumer.plan.timeline import Timeline
from consumer.plan.unread import Unread, unread_files


class Ended(NamedTuple):
    """A name that no table has had since `since`, and its files that are left to read."""

    since: int
    unread: Sequence[Unread]


class OfNobody(NamedTuple):
    """What the unread files of an `Ended` name hold. Of a file in none of these, rows may be due later."""

    due: Mapping[DataFile, ConsumerError]
    """Those with rows between its end and the checkpoint, of a table that no statement made, and those that cannot be
    read, and can have such."""
    left: Collection[DataFile]
    """Those of them that have rows above the checkpoint too."""
    over: Sequence[DataFile]
    """Those with no row behind its end."""
    above: Mapping[str, int]
    """By path, the first rows of those with none up to the checkpoint."""


def rows_of_nobody(
    name: TableName,
    ended: Ended,
    bounds: Mapping[str, Bounds | ConsumerError] | None,
    checkpoint: int,
    read: Mapping[Folder, FolderProgress],
    start: int,
    seen: Mapping[str, Stretches],
    were_read: WereRead,
) -> OfNobody:
    """`bounds` None: rows have no time, and a file can be of another table if it lies in a folder of the end, or is a
    new one beside those that were `read` until then. `start`: the target was given what is older. `seen`: as of
    `seen_rows`, where the table lives on under another name with the rows that it had; else empty."""
    since, known = max(ended.since, start), {folder[:3] for folder in read} if bounds is None else set()
    due: dict[DataFile, ConsumerError] = {}
    left: set[DataFile] = set()
    over: list[DataFile] = []
    above: dict[str, int] = {}
    for entry in ended.unread:
        file, found = entry.file, Bounds(0, 0, exact=False) if bounds is None else bounds.get(entry.file.path)
        if isinstance(found, CorruptFile | FileUnreadable):
            due[file] = found.about(str(name))
            continue
        if not isinstance(found, Bounds):
            continue
        first, last = max(found.first, entry.next_ts), found.last
        of = f"of commit-ts {last if last <= checkpoint else first}"
        if bounds is None:
            is_new = file.index > read.get(file.folder, FolderProgress()).done
            newer = file.folder.version >= ended.since or (is_new and file.folder[:3] in known)
            is_due, of = newer and file.folder.version > start, "without a commit-ts"
        else:
            is_due = since < first <= checkpoint or since < last <= checkpoint
        if is_due:
            due[file] = _of_nobody(name, file, ended.since, of, timeless=bounds is None)
            left |= {file} if last > checkpoint else set()
        elif bounds is not None and last <= since:
            read_then = seen.get(file.folder.partition, ())
            doubtful = read_then and found.exact and not _within(read_then, first, last)
            if doubtful and not were_read(name, ended.since, file, read_then):
                due[file] = _of_moved(name, file, ended.since, last)
            else:
                over.append(file)
        elif first > checkpoint:
            above[file.path] = first
    return OfNobody(due, left, over, above)


def _of_nobody(name: TableName, file: DataFile, since: int, rows: str, timeless: bool) -> CameLate:
    again = ", or they were sent again" if timeless else ""
    return CameLate(
        f"it has rows {rows}, and no table has had the name since {since}: they are of one whose CREATE TABLE did not"
        f" reach the storage{again}",
        hint="does an event filter of the changefeed leave out CREATE TABLE? Leave the table out with --tables, or go"
        " on without these rows: " + accept_command(name),
        table=str(name),
        path=file.path,
    )


def _of_moved(name: TableName, file: DataFile, since: int, last: int) -> CameLate:
    return CameLate(
        f"it has rows of commit-ts {last} and before, and the table was renamed at {since} without them: the file was"
        " not there then",
        hint="a copy of a storage must get `metadata` last; load the renamed table again, from an export with"
        " `load-export`, or go on without these rows: " + accept_command(name),
        table=str(name),
        path=file.path,
    )


Stretches = tuple[int, ...]
"""Begin, end, begin, end, .. of stretches of commit-ts, ascending, the ends not included."""
WereRead = Callable[[TableName, int, DataFile, Stretches], bool]
"""Whether all rows of a file of the table, up to its end, lie in such stretches: where its two ends do not show it."""

LEFT_OVER = "it is gone upstream, and the table rules left out its end"


def seen_rows(folders: Mapping[Folder, FolderProgress], floor: int, position: int) -> dict[str, Stretches]:
    """By partition, the commit-ts that may be in new files of a table whose folders are `folders`: what was read, all
    up to `floor` (the beginning of its rows, or of the target), and what is above its `position`."""
    always = [(0, floor + 1), (position + 1, MAX_TSO)]
    read = [
        (folder.partition, (place.first_ts, place.last_ts + 1)) for folder, place in folders.items() if place.last_ts
    ]
    found = {}
    for partition in {folder.partition for folder in folders}:
        # Where partitions have no level of their own, or had none, their rows lie together.
        own = [stretch for other, stretch in read if other in (partition, "") or not partition]
        found[partition] = _joined([*always, *own])
    return found


def _within(stretches: Stretches, first: int, last: int) -> bool:
    """Whether one of them has both."""
    place = bisect_right(stretches, first)
    return place % 2 == 1 and place == bisect_right(stretches, last)


def settle_moved(files: Mapping[TableName, Sequence[DataFile]], progress: Progress) -> ProgressChange | None:
    """What to record where writers have moved tables by themselves: rows up to there were read, of any of the table's
    unread `files`. None where there are no such tables."""
    moved = {name: place.applied_ts for name, place in progress.tables.items() if place.code is Code.MOVED_BY_WRITER}
    folders: dict[Folder, FolderProgress] = {}
    for name, end in moved.items():
        # A folder that nobody has recorded may have lost its head: the writer's own round found that to be right.
        unread = unread_files(files.get(name, ()), progress.folders)
        first = {entry.file.folder: entry.file.index for entry in reversed(unread)}
        roots = {folder.root for folder in first}
        read = max((place.last_ts for folder, place in progress.folders.items() if folder.root in roots), default=0)
        for folder, index in first.items():
            known = progress.folders.get(folder) or FolderProgress(index - 1)
            folders[folder] = known.with_rows((min(read + 1, end), end), end)
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
    """By table (or database), the first of its statements that is older than the progress and was not there then. A
    table that came and went in the meantime is not missed; a database comes with its tables."""
    known = {(ddl.database, ddl.table) for ddl in progress.ddls}
    found: dict[TableName, CameLate] = {}
    for file in timeline.overdue:
        missed = file.name in timeline.history.alive or (file.database, file.table) in known
        if missed or not (file.table or file.type == Action.CREATE_SCHEMA):
            found.setdefault(file.name, _overdue(file, progress.table(file.name).applied_ts))
    return found


def _overdue(file: SchemaFile, applied_ts: int) -> CameLate:
    again = "empty and reload the table: " + resync_command(file.name) + "; or " if file.table else ""
    return CameLate(
        f"its statement of version {file.version} was not there when it was brought to {applied_ts}: {file.query}",
        hint="a copy of a storage must get `metadata` last; "
        + again
        + "do by hand what the statement means and record it: "
        + skip_ddl_command(file.name, file.version),
        table=str(file.name),
        path=file.path,
        version=file.version,
    )


def kept_by_policy(name: TableName) -> DdlRefused:
    """The error of a table that no longer exists upstream, whose DROP was not followed, and that is still in the
    target."""
    kind = kind_of(Action.DROP_TABLE)
    return DdlRefused(
        f"{LEFT_OVER}: the policy for {kind} keeps it in the target",
        hint=f"set evolve for {kind} in [consumer.ddl] and run again: the table is dropped in the target then; with"
        " ignore it stays",
        table=str(name),
        code=Code.KEPT_BY_POLICY,
    )


def is_kept_by_policy(place: TableProgress) -> bool:
    """Whether the table stopped for that."""
    return place.code is Code.KEPT_BY_POLICY


def left_over(progress: Progress) -> dict[TableName, ConsumerError]:
    """The tables that stopped for that."""
    return {name: kept_by_policy(name) for name, place in progress.tables.items() if is_kept_by_policy(place)}
