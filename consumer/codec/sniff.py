"""Which dialect some bytes of a data file are written in, told from the bytes and the names of their table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from consumer.codec.csv_cells import CellReader, NotCells
from consumer.codec.csv_form import RowForm
from consumer.model.columns import Column, Family
from consumer.model.files import SchemaFile
from consumer.model.load import CsvFormat, Dialect
from consumer.model.names import tso_to_ms

_HEADER = b"ticdc-meta$operation"
_LIKELY_MS = range(1_400_000_000_000, 1 << 42)
"""Milliseconds of commit-ts: TiDB is younger than their start."""
_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?")
_HEX = re.compile(rb"(?:[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file showed. `commit_ts` says whether its rows carry one; `proven_null` and `proven_binary` whether a
    NULL, or a binary value that only one encoding can have, was among the rows."""

    dialect: Dialect
    commit_ts: bool
    proven_null: bool = False
    proven_binary: bool = False


def sniff_json(content: bytes, whole: bool) -> Sniffed | None:
    """The dialect of canal-JSON rows; None where `content`, the head of a file or all of it, does not show two ends."""
    text = content.decode(errors="surrogateescape")
    try:
        row, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return None
    rest = text[end:]
    following = rest.find('{"')
    if not isinstance(row, dict) or (following < 0 and not whole):
        return None
    terminator = (rest if following < 0 else rest[:following]).encode(errors="surrogateescape")
    extension = row.get("_tidb")
    has_commit_ts = isinstance(extension, dict) and "commitTs" in extension
    return Sniffed(Dialect("canal-json", terminator), has_commit_ts) if terminator else None


def sniff_csv(content: bytes, whole: bool, schema: SchemaFile) -> Sniffed | None:
    """The dialect of CSV rows of `schema`'s table; None where `content` does not show it."""
    starts = list(_row_starts(content, schema))
    if not starts:
        return None
    quote, delimiter = starts[0]["q"], starts[0]["d"]
    header = content[: starts[0].start()] if content.startswith(_HEADER) else b""
    ends = [start.start() for start in starts if start.start()] + ([len(content)] if whole else [])
    terminator = _terminator(content, ends, quote) if ends else b""
    if not terminator:
        return None
    names = header.removesuffix(terminator).split(delimiter) if header else []
    csv = CsvFormat(delimiter.decode(), quote.decode(), output_field_header=bool(header))
    try:
        reader = CellReader(RowForm.of(Dialect("csv", terminator, csv)))
        rows = _rows(reader, content[starts[0].start() : ends[-1]])
    except (ValueError, NotCells):
        return None
    return _with_cells(csv, terminator, names, rows, schema)


Row = Sequence[tuple[bytes, bool]]
"""Cells, each with whether it is quoted."""


def _row_starts(content: bytes, schema: SchemaFile) -> Iterator[re.Match[bytes]]:
    """Where rows begin: ``"I","table","schema",``, all in the dialect of the first."""
    table, database = (_written(name) for name in (schema.table, schema.database))
    pattern = rb"(?P<q>[^0-9A-Za-z]?)[IUD](?P=q)(?P<d>[^\r\nIUD]{1,3}?)(?P=q)%b(?P=q)(?P=d)(?P=q)%b(?P=q)(?P=d)"
    first = None
    for found in re.finditer(pattern % (table, database), content):
        first = first or found
        if (found["q"], found["d"]) == (first["q"], first["d"]):
            yield found


def _written(name: str) -> bytes:
    """A pattern for `name` as a cell: as it is, or with the quote that is in it doubled, whichever that is."""
    marks = sorted({mark for mark in name if not mark.isalnum()})
    spellings = dict.fromkeys([name, *(name.replace(mark, mark * 2) for mark in marks)])
    return b"(?:%b)" % b"|".join(re.escape(spelling.encode()) for spelling in spellings)


def _terminator(content: bytes, ends: Sequence[int], quote: bytes) -> bytes:
    """What stands before each of `ends`: a line break if it is one, else what they have in common that is no value."""
    heads = [content[:end] for end in ends]
    for usual in (b"\r\n", b"\n"):
        if all(head.endswith(usual) for head in heads):
            return usual
    if len(heads) == 1:
        return b""  # what is value and what is not cannot be told
    common = next((heads[0][-n:] for n in range(16, 0, -1) if all(h.endswith(heads[0][-n:]) for h in heads)), b"")
    # A terminator has no quote in it; what is left of an unquoted value is a number or a word.
    behind = common.rpartition(quote)[2] if quote else common
    return re.sub(rb"\A[0-9A-Za-z]+", b"", behind)


def _rows(reader: CellReader, content: bytes) -> list[Row]:
    cells = reader.read(content)
    return [
        list(zip(cells.record(number), map(bool, cells.quoted[slice(*cells.first[number : number + 2])]), strict=True))
        for number in range(cells.records)
    ]


def _with_cells(
    csv: CsvFormat, terminator: bytes, names: Sequence[bytes], rows: Sequence[Row], schema: SchemaFile
) -> Sniffed:
    """What the cells behind the names tell."""
    at = 3
    has_commit_ts = b"ticdc-meta$commit-ts" in names if names else all(_is_commit_ts(row, at) for row in rows)
    at += has_commit_ts
    old_value = b"ticdc-meta$is-update" in names if names else all(_is_flag(row, at) for row in rows)
    at += old_value
    visible = [column for column in schema.columns if not column.hidden]
    columns = len(names) - at if names else len(visible)
    handle_key = all(len(row) == at + columns + 1 for row in rows)
    at += handle_key
    bare = {cell for row in rows for cell, quoted in row[at:] if not quoted and not _NUMBER.fullmatch(cell)}
    null = csv.null.encode()
    proven_null = bool(csv.quote) and len(bare) == 1
    aligned = [row[at:] for row in rows if len(row) - at == len(visible)] if not names else []
    encoding = _binary_encoding(visible, aligned, csv)
    found = replace(
        csv,
        null=(next(iter(bare)) if proven_null else null).decode(errors="replace"),
        include_commit_ts=has_commit_ts,
        output_old_value=old_value,
        output_handle_key=handle_key,
        binary_encoding=encoding or csv.binary_encoding,
    )
    return Sniffed(Dialect("csv", terminator, found), has_commit_ts, proven_null, bool(encoding))


def _is_commit_ts(row: Row, at: int) -> bool:
    if len(row) <= at or row[at][1] or not row[at][0].isdigit():
        return False
    return tso_to_ms(int(row[at][0])) in _LIKELY_MS


def _is_flag(row: Row, at: int) -> bool:
    """TiDB has no boolean values: unquoted true and false can be nothing else."""
    return len(row) > at and row[at] in ((b"true", False), (b"false", False))


def _binary_encoding(columns: Sequence[Column], rows: Sequence[Row], csv: CsvFormat) -> str:
    """base64 or hex, "" where no value tells."""
    places = [n for n, column in enumerate(columns) if _is_binary(column)]
    values = [row[n][0] for row in rows for n in places if row[n][0] and (row[n][1] or not csv.quote)]
    if any(not _HEX.fullmatch(value) for value in values):
        return "base64"
    return "hex" if any(len(value) % 4 for value in values) else ""


def _is_binary(column: Column) -> bool:
    try:
        return column.family is Family.BINARY
    except KeyError:
        return False  # a view's
