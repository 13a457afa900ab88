"""Whatever TiCDC may write, cut however, decodes to what a plain decoder makes of it line by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.codec.change_table import change_schema
from consumer.codec.decoder import SliceDecoder
from consumer.errors import ConsumerError
from consumer.model.columns import Column
from consumer.model.load import FileSlice, LoadTarget
from consumer.model.steps import Window
from tests.support.canal_json import MemoryReader, as_rows, decode_slowly, dialect, join, row_line, target_of, whole
from tests.support.decoding import gives_rows_or_an_error
from tests.support.examples import examples

TERMINATORS = [
    b"\r\n",
    b"\n",
    b"\n\n",
    b" \n",
    b"|\n",
    b"\n|\n",
    b"\r",
    b"$$",
    b"",
    b"}",
    b"};",
    b",",
    b'"',
    b" ",
    b"ab",
]
NAMES = ["id", "data", "old", "type", "_tidb", "null", "true", "b`t", "es", "Ä", "a b", '"', "\\", "😀", "commitTs"]
TRAPS = [
    "",
    "null",
    "}null",
    "} null",
    "}$${",
    '},{"id":',
    '}ab{"',
    "}|\n{",
    "\r\n",
    "\x00",
    "\x7f\x80",
    "2024-01-01",
    "\\",
]
TEXTS = st.sampled_from(TRAPS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
BYTES = st.binary(max_size=6).map(lambda value: value.decode("latin-1"))
TIMES = st.integers(1, 12)
EXAMPLES = examples(60)


@st.composite
def targets(draw: Callable[..., Any]) -> LoadTarget:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    columns = [Column(name, draw(st.sampled_from(["VARCHAR", "BLOB", "INT"]))) for name in names]
    key = draw(st.lists(st.sampled_from(range(len(names))), max_size=len(names), unique=True))
    return target_of(columns, key)


@st.composite
def rows(draw: Callable[..., Any], target: LoadTarget) -> bytes:
    """One line: any kind, with or without commit-ts, `old` whole, in part or not there."""
    exact = not target.key or draw(st.booleans())
    kind = draw(st.sampled_from(["INSERT", "UPDATE", "UPDATE", "DELETE"]))
    data = draw(images(target))
    old: Any = None
    if kind == "UPDATE":
        before = draw(images(target)) if draw(st.booleans()) else dict(data)
        changed = {name: value for name, value in before.items() if value != data[name]}
        unchanged_key = target.key and all(target.columns[n].name not in changed for n in target.key)
        old = draw(st.sampled_from([[before], [changed], *([None, ..., [], [{}]] if unchanged_key else [])]))
    elif kind == "DELETE" and target.key and draw(st.booleans()):
        data = {target.columns[position].name: data[target.columns[position].name] for position in target.key}
    time = draw(TIMES)
    return row_line(
        kind,
        data,
        commit_ts=(time << 18) + draw(st.integers(0, 2)) if exact else None,
        es=time,
        old=old,
        escaped=draw(st.booleans()),
    )


@st.composite
def images(draw: Callable[..., Any], target: LoadTarget) -> dict[str, str | None]:
    image = {}
    for position, column in enumerate(target.columns):
        values = BYTES if column.type == "BLOB" else TEXTS
        image[column.name] = draw(values if position in target.key else values | st.none())
    return image


@st.composite
def windows(draw: Callable[..., Any]) -> Window:
    after = draw(st.integers(0, 8))
    return Window(after << 18, (after + draw(st.integers(0, 8))) << 18)


@st.composite
def slices(draw: Callable[..., Any], content: bytes) -> list[FileSlice]:
    """Any cut of a file, in the middle of lines and of terminators too."""
    cuts = draw(st.lists(st.integers(0, len(content)), max_size=4))
    bounds = [0, *sorted(cuts), len(content)]
    piece = replace(whole(content), exact=draw(windows()), coarse=draw(windows()), series=draw(st.integers(0, 3)))
    return [
        replace(piece, offset=start, length=stop - start, position=(5 << 40) + start)
        for start, stop in pairwise(bounds)
    ]


@EXAMPLES
@given(st.data())
def test_slices_decode_to_their_lines(data: st.DataObject) -> None:
    target = data.draw(targets())
    terminator = data.draw(st.sampled_from(TERMINATORS))
    content, lines = join(data.draw(st.lists(rows(target), min_size=1, max_size=12)), terminator)
    block_bytes = data.draw(st.sampled_from([64, 100, 333, 1000, 1 << 20]))
    for piece in data.draw(slices(content)):
        decoder = SliceDecoder(MemoryReader(content), piece, target, dialect(terminator), block_bytes=block_bytes)
        tables = list(decoder.batches())
        expected, stat = decode_slowly(lines, piece, target)
        assert as_rows(tables) == expected
        assert decoder.stat == stat
        for table in tables:
            table.validate(full=True)
            assert table.num_rows
            assert table.schema == change_schema(target)


GOOD = row_line("UPDATE", {"id": "2", "v": "ä"}, commit_ts=5, old=[{"id": "1", "v": None}])
PIECES = st.sampled_from(
    [
        *(
            b"null",
            b"true",
            b"{",
            b"}",
            b"[",
            b"]",
            b'"',
            b",",
            b":",
            b"\n",
            b"\r\n",
            b"\\",
            b"\\ud800",
            b"1",
            b"-1",
            b"1e9",
        ),
        *(
            b"\x00",
            b"\xff",
            b" ",
            b'"data":',
            b'"old":',
            b"{}",
            b"[]",
            b"[null]",
            b'"es":',
            b"9" * 20,
            b"}null\r\n",
            GOOD,
        ),
    ]
)


@st.composite
def damaged(draw: Callable[..., Any]) -> bytes:
    content = b"".join(draw(st.lists(st.just(GOOD + b"\r\n"), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content)))
        content = content[:at] + draw(PIECES | st.just(b"")) + content[at + draw(st.integers(0, 9)) :]
    return content


@EXAMPLES
@given(damaged(), st.sampled_from([(0,), ()]), st.sampled_from([64, 1 << 20]))
def test_damaged_bytes_are_rows_or_a_typed_error(content: bytes, key: tuple[int, ...], block_bytes: int) -> None:
    target = target_of([Column("id", "INT"), Column("v", "BLOB")], key)
    decoder = SliceDecoder(MemoryReader(content), whole(content), target, dialect(), block_bytes=block_bytes)
    gives_rows_or_an_error(decoder, whole(content).path)


@EXAMPLES
@given(st.data())
def test_a_broken_line_is_named(data: st.DataObject) -> None:
    target = target_of([Column("id", "INT"), Column("v", "VARCHAR")])
    lines = data.draw(st.lists(rows(target), min_size=1, max_size=8))
    broken = data.draw(st.integers(0, len(lines) - 1))
    lines[broken] = data.draw(st.sampled_from([b"null", b"x", lines[broken][:-1], lines[broken] + b" 1", b"[]"]))
    content, placed = join(lines, b"\r\n")
    offset = data.draw(st.integers(0, placed[broken][0]))
    piece = replace(whole(content), offset=offset, length=len(content) - offset)
    size = data.draw(st.sampled_from([64, 1 << 20]))
    decoder = SliceDecoder(MemoryReader(content), piece, target, dialect(), block_bytes=size)
    with pytest.raises(ConsumerError) as caught:
        list(decoder.batches())
    assert caught.value.line == broken + 1
