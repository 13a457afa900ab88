"""Every implementation of ports.Sink, empty, and one at work."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.sink.mysql.progress import lease
from consumer.target import Sink
from tests.contract.acts import UPSTREAM
from tests.contract.targets import DuckDb, Lake, Memory, Server, Target
from tests.support.lakes import FORMATS

_labels = itertools.count()
_SERVERS = [f"{kind}_{server}" for kind in ("fresh", "staged") for server in ("mariadb", "mysql", "tidb")]
_TARGETS = ("memory", "duckdb", *_SERVERS, *FORMATS)


@pytest.fixture(autouse=True)
def _told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds a lease taken says so after a second: here nobody dies who has one."""
    monkeypatch.setattr(lease, "_WAIT_SECONDS", 1)


@pytest.fixture(params=_TARGETS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    match request.param:
        case "memory":
            return Memory(f"contract{next(_labels)}")
        case "duckdb":
            return DuckDb(tmp_path / "replica.duckdb")
        case lake if lake in FORMATS:
            return Lake(lake, tmp_path / "lake", request.getfixturevalue("lake_spark"))
        case server:
            fresh = request.getfixturevalue(server.replace("staged", "fresh"))
            return Server(fresh, staged=server.startswith("staged"))


@pytest.fixture
def sink(target: Target) -> Iterator[Sink]:
    sink = target.sink()
    sink.acquire(UPSTREAM)
    yield sink
    sink.close()
