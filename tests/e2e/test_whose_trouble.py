"""While the target is away, metrics and notifications of `run` say so, and how old the checkpoint is says something of
the changefeed alone. The same for the storage."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consumer import app
from consumer.model.events import Event, RoundFinished
from consumer.model.times import ms_to_tso
from consumer.observe.live import Identity, Live
from tests.servers import MariaDb, mariadb_template
from tests.support.command_line import command_line
from tests.support.feed import Feed, Replica, with_two_rows
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MariaDb]:
    """One that a test may kill."""
    server = MariaDb(mariadb_template(tmp_path)).start()
    yield server
    server.stop()


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Watched(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0
        self.live = Live(Identity("prod", "s3://b/c", "mysql://h/"))

    def tell(self, event: Event) -> None:
        super().tell(event)
        self.rounds += isinstance(event, RoundFinished)
        self.live.tell(event)

    @property
    def away(self) -> list[str]:
        return [str(system) for system in self.live.view().away]

    @property
    def checkpoint(self) -> int | None:
        return self.live.status().checkpoint_ts


def test_the_checkpoint_is_read_while_the_target_is_away(server: MariaDb, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    feed.checkpoint(15)
    settings = Replica(feed, server.url()).settings(flush_interval="100ms", max_wait="0s")
    seen, stop = Watched(), threading.Event()
    running = threading.Thread(target=lambda: app.run(settings, seen, stop, InlineLoader()))
    running.start()
    try:
        until(lambda: seen.rounds > 0)
        server.kill()
        feed.puts("d.t", 2, {20: (2, "2")}, number=2)
        feed.checkpoint(25)
        until(lambda: seen.away == ["target"])
        feed.checkpoint(35)
        until(lambda: seen.checkpoint == 35)
        metadata = feed.folder / "metadata"
        metadata.rename(feed.folder / "away")
        until(lambda: seen.away == ["target", "storage"])
        (feed.folder / "away").rename(metadata)
        until(lambda: seen.away == ["target"])
        server.start()
        until(lambda: not seen.away and seen.live.status().applied_ts == 35)
    finally:
        stop.set()
        running.join(60)


def test_a_schedule_tells_of_a_lag_once_and_of_its_end_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run of `once` is a process of its own: what was told before is in the target."""
    feed, told = with_two_rows(tmp_path / "feed"), tmp_path / "told"
    consumer = command_line(tmp_path, capsys, monkeypatch)

    def run(checkpoint: int) -> list[str]:
        feed.checkpoint(checkpoint)
        left = consumer.raw(
            "once", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--tz", "UTC",
            "--downstream-uri", f"duckdb:///{tmp_path}/r.duckdb", "--notify", f"cat >> {told}; echo >> {told}",
        )  # fmt: skip
        assert left.code == 0
        return [json.loads(line)["event"] for line in told.read_text().splitlines()] if told.exists() else []

    assert [run(15), run(15), run(16)][-1] == ["lag-above"]
    now = ms_to_tso(int(time.time() * 1000))
    assert [run(now), run(now), run(now + 1)][-1] == ["lag-above", "lag-below"]
