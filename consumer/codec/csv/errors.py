"""Finds what is wrong with a CSV record, and which setting is probably wrong. It is slow, and rarely needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from consumer.codec.csv.cells import CellReader, InvalidCsv, RecordEnds
from consumer.codec.csv.options import COMMIT_TS, NUMBER, SETTINGS, RowForm, is_quoted
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import Block
from consumer.errors import CannotBeExact, ConsumerError, CorruptFile, SchemaDrift
from consumer.model.columns import Column
from consumer.model.hints import AS_FILES_SHOW, FROM_A_NEW_PREFIX
from consumer.model.texts import count_text

_LAYOUT = (
    "column selectors leave columns out: give the changefeed's own file, which has them, with --config; virtual"
    " generated columns are never in the rows, and their CREATE or ALTER TABLE must be in the storage;"
    f" otherwise set output-field-header=true in the changefeed's [sink.csv], {FROM_A_NEW_PREFIX}"
)
_COMMIT_TS = re.compile(rb"[0-9]{17,19}")
_QUOTED = re.compile(rb"([^\w\s])[IUD]\1(.{1,3}?)(?:\1|\Z)", re.DOTALL)
_BARE = re.compile(rb"[IUD]([^\w\s]{1,3})")
_MAX_SHOWN = 60


class CsvCoordinates(FileCoordinates):
    """Where a slice's records come from. Lines are records, counted from 1; a header line counts."""

    __slots__ = ()

    def corrupt(self, message: str, line: int | None = None, hint: str = SETTINGS) -> CorruptFile:
        return super().corrupt(message, line, hint)

    def drift(self, message: str, line: int, hint: str = _LAYOUT) -> SchemaDrift:
        return SchemaDrift(message, hint=hint, **{**self.at(line), "holds_rows": True})

    def inexact(self, message: str, hint: str, line: int | None = None) -> CannotBeExact:
        return CannotBeExact(message, hint=hint, **self.at(line))

    def oldless(self) -> CannotBeExact:
        """Some versions of TiCDC write such an update as an insert, so its absence proves nothing."""
        return self.inexact(
            "an update of a table with no key does not say what the row was",
            f"set output-old-value=true in the changefeed's [sink.csv], {FROM_A_NEW_PREFIX}",
        )

    def timeless(self) -> CannotBeExact:
        return self.inexact(
            "the rows of a table with no key have no commit-ts: a row written again looks the same as an equal row",
            f"set {COMMIT_TS}, {FROM_A_NEW_PREFIX}",
        )


class RecordLookup:
    """The records of a block's rows, for the one that must be examined. Records count from 0."""

    def __init__(self, block: Block, ends: RecordEnds, line_at: Callable[[int], int], place: CsvCoordinates) -> None:
        self._block, self._ends, self._line_at, self.place = block, ends, line_at, place

    def number(self, record: int) -> int:
        """Returns the number in the file, from 1. It reads the file up to the block."""
        return self._line_at(self._block.offset) + record

    def fault(self, reader: CellReader, form: RowForm) -> ConsumerError:
        """Returns the error of a block that `reader` refuses. The reader itself is the judge, so the record is
        found."""
        records = self._ends.records(self._block.text)
        number = 0
        while len(records) > 1:
            half = len(records) // 2
            if _is_good(records[:half], reader, form):
                records, number = records[half:], number + half
            else:
                records = records[:half]
        message = _refusal(records[0] + form.terminator, reader)
        hint = _suspected_terminator(records[0], form) or suspicion(records[0].split(form.delimiter), form) or SETTINGS
        return self.place.corrupt(f"{message}: {_shown(records[0])}", self.number(number), hint)

    def wrong_operation(self, record: int, cells: Sequence[bytes], form: RowForm) -> ConsumerError:
        message = f"expected the operation I, U or D in the first cell, found {_shown(cells[0])}"
        hint = suspicion(cells, form)
        if cells[0] in (b"I", b"U", b"D"):
            message, hint = "the operation in the first cell is not quoted", _other("quote", form.quote, b"")
        return self.place.corrupt(message, self.number(record), hint or SETTINGS)

    def wrong_cell(self, record: int, position: int, what: str, cells: Sequence[bytes], form: RowForm) -> ConsumerError:
        message = f"expected {what} in cell {position + 1}, found {_shown(cells[position])}"
        return self.place.corrupt(message, self.number(record), suspicion(cells, form) or SETTINGS)

    def wrong_quotes(self, record: int, column: Column, cell: bytes, form: RowForm) -> ConsumerError:
        """Returns the error for a text without quotes, or a number with them. A cell without quotes that is no number
        is how NULL is written."""
        name = f"the cell for column {column.name}, of type {column.type},"
        if is_quoted(column) and not NUMBER.fullmatch(cell):
            message = f"{name} holds {_shown(cell)} without quotes"
            return self.place.drift(message, self.number(record), _other("null", form.null, cell))
        kind = "a number" if is_quoted(column) else "a text"
        message = f"{name} holds {kind}: the rows have other columns than their schema file"
        return self.place.drift(message, self.number(record))

    def wrong_count(self, record: int, cells: Sequence[bytes], names: Sequence[str], form: RowForm) -> ConsumerError:
        """Returns the error for a row with more or fewer cells than its columns need."""
        expected = form.values + len(names)
        columns = ", ".join(names)
        cell_count = count_text(len(cells), "cell")
        message = f"the row has {cell_count}, expected {expected}: {form.values}, then the columns {columns}"
        hint = suspicion(cells, form)
        if hint:
            return self.place.corrupt(message, self.number(record), hint)
        if abs(len(cells) - expected) == 1:
            return self.place.drift(message, self.number(record), f"`output-handle-key` is one cell too; {_LAYOUT}")
        return self.place.drift(message, self.number(record))


def suspicion(cells: Sequence[bytes], form: RowForm) -> str:
    """Returns a hint if a record's cells contradict the settings, else ""."""
    if cells[0].startswith(b"ticdc-meta$"):
        return (
            "the file begins with a header line: set `output-field-header` in [sink.csv] to true, as in the changefeed;"
            " " + AS_FILES_SHOW
        )
    start = form.delimiter.join(cells[:3])
    quoted, bare = _QUOTED.match(start), _BARE.match(start)
    quote, delimiter = (quoted[1], quoted[2]) if quoted else (b"", bare[1] if bare else b"")
    if (quoted and quote != form.quote) or (bare and len(cells) < 3 and form.quote):
        return _other("quote", form.quote, quote)
    if delimiter and delimiter != form.delimiter and len(cells) < 3:
        return _other("delimiter", form.delimiter, delimiter)
    return _suspected_switch(cells, form)


def _suspected_terminator(record: bytes, form: RowForm) -> str:
    """Returns a hint if the terminator probably has a CR: a text that ends with CR is quoted, or has it escaped."""
    if form.terminator != b"\n" or not record.endswith(b"\r"):
        return ""
    return (
        "`terminator` in [sink] is '\\n' here, and looks to be '\\r\\n' in the changefeed, as it is where it is not"
        " set; " + AS_FILES_SHOW
    )


def _suspected_switch(cells: Sequence[bytes], form: RowForm) -> str:
    if len(cells) < 4:
        return ""
    has_ts = bool(_COMMIT_TS.fullmatch(cells[3]))
    if has_ts != (form.commit_ts is not None):
        return _switch("include-commit-ts", 4, "a commit-ts", has_ts)
    has_flag = len(cells) > 3 + has_ts and cells[3 + has_ts] in (b"true", b"false")
    if has_flag != (form.is_update is not None):
        return _switch("output-old-value", 4 + has_ts, "an is-update flag", has_flag)
    return ""


def _other(setting: str, configured: bytes, actual: bytes) -> str:
    ours, theirs = (repr(value.decode(errors="replace")) for value in (configured, actual))
    return f"`{setting}` in [sink.csv] is {ours} here, and looks to be {theirs} in the changefeed; " + AS_FILES_SHOW


def _switch(setting: str, cell: int, what: str, is_present: bool) -> str:
    looks, on = ("looks like", "true") if is_present else ("is not", "false")
    return f"cell {cell} {looks} {what}: `{setting}` in [sink.csv] looks to be {on} in the changefeed; " + AS_FILES_SHOW


def _is_good(records: Sequence[bytes], reader: CellReader, form: RowForm) -> bool:
    return not _refusal(b"".join(record + form.terminator for record in records), reader)


def _refusal(text: bytes, reader: CellReader) -> str:
    try:
        reader.read(text)
    except InvalidCsv as error:
        return str(error)
    return ""


def _shown(text: bytes) -> str:
    shown = repr(text[: _MAX_SHOWN + 1].decode(errors="replace"))
    return shown if len(text) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}.."
