"""`--consistency snapshot`: whatever a reader sees, upstream was in that state, and it never goes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import SqlServer
from tests.support.feed import Replica
from tests.support.moments import State, Upstream, every_state


@pytest.fixture(params=["fresh_mariadb", "fresh_mysql"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_every_state_is_one_of_upstream(
    seed: int, server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(tmp_path / "storage", seed)
    replica = Replica(upstream.feed, server.url())
    with every_state(server, monkeypatch) as seen:
        for _ in range(6):
            play(upstream)
            size = upstream.random.choice(("2600", "5000", "1000000"))
            result = replica.once(consistency="snapshot", publish_bytes=size)
            assert result.exit_code == 0, [(name, table.error) for name, table in result.tables.items() if table.error]
        upstream.now += 1  # a RENAME may have more files of its own moment
        upstream.checkpointed = upstream.now
        upstream.checkpoint()
        result = replica.once(consistency="snapshot")
        assert result.exit_code == 0, [(name, table.error) for name, table in result.tables.items() if table.error]
    check(seen, upstream.states)
    assert seen[-1] == upstream.states[-1]
    assert len(seen) > 10


def play(upstream: Upstream) -> None:
    for _ in range(upstream.random.randint(1, 25)):
        what = upstream.random.random()
        if len(upstream.tables) < 2 or (what < 0.06 and len(upstream.tables) < 6):
            upstream.create()
        elif what < 0.15:
            upstream.change()
        else:
            upstream.move()
        upstream.flush_some()
    upstream.checkpoint()


def check(seen: list[State], states: list[State]) -> None:
    at = 0
    for state in seen:
        assert state in states, f"upstream never was in {state}"
        later = states[at:]
        assert state in later, f"upstream was in {state} before"
        at += later.index(state)
