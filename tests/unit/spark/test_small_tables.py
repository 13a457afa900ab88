"""Small tables of one task are given to the target together: so many, of so many bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from consumer.model.load import LoadTarget, LoadTask, Receipt
from consumer.ports import RangeReader
from consumer.spark import packed
from consumer.spark.packed import TOGETHER_TABLES
from consumer.target import ArrowTable
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.memory.sink import MemorySession

TABLES = TOGETHER_TABLES + 4


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tables each call has had."""
    found: list[int] = []

    def write_packed(
        session: MemorySession, parts: Sequence[tuple[LoadTarget, ArrowTable]]
    ) -> Sequence[Receipt | None]:
        found.append(len(parts))
        return [session.write(*part) for part in parts]

    monkeypatch.setattr(MemorySession, "write_packed", write_packed)
    return found


def replica_of(folder: Path, rows: int = 1) -> MemoryReplica:
    """Table n has n among its values."""
    feed = Feed(folder)
    feed.database("d", 1)
    for number in range(TABLES):
        feed.create(f"d.t{number}", 2 + number)
        feed.puts(f"d.t{number}", 2 + number, {100 + row: (row, str(number)) for row in range(rows)})
    return MemoryReplica(feed)


def check(replica: MemoryReplica, rows: int = 1) -> None:
    assert replica.once(1000).exit_code == 0
    assert replica.tables == {f"d.t{n}": {row: str(n) for row in range(rows)} for n in range(TABLES)}


def test_as_many_as_wait_for_one_another(groups: list[int], tmp_path: Path) -> None:
    check(replica_of(tmp_path / "storage"))
    assert groups == [TOGETHER_TABLES, 4]


def test_a_large_one_does_not_wait(groups: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SMALL_BYTES", 100)
    check(replica_of(tmp_path / "storage", rows=50), rows=50)
    assert groups == []


def test_their_bytes_are_bounded(groups: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "TOGETHER_BYTES", 100)
    check(replica_of(tmp_path / "storage"))
    assert sum(groups) == TABLES
    assert max(groups) <= 4


def test_a_table_that_cannot_be_read_stops_alone(groups: list[int], tmp_path: Path) -> None:
    replica = replica_of(tmp_path / "storage")
    replica.feed.damaged("d.t5", 7)
    assert [name for name, state in states(replica.once(1000)).items() if state == "stopped"] == ["d.t5"]
    assert groups == [TOGETHER_TABLES - 1, 4]


def test_where_it_fails_each_is_written_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_packed(session: MemorySession, parts: Sequence[object]) -> Sequence[Receipt | None]:
        raise RuntimeError("unknown")

    monkeypatch.setattr(MemorySession, "write_packed", write_packed)
    check(replica_of(tmp_path / "storage"))


def test_the_next_ones_are_read_while_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica, reading, seen = replica_of(tmp_path / "storage"), threading.Event(), []
    read_table = packed._read

    def read(task: LoadTask, reader: RangeReader) -> object:
        if task.target.table.table == f"t{TABLES - 1}":
            reading.set()
        return read_table(task, reader)

    def write_packed(session: MemorySession, parts: Sequence[tuple[LoadTarget, ArrowTable]]) -> Sequence[Receipt]:
        seen.append((threading.current_thread().name, reading.wait(10)))
        return [session.write(*part) for part in parts]

    monkeypatch.setattr(packed, "_read", read)
    monkeypatch.setattr(MemorySession, "write_packed", write_packed)
    monkeypatch.setattr("consumer.spark.in_process.AtOnce", packed._ONE_THREAD)
    check(replica)
    assert seen == [("writes_0", True), ("writes_0", True)]


def test_a_large_one_is_written_before_the_next_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, order = Feed(tmp_path / "storage"), []
    feed.database("d", 1)
    for number, rows in enumerate((1, 100, 1)):
        feed.create(f"d.a{number}", 2 + number)
        feed.puts(f"d.a{number}", 2 + number, {100 + row: (row, "x") for row in range(rows)})
    write_some, read_table = packed.write_some, packed._read

    def read(task: LoadTask, reader: RangeReader) -> object:
        order.append(f"read {task.target.table.table}")
        return read_table(task, reader)

    def write(*args: Any) -> object:
        time.sleep(0.2)
        result = write_some(*args)
        order.append("written")
        return result

    monkeypatch.setattr(packed, "SMALL_BYTES", 1000)
    monkeypatch.setattr(packed, "_read", read)
    monkeypatch.setattr(packed, "write_some", write)
    monkeypatch.setattr("consumer.spark.in_process.AtOnce", packed._ONE_THREAD)
    assert MemoryReplica(feed).once(1000).exit_code == 0
    assert order == ["read a0", "read a1", "written", "read a2", "written"]
