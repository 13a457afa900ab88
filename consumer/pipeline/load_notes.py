"""Notes about finished loads, and why some tables are not loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from consumer.codec import protocol_of
from consumer.errors import CannotBeExact
from consumer.model.events import Note, NoteKind
from consumer.model.load import Dialect, LoadOutcome
from consumer.model.names import TableName

NO_COMMIT_TS = Note(
    NoteKind.COMMIT_TS,
    "rows carry no commit-ts, only milliseconds: transactions of one millisecond are ordered by their place in the"
    " files, and a target read at a checkpoint may show part of its millisecond",
)
NO_TIME = Note(
    NoteKind.COMMIT_TS,
    "CSV rows carry no commit-ts: they are ordered by their place in the files, and each file is applied completely,"
    " including rows above the checkpoint. After a restart of the changefeed, rows temporarily go back to older"
    " values, and rows from before a TRUNCATE may come back; a key that is in the files of two dispatchers or"
    " partitions stops its table",
)
KEY_LOSS = Note(
    NoteKind.OLD_KEYS,
    "with output-raw-change-event=true, rows of this changefeed do not tell the old keys of updates, as accept-key-loss"
    " allows: where a key was changed upstream, the row under its old key stays, or a row that took the key is lost;"
    " with output-raw-change-event=false, TiCDC splits such updates",
)


def notes_of(done: Sequence[LoadOutcome], dialect: Dialect, key_loss: bool) -> Iterator[Note]:
    """`key_loss`: the old keys of rows may be missing, and the operator has accepted that."""
    for outcome in done:
        if outcome.task.target.own and outcome.puts:
            yield _kept_note(outcome)
    dated = f"; {protocol_of(dialect).commit_ts} adds the commit-ts"
    if any(stat.coarse_ts for outcome in done for stat in outcome.files):
        yield replace(NO_COMMIT_TS, text=NO_COMMIT_TS.text + dated)
    for outcome in done:
        yield from _unproven(outcome)
    if done and dialect.timeless:
        yield replace(NO_TIME, text=NO_TIME.text + dated)
    if done and key_loss:
        yield KEY_LOSS


def _kept_note(outcome: LoadOutcome) -> Note:
    text = (
        f"{outcome.table}: the rows do not have the target's columns {', '.join(outcome.task.target.own)}: existing"
        " rows keep their values; new rows, also those whose key changed, get the columns' defaults"
    )
    return Note(NoteKind.KEPT_COLUMNS, text, outcome.table)


def _unproven(outcome: LoadOutcome) -> Iterator[Note]:
    """Values that are applied as the files have them, and may differ from the upstream's."""
    if lost := sum(stat.lost_texts for stat in outcome.files):
        text = f"{outcome.table}: {lost} texts hold U+FFFD, TiCDC's text for bytes that are not UTF-8: look upstream"
        yield Note(NoteKind.LOST_TEXT, text, outcome.table, lost)
    if doubled := sum(stat.doubled_times for stat in outcome.files):
        text = (
            f"{outcome.table}: {doubled} TIMESTAMP values are in an hour that the changefeed's clock shows twice, and"
            " can be an hour off; a changefeed under --tz UTC has none"
        )
        yield Note(NoteKind.DOUBLED_TIME, text, outcome.table, doubled)


def ambiguous_key(table: TableName, column: str) -> CannotBeExact:
    """The error of a table whose key's `column` can hold values that are two moments each."""
    return CannotBeExact(
        f"its key holds the TIMESTAMP `{column}`, and the changefeed's clock shows one hour of the year twice: two rows"
        " could have one key",
        hint="where no key is in that hour, set accept-timestamp-key = true in [consumer] of the file of --config; else"
        " run TiCDC under --tz UTC, have it write to a new prefix, and load that under a new --name with --tz UTC",
        table=str(table),
    )


def keyless_without_checkpoint(table: TableName) -> CannotBeExact:
    """The error of a table without a key in a storage without a checkpoint."""
    return CannotBeExact(
        "a table with no key needs the checkpoint: without `metadata`, rows that were sent again cannot be recognized",
        hint="run again once TiCDC has written `metadata`, or leave the table out with --tables",
        table=str(table),
    )
