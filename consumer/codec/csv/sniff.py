"""Finds the dialects in which some bytes of a data file can be written, from the bytes and the names of their table.

A file seldom leaves one answer alone. Every reading that contradicts nothing is kept, and what several files agree on
is proven.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from consumer.codec.csv.cells import CellReader, InvalidCsv
from consumer.codec.csv.options import BARE, NUMBER, CsvFormat, RowForm, csv_options, family_of, format_fault
from consumer.codec.protocol import AgreedDialect, Sniffed
from consumer.ddl.declared import Definition
from consumer.model.columns import Column, Family
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect
from consumer.model.names import same_name
from consumer.model.times import tso_to_ms

Row = Sequence[tuple[bytes, bool, bool]]
"""Cells, each with whether it is quoted, and whether it is written as the default NULL."""

_OPTIONS = ("terminator", "include-commit-ts", "output-old-value", "output-handle-key")
_LIKELY_MS = range(1_400_000_000_000, 1 << 42)
"""Milliseconds of plausible commit-ts: TiDB is younger than the first of them."""
_HEX = re.compile(rb"(?:[0-9a-f]{2})+")
_BASE64 = re.compile(rb"(?:[0-9A-Za-z+/]{4})*(?:[0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?")
_NUMBERS = BARE | {Family.DECIMAL}


@dataclass(frozen=True, slots=True)
class CsvReading:
    """One way to read a file's rows. `null` is None, and `encoding` "", if no value proves it. `exact`: rows have a
    cell for each column that they should have."""

    terminator: bytes
    include_commit_ts: bool
    output_old_value: bool
    output_handle_key: bool
    exact: bool
    null: bytes | None
    encoding: str

    @property
    def options(self) -> tuple[bytes, bool, bool, bool]:
        """The values that all files of a changefeed have in common."""
        return self.terminator, self.include_commit_ts, self.output_old_value, self.output_handle_key


def readings_of(
    csv: CsvFormat,
    terminator: bytes,
    rows: Sequence[Row],
    columns: Sequence[Column],
    is_known: bool,
    names: Sequence[bytes],
) -> Iterator[CsvReading]:
    """Yields the readings that `rows` do not contradict. `columns` are those of the cells, or more if it is not `known`
    which of them are virtual; `names` are those of a header."""
    longest = max(map(len, rows))
    full = [row for row in rows if row[0][0] != b"D" or len(row) == longest]  # a DELETE can have its key alone
    for commit_ts, old_value, handle in product((True, False), (False, True), (False, True)):
        if names and (commit_ts, old_value) != (b"ticdc-meta$commit-ts" in names, b"ticdc-meta$is-update" in names):
            continue
        begin = 3 + commit_ts + old_value
        exact = all(len(row) == begin + handle + len(columns) for row in full)
        if not exact and (
            is_known or any(not begin + handle < len(row) < begin + handle + len(columns) for row in full)
        ):
            continue
        if commit_ts and not all(_is_commit_ts(row[3]) for row in full):
            continue
        if old_value and not all(row[begin - 1][:2] in ((b"true", False), (b"false", False)) for row in full):
            continue
        values = [row[begin + handle :] for row in full]
        if handle and not _are_handles(csv, [row[begin] for row in full], columns, values if exact else ()):
            continue
        nulls = _nulls(csv, values, columns, exact)
        if len(nulls) > 1 or any(set(null) & set(b"\r\n" + terminator + csv.delimiter.encode()) for null in nulls):
            continue
        if exact and csv.quote and not all(_quoted_as(columns, row) for row in values):
            continue
        null = next(iter(nulls), None)
        encodings = _encodings(csv, null, values, columns) if exact else set()
        if len(encodings) < 2:
            yield CsvReading(terminator, commit_ts, old_value, handle, exact, null, next(iter(encodings), ""))


def _is_commit_ts(cell: tuple[bytes, bool, bool]) -> bool:
    return not cell[1] and cell[0].isdigit() and tso_to_ms(int(cell[0])) in _LIKELY_MS


def _are_handles(
    csv: CsvFormat, cells: Sequence[tuple[bytes, bool, bool]], columns: Sequence[Column], values: Sequence[Row]
) -> bool:
    """Returns whether `cells` can be those with the key: texts, and no commit-ts if an integer is the key."""
    if csv.quote and not all(quoted for _, quoted, _ in cells):
        return False
    keys = [number for number, column in enumerate(columns) if column.is_pk]
    if len(keys) != 1 or family_of(columns[keys[0]]) is not Family.INTEGER:
        return True
    same = all(cell[0] == row[keys[0]][0] for cell, row in zip(cells, values, strict=False))
    return same or not all(map(_is_commit_ts, cells))


def _nulls(csv: CsvFormat, values: Sequence[Row], columns: Sequence[Column], exact: bool) -> set[bytes]:
    """Returns what can only be NULL. With quotes that is what has none and is no number. Without, it is what is no
    number in a column of numbers, and the default, as which no text is written."""
    if csv.quote:
        return {cell for row in values for cell, quoted, _ in row if not quoted and not NUMBER.fullmatch(cell)}
    null_cells = {cell for row in values for cell, _, null in row if null and cell == b"\\N"}
    positions = [number for number, column in enumerate(columns) if family_of(column) in _NUMBERS] if exact else []
    return null_cells | {
        row[position][0] for row in values for position in positions if not NUMBER.fullmatch(row[position][0])
    }


def _quoted_as(columns: Sequence[Column], row: Row) -> bool:
    """Returns whether numbers, and only they, have no quotes."""
    families = [family_of(column) for column in columns]
    return all(
        family is None or (family not in BARE if quoted else family in BARE or not NUMBER.fullmatch(cell))
        for family, (cell, quoted, _) in zip(families, row, strict=True)
    )


def _encodings(csv: CsvFormat, null: bytes | None, values: Sequence[Row], columns: Sequence[Column]) -> set[str]:
    """Returns the encodings that a value proves. Without quotes one text may be a NULL that nothing has shown yet."""
    positions = [number for number, column in enumerate(columns) if family_of(column) is Family.BINARY]
    cells = {row[position][:2] for row in values for position in positions}
    texts = {cell for cell, quoted in cells if cell and cell != null and (quoted or not csv.quote)}
    spare = int(not csv.quote and null is None)
    base64 = {text for text in texts if not _HEX.fullmatch(text)}
    hexadecimal = {text for text in texts if not _BASE64.fullmatch(text)}
    return {name for name, proofs in (("base64", base64), ("hex", hexadecimal)) if len(proofs) > spare}


def agree_on_csv(alike: Sequence[Sniffed]) -> AgreedDialect:
    """Returns the likeliest dialect, and the keys on which the readings differ or that no value shows."""
    groups = _groups(alike)
    readings = groups or [list(alike[0].readings)]
    first = readings[0][0]
    kinds = [{group[0].options[option] for group in readings} for option in range(len(_OPTIONS))]
    unproven = [key for key, options in zip(_OPTIONS, kinds, strict=True) if len(options) > 1]
    nulls = {frozenset(shape.null for shape in group if shape.null is not None) for group in readings}
    encodings = {frozenset(_encoded(group)) for group in readings}
    null = next(iter(next(iter(nulls))), None) if len(nulls) == 1 else None
    encoding = next(iter(next(iter(encodings))), "") if len(encodings) == 1 else ""
    unproven += ["null"] * (null is None) + ["binary-encoding-method"] * (not encoding)
    csv = csv_options(alike[0].dialect)
    options = replace(
        csv,
        null=csv.null if null is None else null.decode(errors="replace"),
        include_commit_ts=first.include_commit_ts,
        output_old_value=first.output_old_value,
        output_handle_key=first.output_handle_key,
        binary_encoding_method=encoding or csv.binary_encoding_method,
    )
    dialect = Dialect("csv", first.terminator, options)
    return AgreedDialect(dialect, first.include_commit_ts, tuple(unproven), consistent=bool(groups))


def _groups(alike: Sequence[Sniffed]) -> list[list[CsvReading]]:
    """Returns the readings that no file contradicts, each with its variants of all files, the likeliest first."""
    ranks = [{shape.options: shape for shape in reversed(sniffed.readings)} for sniffed in alike]
    common = [shape.options for shape in alike[0].readings if all(shape.options in rank for rank in ranks)]
    groups = [[rank[options] for rank in ranks] for options in dict.fromkeys(common)]
    groups = [group for group in groups if len({s.null for s in group} - {None}) < 2 and len(_encoded(group)) < 2]
    return sorted(groups, key=lambda group: -sum(shape.exact for shape in group))


def _encoded(group: Sequence[CsvReading]) -> set[str]:
    return {shape.encoding for shape in group} - {""}


_HEADER = b"ticdc-meta$operation"
_LONGEST_TERMINATOR = 16
_USUAL = (b"\r\n", b"\n")


def sniff_csv(content: bytes, whole: bool, schema: SchemaFile, declared: Mapping[str, Definition]) -> Sniffed | None:
    """Returns the dialects of CSV rows of `schema`'s table, or None if `content` shows none. `declared` is what
    statements declare of its columns: only if they declare all of them is it known which columns rows lack."""
    all_declared = all(column.hidden or same_name(column.name) in declared for column in schema.columns)
    virtual = [name for name, definition in declared.items() if definition.virtual] if all_declared else None
    starts = list(_row_starts(content, schema))
    if not starts:
        return None
    quote, delimiter, begin = starts[0]["q"], starts[0]["d"], starts[0].start()
    header = content[:begin] if content.startswith(_HEADER) else b""
    ends = [start.start() for start in starts if start.start()] + ([len(content)] if whole else [])
    csv = CsvFormat(delimiter.decode(), quote.decode(), output_field_header=bool(header))
    readings: list[CsvReading] = []
    for terminator in _terminators(content, ends, quote):
        rows = _rows(csv, terminator, content[begin : ends[-1]])
        if rows and (not header or header.endswith(terminator)):
            names = header.removesuffix(terminator).split(delimiter) if header else []
            readings += readings_of(csv, terminator, rows, _columns(schema, virtual, names), virtual is not None, names)
    readings.sort(key=lambda shape: (not shape.exact, _oddness(shape.terminator)))
    return Sniffed(Dialect("csv", readings[0].terminator, csv), False, tuple(readings)) if readings else None


def _columns(schema: SchemaFile, virtual: Sequence[str] | None, names: Sequence[bytes]) -> list[Column]:
    """Returns the columns whose cells rows have; if a header names some of them, only those."""
    stored = [
        column for column in schema.columns if not column.hidden and same_name(column.name) not in (virtual or ())
    ]
    named = [column for column in stored if column.name.encode() in names]
    return named or stored


def _row_starts(content: bytes, schema: SchemaFile) -> Iterator[re.Match[bytes]]:
    """Yields where rows begin: ``"I","table","schema",``, all in the dialect of the first."""
    table, database = (_written(name) for name in (schema.table, schema.database))
    pattern = rb"(?P<q>[^0-9A-Za-z]?)[IUD](?P=q)(?P<d>[^\r\nIUD]{1,3}?)(?P=q)%b(?P=q)(?P=d)(?P=q)%b(?P=q)(?P=d)"
    first = None
    for match in re.finditer(pattern % (table, database), content):
        first = first or match
        if (match["q"], match["d"]) == (first["q"], first["d"]):
            yield match


def _written(name: str) -> bytes:
    """Returns a pattern for `name` as a cell: as it is, or with any quote that it contains doubled."""
    marks = sorted({mark for mark in name if not mark.isalnum()})
    spellings = dict.fromkeys([name, *(name.replace(mark, mark * 2) for mark in marks)])
    return b"(?:%b)" % b"|".join(re.escape(spelling.encode()) for spelling in spellings)


def _terminators(content: bytes, ends: Sequence[int], quote: bytes) -> Iterator[bytes]:
    """Yields all that can be the terminator: what stands before each of `ends`, from one byte on, without a quote."""
    heads = [content[max(end - _LONGEST_TERMINATOR, 0) : end] for end in ends]
    for size in range(1, _LONGEST_TERMINATOR + 1):
        candidate = heads[0][-size:] if heads else b""
        if (
            len(candidate) < size
            or (quote and quote in candidate)
            or not all(head.endswith(candidate) for head in heads)
        ):
            return
        yield candidate


def _oddness(terminator: bytes) -> tuple[int, bool, int]:
    """Returns a sort key that is less for likelier terminators: line breaks first, then long ones, and those of letters
    and digits last."""
    usual = _USUAL.index(terminator) if terminator in _USUAL else len(_USUAL)
    return usual, terminator[:1].isalnum(), -len(terminator)


def _rows(csv: CsvFormat, terminator: bytes, content: bytes) -> list[Row]:
    """Returns the cells of all rows; nothing if they are no cells under this terminator."""
    if format_fault(csv, terminator) and format_fault(replace(csv, null=""), terminator):
        return []
    try:
        reader = CellReader(RowForm.of(Dialect("csv", terminator, _readable(csv, terminator))))
        cells = reader.read(content)
    except (ValueError, InvalidCsv):
        return []
    ranges = [slice(*cells.first[number : number + 2]) for number in range(cells.records)]
    return [
        list(
            zip(
                cells.record(number),
                map(bool, cells.quoted[cut]),
                map(bool, cells.null[cut]),
                strict=True,
            )
        )
        for number, cut in enumerate(ranges)
    ]


def _readable(csv: CsvFormat, terminator: bytes) -> CsvFormat:
    """Returns `csv` with a NULL that the dialect can have."""
    return replace(csv, null="") if format_fault(csv, terminator) else csv
