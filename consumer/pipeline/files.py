"""Handles files before a load, or instead of one: reads their bounds, and handles those that cannot be read and those
that come late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from consumer.errors import (
    CheckpointMissing,
    ConsumerError,
    CorruptFile,
    FileUnreadable,
    Retryable,
    StorageChanged,
    StorageUnavailable,
)
from consumer.model.events import Note, NoteKind
from consumer.model.files import Bounds, DataFile, Folder, known_bounds
from consumer.model.hints import ACCEPT_LOSS
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress, ProgressChange, State, TableProgress
from consumer.model.rules import hide_masked_values
from consumer.model.steps import LoadRows, Window, ddl_id
from consumer.model.times import MAX_TSO
from consumer.pipeline.context import RoundContext
from consumer.pipeline.decoding import rows_were_read
from consumer.plan.assembly import Assembly
from consumer.plan.date_order import writing_order
from consumer.plan.late import EndedName
from consumer.plan.options import RoundOptions
from consumer.plan.round import Round
from consumer.plan.unread import TableInRound, UnreadFile
from consumer.plan.windows import plan_load
from consumer.ports import StorageReader


def leave_to_later_round(context: RoundContext, table: TableName, error: ConsumerError) -> bool:
    """Returns whether the file that `error` is about is left to a later round, because no row of it is due.

    1. No row is due if the first row of the file, or of the file before it, is above the checkpoint. Then the file has
       only rows above the checkpoint, or rows that were sent again.
    2. For a file that changed after it was listed, its present content counts. A file that was still being written
       begins above the checkpoint; a file that a restarted changefeed wrote again may not.
    3. If rows have no time, a file that changed is read by the next round, and so are the files after it in its series.
    """
    state = context.consumers[table].state
    entry = next((entry for entry in state.unread if entry.file.path == error.path), None)
    # A file that an earlier read found rows in, and that is needed, must be read.
    if entry is None or entry.next_ts or not isinstance(error, (CorruptFile, StorageChanged)):
        return False
    file = entry.file
    in_front = [e.file for e in state.unread if e.file.folder == file.folder and e.file.index < file.index]
    if not any(_is_above(context.ports.reader, f, context.assembly.checkpoint) for f in (file, *in_front[-1:])):
        return False
    later_paths = {file.path, *(_behind(context, state.unread, file) if context.options.files.dialect.timeless else ())}
    state.unread = [other for other in state.unread if other.file.path not in later_paths]
    state.put_off |= later_paths
    text = f"{table}: {file.path} is not complete yet, and is left to a later round"
    context.tell(Note(NoteKind.INCOMPLETE_FILE, text, table))
    return True


def stop_for_files(context: RoundContext, failed: Mapping[str, ConsumerError]) -> None:
    """Stops the tables whose files, by path, could not be read. If the error is not about a file, they wait."""
    for name, consumer in context.consumers.items():
        errors = [failed[entry.file.path] for entry in consumer.state.unread if entry.file.path in failed]
        error = next((error for error in errors if not leave_to_later_round(context, name, error)), None)
        error = None if error is None else error_after_retries(context.ports.reader, error)
        if isinstance(error, Retryable):
            context.round.hold(name)
            context.defer([name], f"look at files of {name}", error, partial(context.round.release, name))
        elif error is not None:
            context.stop(name, hide_masked_values(error.about(str(name)), context.options.rules.shaping_of(name)))


def wait_for_file(context: RoundContext, table: TableName, error: Retryable) -> None:
    """The load of `table` failed for now: plans it again without files that are not due, or retries it for a while. If
    a file still cannot be read after that, the table stops."""
    again = partial(context.round.release, table)
    if leave_to_later_round(context, table, error):
        again()
        return
    context.defer([table], f"load {table}", error, again)
    if not context.deferred.is_due(table) and not isinstance(
        final_error := error_after_retries(context.ports.reader, error), Retryable
    ):
        context.stop(table, final_error.about(str(table)))


def _behind(context: RoundContext, unread: Sequence[UnreadFile], file: DataFile) -> Iterator[str]:
    key: Callable[[DataFile], Any] = (
        writing_order if context.options.files.date_order == "time" else lambda other: other
    )
    same = (entry.file for entry in unread if entry.file.folder.series == file.folder.series)
    return (other.path for other in same if key(other) > key(file))


def _is_above(reader: StorageReader, file: DataFile, checkpoint: int) -> bool:
    try:
        first = reader.first_ts(file)
    except StorageChanged:
        return True
    return first is not None and first > checkpoint


def error_after_retries(reader: StorageReader, error: ConsumerError) -> ConsumerError:
    """Returns what `error` becomes after the last retry: an error of the file's table, if the storage answers but does
    not return one file."""
    if not isinstance(error, StorageUnavailable) or not error.path:
        return error
    try:
        reader.checkpoint()
    except CheckpointMissing:
        pass
    except ConsumerError:
        return error
    return FileUnreadable(
        error.message,
        hint="make the file readable again, or remove it and continue without its rows: " + ACCEPT_LOSS,
        path=error.path,
    )


def learn_bounds(context: RoundContext) -> None:
    """Reads those bounds that the round wants and that are not known yet. Tables with a file without bounds are
    stopped."""
    wanted, lessons = context.round.wants_bounds(), context.memory.bounds
    if not wanted:
        return
    bounds = context.ports.reader.bounds([file for file in wanted if file not in lessons])
    files = {file.path: file for file in wanted}
    readable = known_bounds(bounds)
    lessons |= {files[path]: file_bounds for path, file_bounds in readable.items()}
    failed = {path: file_bounds for path, file_bounds in bounds.items() if isinstance(file_bounds, ConsumerError)}
    of_wanted = {file.path: lessons[file] for file in wanted if file in lessons}
    context.round.learned(of_wanted | _damaged(context, failed))
    if failed:
        stop_for_files(context, failed)


def _damaged(context: RoundContext, failed: dict[str, ConsumerError]) -> dict[str, Bounds]:
    """Removes the files from `failed` whose first or last row is bad, if their table quarantines bad rows. Returns
    bounds for these by which any row may be in them."""
    bounds = {}
    for name, consumer in context.consumers.items():
        paths = [entry.file.path for entry in consumer.state.unread if entry.file.path in failed]
        if not paths or not context.options.rules.bad_row_action(name).quarantines:
            continue
        for path in paths:
            error = failed[path]
            if isinstance(error, CorruptFile) and not leave_to_later_round(context, name, error):
                bounds[path] = Bounds(0, MAX_TSO, exact=True)
                del failed[path]
    return bounds


def check_late_files(context: RoundContext) -> list[LoadRows]:
    """Checks files that appear although their table is at the checkpoint: no load would read them until the checkpoint
    moves.

    Mostly their rows are above the checkpoint, which is recorded. Rows at or below it were sent again, or came late.
    Returns loads that read the files with such rows. Their windows are empty, so no row is applied.
    """
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
    # What cannot be read yet is checked when the checkpoint has moved.
    known = known_bounds(bounds)
    context.round.learned(known)
    folders: dict[Folder, FolderProgress | None] = {}
    loads = []
    for consumer in resting:
        state = consumer.state
        unread = [entry for entry in state.unread if entry.next_ts or entry.file.path in known]
        load = plan_load(
            consumer.name,
            Window(state.position, state.position),
            unread,
            known,
            state.boundaries,
            context.options.files,
            state.round_bytes,
        )
        first = {entry.file.path: known[entry.file.path].first for entry in unread if not entry.next_ts}
        above = {path: ts for path, ts in first.items() if ts > state.position}
        folders |= consumer.folders_with_later_rows(above, context.progress)
        state.unread = [UnreadFile(e.file, above.get(e.file.path, e.next_ts), e.read_to) for e in state.unread]
        loads += [load] if load.files else []
    if folders:
        context.ledger.record(ProgressChange(folders=folders))
    return loads


def check_ended_names(context: RoundContext) -> None:
    """Checks new files of names that no table has any more: no load reads them. Most of them hold rows that were sent
    again, which is recorded. Rows from after the end of a name stop it."""
    progress, accepted = context.progress, context.options.rules.accept_gap
    ended_names = {
        name: ended
        for name, ended in orphaned_names(context.assembly, context.round, progress).items()
        if context.consumers[name].state.error is None
    }
    bounds = bounds_of_ended(context.ports.reader, ended_names, context.options, context.assembly.checkpoint, progress)
    first = {path: file_bounds.first for path, file_bounds in known_bounds(bounds or {}).items()}
    were_read = partial(rows_were_read, context.ports.reader, context.assembly, context.options)
    for name, rows in context.assembly.orphan_rows(ended_names, bounds, progress, were_read).items():
        consumer, place = context.consumers[name], progress.table(name)
        if rows.due and not accepted(name):
            context.stop(name, next(iter(rows.due.values())))
            continue
        context.accept(
            name, (Loss.of(error, ended_names[name].since, context.assembly.checkpoint) for error in rows.due.values())
        )
        resumed = {name: TableProgress(place.applied_ts, State.DROPPED)} if place.state is State.STOPPED else {}
        done = [*rows.finished, *(file for file in rows.due if file not in rows.due_and_later)]
        if done or resumed:
            folders = consumer.without_files(done, progress, ended_names[name].since, first)
            context.ledger.record(ProgressChange(tables=resumed, folders=folders))
            consumer.state.accept_lost(done)
        if above := {
            **rows.first_later_ts,
            **{file.path: context.assembly.checkpoint + 1 for file in rows.due_and_later},
        }:
            context.ledger.record(ProgressChange(folders=consumer.folders_with_later_rows(above, context.progress)))
        if resumed and name not in context.round.live:
            consumer.drop(place.applied_ts)


def orphaned_names(assembly: Assembly, round_: Round, progress: Progress) -> dict[TableName, EndedName]:
    """Returns the names that no table has or is about to get, and that have unread files."""
    taken = (round_.live - round_.views) | {name for statement in round_.pending for name in statement.touches}
    return {name: ended for name, ended in assembly.ended_names(progress).items() if name not in taken}


def bounds_of_ended(
    reader: StorageReader,
    ended_names: Mapping[TableName, EndedName],
    options: RoundOptions,
    checkpoint: int,
    progress: Progress,
) -> Mapping[str, Bounds | ConsumerError] | None:
    """Returns the bounds of their files that can have rows up to the checkpoint, or why these cannot be read; None if
    rows have no time. Raises Retryable if the storage itself does not answer."""
    if options.files.dialect.timeless:
        return None
    since = {
        entry.file: max(ended.since, progress.start_of(name))
        for name, ended in ended_names.items()
        for entry in ended.unread
        if entry.next_ts <= checkpoint
    }
    bounds = dict(reader.bounds(since)) if since else {}
    for file, end in since.items():
        error = bounds.get(file.path)
        if isinstance(error, CorruptFile):
            # A file that begins above the checkpoint may still be in the making. A file of an older folder counts as
            # one of the table that ended, unless its first row is above its end.
            is_later = file.folder.version >= end or _is_above(reader, file, end)
            if not is_later or file.folder.version >= checkpoint or _is_above(reader, file, checkpoint):
                del bounds[file.path]
        elif isinstance(error, StorageUnavailable):
            bounds[file.path] = final_error = error_after_retries(reader, error)
            if isinstance(final_error, Retryable):
                raise final_error
    return bounds


def _is_altered_next(context: RoundContext, state: TableInRound) -> bool:
    """Returns whether the table is just before a statement that cannot run, because the checkpoint went back, or
    because not all files of the statement are there. New files would be read with the columns that the statement adds,
    and the target lacks these."""
    files = context.assembly.catalog.by_table.get(state.name, ())
    near = (file for file in files if file.query and context.assembly.checkpoint <= file.version <= state.position)
    return any(ddl_id(file) not in context.progress.ddls for file in near)
