"""Rows of canal-JSON, written by hand, against what each must become."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from consumer.codec.change_table import META, change_schema
from consumer.codec.decoder import SliceDecoder
from consumer.errors import CannotBeExact, CorruptFile
from consumer.model.columns import Column
from consumer.model.load import FileStat
from consumer.model.steps import Window
from tests.support.canal_json import MemoryReader, as_rows, dialect, row_line, target_of, whole
from tests.support.decoding import ID, KEYED, KEYLESS, V, decode, failure, file_of

B = Column("b", "BLOB")
POSITION = (7 << 40) + 1
"""The rank of the first row of `whole`, in a file without commit-ts."""
ROW = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=1)


def test_the_schema_has_columns_by_position() -> None:
    schema = change_schema(target_of([Column("ts", "INT"), Column("c0", "VARBINARY")]))
    meta = [pa.field("ts", pa.int64()), pa.field("put", pa.bool_()), pa.field("series", pa.int32())]
    assert list(schema) == [
        *meta,
        pa.field("rank", pa.int64()),
        pa.field("c0", pa.large_string()),
        pa.field("c1", pa.large_binary()),
    ]
    assert schema.names[META] == "c0"


def test_each_kind_of_change() -> None:
    content = file_of(
        row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=10),
        row_line("UPDATE", {"id": "1", "v": "b"}, commit_ts=11, old=[{"id": "1", "v": "a"}]),
        row_line("UPDATE", {"id": "2", "v": "b"}, commit_ts=12, old=[{"id": "1", "v": "b"}]),
        row_line("DELETE", {"id": "2", "v": None}, commit_ts=13),
    )
    assert decode(content) == [
        (10, True, 0, 0, "1", "a"),
        (11, True, 0, 0, "1", "b"),
        (12, False, 0, 0, "1", None),
        (12, True, 0, 0, "2", "b"),
        (13, False, 0, 0, "2", None),
    ]


@pytest.mark.parametrize("old", [None, ..., [], [{}], [{"v": "a"}], [{"id": None}], [{"id": "1"}], [None]])
def test_an_update_that_leaves_the_key_is_a_put(old: object) -> None:
    assert decode(file_of(row_line("UPDATE", {"id": "1", "v": "b"}, commit_ts=9, old=old))) == [
        (9, True, 0, 0, "1", "b")
    ]


def test_a_part_of_a_key_may_be_absent_from_old() -> None:
    target = target_of([ID, V, B], (2, 0))
    content = file_of(row_line("UPDATE", {"id": "2", "v": "b", "b": "\xff"}, commit_ts=9, old=[{"id": "1"}]))
    assert decode(content, target) == [
        (9, False, 0, 0, "1", None, b"\xff"),
        (9, True, 0, 0, "2", "b", b"\xff"),
    ]


def test_rows_without_commit_ts_go_by_millisecond_and_place() -> None:
    content = file_of(
        row_line("INSERT", {"id": "1", "v": "a"}, es=4),
        row_line("INSERT", {"id": "2", "v": "a"}, es=5),
        row_line("UPDATE", {"id": "3", "v": "a"}, es=5, old=[{"id": "2"}]),
        row_line("INSERT", {"id": "4", "v": "a"}, commit_ts=6 << 18),
        row_line("DELETE", {"id": "3"}, es=6),
        row_line("INSERT", {"id": "5", "v": "a"}, es=9),
    )
    piece = replace(whole(content), exact=Window(0, 6 << 18), coarse=Window(4 << 18, 6 << 18))
    decoder = SliceDecoder(MemoryReader(content), piece, KEYED, dialect())
    assert as_rows(list(decoder.batches())) == [
        (5 << 18, True, 3, POSITION + 1, "2", "a"),
        (5 << 18, False, 3, -POSITION - 2, "2", "a"),
        (5 << 18, True, 3, POSITION + 2, "3", "a"),
        (6 << 18, True, 0, 0, "4", "a"),
        (6 << 18, False, 3, POSITION + 4, "3", None),
    ]
    assert decoder.stat == FileStat(
        piece.path, rows=6, dropped=1, next_ts=9 << 18, coarse_ts=6 << 18, first_ts=4 << 18, last_ts=6 << 18
    )


def test_commit_ts_is_exact_above_what_a_double_holds() -> None:
    times = [(1 << 53) + 1, (1 << 53) + 2, (1 << 63) - 1]
    rows = decode(file_of(*(row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=ts) for ts in times)))
    assert [row[0] for row in rows] == times


def test_the_window_counts_what_it_leaves_out() -> None:
    content = file_of(*(row_line("INSERT", {"id": str(ts), "v": "a"}, commit_ts=ts) for ts in (9, 5, 6, 8, 7, 12, 4)))
    piece = replace(whole(content), exact=Window(5, 7), seen=(0, 4, 5, 6))
    for block_bytes, blocks in ((1, 2), (1 << 20, 1)):
        decoder = SliceDecoder(MemoryReader(content), piece, KEYED, dialect(), block_bytes=block_bytes)
        batches = list(decoder.batches())
        assert [row[0] for row in as_rows(batches)] == [6, 7]
        assert len(batches) == blocks
        assert decoder.stat == FileStat(piece.path, rows=7, dropped=2, next_ts=8, first_ts=4, last_ts=7, unseen_ts=4)


def test_a_table_with_no_key_gives_whole_old_rows() -> None:
    content = file_of(
        row_line("UPDATE", {"id": "1", "v": "b"}, commit_ts=5, old=[{"id": "1", "v": "a"}]),
        row_line("UPDATE", {"id": "1", "v": None}, commit_ts=6, old=[{"v": "b"}]),
        row_line("UPDATE", {"id": "2", "v": "c"}, commit_ts=7, old=[{"id": "1", "v": None}]),
        row_line("UPDATE", {"id": "2", "v": "c"}, commit_ts=8, old=[{}]),
        row_line("DELETE", {"id": "2", "v": "c"}, commit_ts=9),
    )
    assert decode(content, KEYLESS) == [
        (5, False, 0, 0, "1", "a"),
        (5, True, 0, 0, "1", "b"),
        (6, False, 0, 0, "1", "b"),
        (6, True, 0, 0, "1", None),
        (7, False, 0, 0, "1", None),
        (7, True, 0, 0, "2", "c"),
        (8, False, 0, 0, "2", "c"),
        (8, True, 0, 0, "2", "c"),
        (9, False, 0, 0, "2", "c"),
    ]


@pytest.mark.parametrize("old", [None, ..., []])
def test_a_table_with_no_key_needs_old(old: object) -> None:
    good = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=4)
    error = failure(file_of(good, row_line("UPDATE", {"id": "1", "v": "b"}, commit_ts=5, old=old)), KEYLESS)
    assert isinstance(error, CannotBeExact)
    assert error.line == 2


@pytest.mark.parametrize("old", [{}, [{}, {}], [1], "x", [{"v": 1}]])
def test_a_table_with_no_key_and_an_old_that_is_no_row(old: object) -> None:
    update = row_line("UPDATE", {"id": "1", "v": "b"}, commit_ts=5, old=old)
    assert isinstance(failure(file_of(update), KEYLESS), CorruptFile | CannotBeExact)


def test_a_table_with_no_key_needs_commit_ts() -> None:
    exact = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=4)
    error = failure(file_of(exact, row_line("INSERT", {"id": "1", "v": "b"}, es=5)), KEYLESS)
    assert isinstance(error, CannotBeExact)
    assert (error.line, "commit-ts" in error.message) == (2, True)


def test_only_wanted_columns_are_decoded_in_the_order_wanted() -> None:
    content = file_of(row_line("INSERT", {"a": "1", "v": "x", "z": "2", "id": "3"}, commit_ts=1))
    assert decode(content, target_of([V, ID], (1,))) == [(1, True, 0, 0, "x", "3")]


@pytest.mark.parametrize(
    "name", ["data", "old", "type", "_tidb", "null", "true", "b`t", "commitTs", "c0", "ts", "", '"']
)
def test_any_column_name(name: str) -> None:
    target = target_of([Column(name, "INT"), V])
    content = file_of(row_line("UPDATE", {name: "2", "v": "x"}, commit_ts=1, old=[{name: "1", "v": "x"}]))
    assert decode(content, target) == [(1, False, 0, 0, "1", None), (1, True, 0, 0, "2", "x")]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (b'"\\u0000x"', "\0x"),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"😀\u2028é"'.encode(), "😀\u2028é"),
        (b'"\\ufffd"', "\ufffd"),
        (b'"null"', "null"),
        (b'""', ""),
        (b"null", None),
        (b'"2024-01-01 00:00:00"', "2024-01-01 00:00:00"),
        (b'"2024-01-01"', "2024-01-01"),
        (b'"12:00:00"', "12:00:00"),
        (b'"007"', "007"),
        (b'"\\u003c\\"\\\\\\/\\b\\f\\n\\r\\t"', '<"\\/\b\f\n\r\t'),
        (b'"} null {"', "} null {"),
        (b'"}null"', "}null"),
    ],
)
def test_texts_stay_as_they_are(written: bytes, value: str | None) -> None:
    line = row_line("INSERT", {"id": "1", "v": "?"}, commit_ts=1).replace(b'"?"', written)
    assert decode(file_of(line)) == [(1, True, 0, 0, "1", value)]


def test_all_bytes_of_a_binary_column() -> None:
    every = bytes(range(256))
    for escaped in (True, False):
        line = row_line("INSERT", {"id": "1", "b": every.decode("latin-1")}, commit_ts=1, escaped=escaped)
        assert decode(file_of(line), target_of([ID, B])) == [(1, True, 0, 0, "1", every)]


def test_blank_lines_are_skipped_but_counted() -> None:
    good = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=1)
    content = b"\r\n" + file_of(good) + b" \t\r\n\n" + file_of(good)
    assert len(decode(content)) == 2
    assert failure(content + b"x\r\n").line == 6


def test_deep_nesting_in_a_member_that_is_not_wanted() -> None:
    deep = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=1).replace(
        b'"sql":""', b'"sql":' + b"[" * 100_000 + b"]" * 100_000
    )
    assert decode(file_of(deep)) == [(1, True, 0, 0, "1", "a")]
    assert isinstance(failure(file_of(deep), target_of([ID, V, Column("w", "INT")])), CorruptFile)


@pytest.mark.parametrize("depth", [300, 1000, 2000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"id":', b"}]")])
@pytest.mark.parametrize(
    "member", [b'"old":null', b'"type":"INSERT"', b'"v":"a"', b'"commitTs":1', b'"es":0', b'"sql":""']
)
def test_deep_nesting_anywhere_is_a_row_or_an_error(member: bytes, opening: bytes, closing: bytes, depth: int) -> None:
    name = member.partition(b":")[0]
    deep = ROW.replace(member, name + b":" + opening * depth + b"1" + closing * depth)
    if name == b'"sql"':
        assert decode(file_of(deep)) == [(1, True, 0, 0, "1", "a")]
    else:
        assert isinstance(failure(file_of(deep)), CorruptFile)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"null", "expected a JSON object, found null"),
        (b"[]", "expected a JSON object"),
        (b"1", "expected a JSON object"),
        (b'"x"', "expected a JSON object"),
        (b"x", "not JSON"),
        (b"{}", "expected `type`"),
        (ROW[:-5], "may be cut off"),
        (ROW + b"null", "not JSON"),
        (ROW + b" null", "not JSON"),
        (ROW + ROW, "not JSON"),
        (b"\xef\xbb\xbf" + ROW, "not JSON"),
        (ROW.replace(b"INSERT", b"QUERY"), 'found "QUERY"'),
        (ROW.replace(b'"INSERT"', b"null"), "expected `type`"),
        (ROW.replace(b'"a"', b"1"), "column v to be a string or null, found 1"),
        (ROW.replace(b'"a"', b"true"), "column v to be a string or null"),
        (ROW.replace(b'"a"', b'{"x":1}'), "column v to be a string or null"),
        (ROW.replace(b'"a"', b'"\\ud800"'), "not JSON"),
        (ROW.replace(b'"a"', b'"\\udc00x"'), "not JSON"),
        (ROW.replace(b'"a"', b'"\xff"'), "not JSON"),
        (ROW.replace(b'"a"', b'"\xed\xa0\x80"'), "not JSON"),
        (ROW.replace(b'"v":"a"', b'"v":"a","v":"b"'), "specified twice"),
        (row_line("INSERT", {}, commit_ts=1, data=[]), "array of one object, found an array of 0"),
        (row_line("INSERT", {}, commit_ts=1, data=[{}, {}]), "array of one object"),
        (row_line("INSERT", {}, commit_ts=1, data=[None]), "array of one object"),
        (row_line("INSERT", {}, commit_ts=1, data=None), "array of one object"),
        (row_line("INSERT", {}, commit_ts=1, data=...), "array of one object"),
        (row_line("INSERT", {}, commit_ts=1, data={"id": "1"}), "array of one object"),
        (row_line("INSERT", {"id": "1"}, commit_ts=1 << 63), "expected `commitTs` to be a TSO"),
        (row_line("INSERT", {"id": "1"}, commit_ts=-1), "expected `commitTs` to be a TSO"),
        (row_line("INSERT", {"id": "1"}, _tidb={"commitTs": "5"}), "expected `commitTs` to be a TSO"),
        (row_line("INSERT", {"id": "1"}, _tidb=[5]), "expected `_tidb` to be an object"),
        (row_line("INSERT", {"id": "1"}, es=...), "expected `commitTs` or `es`"),
        (row_line("INSERT", {"id": "1"}, es=1 << 45), "expected `commitTs` or `es`"),
        (row_line("INSERT", {"id": "1"}, _tidb={}, es=-1), "expected `commitTs` or `es`"),
        (row_line("UPDATE", {"id": "1", "v": "a"}, commit_ts=1, old=[{}, {}]), "not a row change"),
        (row_line("UPDATE", {"id": "1", "v": "a"}, commit_ts=1, old=[{"id": 1}]), "not a row change"),
        (row_line("UPDATE", {"id": "1", "v": "a"}, commit_ts=1, old={"id": "1"}), "not a row change"),
    ],
)
def test_a_line_that_is_no_row(line: bytes, says: str) -> None:
    good = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=1)
    for before, after in ((0, 0), (1, 0), (0, 1), (5, 4)):
        error = failure(file_of(*[good] * before, line, *[good] * after))
        assert isinstance(error, CorruptFile)
        assert says in error.message
        assert error.line == before + 1


def test_a_bad_line_counts_from_the_start_of_the_file() -> None:
    content = file_of(*[ROW] * 9, b"x", ROW)
    piece = replace(whole(content), offset=len(ROW) * 5, length=len(content) - len(ROW) * 5)
    with pytest.raises(CorruptFile) as caught:
        decode(content, piece=piece, block_bytes=64)
    assert caught.value.line == 10
    assert str(caught.value).startswith("d.t: d/t/1/CDC1.json:10: ")


def test_the_wrong_terminator() -> None:
    assert "terminator" in failure(ROW + b"$$" + ROW + b"$$").hint


def test_a_character_above_a_byte_in_a_binary_column() -> None:
    lines = [row_line("INSERT", {"id": "1", "b": text}, commit_ts=ts) for ts, text in ((1, "Ā"), (5, "\xff"), (6, "Ā"))]
    content = file_of(*lines)
    piece = replace(whole(content), exact=Window(2, 9))
    with pytest.raises(CorruptFile, match="column b") as caught:
        decode(content, target_of([ID, B]), piece)
    assert caught.value.line == 3


def test_a_delete_that_carries_another_key() -> None:
    content = file_of(row_line("DELETE", {"id": "1"}, commit_ts=1), row_line("DELETE", {"v": "1"}, commit_ts=1))
    error = failure(content)
    assert isinstance(error, CannotBeExact)
    assert ("key (id), only the columns (v)" in error.message, error.line) == (True, 2)


@pytest.mark.parametrize("kind", ["INSERT", "DELETE"])
def test_a_key_that_is_null(kind: str) -> None:
    error = failure(file_of(row_line(kind, {"id": None, "v": "a"}, commit_ts=1)))
    assert isinstance(error, CannotBeExact)
    assert "NULL in id" in error.message
