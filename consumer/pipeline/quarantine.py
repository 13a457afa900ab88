"""Handles rows that loads could not write: finds them in their files, and writes them as dead letters before they are
recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeGuard

from consumer.errors import ConsumerError, RowRefused, TableError, TooManyBadRows
from consumer.model.bad_rows import BadRow, first_row_text, refused_row, too_many_error
from consumer.model.events import Note, NoteKind
from consumer.model.load import FileStat, LoadOutcome, LoadTask, Receipt
from consumer.model.names import TableName
from consumer.model.rules import hide_masked_values
from consumer.model.steps import LoadRows
from consumer.model.texts import count_text
from consumer.pipeline.context import RoundContext
from consumer.ports import Loader, Moved, RangeReader
from consumer.target import Writer


def without_untimed_rows(load: LoadRows, outcome: LoadOutcome) -> LoadOutcome:
    """Returns `outcome` without bad lines that have no time and that, by their folders, are from after the statement
    that ends the load. They count for the table as the statement leaves it, so the next load reads their files
    again."""
    if not any(stat.quarantined for stat in outcome.files):
        return outcome
    versions = {planned.file.path: planned.file.folder.version for planned in load.files}

    def without_untimed(stat: FileStat) -> FileStat:
        if load.window.end > versions[stat.path] or all(row.commit_ts for row in stat.quarantined):
            return stat
        timed = tuple(row for row in stat.quarantined if row.commit_ts)
        # For a table with no key they are recorded already. Rows with milliseconds have a time, which is not recorded.
        are_kept = stat.coarse_ts or stat.coarse_quarantined or not outcome.task.target.key
        counted = stat.quarantined if are_kept else timed
        return replace(stat, quarantined=counted, next_ts=load.window.end + 1)

    return replace(outcome, files=tuple(map(without_untimed, outcome.files)))


def write_dead_letters(context: RoundContext, load: LoadRows, outcome: LoadOutcome) -> dict[str, BadRow]:
    """Writes the dead letters of a load, before anything records that its rows are read. Returns what to record of
    them. Raises TooManyBadRows, and the errors of the folder of dead letters."""
    table, letters = outcome.table, context.ports.dead_letters
    if not outcome.quarantined or letters is None:
        return {}
    _check(table, outcome, context)
    versions = {planned.file.path: planned.file.folder.version for planned in load.files}
    rows = [replace(row, version=versions.get(row.path, 0)) for row in outcome.quarantined.values()]
    rows = [replace(row, letter=letters.path(table, row)) for row in rows]
    context.ledger.patiently("keep rows that are quarantined", partial(letters.put, table, rows))
    return {row.id: row for row in rows}


def _check(table: TableName, outcome: LoadOutcome, context: RoundContext) -> None:
    quarantined, recorded = outcome.task.target.load.quarantine, context.progress.bad_rows.get(table, {})
    if quarantined is not None and len(recorded.keys() | outcome.quarantined.keys()) > quarantined.most:
        error: TooManyBadRows = too_many_error(quarantined.most, next(reversed(outcome.quarantined.values())))
        error.table = str(table)
        raise error


def outcome_of_bad_rows(context: RoundContext, task: LoadTask, rows: Sequence[BadRow]) -> LoadOutcome:
    """Returns an outcome that has nothing but bad rows."""
    outcome = LoadOutcome(task, (), (Receipt(puts=0, deletes=0, quarantined=tuple(rows)),))
    return with_lines(outcome, context.ports.loader, context.ports.reader.range_reader())


def without_refused_rows(context: RoundContext, outcome: LoadOutcome, error: TableError) -> LoadOutcome | None:
    """Returns `outcome` without the rows that the target refused when they were published; None if the table stops."""
    target = outcome.task.target
    if target.load.quarantine is None or not isinstance(error, RowRefused) or not (error.of_data and error.rows):
        return None
    refused = tuple(refused_row(reason, row, put, bool(target.key)) for row, put, reason in error.rows)
    receipts = (*outcome.receipts, Receipt(puts=-len(refused), deletes=0, quarantined=refused))
    left_out = outcome.unpublished | {row for row, _, _ in error.rows}
    remaining = replace(outcome, receipts=receipts, unpublished=left_out)
    return with_lines(remaining, context.ports.loader, context.ports.reader.range_reader())


def report_quarantined(context: RoundContext, done: Sequence[LoadOutcome]) -> None:
    """Reports each table with rows that were quarantined."""
    for outcome in done:
        if rows := list(outcome.quarantined.values()):
            what = count_text(len(rows), "row was", "rows were")
            text = f"{outcome.table}: {what} quarantined; the first: {first_row_text(rows)}"
            context.tell(Note(NoteKind.BAD_ROWS, text, outcome.table, len(rows)))


def load_with_lines(
    loader: Loader, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved
) -> Sequence[LoadOutcome]:
    """Loads as the loader does. The line of a refused row is searched at once, while other loads run."""
    outcomes = loader.load(tasks, writer, reader, moved)
    for outcome in outcomes:
        if outcome.error is not None:
            _set_place(outcome.error, outcome.task, loader, reader)
    return [with_lines(outcome, loader, reader) for outcome in outcomes]


def with_lines(outcome: LoadOutcome, loader: Loader, reader: RangeReader) -> LoadOutcome:
    """Returns `outcome` with the lines of the rows that were quarantined because the target refuses them."""
    names = {row.identity for row in outcome.quarantined.values() if row.identity is not None and not row.path}
    if not names:
        return outcome
    from consumer.pipeline.find_row import RowLine, find_rows  # brings pyarrow, which an idle round does not need

    try:
        line_of = find_rows(names, outcome.task, loader, reader)
    except ConsumerError:
        line_of = {}  # an error that prevents reading the files again does not concern the rows

    def with_line(row: BadRow) -> BadRow:
        line = line_of.get(row.identity) if row.identity is not None else None
        if not isinstance(line, RowLine):
            return row
        # A table with no key can have equal rows: the line makes their ids different.
        name = row.id if outcome.task.target.key else f"{row.id[:16]}{_digest(line.path, line.offset)}"
        return replace(row, id=name, path=line.path, line=line.line or 0, offset=line.offset, raw=line.raw)

    receipts = (
        replace(receipt, quarantined=tuple(map(with_line, receipt.quarantined))) for receipt in outcome.receipts
    )
    return replace(outcome, receipts=tuple(receipts))


def _digest(path: str, offset: int) -> str:
    return hashlib.blake2b(f"{path}\n{offset}".encode(), digest_size=8).hexdigest()


def stop_with_line(context: RoundContext, task: LoadTask, error: ConsumerError) -> None:
    """Stops the task's table for an error that came after its rows were written."""
    error = hide_masked_values(error, task.target.load.shaping)
    if not _wants_place(error):
        context.stop(task.target.table, error)
        return

    def ended(failure: BaseException | None) -> None:
        if failure is not None:
            raise failure
        context.stop(task.target.table, error)

    find = partial(_set_place, error, task, context.ports.loader, context.ports.reader.range_reader())
    context.calls.start("find a row", find, ended)


def _wants_place(error: ConsumerError) -> TypeGuard[RowRefused]:
    return isinstance(error, RowRefused) and error.row is not None and not error.path


def _set_place(error: ConsumerError, task: LoadTask, loader: Loader, reader: RangeReader) -> None:
    """Sets `path` and `line` of a RowRefused if they can be found."""
    if not _wants_place(error):
        return
    from consumer.pipeline.find_row import find_rows  # brings pyarrow, which an idle round does not need

    try:
        lines = find_rows([(error.row, error.put)], task, loader, reader) if error.row is not None else {}
    except ConsumerError:
        return  # an error that prevents reading the files again does not concern the row
    for line in lines.values():
        error.path, error.line = line.path, line.line
