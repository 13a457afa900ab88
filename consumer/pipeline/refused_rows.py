"""Rows that the target refuses, reported with their file and line."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeGuard

from consumer.errors import ConsumerError, RowRefused
from consumer.model.bad_rows import BadRow
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
    return [placed(outcome, reader) for outcome in outcomes]


def placed(outcome: LoadOutcome, reader: RangeReader) -> LoadOutcome:
    """`outcome` with the lines of the rows that were quarantined because the target refuses them."""
    names = {row.identity for row in outcome.quarantined.values() if row.identity is not None and not row.path}
    if not names:
        return outcome
    from consumer.pipeline.find_row import Found, find_rows  # brings pyarrow, which an idle round does not need

    try:
        found = find_rows(names, outcome.task, reader)
    except ConsumerError:
        found = {}  # what keeps the files from being read again says nothing of the rows

    def told(row: BadRow) -> BadRow:
        line = found.get(row.identity) if row.identity is not None else None
        if not isinstance(line, Found):
            return row
        # Of a table with no key equal rows are several: the line tells them apart.
        name = row.id if outcome.task.target.key else f"{row.id[:16]}{_digest(line.path, line.offset)}"
        return replace(row, id=name, path=line.path, line=line.line or 0, offset=line.offset, raw=line.raw)

    receipts = (replace(receipt, quarantined=tuple(map(told, receipt.quarantined))) for receipt in outcome.receipts)
    return replace(outcome, receipts=tuple(receipts))


def _digest(path: str, offset: int) -> str:
    return hashlib.blake2b(f"{path}\n{offset}".encode(), digest_size=8).hexdigest()


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
    from consumer.pipeline.find_row import find_rows  # brings pyarrow, which an idle round does not need

    try:
        found = find_rows([(error.row, error.put)], task, reader) if error.row is not None else {}
    except ConsumerError:
        return  # what keeps the files from being read again says nothing of the row
    for line in found.values():
        error.path, error.line = line.path, line.line
