"""Bad lines anywhere in a file, cut however: the others decode as if these were not there, and each is told once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from consumer.codec.csv.options import CsvFormat
from consumer.codec.decoder import SliceDecoder
from consumer.model.bad_rows import Quarantine
from consumer.model.columns import Column
from consumer.model.load import Dialect
from consumer.model.steps import Window
from consumer.model.times import MAX_TSO
from tests.support.build import ID
from tests.support.canal_json import MemoryReader, as_rows, row_line, target_of, whole, with_load
from tests.support.csv_rows import record
from tests.support.examples import examples

COLUMNS = (ID, Column("v", "INT"), Column("s", "VARCHAR"))
TARGET = with_load(target_of(COLUMNS), quarantine=Quarantine(100))
CSV = CsvFormat(include_commit_ts=True)
DIALECTS = [
    *(Dialect("canal-json", terminator) for terminator in (b"\r\n", b"\n")),
    *(Dialect("csv", b"\r\n", replace(CSV, quote=quote)) for quote in ('"', "'", "")),
]
TEXTS = st.sampled_from(["", "a", "é", "\r\n", '"', "'", ",", '\r\n"I",', "null", "\r\nI,t"]) | st.text(max_size=4)


@st.composite
def files(draw: Callable[..., Any], dialect: Dialect) -> tuple[list[bytes], set[int]]:
    """Lines without their terminators, of rising times, and which of them are bad."""
    lines, bad = [], set()
    for number in range(draw(st.integers(1, 12))):
        text = draw(TEXTS)
        if dialect.protocol == "csv":
            line = record("I", (str(number), str(number), text), COLUMNS, dialect.options, 10 + number)  # type: ignore[arg-type]
        else:
            line = row_line("INSERT", {"id": str(number), "v": "1", "s": text}, commit_ts=10 + number)
        if draw(st.sampled_from([False, False, True])):
            bad.add(number)
            worse = [b"\x00" * 9, b"{}", line[:-3] + b"\xff\xfe" + line[-3:], line.replace(b"t", b"u", 3)]
            line = draw(st.sampled_from([*worse, line[: len(line) // 3]]))
        lines.append(line)
    return lines, bad


@examples(50)
@given(st.data(), st.sampled_from(DIALECTS))
def test_every_other_line_decodes(data: st.DataObject, dialect: Dialect) -> None:
    lines, bad = data.draw(files(dialect))
    content = b"".join(line + dialect.terminator for line in lines)
    end = data.draw(st.sampled_from([MAX_TSO, 30, 16]))
    window = Window(0, end)
    piece = replace(whole(content, window, window), position=0)
    cuts = sorted({0, len(content), *data.draw(st.lists(st.integers(0, len(content)), max_size=3))})
    pieces = [replace(piece, offset=a, length=b - a, position=a) for a, b in pairwise(cuts)]
    size = data.draw(st.integers(1, 400))
    decoders = [SliceDecoder(MemoryReader(content), p, TARGET, dialect, COLUMNS, block_bytes=size) for p in pieces]
    found = [row for decoder in decoders for row in as_rows(list(decoder.batches()))]
    wanted = [number for number in range(len(lines)) if number not in bad and 10 + number <= end]
    assert [row[4] for row in found] == [str(number) for number in wanted]
    told = [row for decoder in decoders for row in decoder.stat.quarantined]
    assert len({row.id for row in told}) == len(told)
    starts = list(accumulate((len(line) + len(dialect.terminator) for line in lines), initial=0))
    covered = [[n for n, at in enumerate(starts[:-1]) if row.offset <= at < row.offset + len(row.raw)] for row in told]
    assert all(content[row.offset : row.offset + len(row.raw)] == row.raw for row in told)
    # Where a quote is open, nothing tells whether the line goes on: such a one can be told with the bad one behind it.
    assert {n for of_row in covered for n in of_row} <= bad
    assert {n for of_row in covered for n in of_row} >= {n for n in bad if 10 + n <= end}
    if all(len(of_row) == 1 for of_row in covered):
        assert [row.line - 1 for row in told] == [n for of_row in covered for n in of_row]
        if len(told) == len(bad):  # above `end` nothing is told, and two such lines can be one as well
            assert sum(decoder.stat.rows for decoder in decoders) == len(lines)
