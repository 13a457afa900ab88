"""A feed of one's own, and a replica of it in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers import SqlServer
from tests.support.command_line import CommandLine, command_line
from tests.support.every_target import Duck, Target
from tests.support.feed import Feed, MemoryReplica, Replica
from tests.support.shop import Shop, open_shop


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    return feed


@pytest.fixture
def replica(feed: Feed) -> MemoryReplica:
    return MemoryReplica(feed)


@pytest.fixture(params=["memory", "duckdb", "mariadb", "tidb"])
def target(request: pytest.FixtureRequest, feed: Feed, tmp_path: Path) -> Target:
    if request.param == "memory":
        return Target(MemoryReplica(feed), None)
    if request.param == "duckdb":
        path = tmp_path / "replica.duckdb"
        return Target(Replica(feed, f"duckdb:///{path}"), Duck(path))
    server: SqlServer = request.getfixturevalue(f"fresh_{request.param}")
    return Target(Replica(feed, server.url()), server.execute)


@pytest.fixture(params=["duckdb", "mariadb", "tidb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[str], list[tuple[Any, ...]]]]:
    """Its URL, and a way to ask it."""
    if request.param == "duckdb":
        return f"duckdb:///{tmp_path / 'replica.duckdb'}", Duck(tmp_path / "replica.duckdb")
    server: SqlServer = request.getfixturevalue(f"fresh_{request.param}")
    return server.url(), server.execute


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    """Each kind of server, with no user database in it."""
    found: SqlServer = request.getfixturevalue(f"fresh_{request.param}")
    return found


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A small replica in DuckDB whose hints can be followed."""
    return open_shop(tmp_path, capsys, monkeypatch)
