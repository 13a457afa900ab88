"""Files that cannot be read. Some are still being written and are left for later; the others stop their tables."""

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
from consumer.model.files import DataFile
from consumer.model.names import TableName
from consumer.pipeline.context import RoundContext
from consumer.plan.date_order import place
from consumer.plan.unread import Unread


def put_off(context: RoundContext, table: TableName, error: ConsumerError) -> bool:
    """Whether the file that `error` is about is left to a later round: no row of it is due.

    That is so if its first row, or that of the file before it, is above the checkpoint: then it has only rows above the
    checkpoint, or rows that were sent again. Of a file that changed after it was listed, what it holds now counts: one
    that was being written begins above, one that a restarted changefeed wrote anew may not. Where rows have no time, a
    file that changed is read by the next round, and so are those behind it in its series.
    """
    state = context.consumers[table].state
    entry = next((entry for entry in state.unread if entry.file.path == error.path), None)
    # What was there before, and is needed, must be read.
    if entry is None or entry.next_ts or not isinstance(error, (CorruptFile, StorageChanged)):
        return False
    file = entry.file
    in_front = [e.file for e in state.unread if e.file.folder == file.folder and e.file.index < file.index]
    if not any(_is_above(context, f) for f in (file, *in_front[-1:])):
        return False
    left = {file.path, *(_behind(context, state.unread, file) if context.options.files.dialect.timeless else ())}
    state.unread = [other for other in state.unread if other.file.path not in left]
    state.put_off |= left
    text = f"{table}: {file.path} is not complete yet, and is left to a later round"
    context.tell(Note(NoteKind.INCOMPLETE_FILE, text, table))
    return True


def stop_for_files(context: RoundContext, failed: Mapping[str, ConsumerError]) -> None:
    """Stop the tables whose files, by path, could not be read. If the error is not about a file, they wait."""
    for name, consumer in context.consumers.items():
        errors = [failed[entry.file.path] for entry in consumer.state.unread if entry.file.path in failed]
        error = next((error for error in errors if not put_off(context, name, error)), None)
        error = None if error is None else given_up(context, error)
        if isinstance(error, Retryable):
            context.round.hold(name)
            context.defer([name], f"look at files of {name}", error, partial(context.round.release, name))
        elif error is not None:
            context.stop(name, error.about(str(name)))


def wait_for_file(context: RoundContext, table: TableName, error: Retryable) -> None:
    """The load of `table` failed for now. It is planned again without files that are not due, or retried for a while.
    If a file still cannot be read then, the table stops."""
    again = partial(context.round.release, table)
    if put_off(context, table, error):
        again()
        return
    context.defer([table], f"load {table}", error, again)
    if not context.deferred.is_due(table) and not isinstance(known := given_up(context, error), Retryable):
        context.stop(table, known.about(str(table)))


def _behind(context: RoundContext, unread: Sequence[Unread], file: DataFile) -> Iterator[str]:
    key: Callable[[DataFile], Any] = place if context.options.files.date_order == "time" else lambda other: other
    same = (entry.file for entry in unread if entry.file.folder.series == file.folder.series)
    return (other.path for other in same if key(other) > key(file))


def _is_above(context: RoundContext, file: DataFile) -> bool:
    try:
        first = context.ports.reader.first_ts(file)
    except StorageChanged:
        return True
    return first is not None and first > context.assembly.checkpoint


def given_up(context: RoundContext, error: ConsumerError) -> ConsumerError:
    """What `error` becomes after the last retry: if the storage answers but does not give one file, it is an error of
    the file's table."""
    if not isinstance(error, StorageUnavailable) or not error.path:
        return error
    try:
        context.ports.reader.checkpoint()
    except CheckpointMissing:
        pass
    except ConsumerError:
        return error
    return FileUnreadable(
        error.message,
        hint="make the file readable again, or remove it and accept the loss of its rows with --accept-gap",
        path=error.path,
    )
