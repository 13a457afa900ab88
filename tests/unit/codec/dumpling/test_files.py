"""Files of an export, as tests/support/export.py writes them from values, against these values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer.codec.decoder import SliceDecoder
from consumer.errors import ConsumerError
from consumer.model.columns import Column
from consumer.model.export import DumplingFormat
from consumer.model.load import Dialect, FileSlice, LoadTarget
from consumer.model.steps import Window
from tests.support.canal_json import MemoryReader, target_of
from tests.support.export import Bare, Cell, Export, packed

ID, TEXT = Column("id", "INT", nullable=False, is_pk=True), Column("v", "VARCHAR")
BYTES, BITS = Column("b", "VARBINARY"), Column("bits", "BIT", True, 16)
COLUMNS = (ID, TEXT, BYTES, BITS)
TS = 5 << 40
ROWS: tuple[tuple[Cell, ...], ...] = (
    (1, "plain", b"\x00\xff'\"\\\r\n", b"\x00\x05"),
    (2, None, None, None),
    (-3, "", b"", b"\x01\x00"),
    (4, "NULL", b"NULL", b"\xff\xff"),
    (5, "\\N", b"\\N", b"\x00\x00"),
    (6, "a,b),\n(7,'x');\nINSERT INTO `t` VALUES\n(8", b"),\n(", b"\x00\x01"),
    (7, 'it\'s "so" \\', b"''", b"\x00\x01"),
    (8, "\\\\'\\", b'""', b"\x00\x01"),
    (9, "\0\x1a\r\n\t\x08\x7f", b"\r\n", b"\x00\x01"),
    (10, "日本 😀 \u2028\ufeff", bytes(range(256)), b"\x00\x01"),
    (11, "\ufeff", b"x", b"\x00\x01"),
    (12, "'", b"'", b"\x00\x01"),
    (13, "x'00'", b"x'00'", b"\x00\x01"),
)
EXPECTED = [(str(i), v, b, None if bits is None else str(int.from_bytes(bits))) for i, v, b, bits in ROWS]  # type: ignore[arg-type]

FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sql": ({}, {}),
    "sql with columns": ({"complete_insert": True}, {}),
    "sql without backslashes": ({"escapes": False}, {"escapes": False}),
    "sql in one statement": ({"rows_per_statement": 100}, {}),
    "csv": ({"kind": "csv"}, {}),
    "csv without a header": ({"kind": "csv", "header": False}, {"header": False}),
    "csv without backslashes": ({"kind": "csv", "escapes": False}, {"escapes": False}),
    "csv of other marks": (
        {"kind": "csv", "separator": "|", "quote": "'", "null": "NULL", "terminator": "\n"},
        {"separator": b"|", "quote": b"'", "null": b"NULL", "terminator": b"\n"},
    ),
}
"""By name: how a file is written, and what the reader is told of it."""


def written(
    folder: Path, rows: Sequence[Sequence[Cell]] = ROWS, columns: Sequence[Column] = COLUMNS, **how: Any
) -> Path:
    Export(folder, TS, **how).rows("d.t.000000000", "t", [column.name for column in columns], rows)
    (file,) = folder.iterdir()
    return file


def decoded(
    file: Path,
    told: dict[str, Any] | None = None,
    columns: Sequence[Column] = COLUMNS,
    target: LoadTarget | None = None,
    pieces: int = 1,
    **more: Any,
) -> list[tuple[Any, ...]]:
    """The values of all rows, and nothing else that a change table says."""
    content = file.read_bytes()
    step = -(-len(content) // pieces)
    piece = FileSlice(file.name, 0, step, len(content), 0, 0, Window(0, TS), Window(0, TS), ts=TS)
    dialect = Dialect("dumpling", b"\n", DumplingFormat(**(told or {})))
    found: list[tuple[Any, ...]] = []
    for offset in range(0, len(content), step):
        own = replace(piece, offset=offset, length=min(step, len(content) - offset))
        decoder = SliceDecoder(
            MemoryReader(content), own, target or target_of(columns), dialect, tuple(columns), **more
        )
        for table in decoder.batches():
            for ts, put, series, rank, *values in zip(*(column.to_pylist() for column in table.columns), strict=True):
                assert (ts, put, series, rank) == (TS, True, 0, 0)
                found.append(tuple(values))
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packing", ["", ".gz", ".zst", ".snappy"])
def test_every_form_gives_the_values(form: str, packing: str, tmp_path: Path) -> None:
    how, told = FORMS[form]
    assert decoded(written(tmp_path, packing=packing, **how), told) == EXPECTED


@pytest.mark.parametrize("form", [form for form, (how, _) in FORMS.items() if how.get("escapes", True)])
@pytest.mark.parametrize("pieces", [2, 3, 7, 20])
def test_rows_belong_to_the_slice_that_they_begin_in(form: str, pieces: int, tmp_path: Path) -> None:
    how, told = FORMS[form]
    file = written(tmp_path, ROWS * 3, **how)
    assert decoded(file, told, pieces=pieces, block_bytes=64) == EXPECTED * 3


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    file = written(tmp_path, [(b"x", 1)], [BYTES, ID], complete_insert=True)
    assert decoded(file, columns=(ID, BYTES), target=target_of((ID, BYTES))) == [("1", b"x")]


@pytest.mark.parametrize(
    ("dialect", "value"), [("hex", "00ff"), ("base64", "AP8=")], ids=["snowflake and redshift", "bigquery"]
)
def test_bytes_of_other_output_dialects(dialect: str, value: str, tmp_path: Path) -> None:
    file = written(tmp_path, [(1, value)], (ID, BYTES), kind="csv")
    assert decoded(file, {"binary": dialect}, (ID, BYTES)) == [("1", b"\0\xff")]


@pytest.mark.parametrize("told", [{}, {"escapes": False}], ids=["sql", "told that it has no backslashes"])
@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"INSERT INTO `t` VALUES\n(1,'a'),\n(2,'b')\n", None, "the file is cut off"),
        (b"INSERT INTO `t` VALUES\n(1,'a'),\n(2,'b'),\n", None, "the file is cut off"),
        (b"INSERT INTO `t` VALUES\n(1,'a'),\n(2,'b','c');\n", 3, "it has 3 values for 2 columns"),
        (b"INSERT INTO `t` VALUES\n(1,'a'),\n(2,x'6');\n", 3, "column v"),
        (b"INSERT INTO `t` (`id`,`w`) VALUES\n(1,'a');\n", 1, "the column 'w'"),
        (b"INSERT INTO `t` VALUES\n(1,'a'),\n(x,'b');\n", 3, "'x' is not a number"),
        (b"INSERT INTO `t` VALUES\n(1,'a'),\n(NULL,'b');\n", 3, "NULL in id"),
        (b"INSERT INTO `t` VALUES\n(1,'a'),\n(2,'\xff');\n", 3, "a text is not UTF-8"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    content: bytes, line: int | None, why: str, told: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "d.t.000000000.sql"
    file.write_bytes(content)
    columns = (ID, BYTES if "x'6'" in content.decode(errors="replace") else TEXT)
    why = why if columns[1] is TEXT else "column b"
    if columns[1] is BYTES:
        content = content.replace(b"'a'", b"x'61'")
        file.write_bytes(content)
    with pytest.raises(ConsumerError) as caught:
        decoded(file, told, columns)
    assert why in str(caught.value)
    assert (caught.value.path, bool(caught.value.hint)) == (file.name, True)
    assert line is None or caught.value.line == line


@pytest.mark.parametrize("kind", ["sql", "csv"])
@pytest.mark.parametrize("value", ["it's", 'a "b"', "two\nlines", "nul\0"])
def test_a_file_without_backslashes_is_refused_where_it_was_not_told(kind: str, value: str, tmp_path: Path) -> None:
    if (kind, value) in (("sql", 'a "b"'), ("csv", "it's")):
        return  # the same in both forms
    file = written(tmp_path, [(1, value)], (ID, TEXT), kind=kind, escapes=False)
    with pytest.raises(ConsumerError) as caught:
        decoded(file, {}, (ID, TEXT))
    assert "docs/load-export.md" in caught.value.hint


@pytest.mark.parametrize("escapes", [True, False])
@pytest.mark.parametrize(("null", "told"), [("NULL", "\\N"), ("", "\\N"), ("", "NULL"), ("NULL", ""), ("\\N", "NULL")])
def test_another_text_for_null_is_no_value(null: str, told: str, escapes: bool, tmp_path: Path) -> None:
    """Dumpling puts each text in quotes, so one without them is NULL."""
    file = written(
        tmp_path, [(1, "a", b"b"), (2, None, None)], (ID, TEXT, BYTES), kind="csv", null=null, escapes=escapes
    )
    with pytest.raises(ConsumerError) as caught:
        decoded(file, {"null": told.encode(), "escapes": escapes}, (ID, TEXT, BYTES))
    assert (caught.value.line, "docs/load-export.md" in caught.value.hint) == (3, True)
    rows = decoded(file, {"null": null.encode(), "escapes": escapes}, (ID, TEXT, BYTES))
    assert rows == [("1", "a", b"b"), ("2", None, None)]


@pytest.mark.parametrize("kind", ["sql", "csv"])
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_a_file_that_is_cut_off_behind_its_head(kind: str, packing: str, tmp_path: Path) -> None:
    """Dumpling writes no file without rows. A compressed one shows its emptiness only unpacked."""
    whole = written(tmp_path / "whole", [(1, "a")], (ID, TEXT), kind=kind).read_bytes()
    for size in (*([0] if packing else []), whole.index(b"INSERT") if kind == "sql" else whole.index(b"\n") + 1):
        file = tmp_path / f"d.t.000000000.{kind}{packing}"
        file.write_bytes(packed(whole[:size], packing))
        with pytest.raises(ConsumerError, match="it has no row, and Dumpling writes no such file"):
            decoded(file, columns=(ID, TEXT))


def test_a_header_is_no_row(tmp_path: Path) -> None:
    columns = (Column("k", "VARCHAR", nullable=False, is_pk=True), TEXT)
    file = written(tmp_path / "with", [("a", "b")], columns, kind="csv")
    with pytest.raises(ConsumerError, match="its first line holds the names of the columns"):
        decoded(file, {"header": False}, columns)
    file = written(tmp_path / "without", [("a", "b"), ("k", "v")], columns, kind="csv", header=False)
    assert decoded(file, {"header": False}, columns) == [("a", "b"), ("k", "v")]


def test_a_compressed_file_that_is_cut_off(tmp_path: Path) -> None:
    for packing in (".gz", ".zst", ".snappy"):
        folder = tmp_path / packing
        file = written(folder, ROWS * 50, packing=packing)
        file.write_bytes(file.read_bytes()[:-40])
        with pytest.raises(ConsumerError) as caught:
            decoded(file)
        assert caught.value.path == file.name


def test_leading_zeros_are_no_part_of_a_number(tmp_path: Path) -> None:
    columns = (ID, Column("z", "INT", True, 5), Column("y", "YEAR", True, 4))
    file = written(tmp_path, [(1, Bare("00042"), "0000"), (2, Bare("00000"), "2024")], columns)
    assert decoded(file, columns=columns) == [("1", "42", "0"), ("2", "0", "2024")]
