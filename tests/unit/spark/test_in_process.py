"""Which loads this process runs: those of `in-process-bytes` together, and never more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.errors import JobBroken
from consumer.model.load import LoadTask
from consumer.spark.in_process import InProcessLoader
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.spark.sizes import LARGEST_SHARE_TABLES
from tests.contract.test_loaders import storage, task
from tests.support.feed import Feed, MemoryReplica
from tests.support.observers import Recorder


class Starts(Exception):
    """Spark was asked for."""


class WithoutSpark(SparkLoader):
    """Its cores are known, and no job begins."""

    def _cores(self) -> int:
        return 2

    def _started(self) -> Any:
        raise Starts


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each load that this process has run."""
    found: list[int] = []

    def load(_self: InProcessLoader, tasks: Sequence[LoadTask], *_: object) -> list[Any]:
        found.append(sum(task.bytes for task in tasks))
        return []

    monkeypatch.setattr(InProcessLoader, "load", load)
    return found


TASKS = [task(number, storage()) for number in range(3)]
ONE = TASKS[0].bytes


@pytest.mark.parametrize(
    ("limit", "groups"),
    [
        (0, ["spark 3"]),
        (ONE - 1, ["spark 3"]),
        (ONE, ["spark 3"]),  # each would be one, and all together are too much
        (3 * ONE - 1, ["spark 3"]),
        (3 * ONE, ["here 3"]),
    ],
)
def test_what_is_ready_together_is_run_here_or_in_spark(limit: int, groups: list[str], here: list[int]) -> None:
    loader = WithoutSpark(SparkSettings("local[2]", in_process_bytes=limit))
    assert _where(loader, TASKS, here) == groups
    assert all(size <= limit for size in here)


def test_a_large_one_is_sparks_and_the_small_ones_stay(here: list[int]) -> None:
    large = _larger(TASKS[0])
    loader = WithoutSpark(SparkSettings("local[2]", in_process_bytes=2 * ONE))
    assert _where(loader, [large, *TASKS[1:]], here) == ["here 2", "spark 1"]
    assert here == [2 * ONE]


def test_very_many_small_ones_are_some_loads(here: list[int]) -> None:
    """Each is recorded at its end, and a target has to hold what it gets until then."""
    tasks = [replace(TASKS[0], number=number) for number in range(2 * LARGEST_SHARE_TABLES + 1)]
    loader = WithoutSpark(SparkSettings("local[2]", in_process_bytes=len(tasks) * ONE))
    found = loader.split(tasks)
    assert sorted(task.number for group in found for task in group) == list(range(len(tasks)))
    assert max(map(len, found)) <= LARGEST_SHARE_TABLES


def test_whoever_calls_it_no_load_above_the_limit_is_run_here(here: list[int]) -> None:
    """Loads are divided and run again one by one, too: the load itself decides."""
    for limit in range(0, 4 * ONE, ONE // 2):
        loader = WithoutSpark(SparkSettings("local[2]", in_process_bytes=limit))
        for tasks in (TASKS, TASKS[:2], TASKS[:1], [_larger(TASKS[0])]):
            here.clear()
            bytes_of_all = sum(task.bytes for task in tasks)
            if bytes_of_all <= limit:
                loader.load(tasks, None, None)  # type: ignore[arg-type]
                assert here == [bytes_of_all]
            else:
                with pytest.raises(Starts):
                    loader.load(tasks, None, None)  # type: ignore[arg-type]
                assert here == []


def test_none_begins_after_a_signal(here: list[int]) -> None:
    loader = WithoutSpark(SparkSettings("local[2]", in_process_bytes=ONE))
    loader.abandon()
    with pytest.raises(JobBroken):
        loader.load(TASKS[:1], None, None)  # type: ignore[arg-type]


def test_a_round_by_the_setting_starts_no_spark(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 12: (2, "2")})
    feed.checkpoint(20)
    replica = MemoryReplica(feed)
    settings = replica.settings(in_process_bytes="1MiB", master="no such master")
    result = app.once(settings, Recorder())
    assert (result.exit_code, result.spark_seconds) == (0, 0)
    assert replica.tables == {"d.t": {1: "1", 2: "2"}}


def _where(loader: WithoutSpark, tasks: Sequence[LoadTask], here: list[int]) -> list[str]:
    found = []
    for group in loader.split(tasks):
        ran = len(here)
        try:
            loader.load(group, None, None)  # type: ignore[arg-type]
        except Starts:
            assert len(here) == ran
        found.append(f"{'here' if len(here) > ran else 'spark'} {len(group)}")
    return found


def _larger(small: LoadTask) -> LoadTask:
    pieces = (replace(piece, length=piece.length * 10) for piece in small.slices)
    return replace(small, slices=tuple(pieces))
