"""One history in canal-JSON and in CSV decodes to equal tables, whatever the dialect, wherever the file is cut."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from consumer.codec.change_table import change_schema
from consumer.codec.csv.cells import CellReader, InvalidCsv
from consumer.codec.csv.options import CsvFormat, RowForm, format_fault, is_splittable
from consumer.codec.decoder import SliceDecoder
from consumer.model.columns import Column
from consumer.model.load import Dialect, FileSlice, LoadTarget
from tests.support.canal_json import MemoryReader, join, row_line, target_of, whole
from tests.support.csv_rows import cut_slowly, header, record
from tests.support.decoding import gives_rows_or_an_error
from tests.support.examples import examples

EXAMPLES = examples(50)
LABELS = ("a", "b c", "ü", '"', "\\N", "NULL", "'")
TERMINATORS = [b"\r\n", b"\n", b"\n\n", b"\r", b"|\n", b"$$", b"ab", b"I\n", b" "]
DELIMITERS = [",", "|", "||", "[*]", "\t", "\x01", "I", ";;", "，"]


@st.composite
def formats(draw: Callable[..., Any]) -> Dialect:
    """Any settings under which rows can be told apart. Without quotes: no delimiter that overlaps itself, a terminator
    that no text can hold, and a null that no text can be."""
    quote = draw(st.sampled_from(['"', '"', "'", ""]))
    csv = CsvFormat(
        draw(st.sampled_from(DELIMITERS)),
        quote,
        draw(st.sampled_from(["\\N", "NULL", ""] if quote else ["\\N", "\\0x"])),
        *(draw(st.booleans()) for _ in range(4)),
        binary_encoding_method=draw(st.sampled_from(["base64", "hex"])),
    )
    terminator = draw(st.sampled_from(TERMINATORS))
    assume(not format_fault(csv, terminator))
    assume(quote or (csv.delimiter not in ("||", ";;") and set(terminator) & set(b"\r\n")))
    return Dialect("csv", terminator, csv)


def doubles() -> st.SearchStrategy[str]:
    return st.floats(allow_nan=False, allow_infinity=False).filter(bool).map(lambda number: _plain(repr(number)))


def floats() -> st.SearchStrategy[str]:
    packed = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)
    return packed.map(lambda number: _plain(str(np.float32(struct.unpack("f", struct.pack("f", number))[0]))))


def _options(dialect: Dialect) -> CsvFormat:
    assert dialect.options is None or isinstance(dialect.options, CsvFormat)
    return dialect.options or CsvFormat()


def _plain(text: str) -> str:
    written = format(Decimal(text), "f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def texts(dialect: Dialect) -> st.SearchStrategy[str]:
    csv = _options(dialect)
    terminator = dialect.terminator.decode()
    traps = [csv.delimiter, csv.quote, csv.null, terminator, "\\", "\r\n", "\x00", "I", f"{csv.quote}I{csv.quote}"]
    pieces = st.sampled_from([*traps, "n", "r", "", " "]) | st.text(
        st.characters(exclude_categories=["Cs"]), max_size=4
    )
    return st.lists(pieces, max_size=5).map("".join)


def values(column: Column, dialect: Dialect) -> st.SearchStrategy[str | bytes]:
    match column.type:
        case "INT":
            return st.integers(-(2**31), 2**31 - 1).map(str)
        case "BIT":
            return st.integers(0, 2**64 - 1).map(str)
        case "FLOAT":
            return floats()
        case "DOUBLE":
            return doubles()
        case "DECIMAL":
            return st.decimals(allow_nan=False, allow_infinity=False, places=2).map(lambda number: format(number, "f"))
        case "BLOB":
            return st.binary(max_size=9)
        case "ENUM":
            return st.integers(1, len(LABELS)).map(str)
        case "SET":
            return st.integers(0, 2 ** len(LABELS) - 1).map(str)
        case _:
            return texts(dialect)


@st.composite
def tables(draw: Callable[..., Any], keyless: bool) -> LoadTarget:
    types = [
        "INT",
        "BIT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "BLOB",
        "ENUM",
        "SET",
        "VARCHAR",
        "VARCHAR",
        "JSON",
        "DATETIME",
    ]
    drawn = draw(st.lists(st.sampled_from(types), min_size=1, max_size=6))
    columns = [
        Column(f"c{n}", type_, elements=LABELS if type_ in ("ENUM", "SET") else ()) for n, type_ in enumerate(drawn)
    ]
    key = draw(st.lists(st.sampled_from(range(len(columns))), min_size=1, max_size=2, unique=True))
    return target_of(columns, () if keyless else key)


@st.composite
def images(draw: Callable[..., Any], target: LoadTarget, dialect: Dialect) -> list[str | bytes | None]:
    return [
        draw(values(column, dialect) if n in target.key else values(column, dialect) | st.none())
        for n, column in enumerate(target.columns)
    ]


def canal_image(image: list[str | bytes | None], target: LoadTarget) -> dict[str, str | None]:
    names = [column.name for column in target.columns]
    return {name: v.decode("latin-1") if isinstance(v, bytes) else v for name, v in zip(names, image, strict=True)}


@st.composite
def histories(draw: Callable[..., Any], target: LoadTarget, dialect: Dialect) -> tuple[list[bytes], list[bytes]]:
    """The same changes as canal-JSON lines and as CSV records."""
    csv = _options(dialect)
    layout = target.columns
    lines: list[bytes] = []
    records: list[bytes] = []
    for ts in draw(st.lists(st.integers(1, 2**62), min_size=1, max_size=8)):
        new, old = draw(images(target, dialect)), draw(images(target, dialect))
        kind = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
        if kind == "UPDATE" and csv.output_old_value:
            records += [
                record(operation, image, layout, csv, ts, True) for operation, image in (("D", old), ("I", new))
            ]
            if not target.key:
                lines.append(row_line(kind, canal_image(new, target), commit_ts=ts, old=[canal_image(old, target)]))
                continue
            lines.append(row_line("DELETE", canal_image(old, target), commit_ts=ts))
            kind = "INSERT"
        else:
            records.append(record(kind[0], new, layout, csv, ts))
        image = canal_image(new, target)
        lines.append(row_line(kind, image, commit_ts=ts, old=[image] if kind == "UPDATE" else None))
    return lines, records


@EXAMPLES
@given(st.data())
def test_csv_decodes_to_what_canal_json_decodes_to(data: st.DataObject) -> None:
    dialect = data.draw(formats())
    csv = _options(dialect)
    target = data.draw(tables(keyless=csv.output_old_value and not dialect.timeless and data.draw(st.booleans())))
    lines, records = data.draw(histories(target, dialect))
    names = [column.name for column in target.columns]
    if csv.output_field_header:
        listed = [*names, "virtual"] if data.draw(st.booleans()) else names
        records = [header(listed, csv), *records]
    content, _ = join(records, dialect.terminator)
    assume(content)
    canal = join(lines, b"\r\n")[0]
    decoder = SliceDecoder(MemoryReader(canal), whole(canal), target, Dialect())
    expected = pa.concat_tables([change_schema(target).empty_table(), *decoder.batches()])
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=4)) if is_splittable(dialect) else []
    piece = replace(whole(content), position=0)
    found, rows = [change_schema(target).empty_table()], 0
    for start, stop in pairwise([0, *sorted(cuts), len(content)]):
        part = replace(piece, offset=start, length=stop - start, position=start)
        size = data.draw(st.sampled_from([64, 333, 1 << 20]))
        decoder = SliceDecoder(MemoryReader(content), part, target, dialect, target.columns, block_bytes=size)
        for table in decoder.batches():
            table.validate(full=True)
            assert table.num_rows
            found.append(table)
        rows += decoder.stat.rows
    changes = pa.concat_tables(found)
    assert rows == len(records) - csv.output_field_header
    if dialect.timeless:
        assert set(changes["ts"].to_pylist()) <= {0}
        assert set(changes["series"].to_pylist()) <= {piece.series}
        ranks = changes["rank"].to_pylist()
        assert ranks == sorted(set(ranks))
        assert all(rank > 0 for rank in ranks)
        meta = ["ts", "series", "rank"]
        changes, expected = changes.drop_columns(meta), expected.drop_columns(meta)
    assert changes.to_pylist() == expected.to_pylist()
    assert changes.schema == expected.schema


DIALECTS = [
    Dialect("csv", b"\r\n", CsvFormat(include_commit_ts=True)),
    Dialect("csv", b"\n", CsvFormat("||", "'", "NULL", include_commit_ts=True, output_old_value=True)),
    Dialect("csv", b"|\n", CsvFormat("|", include_commit_ts=True)),
    Dialect("csv", b"\r\n", CsvFormat("[*]", "", include_commit_ts=True, output_field_header=True)),
    Dialect("csv", b"\n", CsvFormat("|", "", "NULL")),
]


@st.composite
def damaged(draw: Callable[..., Any], dialect: Dialect) -> bytes:
    csv = _options(dialect)
    columns = [Column("id", "INT"), Column("v", "BLOB"), Column("x", "VARCHAR")]
    good = [
        record(operation, ["1", b"ab", text], columns, csv, 470611813613961217)
        for operation, text in (("I", 'a"b\\,|'), ("U", None), ("D", "\r\n"))
    ]
    names = [header(["id", "v", "x"], csv)] if csv.output_field_header else []
    content = join([*names, *draw(st.lists(st.sampled_from(good), min_size=1, max_size=3))], dialect.terminator)[0]
    parts = [dialect.terminator, csv.delimiter, csv.quote, csv.null, "\\", "x", "\r", "\n", "1", "I", "true", "\x00"]
    pieces = [part.encode() if isinstance(part, str) else part for part in parts] + [b"\xff", b"", b"\\" * 2]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content)))
        content = content[:at] + draw(st.sampled_from(pieces)) + content[at + draw(st.integers(0, 6)) :]
    return content


@EXAMPLES
@given(st.data(), st.sampled_from(DIALECTS))
def test_cells_are_cut_as_one_byte_after_the_other_cuts_them(data: st.DataObject, dialect: Dialect) -> None:
    content = data.draw(damaged(dialect))
    assume(content)
    cut = cut_slowly(content, _options(dialect), dialect.terminator)
    expected = cut and [[(c.text, c.quoted, c.null) for c in row] for row in cut]
    # A blank line is no row, as in canal-JSON.
    assert found_in(content, dialect) == (expected and [row for row in expected if row != [(b"", False, False)]])


def found_in(content: bytes, dialect: Dialect) -> list[list[tuple[bytes, bool, bool]]] | None:
    try:
        cells = CellReader(RowForm.of(dialect)).read(content)
    except InvalidCsv:
        return None
    return [
        list(zip(cells.record(n), cells.quoted[start:stop].tolist(), cells.null[start:stop].tolist(), strict=True))
        for n, (start, stop) in enumerate(pairwise(cells.first.tolist()))
    ]


@EXAMPLES
@given(st.data(), st.sampled_from(DIALECTS), st.sampled_from([(0,), (0, 2), ()]), st.sampled_from([64, 1 << 20]))
def test_damaged_bytes_are_rows_or_a_typed_error(
    data: st.DataObject, dialect: Dialect, key: tuple[int, ...], block_bytes: int
) -> None:
    content = data.draw(damaged(dialect))
    assume(content)
    target = target_of([Column("id", "INT"), Column("v", "BLOB"), Column("x", "VARCHAR")], key)
    piece: FileSlice = whole(content)
    decoder = SliceDecoder(MemoryReader(content), piece, target, dialect, target.columns, block_bytes=block_bytes)
    gives_rows_or_an_error(decoder, piece.path)
