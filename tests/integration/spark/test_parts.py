"""A load that Spark runs in parts is heard of as each of them ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from consumer.model.load import Dialect, FileSlice, LoadPart, LoadTask, Receipt
from consumer.spark import sizes
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.support.build import ID
from tests.support.canal_json import ALL, MemoryReader, join, row_line, target_of

FILES, ROWS = 4, 50
BODY, _ = join([row_line("INSERT", {"id": str(n * 1000)}, commit_ts=n + 1) for n in range(ROWS)], b"\r\n")


class Counting:
    """A writer that says that all rows are written; not before `gate` is there."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    @contextmanager
    def session(self, patience: float = 0.0) -> Iterator[Counting]:
        deadline = time.monotonic() + 60
        while not self._gate.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield self

    def write(self, target: object, changes: object) -> Receipt:
        return Receipt(changes.num_rows, 0)  # type: ignore[attr-defined]


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> LoadTask:
    """A large one of several tasks."""
    monkeypatch.setattr(sizes, "PACKED_BYTES", 0)
    monkeypatch.setattr(sizes, "DECODE_BYTES", 1)
    slices = tuple(FileSlice(f"f{n}", 0, len(BODY), len(BODY), n, 0, ALL, ALL) for n in range(FILES))
    return LoadTask(0, target_of([ID]), ALL, slices, Dialect())


def test_parts_are_told_before_the_load_ends(task: LoadTask, tmp_path: Path) -> None:
    told: list[LoadPart] = []
    loader = SparkLoader(SparkSettings("local[2]"))

    def moved(part: LoadPart) -> None:
        told.append(part)
        if sum(part.changes for part in told) == FILES * ROWS:
            (tmp_path / "gate").touch()  # all is read, and nothing could be written yet

    try:
        (outcome,) = loader.load([task], Counting(tmp_path / "gate"), MemoryReader(BODY), moved)
    finally:
        loader.close()
    assert outcome.error is None
    assert [part.changes for part in told if part.changes] == [ROWS] * FILES
    assert sum(part.rows for part in told) == ROWS
    assert 0 <= task.bytes - sum(part.bytes for part in told) < 2 * FILES


@pytest.mark.parametrize("place", ["", "in the environment", "in the properties"])
def test_rows_wait_in_files_where_nobody_gave_spark_a_folder(
    place: str, task: LoadTask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    if place == "in the environment":
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    conf = (("spark.local.dir", str(tmp_path)),) if place == "in the properties" else ()
    loader = SparkLoader(SparkSettings("local[2]", conf))
    told: list[int] = []
    waiting: list[Path] = []

    def moved(part: LoadPart) -> None:
        told.append(part.changes)
        if sum(told) == FILES * ROWS and not waiting:
            waiting.extend(path for path in temporary.glob("*/*") if path.is_file() and path.name.startswith("rows-"))
            (tmp_path / "gate").touch()

    try:
        (outcome,) = loader.load([task], Counting(tmp_path / "gate"), MemoryReader(BODY), moved)
        assert not list(temporary.glob("*/rows-*"))
    finally:
        loader.close()
    assert outcome.error is None
    assert sum(receipt.puts for receipt in outcome.receipts) == ROWS
    assert bool(waiting) == (not place)
