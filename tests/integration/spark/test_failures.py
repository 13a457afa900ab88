"""What a task does not expect is a bug; what it expects comes back as a result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.errors import BadConfig, TargetUnavailable
from consumer.model.load import Dialect, LoadTask
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.support.build import ID
from tests.support.canal_json import ALL, MemoryReader, target_of, whole


class Failing:
    """A writer whose sessions cannot be opened."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def session(self) -> object:
        raise self._error


@pytest.fixture(scope="module")
def loader() -> Iterator[SparkLoader]:
    loader = SparkLoader(SparkSettings("local[1]"))
    yield loader
    loader.close()


def task(number: int) -> LoadTask:
    return LoadTask(number, target_of([ID]), ALL, (whole(b""),), Dialect())


def test_an_unexpected_exception_in_a_task_is_not_tried_again(loader: SparkLoader) -> None:
    with pytest.raises(RuntimeError, match="ImportError: no module of that name"):
        loader.load([task(0)], Failing(ImportError("no module of that name")), MemoryReader(b""))


@pytest.mark.parametrize("error", [TargetUnavailable("it went away"), BadConfig("no such user")])
def test_a_session_that_cannot_be_opened_is_every_task_s_error(error: Exception, loader: SparkLoader) -> None:
    outcomes = loader.load([task(0), task(1)], Failing(error), MemoryReader(b""))
    assert [(type(outcome.error), str(outcome.error)) for outcome in outcomes] == [(type(error), str(error))] * 2


def test_a_session_that_cannot_be_opened_leaves_nothing_on_stderr(loader: SparkLoader, capfd) -> None:  # type: ignore[no-untyped-def]
    loader.load([task(0)], Failing(TargetUnavailable("it went away")), MemoryReader(b""))
    assert capfd.readouterr().err == ""
