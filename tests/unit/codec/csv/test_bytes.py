"""The bytes of CSV text, stretch by stretch: the borders of stretches make no difference, and memory is bounded."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from consumer.codec.csv import cells as csv_bytes
from consumer.codec.csv.cells import CellReader
from consumer.codec.csv.options import CsvFormat, RowForm
from consumer.model.load import Dialect

QUOTED = Dialect("csv", b"\r\n", CsvFormat())
ESCAPED = Dialect("csv", b"\r\n", CsvFormat(quote="", null="\\N"))


def escaping_slowly(data: bytes) -> list[int]:
    places, at = [], 0
    while (at := data.find(b"\\", at)) >= 0:
        places.append(at)
        at += 2
    return places


@pytest.mark.parametrize("stretch", [1, 2, 3, 7])
def test_runs_of_backslashes_go_on_over_the_borders_of_stretches(stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_bytes, "STRETCH", stretch)
    drawn = random.Random(stretch)
    for _ in range(200):
        text = bytes(drawn.choices(b"\\\\\\a,", k=drawn.randrange(1, 40)))
        found = csv_bytes.escaping_bytes(np.frombuffer(text, np.uint8))
        assert np.flatnonzero(found).tolist() == escaping_slowly(text)


@pytest.mark.parametrize("dialect", [QUOTED, ESCAPED], ids=["quoted", "escaped"])
@pytest.mark.parametrize("stretch", [1, 2, 5, 64])
def test_cells_are_the_same_wherever_stretches_end(
    stretch: int, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_bytes, "STRETCH", stretch)
    drawn = random.Random(stretch)
    texts = ["", '"', '""', "\\", "\\\\", ",", "\r\n", "x", '",', "\\N", "NULL"]
    for _ in range(60):
        rows = [["".join(drawn.choices(texts, k=drawn.randrange(6))) for _ in range(3)] for _ in range(4)]
        content = b"".join(b",".join(_cell(text, dialect) for text in row) + b"\r\n" for row in rows)
        cells = CellReader(RowForm.of(dialect)).read(content)
        assert [cells.record(n) for n in range(4)] == [[text.encode() for text in row] for row in rows]


def _cell(text: str, dialect: Dialect) -> bytes:
    assert isinstance(dialect.options, CsvFormat)
    if dialect.options.quote:
        return b'"' + text.encode().replace(b'"', b'""') + b'"'
    pairs = (("\\", "\\\\"), ("\r", "\\r"), ("\n", "\\n"), (",", "\\,"))
    for plain, written in pairs:
        text = text.replace(plain, written)
    return text.encode()


@pytest.mark.parametrize(
    ("dialect", "content"),
    [
        (QUOTED, b'"I","' + b'""' * (4 << 20) + b'"\r\n'),
        (QUOTED, b'"I","' + b",\r\n" * (3 << 20) + b'"\r\n'),
        (ESCAPED, b"I," + b"\\\\" * (4 << 20) + b"\r\n"),
        (ESCAPED, b"I," + b"\\," * (4 << 20) + b"\r\n"),
    ],
    ids=["quotes", "delimiters in quotes", "backslashes", "escaped delimiters"],
)
def test_a_text_of_nothing_but_marks_takes_a_few_bytes_for_each_of_its_own(dialect: Dialect, content: bytes) -> None:
    reader = CellReader(RowForm.of(dialect))
    tracemalloc.start()
    try:
        cells = reader.read(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cells.records == 1
    assert peak < 6 * len(content) + (64 << 20)
