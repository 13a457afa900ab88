"""The changefeed's ``[sink.csv]``: what its keys mean, where they put a row's cells, and whether the ends of rows are
clear."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from consumer.codec.protocol import Option, Undecided
from consumer.errors import BadConfig
from consumer.model.columns import Column, Family
from consumer.model.hints import ACCEPT_LOSS
from consumer.model.load import Dialect
from consumer.model.times import Clock

OPERATIONS = b"IUD"
COMMIT_TS = "include-commit-ts=true in the changefeed's [sink.csv]"
"""The setting that gives rows their commit-ts."""
SETTINGS = (
    "check that [sink.csv] and `terminator` are the changefeed's; if they are, the file is damaged: "
    "restore it, or remove it and continue without its rows: " + ACCEPT_LOSS
)
"""The hint for a file that does not have the form of the settings."""
_LINE_BREAKS = b"\r\n"
_ESCAPED = {b"\\": b"\\", b"r": b"\r", b"n": b"\n"}
"""The meaning of a backslash followed by one of these in escape mode."""
_WRITTEN = {meant: b"\\" + written for written, meant in _ESCAPED.items()}
NUMBER = re.compile(rb"[-+]?[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?")
BARE = frozenset({Family.INTEGER, Family.FLOAT, Family.DOUBLE, Family.BIT, Family.YEAR})
"""Families whose values are written without quotes."""


LEFT_OPEN = ("null", "binary-encoding-method")
"""Keys that matter only to tables with such values."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """The options of CSV with TiCDC's own names and defaults. `quote` is "" in escape mode.

    `include_commit_ts`, `output_old_value`, `output_handle_key`: whether rows have those cells. `output_field_header`:
    whether each file begins with a header line. `binary_encoding_method` is base64 or hex.
    """

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    include_commit_ts: bool = False
    output_old_value: bool = False
    output_handle_key: bool = False
    output_field_header: bool = False
    binary_encoding_method: str = "base64"

    @property
    def timeless(self) -> bool:
        return not self.include_commit_ts


KEYS = {field.name.replace("_", "-"): field.name for field in fields(CsvFormat)}
"""For each key the field that holds it."""


def csv_format(table: Mapping[str, Any]) -> CsvFormat:
    """Returns the format with the values under its keys."""
    return CsvFormat(**{KEYS[key]: value for key, value in table.items()})


def csv_options(dialect: Dialect) -> CsvFormat:
    """Returns the format of a dialect of CSV."""
    return dialect.options if isinstance(dialect.options, CsvFormat) else CsvFormat()


def csv_table(dialect: Dialect) -> Mapping[str, str | bool]:
    """Returns a dialect's values under their keys."""
    return {key: getattr(csv_options(dialect), field) for key, field in KEYS.items()}


@dataclass(frozen=True, slots=True)
class RowForm:
    """A CSV dialect in bytes. `quote` is b"" in escape mode.

    Positions count a row's cells from 0, and are None if rows do not have the cell; `values` is where the columns
    begin. `text_as_null` is the text that is written just as NULL is, None if there is no such text. TIMESTAMPs are
    local times of `clock`.
    """

    delimiter: bytes
    quote: bytes
    terminator: bytes
    null: bytes
    commit_ts: int | None
    is_update: int | None
    values: int
    header: tuple[bytes, ...]
    hexadecimal: bool
    text_as_null: bytes | None
    clock: Clock

    @staticmethod
    def of(dialect: Dialect) -> RowForm:
        """Raises ValueError, with the reason, for settings under which the ends of rows are ambiguous."""
        csv = csv_options(dialect)
        fault = format_fault(csv, dialect.terminator)
        if fault:
            raise ValueError(fault)
        names = [b"operation", b"table", b"schema"]
        if csv.include_commit_ts:
            names.append(b"commit-ts")
        if csv.output_old_value:
            names.append(b"is-update")
        null = csv.null.encode()
        return RowForm(
            csv.delimiter.encode(),
            csv.quote.encode(),
            dialect.terminator,
            null,
            3 if csv.include_commit_ts else None,
            3 + csv.include_commit_ts if csv.output_old_value else None,
            len(names) + csv.output_handle_key,
            tuple(b"ticdc-meta$" + name for name in names) if csv.output_field_header else (),
            csv.binary_encoding_method == "hex",
            None if csv.quote else _text_of(null),
            dialect.clock,
        )


def family_of(column: Column) -> Family | None:
    """Returns None for a column of a view."""
    try:
        return column.family
    except KeyError:
        return None


def format_fault(csv: CsvFormat, terminator: bytes) -> str:
    """Returns why the ends of rows are ambiguous in this form, "" if they are not."""
    delimiter, quote, null = csv.delimiter.encode(), csv.quote.encode(), csv.null.encode()
    if not delimiter or not terminator:
        return "`delimiter` and `terminator` must not be empty"
    if set(delimiter) & set(_LINE_BREAKS) or (set(delimiter) & set(terminator) and not _breaks_line(terminator)):
        return "`delimiter` must not hold CR, LF, nor a character of a `terminator` without CR and LF"
    if set(null) & set(delimiter + terminator + _LINE_BREAKS + quote):
        return "`null` must not hold CR, LF, nor a character of `delimiter`, `quote` or `terminator`"
    if NUMBER.fullmatch(null):
        return f"`null` is {csv.null}, which a number can be too"
    if quote:
        if len(quote) > 1 or quote.isalnum() or quote in b"+-.\r\n":
            return "`quote` must be one character of ASCII, no letter, digit, sign, dot or line break"
        if quote in delimiter or quote in terminator:
            return "`quote` must not be a character of `delimiter` or `terminator`"
        return ""
    if set(delimiter) & set(b"\\rn") or b"\\" in terminator:
        return "without `quote`, `delimiter` must not hold a backslash, n or r, and `terminator` no backslash"
    if (len(null) - len(null.rstrip(b"\\"))) % 2:
        return "without `quote`, `null` must not end with a backslash"
    return ""


def is_splittable(dialect: Dialect) -> bool:
    """Returns whether a file can be read from any position: the bytes around the beginning of a record prove it.

    With a quote that is ``terminator quote [IUD] quote delimiter``. Inside a quoted cell a quote is doubled or ends the
    cell, and what follows an ending quote is a delimiter or a terminator, none of which begins with I, U or D here.
    Without a quote, a terminator with CR or LF is proof, because cells hold them escaped.
    """
    csv = csv_options(dialect)
    if format_fault(csv, dialect.terminator):
        return False
    if csv.quote:
        return csv.delimiter.encode()[0] not in OPERATIONS and dialect.terminator[0] not in OPERATIONS
    return _breaks_line(dialect.terminator)


def _breaks_line(terminator: bytes) -> bool:
    return bool(set(terminator) & set(_LINE_BREAKS))


def _text_of(null: bytes) -> bytes | None:
    """Returns the text that escape mode writes as `null`, None if there is none. `null` has no byte of a delimiter."""
    text = re.sub(rb"\\(.)", lambda match: _ESCAPED.get(match[1], match[0]), null, flags=re.DOTALL)
    written = re.sub(rb"[\\\r\n]", lambda match: _WRITTEN[match[0]], text)
    return text if written == null else None


def is_quoted(column: Column) -> bool:
    """Returns whether the column's cells are strings to TiCDC, which quotes them."""
    return column.family not in BARE


def _delimiter(value: object) -> str:
    text = str(value)
    if not 1 <= len(text) <= 3 or "\r" in text or "\n" in text:
        raise ValueError(f"{text!r} is not a delimiter; give 1 to 3 characters, no line break among them")
    return text


def _quote(value: object) -> str:
    """Returns the one character around texts; "" for none, which the environment writes as ``none``."""
    text = "" if value == "none" else str(value)
    if len(text) > 1:
        raise ValueError(f"{text!r} is not a quote; give one character, or none")
    return text


def _encoding(value: object) -> str:
    text = str(value).lower()
    if text not in ("base64", "hex"):
        raise ValueError(f"'{text}' is not allowed; give base64 or hex")
    return text


def _option(
    key: str, description: str, read: Callable[[object], Any] | None = None, *, may_be_open: bool = False
) -> Option:
    return Option(key, getattr(CsvFormat(), KEYS[key]), description, read, may_be_open)


OPTIONS = (
    _option("delimiter", "What separates the cells of a CSV row: 1 to 3 characters.", _delimiter),
    _option("quote", "What encloses texts in CSV: one character, or `none`.", _quote),
    _option("null", "How CSV writes NULL.", may_be_open=True),
    _option("include-commit-ts", "Whether CSV rows contain their commit-ts.", may_be_open=True),
    _option("binary-encoding-method", "How CSV writes binary values: `base64` or `hex`.", _encoding, may_be_open=True),
    _option("output-old-value", "Whether CSV updates contain the old row.", may_be_open=True),
    _option("output-handle-key", "Whether CSV rows have a cell for their key.", may_be_open=True),
    _option("output-field-header", "Whether CSV files have a header line."),
)


_ENCODING = Undecided(
    lambda column: family_of(column) is Family.BINARY,
    "the binary values of {column} can be base64 or hex, and binary-encoding-method is not set",
    "give the changefeed's own TOML with --config, or set binary-encoding-method in its [sink.csv], or"
    " STORAGE_CONSUMER_CSV_BINARY_ENCODING_METHOD; TiCDC's default is base64",
)
_NULL = Undecided(
    lambda column: column.nullable,
    "{column} may be NULL, and null is not set: without quotes a text can look like NULL",
    "give the changefeed's own TOML with --config, or set null in its [sink.csv], or"
    " STORAGE_CONSUMER_CSV_NULL; TiCDC's default is \\N",
)


def check_csv_options(dialect: Dialect, unproven: Collection[str]) -> None:
    """Raises BadConfig for options under which the ends of rows are ambiguous, and for missing options."""
    if fault := format_fault(csv_options(dialect), dialect.terminator):
        raise BadConfig(
            f"the changefeed's [sink.csv] does not define where cells and rows end: {fault}",
            hint="give the changefeed's own values; if these are they, change them in the changefeed and have TiCDC"
            " write the files again",
        )
    if open_key := next((key for key in unproven if key not in LEFT_OPEN), ""):
        raise BadConfig(
            f"{open_key} is not set, and the file's [consumer] unproven says that the storage does not show it",
            hint=f"set {open_key} in the file as the changefeed has it",
        )


def undecided_csv_options(dialect: Dialect, unproven: Collection[str]) -> tuple[Undecided, ...]:
    """Returns the undecided options. A wrong one would make other values of the same bytes."""
    null_open = "null" in unproven and not csv_options(dialect).quote
    return (_ENCODING,) * ("binary-encoding-method" in unproven) + (_NULL,) * null_open


def csv_key_loss(dialect: Dialect, unsplit: str, way_out: str) -> BadConfig | None:
    """Returns an error if TiCDC does not split updates of keys, as `unsplit` shows, and so old keys are lost, or rows
    that exchange keys."""
    csv = csv_options(dialect)
    if csv.output_old_value and csv.include_commit_ts:
        return None
    key = "output-old-value"
    loss = "CSV updates do not contain their old key: rows under old keys would stay"
    if csv.output_old_value:
        key = "include-commit-ts"
        loss = "rows that exchange their keys in one transaction look the same as deleted rows"
    return BadConfig(
        f"{unsplit} and without {key}, {loss}",
        hint=f"set {key}=true in the changefeed's [sink.csv], or {way_out}, and have TiCDC write the files again; where"
        " keys never change, continue with --accept-key-loss",
    )
