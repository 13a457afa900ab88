"""A target that is not there when a command starts, or takes no writes: waited for, told once, and again when it is
over."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer import app
from consumer.model.events import Event, Idle, Retrying, RetryPassed
from tests.servers import MariaDb, mariadb_template
from tests.support.feed import Feed, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

PROGRAM = Path(sys.executable).with_name("storage-consumer")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MariaDb]:
    """One that a test may end."""
    server = MariaDb(mariadb_template(tmp_path)).start()
    yield server
    server.stop()


@pytest.fixture
def replica(server: MariaDb, tmp_path: Path) -> Replica:
    feed = Feed(tmp_path / "storage")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    feed.checkpoint(15)
    return Replica(feed, server.url())


class Called(Recorder):
    """Calls `then` at the first failure, and stops `run` once it is idle."""

    def __init__(self, then: threading.Timer) -> None:
        super().__init__()
        self.stop, self.passes, self._then = threading.Event(), list[str](), then

    def tell(self, event: Event) -> None:
        if isinstance(event, Retrying) and not self.retries:
            self._then.start()
        super().tell(event)
        if isinstance(event, RetryPassed):
            self.passes.append(event.what)
        if isinstance(event, Idle):
            self.stop.set()


def test_run_waits_for_a_target_that_is_down_at_its_start(server: MariaDb, replica: Replica) -> None:
    server.kill()
    seen = Called(threading.Timer(0.3, server.start))
    result = app.run(replica.settings(tz="UTC", flush_interval="100ms"), seen, seen.stop, InlineLoader())
    assert "does not answer" in seen.retries[0]
    assert "round" in seen.passes
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok"})
    assert server.execute("SELECT id FROM d.t") == [(1,)]


def test_once_goes_on_when_the_target_comes_in_time(server: MariaDb, replica: Replica) -> None:
    server.kill()
    seen = Called(threading.Timer(0.3, server.start))
    result = app.once(replica.settings(tz="UTC"), seen, InlineLoader())
    assert seen.passes == ["reach the target"]
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok"})


def once(replica: Replica, server: MariaDb, wait: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    words = [str(PROGRAM), "once", "--upstream-uri", f"file://{replica.feed.folder}?protocol=canal-json"]
    words += ["--downstream-uri", server.url(user), "--tz", "UTC", "--max-wait", wait, "--master", "local[1]"]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def test_once_says_whom_it_waits_for_and_ends_with_four(server: MariaDb, replica: Replica) -> None:
    server.kill()
    began = time.monotonic()
    done = once(replica, server, "3s")
    assert 3 <= time.monotonic() - began < 30
    assert done.returncode == 4, done
    (line,) = [line for line in done.stderr.splitlines() if "trying again" in line]
    assert f"at={server.url()}" in line
    assert "until=2" in line
    assert "the target does not answer" in done.stderr.splitlines()[-2]


def test_a_target_that_takes_no_writes_is_waited_for(server: MariaDb, replica: Replica) -> None:
    server.execute("CREATE USER w", "GRANT ALL ON *.* TO w", "REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM w")
    served = Replica(replica.feed, server.url("w"))
    assert served.once(tz="UTC").exit_code == 0
    replica.feed.puts("d.t", 2, {20: (2, "2")})
    replica.feed.checkpoint(25)
    server.execute("SET GLOBAL read_only = 1")
    seen = Called(threading.Timer(1, lambda: server.execute("SET GLOBAL read_only = 0")))
    result = app.once(served.settings(tz="UTC"), seen, InlineLoader())
    assert "takes no writes" in seen.retries[0]
    assert seen.passes
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok"})
    assert server.execute("SELECT id FROM d.t ORDER BY id") == [(1,), (2,)]


class Ends(Recorder):
    """Ends `run` at the first failure."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = threading.Event()

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, Retrying):
            self.stop.set()


@pytest.mark.parametrize("begun", [False, True])
def test_run_that_is_ended_while_the_target_is_away_is_to_be_tried_again(
    server: MariaDb, replica: Replica, begun: bool
) -> None:
    seen = Ends()
    if begun:
        idle = seen.tell

        def tell(event: Event) -> None:
            idle(event)
            if isinstance(event, Idle):
                server.kill()
                replica.feed.puts("d.t", 2, {21: (2, "2")})
                replica.feed.checkpoint(30)

        seen.tell = tell  # type: ignore[method-assign]
    else:
        server.kill()
    result = app.run(replica.settings(tz="UTC", flush_interval="100ms", max_wait="1s"), seen, seen.stop, InlineLoader())
    assert (result.exit_code, result.code) == (4, "target-unavailable")
