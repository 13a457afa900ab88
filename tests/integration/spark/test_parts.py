"""A load that Spark runs in parts is heard of as each of them ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import consumer.spark.load as spark_load
from consumer.model.load import Dialect, FileSlice, LoadPart, LoadTask, Receipt
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.support.build import ID
from tests.support.canal_json import ALL, MemoryReader, join, row_line, target_of

FILES, ROWS = 4, 50


class Counting:
    """A writer that says that all rows are written; not before `gate` is there."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    @contextmanager
    def session(self) -> Iterator[Counting]:
        deadline = time.monotonic() + 60
        while not self._gate.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield self

    def write(self, target: object, changes: object) -> Receipt:
        return Receipt(changes.num_rows, 0)  # type: ignore[attr-defined]


def test_parts_are_told_before_the_load_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spark_load, "PACKED_BYTES", 0)
    monkeypatch.setattr(spark_load, "DECODE_BYTES", 1)
    body, _ = join([row_line("INSERT", {"id": str(n)}, commit_ts=n + 1) for n in range(ROWS)], b"\r\n")
    slices = tuple(FileSlice(f"f{n}", 0, len(body), len(body), n, 0, ALL, ALL) for n in range(FILES))
    task = LoadTask(0, target_of([ID]), ALL, slices, Dialect())
    told: list[LoadPart] = []
    loader = SparkLoader(SparkSettings("local[2]"))

    def moved(part: LoadPart) -> None:
        told.append(part)
        if sum(part.changes for part in told) == FILES * ROWS:
            (tmp_path / "gate").touch()  # all is read, and nothing could be written yet

    try:
        (outcome,) = loader.load([task], Counting(tmp_path / "gate"), MemoryReader(body), moved)
    finally:
        loader.close()
    assert outcome.error is None
    assert [part.changes for part in told if part.changes] == [ROWS] * FILES
    assert sum(part.rows for part in told) == ROWS
    assert 0 <= task.bytes - sum(part.bytes for part in told) < 2 * FILES
