"""Rows as TiCDC's own examples write them, dialect by dialect."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import pytest

from consumer.codec.csv.options import CsvFormat, is_splittable
from consumer.codec.decoder import SliceDecoder
from consumer.codec.lines import TAIL_BYTES
from consumer.model.columns import Column
from consumer.model.load import Dialect, FileSlice, FileStat, LoadTarget
from consumer.model.steps import Window
from tests.support import csv_rows
from tests.support.canal_json import MemoryReader, as_rows, target_of, whole
from tests.support.csv_rows import record

WITH_TS = CsvFormat(include_commit_ts=True)
TEXTS = [Column("a", "VARCHAR"), Column("b", "VARCHAR"), Column("c", "VARCHAR")]


def decoder_of(
    content: bytes, columns: list[Column], csv: CsvFormat, terminator: bytes = b"\n", piece: FileSlice | None = None
) -> SliceDecoder:
    target = target_of(columns)
    dialect = Dialect("csv", terminator, csv)
    return SliceDecoder(MemoryReader(content), piece or whole(content), target, dialect, target.columns)


def decoded(content: bytes, columns: list[Column], csv: CsvFormat, terminator: bytes = b"\n") -> list[Any]:
    return as_rows(list(decoder_of(content, columns, csv, terminator).batches()))


@pytest.mark.parametrize(
    ("row", "delimiter", "quote", "types", "values"),
    [
        ('"I","t","d",5,123,"hello,world"', ",", '"', ["INT", "VARCHAR"], ("123", "hello,world")),
        (r"U!t!d!5!a\!b\!c!def", "!", "", ["VARCHAR"] * 2, ("a!b!c", "def")),
        (r"D[*]t[*]d[*]5[*]a\[\*\]b\[\*\]c[*]def", "[*]", "", ["CHAR"] * 2, ("a[*]b[*]c", "def")),
        ("'I','t','d',5,'\\','\\\r','\\\\'", ",", "'", ["TEXT"] * 3, ("\\", "\\\r", "\\\\")),
        ('"I","t","d",5,"a,","a,d",683', ",", '"', ["ENUM", "SET", "BIT"], ("2", "9", "683")),
        ('"I","t","d",5,"129012.1230000",1e+06', ",", '"', ["DECIMAL", "FLOAT"], ("129012.1230000", "1000000")),
        ('"I","t","d",5,"aGVsbG8gd29ybGQ="', ",", '"', ["BLOB"], (b"hello world",)),
        (r"I|t|d|5|\\N|a\r\n|\\|\N", "|", "", ["TEXT"] * 4, ("\\N", "a\r\n", "\\", None)),
        ('"I","t","d",5,"\\N","say ""hi""",\\N', ",", '"', ["TEXT"] * 3, ("\\N", 'say "hi"', None)),
    ],
)  # fmt: skip
def test_examples(row: str, delimiter: str, quote: str, types: list[str], values: tuple[Any, ...]) -> None:
    labels = {"ENUM": ("a", "a,", "b"), "SET": ("a", "b", "c", "d")}
    columns = [Column(f"c{n}", type_, elements=labels.get(type_, ())) for n, type_ in enumerate(types)]
    csv = CsvFormat(delimiter, quote, include_commit_ts=True)
    put = "D" not in row[:2]
    assert decoded(row.encode() + b"\r\n", columns, csv, b"\r\n") == [(5, put, 0, 0, *values)]


def test_hexadecimal() -> None:
    csv = replace(WITH_TS, binary_encoding_method="hex")
    row = b'"I","t","d",5,"68656c6c6f20776f726c64"\n'
    assert decoded(row, [Column("b", "VARBINARY")], csv) == [(5, True, 0, 0, b"hello world")]


def test_what_is_raw_inside_quotes_stays() -> None:
    value = 'a\r\nb\rc\nd\x00\x01\x7f,"I","t\\"'
    row = record("I", ["k", value, ""], TEXTS, WITH_TS, 5) + b"\r\n"
    assert decoded(row * 2, TEXTS, WITH_TS, b"\r\n") == [(5, True, 0, 0, "k", value, "")] * 2


def test_a_null_that_is_empty_is_told_from_an_empty_text_by_its_quotes() -> None:
    csv = replace(WITH_TS, null="")
    assert decoded(b'"I","t","d",5,"k",,""\n', TEXTS, csv) == [(5, True, 0, 0, "k", None, "")]


def test_a_delete_may_have_the_key_alone() -> None:
    """As enable-old-value=false makes it in old releases."""
    content = b'"I","t","d",5,"x",2,"k"\n"D","t","d",6,"k"\n'
    columns = [Column("v", "VARCHAR"), Column("n", "INT"), Column("k", "VARCHAR")]
    target = LoadTarget(target_of([]).load, tuple(columns), ("v", "n", "k"), (2,))
    decoder = SliceDecoder(
        MemoryReader(content), whole(content), target, Dialect("csv", b"\n", WITH_TS), target.columns
    )
    rows = as_rows(list(decoder.batches()))
    assert rows == [(5, True, 0, 0, "x", "2", "k"), (6, False, 0, 0, None, None, "k")]


def test_columns_are_found_by_name_whatever_the_order_of_the_cells() -> None:
    content = b'"I","t","d",5,7,"x"\n'
    layout = (Column("n", "INT"), Column("v", "VARCHAR"))
    target = target_of([Column("v", "VARCHAR"), Column("n", "INT")])
    decoder = SliceDecoder(MemoryReader(content), whole(content), target, Dialect("csv", b"\n", WITH_TS), layout)
    assert as_rows(list(decoder.batches())) == [(5, True, 0, 0, "x", "7")]


@pytest.mark.parametrize("names", ["a,b,c", "a,virtual,b,c"])
def test_a_header_names_the_cells(names: str) -> None:
    """Some releases list virtual columns in the header, which no row has; the handle key has a cell and no name."""
    csv = replace(WITH_TS, output_field_header=True, output_handle_key=True)
    meta = "ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,"
    content = (meta + names + '\n"I","t","d",5,"{1}","x","y","z"\n').encode()
    for cut in range(len(content) + 1):
        pieces = [replace(whole(content), offset=o, length=n) for o, n in ((0, cut), (cut, len(content) - cut))]
        rows = [
            row
            for piece in pieces
            for t in decoder_of(content, TEXTS, csv, piece=piece).batches()
            for row in as_rows([t])
        ]
        assert rows == [(5, True, 0, 0, "x", "y", "z")]


def test_rows_outside_the_window_are_counted() -> None:
    content = b"".join(record("I", ["k", None, None], TEXTS, WITH_TS, ts) + b"\n" for ts in (3, 4, 5, 9, 8, 7))
    decoder = decoder_of(content, TEXTS, WITH_TS, piece=whole(content, Window(3, 5)))
    assert [row[0] for row in as_rows(list(decoder.batches()))] == [4, 5]
    assert decoder.stat == FileStat("d/t/1/CDC1.json", 6, 1, 7, first_ts=3, last_ts=5)


def test_rows_without_commit_ts_have_their_place() -> None:
    content = b"".join(record(op, ["k", None, None], TEXTS, CsvFormat()) + b"\n" for op in "IUD")
    piece = whole(content, Window(99, 99), Window(99, 99))
    decoder = decoder_of(content, TEXTS, CsvFormat(), piece=piece)
    rows = as_rows(list(decoder.batches()))
    assert [row[:4] for row in rows] == [(0, put, 3, (7 << 40) + n) for n, put in ((1, True), (2, True), (3, False))]
    assert decoder.stat == FileStat(piece.path, 3, 0, 0, checksum=zlib.crc32(content))


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 50, 8 << 20])
def test_of_rows_without_a_commit_ts_the_whole_content_is_summed(block_bytes: int, header: bool) -> None:
    rows = b"".join(record("I", [str(n), "x" * n, None], TEXTS, CsvFormat()) + b"\n" for n in range(20))
    names = csv_rows.header([column.name for column in TEXTS], CsvFormat()) + b"\n"
    content = names + rows if header else rows
    csv, target = CsvFormat(output_field_header=header), target_of(TEXTS)
    sums = {}
    for what, form, piece in [
        ("whole", csv, whole(content)),
        ("a part", csv, replace(whole(content), length=len(content) - 5)),
    ]:
        dialect = Dialect("csv", b"\n", options=form)
        decoder = SliceDecoder(MemoryReader(content), piece, target, dialect, target.columns, block_bytes=block_bytes)
        assert sum(table.num_rows for table in decoder.batches()) == 20
        sums[what] = decoder.stat.checksum
    assert sums == {"whole": zlib.crc32(content), "a part": 0}


def test_rows_that_were_written_again_under_another_column_order_are_dropped_unread() -> None:
    """The order of columns is not in a schema file's checksum: what lies at or below the window is never converted."""
    columns = [Column("a", "INT"), Column("b", "ENUM", elements=("x",))]
    content = b'"I","t","d",5,"y",1\n"I","t","d",7,2,"x"\n'
    decoder = decoder_of(content, columns, WITH_TS, piece=whole(content, Window(6, 9)))
    assert as_rows(list(decoder.batches())) == [(7, True, 0, 0, "2", "1")]
    assert decoder.stat.dropped == 1


def test_memory_is_bounded_by_blocks() -> None:
    row = record("I", ["k", "x\r\n" * 30, "y"], TEXTS, WITH_TS, 5) + b"\r\n"
    content = row * 40_000
    sizes: list[int] = []

    class Measured(MemoryReader):
        def read(self, piece: Any, offset: int, length: int) -> bytes:
            sizes.append(length)
            return super().read(piece, offset, length)

    target = target_of(TEXTS)
    decoder = SliceDecoder(
        Measured(content),
        whole(content),
        target,
        Dialect("csv", options=WITH_TS),
        target.columns,
        block_bytes=256 << 10,
    )
    counts = [table.num_rows for table in decoder.batches()]
    assert sum(counts) == 40_000
    assert max(counts) * len(row) <= (256 << 10) + TAIL_BYTES + len(row)
    assert max(sizes) <= (256 << 10) + TAIL_BYTES


@pytest.mark.parametrize(
    ("delimiter", "quote", "terminator", "expected"),
    [
        (",", '"', b"\r\n", True),
        ("||", "'", b"$$", True),
        ("I,", '"', b"\n", False),
        (",", '"', b"U\n", False),
        ("|", "", b"\n", True),
        ("|", "", b"$$", False),
        (",", '"', b"", False),
    ],
)
def test_which_files_can_be_read_from_anywhere(delimiter: str, quote: str, terminator: bytes, expected: bool) -> None:
    assert is_splittable(Dialect("csv", terminator, CsvFormat(delimiter, quote))) is expected
