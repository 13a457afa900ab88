"""Which dialects some bytes of a data file can be written in, told from the bytes and the names of their table.

A file seldom leaves one answer alone: every way to read it that contradicts nothing is kept, and what several files
agree on is proven.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from consumer.codec.csv.cells import CellReader, NotCells
from consumer.codec.csv.form import CsvFormat, RowForm, fault_of
from consumer.codec.csv.shapes import Reading, Row, shapes_of
from consumer.codec.protocol import Sniffed
from consumer.ddl.declared import Definition
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect
from consumer.model.names import same_name

_HEADER = b"ticdc-meta$operation"
_LONGEST_TERMINATOR = 16
_USUAL = (b"\r\n", b"\n")


def sniff_csv(content: bytes, whole: bool, schema: SchemaFile, declared: Mapping[str, Definition]) -> Sniffed | None:
    """The dialects of CSV rows of `schema`'s table; None where `content` shows none. `declared` is what statements tell
    of its columns: which of them rows lack is known where they tell of all."""
    known = all(column.hidden or same_name(column.name) in declared for column in schema.columns)
    virtual = [name for name, definition in declared.items() if definition.virtual] if known else None
    starts = list(_row_starts(content, schema))
    if not starts:
        return None
    quote, delimiter, begin = starts[0]["q"], starts[0]["d"], starts[0].start()
    header = content[:begin] if content.startswith(_HEADER) else b""
    ends = [start.start() for start in starts if start.start()] + ([len(content)] if whole else [])
    csv = CsvFormat(delimiter.decode(), quote.decode(), output_field_header=bool(header))
    readings: list[Reading] = []
    for terminator in _terminators(content, ends, quote):
        rows = _rows(csv, terminator, content[begin : ends[-1]])
        if rows and (not header or header.endswith(terminator)):
            names = header.removesuffix(terminator).split(delimiter) if header else []
            readings += shapes_of(csv, terminator, rows, _columns(schema, virtual, names), virtual is not None, names)
    readings.sort(key=lambda shape: (not shape.exact, _oddness(shape.terminator)))
    return Sniffed(Dialect("csv", readings[0].terminator, csv), False, tuple(readings)) if readings else None


def _columns(schema: SchemaFile, virtual: Sequence[str] | None, names: Sequence[bytes]) -> list[Column]:
    """The columns whose cells rows have: of those that a header names, where it does."""
    there = [column for column in schema.columns if not column.hidden and same_name(column.name) not in (virtual or ())]
    named = [column for column in there if column.name.encode() in names]
    return named or there


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


def _terminators(content: bytes, ends: Sequence[int], quote: bytes) -> Iterator[bytes]:
    """All that can be the terminator: what stands before each of `ends`, from one byte on, without a quote."""
    heads = [content[max(end - _LONGEST_TERMINATOR, 0) : end] for end in ends]
    for size in range(1, _LONGEST_TERMINATOR + 1):
        found = heads[0][-size:] if heads else b""
        if len(found) < size or (quote and quote in found) or not all(head.endswith(found) for head in heads):
            return
        yield found


def _oddness(terminator: bytes) -> tuple[int, bool, int]:
    """Less for likelier ones: line breaks first, then long ones, and those of letters and digits last."""
    usual = _USUAL.index(terminator) if terminator in _USUAL else len(_USUAL)
    return usual, terminator[:1].isalnum(), -len(terminator)


def _rows(csv: CsvFormat, terminator: bytes, content: bytes) -> list[Row]:
    """The cells of all rows; none where they are no cells under this terminator."""
    if fault_of(csv, terminator) and fault_of(replace(csv, null=""), terminator):
        return []
    try:
        reader = CellReader(RowForm.of(Dialect("csv", terminator, _readable(csv, terminator))))
        cells = reader.read(content)
    except (ValueError, NotCells):
        return []
    places = [slice(*cells.first[number : number + 2]) for number in range(cells.records)]
    return [
        list(zip(cells.record(number), map(bool, cells.quoted[place]), map(bool, cells.null[place]), strict=True))
        for number, place in enumerate(places)
    ]


def _readable(csv: CsvFormat, terminator: bytes) -> CsvFormat:
    """`csv` with a NULL that the dialect can have."""
    return replace(csv, null="") if fault_of(csv, terminator) else csv
