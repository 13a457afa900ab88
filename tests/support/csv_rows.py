"""CSV the slow and obvious way, for tests: write records as TiCDC does, cut bytes into cells one byte at a time."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from consumer.codec.csv.options import CsvFormat
from consumer.model.columns import Column, Family

Value = str | bytes | None
"""As a change table has it: numbers, dates and labels' numbers as text, binary as bytes."""
_UNQUOTED = {Family.INTEGER, Family.FLOAT, Family.DOUBLE, Family.BIT, Family.YEAR}


def record(
    operation: str,
    values: Sequence[Value],
    columns: Sequence[Column],
    csv: CsvFormat,
    commit_ts: int = 0,
    is_update: bool = False,
    owner: str = "d.t",
) -> bytes:
    """One record without its terminator."""
    database, _, table = owner.partition(".")
    cells = [string(text, csv) for text in (operation, table, database)]
    if csv.include_commit_ts:
        cells.append(b"%d" % commit_ts)
    if csv.output_old_value:
        cells.append(b"true" if is_update else b"false")
    if csv.output_handle_key:
        cells.append(string("{1, 1}", csv))
    cells += [_cell(value, column, csv) for value, column in zip(values, columns, strict=True)]
    return csv.delimiter.encode().join(cells)


def header(names: Sequence[str], csv: CsvFormat) -> bytes:
    """The header line, without its terminator."""
    meta = ["operation", "table", "schema"]
    meta += ["commit-ts"] * csv.include_commit_ts + ["is-update"] * csv.output_old_value
    return csv.delimiter.join([*(f"ticdc-meta${name}" for name in meta), *names]).encode()


def string(text: str, csv: CsvFormat) -> bytes:
    """A text, quoted or escaped."""
    if csv.quote:
        return (csv.quote + text.replace(csv.quote, csv.quote * 2) + csv.quote).encode()
    written, at = "", 0
    while at < len(text):
        if text.startswith(csv.delimiter, at):
            written += "".join("\\" + character for character in csv.delimiter)
            at += len(csv.delimiter)
        else:
            written += {"\r": "\\r", "\n": "\\n", "\\": "\\\\"}.get(text[at], text[at])
            at += 1
    return written.encode()


def _cell(value: Value, column: Column, csv: CsvFormat) -> bytes:
    if value is None:
        return csv.null.encode()
    if isinstance(value, bytes):
        return string(value.hex() if csv.binary_encoding_method == "hex" else base64.b64encode(value).decode(), csv)
    match column.family:
        case Family.FLOAT | Family.DOUBLE:
            return go_float(value).encode()
        case Family.ENUM:
            return string(column.elements[int(value) - 1], csv)
        case Family.SET:
            return string(",".join(label for n, label in enumerate(column.elements) if int(value) >> n & 1), csv)
        case family:
            return value.encode() if family in _UNQUOTED else string(value, csv)


def go_float(text: str) -> str:
    """Go's shortest form: an exponent of two digits or more where it is below -4 or above 5."""
    number = Decimal(text)
    exponent = number.adjusted() if number else 0
    if -5 < exponent < 6:
        return text
    sign, digits, _ = number.as_tuple()
    written = "".join(map(str, digits)).rstrip("0")
    point = "." if len(written) > 1 else ""
    return f"{'-' * sign}{written[0]}{point}{written[1:]}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


@dataclass(frozen=True)
class Cell:
    text: bytes
    quoted: bool
    null: bool


def cut_slowly(content: bytes, csv: CsvFormat, terminator: bytes) -> list[list[Cell]] | None:
    """The cells of every record, None where the bytes are no records."""
    records: list[list[Cell]] = []
    cells: list[Cell] = []
    at = 0
    while at < len(content):
        cut = _quoted(content, at, csv) if _opens(content, at, csv) else _bare(content, at, csv, terminator)
        if cut is None:
            return None
        cell, at = cut
        cells.append(cell)
        if content.startswith(terminator, at):
            records.append(cells)
            cells = []
            at += len(terminator)
        elif content.startswith(csv.delimiter.encode(), at):
            at += len(csv.delimiter.encode())
            if at == len(content):
                return None
        else:
            return None
    return None if cells else records


def _opens(content: bytes, at: int, csv: CsvFormat) -> bool:
    return bool(csv.quote) and content.startswith(csv.quote.encode(), at)


def _quoted(content: bytes, at: int, csv: CsvFormat) -> tuple[Cell, int] | None:
    quote = csv.quote.encode()
    text = b""
    at += 1
    while True:
        end = content.find(quote, at)
        if end < 0:
            return None
        text += content[at:end]
        if not content.startswith(quote, end + 1):
            return Cell(text, True, False), end + 1
        text += quote
        at = end + 2


def _bare(content: bytes, at: int, csv: CsvFormat, terminator: bytes) -> tuple[Cell, int] | None:
    start = at
    while at < len(content) and not content.startswith((terminator, csv.delimiter.encode()), at):
        at += 1 if csv.quote or content[at] != ord("\\") else 2
    raw = content[start:at]
    if csv.quote:
        return None if csv.quote.encode() in raw else (Cell(raw, False, raw == csv.null.encode()), at)
    if raw == csv.null.encode():
        return Cell(raw, False, True), at
    text = _unescaped(raw, csv)
    return None if text is None else (Cell(text, False, False), at)


def _unescaped(raw: bytes, csv: CsvFormat) -> bytes | None:
    text = b""
    at = 0
    while at < len(raw):
        byte = raw[at : at + 1]
        if byte in b"\r\n":
            return None
        if byte == b"\\":
            at += 1
            byte = raw[at : at + 1]
            meant = {b"r": b"\r", b"n": b"\n", b"\\": b"\\"}.get(byte)
            if meant is None and (not byte or byte not in csv.delimiter.encode()):
                return None
            byte = meant or byte
        text += byte
        at += 1
    return text
