r"""Reads lines of cells with Arrow's CSV reader, and decodes what the cells mean.

Dumpling puts texts in quotes, escapes a quote and a backslash in them by a backslash, and has no raw line break. So a
pair of backslashes, and an escaped quote, each become one byte that no text has raw, and each quote that remains is the
first or the last byte of a cell. With ``--escape-backslash=false`` quotes are doubled, as Arrow reads them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import csv

from consumer.codec.csv.cells import outside_quotes
from consumer.codec.values import unescape
from consumer.model.texts import count_text

_BACKSLASH, _PAIR = b"\\", b"\0"
_SQL_QUOTE, _CSV_QUOTE = b"\x1a", b"\r"
"""The bytes that stand for an escaped quote."""
_MEANINGS = {ord("0"): 0x00, ord("n"): 0x0A, ord("r"): 0x0D}
_SQL_MEANINGS = {**_MEANINGS, ord("Z"): 0x1A, ord('"'): ord('"')}
_WRONG_COUNT = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


class InvalidLine(ValueError):
    """Lines that are no rows; `row`, from 0, is the first of them, as far as that is known."""

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, slots=True)
class CellForm:
    """How lines that end with a line feed are made of cells. `hexadecimal`: bytes are ``x'..'``. `escapes`: backslashes
    escape."""

    separator: bytes
    quote: bytes
    null: bytes
    escapes: bool
    hexadecimal: bool

    def read(self, lines: bytes, names: Sequence[str], wanted: Sequence[str], texts: Collection[str] = ()) -> pa.Table:
        """Returns the cells of the columns `wanted`, as bytes; `names` are all columns of a line. Cells of the columns
        `texts`, of which none is a number, are NULL or in quotes. Raises InvalidLine."""
        breaks = not self.escapes
        if self.escapes:
            self._check_raw(lines)
            if _BACKSLASH in lines:
                lines = lines.replace(_BACKSLASH * 2, _PAIR).replace(_BACKSLASH + self.quote, self._mark)
                breaks = self._mark == _CSV_QUOTE and self._mark in lines  # Arrow takes the mark for the end of a line
            self._check_quotes(lines)
        reading = csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=list(names))
        parsing = csv.ParseOptions(
            delimiter=self.separator.decode(),
            quote_char=self.quote.decode(),
            double_quote=not self.escapes,
            newlines_in_values=breaks,
            ignore_empty_lines=False,
        )
        converting = csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.large_binary()),
            null_values=[self.null.decode()],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=list(wanted),
        )
        try:
            table = csv.read_csv(pa.BufferReader(lines), reading, parsing, converting).combine_chunks()
        except pa.ArrowInvalid as error:
            match = _WRONG_COUNT.search(str(error))
            if match is None:
                raise InvalidLine(f"these are no rows: {error}") from error
            raise InvalidLine(
                f"it has {count_text(int(match[3]), 'value')} for {count_text(int(match[2]), 'column')}",
                int(match[1]) - 1,
            ) from error
        if self.escapes and table.num_rows != lines.count(b"\n"):
            raise InvalidLine("a line break stands within a value without a backslash")
        if not self.hexadecimal:
            self._check_nulls(lines, names, table.select([name for name in wanted if name in texts]))
        return table

    def _check_nulls(self, lines: bytes, names: Sequence[str], texts: pa.Table) -> None:
        """Raises InvalidLine if CSV has another text for NULL than it is read with."""
        if not texts.num_columns:
            return
        data = np.frombuffer(lines, np.uint8)
        ends, _ = outside_quotes(data, self.quote[0], [self.separator[0], 0x0A])
        begins = np.concatenate([[0], ends[:-1] + 1])
        if len(begins) != texts.num_rows * len(names):
            raise InvalidLine("a line break stands within a value without quotes")
        begins = begins.reshape(-1, len(names))
        for name in texts.column_names:
            bare = data[begins[:, names.index(name)]] != self.quote[0]
            nulls = texts.column(name)
            if np.count_nonzero(bare) != nulls.null_count:
                row = int(np.argmax(bare & nulls.is_valid().to_numpy()))
                value = nulls[row].as_py().decode(errors="replace")
                raise InvalidLine(f"a text of {name} is not in quotes, and not what stands for NULL: {value!r}", row)

    def text(self, values: pa.Array) -> pa.Array:
        """Returns what cells mean. Raises CorruptFile."""
        if not self.escapes:
            return values
        meanings = _SQL_MEANINGS if self.hexadecimal else _MEANINGS
        return unescape(values, {_PAIR[0]: _BACKSLASH[0], self._mark[0]: self.quote[0]}, meanings)

    @property
    def _mark(self) -> bytes:
        return _SQL_QUOTE if self.hexadecimal else _CSV_QUOTE

    def _check_raw(self, lines: bytes) -> None:
        for byte in (_PAIR, self._mark):
            if (position := lines.find(byte)) >= 0:
                row = lines.count(b"\n", 0, position)
                raise InvalidLine(f"the byte {byte.hex()} stands in a value without a backslash", row)

    def _check_quotes(self, lines: bytes) -> None:
        """Raises InvalidLine unless the first quote of two begins a cell and the second one ends it."""
        data = np.frombuffer(lines, np.uint8)
        quotes = np.flatnonzero(data == self.quote[0])
        is_border = np.zeros(256, np.bool_)
        is_border[[self.separator[0], 0x0A]] = True
        begins, ends = quotes[0::2], quotes[1::2]
        are_paired = len(begins) == len(ends) and bool(np.all(is_border[data[ends + 1]]))
        if self.hexadecimal:
            is_border[ord("x")] = True
        if not are_paired or not np.all(is_border[data[begins - 1]] | (begins == 0)):
            raise InvalidLine("a quote stands within a value without a backslash")
