"""How rows get from one half of a large load to the other: by Spark, or in files of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from consumer.errors import TargetUnavailable
from consumer.spark.buckets import SHUFFLED, Exchange, in_files

ROWS = pa.table({
    "ts": pa.array([1, 2, 3, 4], pa.int64()),
    "c0": pa.array(["a", None, "", "é"], pa.large_string()),
    "c1": pa.array([b"\0", b"x" * 100, None, b""], pa.large_binary()),
})  # fmt: skip


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["shuffled", "in files"])
def exchange(request: pytest.FixtureRequest) -> Iterator[Exchange]:
    with nullcontext(SHUFFLED) if request.param == "shuffled" else in_files() as exchange:
        yield exchange


def test_rows_come_out_as_they_went_in(exchange: Exchange) -> None:
    parts = [ROWS, ROWS.slice(1, 2), ROWS.slice(0, 0), pa.concat_tables([ROWS.slice(3), ROWS])]
    bodies = [pa.py_buffer(exchange.put(part)) for part in parts]
    for _ in range(2):  # a task may be run again
        assert [exchange.get(body) for body in bodies] == parts


def test_spark_carries_less_than_the_rows_take() -> None:
    rows = pa.concat_tables([ROWS] * 1000).combine_chunks()
    assert len(SHUFFLED.put(rows)) < rows.nbytes // 10


def test_only_a_place_in_a_file_goes_through_spark(temporary: Path) -> None:
    with in_files() as exchange:
        exchange.put(ROWS)
        body = exchange.put(ROWS)
        place = Path(os.fsdecode(body.partition(b" ")[2]))
        assert list(place.parent.glob("rows-*")) == [place]
        assert temporary in place.parents
        assert place.parent.stat().st_mode & 0o077 == 0
        rows = exchange.get(pa.py_buffer(body))
    assert list(temporary.iterdir()) == []
    assert rows == ROWS  # what is read lives on


def test_nothing_is_left_of_a_load_that_fails(temporary: Path) -> None:
    def fails() -> None:
        with in_files() as exchange:
            exchange.put(ROWS)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert list(temporary.iterdir()) == []


def test_a_folder_that_takes_no_more_is_said(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_files() as exchange:
        for folder in temporary.iterdir():
            folder.rmdir()
        with pytest.raises(TargetUnavailable, match=f"temporary files {temporary}.* cannot be written"):
            exchange.put(ROWS)
    monkeypatch.setattr("tempfile.tempdir", str(temporary / "away"))
    with pytest.raises(TargetUnavailable, match=f"temporary files {temporary}/away cannot be written"), in_files():
        pass
