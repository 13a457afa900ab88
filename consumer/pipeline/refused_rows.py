"""Rows that the target refuses, reported with their file and line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeGuard

from consumer.errors import ConsumerError, RowRefused
from consumer.model.load import LoadOutcome, LoadTask
from consumer.pipeline.context import RoundContext
from consumer.ports import Loader, Moved, RangeReader
from consumer.target import Writer


def load(
    loader: Loader, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved
) -> Sequence[LoadOutcome]:
    """Loads as the loader does. A refused row is looked for at once, while other loads run."""
    outcomes = loader.load(tasks, writer, reader, moved)
    for outcome in outcomes:
        if outcome.error is not None:
            _tell_place(outcome.error, outcome.task, reader)
    return outcomes


def stop(context: RoundContext, task: LoadTask, error: ConsumerError) -> None:
    """Stop the task's table for an error that came after its rows were written."""
    if not _wants_place(error):
        context.stop(task.target.table, error)
        return

    def told(failure: BaseException | None) -> None:
        if failure is not None:
            raise failure
        context.stop(task.target.table, error)

    context.side.start("find a row", partial(_tell_place, error, task, context.ports.reader.range_reader()), told)


def _wants_place(error: ConsumerError) -> TypeGuard[RowRefused]:
    return isinstance(error, RowRefused) and error.row is not None and not error.path


def _tell_place(error: ConsumerError, task: LoadTask, reader: RangeReader) -> None:
    """Set `path` and `line` of a RowRefused where they can be found."""
    if not _wants_place(error):
        return
    from consumer.pipeline.find_row import find_row  # brings pyarrow, which an idle round does not need

    try:
        found = find_row(error, task, reader)
    except ConsumerError:
        return  # what keeps the files from being read again says nothing of the row
    if found is not None:
        error.path, error.line = found
