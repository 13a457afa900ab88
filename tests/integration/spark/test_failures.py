"""What a task raises comes back as a result; what ends Spark itself is told, and Spark is started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from consumer.errors import BadConfig, JobBroken, LoadFailed, TargetUnavailable
from consumer.model.load import Dialect, LoadTask
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.support.build import ID
from tests.support.canal_json import ALL, MemoryReader, target_of, whole


class Failing:
    """A writer whose sessions cannot be opened."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def session(self, patience: float = 0.0) -> object:
        raise self._error


class Dying:
    """A writer that ends its worker."""

    def session(self, patience: float = 0.0) -> object:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


@pytest.fixture(scope="module")
def loader() -> Iterator[SparkLoader]:
    loader = SparkLoader(SparkSettings("local[1]"))
    yield loader
    loader.close()


def task(number: int) -> LoadTask:
    return LoadTask(number, target_of([ID]), ALL, (whole(b""),), Dialect())


def works(loader: SparkLoader) -> bool:
    (outcome,) = loader.load([task(0)], Failing(TargetUnavailable("it went away")), MemoryReader(b""))
    return isinstance(outcome.error, TargetUnavailable)


def test_an_unexpected_exception_in_a_task_is_an_error_of_its_table(loader: SparkLoader) -> None:
    outcomes = loader.load([task(0)], Failing(MemoryError("9 TiB")), MemoryReader(b""))
    assert [(type(outcome.error), "9 TiB" in str(outcome.error)) for outcome in outcomes] == [(LoadFailed, True)]


def test_a_worker_that_dies_breaks_its_job_and_spark_goes_on(loader: SparkLoader) -> None:
    (outcome,) = loader.load([task(0)], Dying(), MemoryReader(b""))
    assert isinstance(outcome.error, JobBroken)
    assert outcome.error.message.startswith("Spark's job ended early: Python worker exited unexpectedly")
    assert works(loader)


def test_a_jvm_that_dies_is_started_anew(loader: SparkLoader, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a trace of PySpark's own, whose connections end."""
    assert works(loader)
    capfd.readouterr()
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    (outcome,) = loader.load([task(0)], Failing(TargetUnavailable("it went away")), MemoryReader(b""))
    assert isinstance(outcome.error, JobBroken)
    assert works(loader)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("error", [TargetUnavailable("it went away"), BadConfig("no such user")])
def test_a_session_that_cannot_be_opened_is_every_task_s_error(error: Exception, loader: SparkLoader) -> None:
    outcomes = loader.load([task(0), task(1)], Failing(error), MemoryReader(b""))
    assert [(type(outcome.error), str(outcome.error)) for outcome in outcomes] == [(type(error), f"d.t: {error}")] * 2


def test_a_session_that_cannot_be_opened_leaves_nothing_on_stderr(loader: SparkLoader, capfd) -> None:  # type: ignore[no-untyped-def]
    loader.load([task(0)], Failing(TargetUnavailable("it went away")), MemoryReader(b""))
    assert capfd.readouterr().err == ""
