"""Recorded changefeeds end equal to the upstream's own state on every target; one goes through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.e2e.corpus import Case, read_cases
from tests.e2e.outcome import stepwise, whole
from tests.e2e.targets import File, Server, Target
from tests.support.inline_loader import WithoutSpark

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cdc"
NAMES = [line.split()[0] for line in (FIXTURES / "cases.txt").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {case.name: case for case in read_cases(FIXTURES, tmp_path_factory.mktemp("unpacked"))}


@pytest.fixture(params=["mariadb", "mysql", "duckdb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    return File(tmp_path) if request.param == "duckdb" else Server(request.getfixturevalue(request.param))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkLoader]:
    loader = SparkLoader(SparkSettings("local[2]"))
    yield loader
    loader.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_changefeed_ends_equal(name: str, cases: dict[str, Case], target: Target) -> None:
    """In this process, by the same functions as Spark's tasks."""
    assert list(whole(cases[name], target, WithoutSpark())) == []


@pytest.mark.parametrize("name", ["tiflow/a_basics/cj_handlekey", "ticdc/h_dup/cj_across"])
def test_fed_in_steps_it_is_equal_at_each(name: str, cases: dict[str, Case], tmp_path: Path) -> None:
    assert list(stepwise(cases[name], File(tmp_path), WithoutSpark(), tmp_path)) == []


def test_a_recorded_changefeed_ends_equal_through_spark(
    cases: dict[str, Case], target: Target, spark: SparkLoader
) -> None:
    case = cases["tiflow/d_keys/cj_ext"]
    assert list(whole(case, target, spark)) == []
