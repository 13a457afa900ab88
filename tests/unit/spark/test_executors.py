"""Jobs of a cluster that gives no executors are given up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from consumer.errors import NoExecutors
from consumer.model.load import Dialect, LoadTask
from consumer.spark import executors, load
from consumer.spark.executors import with_executors
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.support.build import ID
from tests.support.canal_json import ALL, MemoryReader, target_of, whole


class Context:
    """`job` runs until it is cancelled."""

    master = "spark://127.0.0.1:7077"

    def __init__(self, properties: Mapping[str, str] = MappingProxyType({})) -> None:
        self._properties = properties
        self.tags: list[str] = []
        self._cancelled = threading.Event()

    def getConf(self) -> Mapping[str, str]:
        return self._properties

    def addJobTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeJobTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:
        assert tag in self.tags
        self._cancelled.set()

    def job(self, seconds: float) -> str:
        if self._cancelled.wait(seconds):
            raise RuntimeError("Job 0 cancelled")
        return "done"


def run(context: Context, seconds: float) -> str:
    with with_executors(cast(Any, context)):
        return context.job(seconds)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 0.05)
    monkeypatch.setattr(executors, "_LOOKS_EVERY", 0.01)


def test_a_job_without_executors_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "executors_of", lambda _: 0)
    context = Context()
    with pytest.raises(NoExecutors, match="gave no executor for") as told:
        run(context, 30)
    assert context.master in told.value.message
    assert not context.tags


def test_a_job_with_executors_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "executors_of", lambda _: 1)
    context = Context()
    assert run(context, 0.3) == "done"
    assert not context.tags


def test_the_error_of_a_job_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "executors_of", lambda _: 1)
    with pytest.raises(ZeroDivisionError), with_executors(cast(Any, Context())):
        raise ZeroDivisionError


@pytest.mark.parametrize(("master", "given_up"), [("spark://127.0.0.1:7077", 1), ("yarn", 0)])
def test_a_standalone_master_is_asked_anew(master: str, given_up: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been started again, and know nothing of the session."""
    ended: list[str] = []

    def starved(_: object) -> None:
        raise NoExecutors("none")

    monkeypatch.setattr(load, "_with_executors", starved)
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    loader = SparkLoader(SparkSettings(master))
    session = SimpleNamespace(spark=SimpleNamespace(sparkContext=context), abandon=lambda: ended.append("ended"))
    loader._session = cast(Any, session)
    task = LoadTask(0, target_of([ID]), ALL, (whole(b""),), Dialect())
    with pytest.raises(NoExecutors):
        loader.load([task], cast(Any, None), MemoryReader(b""))
    assert len(ended) == given_up
    assert (loader._session is None) == bool(given_up)


@pytest.mark.parametrize(("looks", "last"), [([0, 0, 1, 3], 3), ([2], 2)])
def test_executors_that_come_at_once_are_waited_for(
    looks: list[int], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a load is made of goes by the cores of all of them."""
    seen: list[int] = []

    def look(_: object) -> int:
        seen.append(looks[min(len(seen), len(looks) - 1)])
        return seen[-1]

    monkeypatch.setattr(executors, "executors_of", look)
    executors.wait_for_executors(cast(Any, Context()))
    assert seen[-1] == last
    assert len(seen) > len(looks)


def test_without_executors_a_load_begins_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "executors_of", lambda _: 0)
    monkeypatch.setattr(executors, "_FIRST_SECONDS", 0.1)
    executors.wait_for_executors(cast(Any, Context()))


def test_executors_that_come_with_jobs_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(_: object) -> int:
        raise AssertionError("there is nothing to wait for")

    monkeypatch.setattr(executors, "executors_of", look)
    executors.wait_for_executors(cast(Any, Context({"spark.dynamicAllocation.enabled": "true"})))
