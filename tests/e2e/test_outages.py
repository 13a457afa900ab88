"""A target that goes away in the middle of `run`, and comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.events import Event, Retrying, RoundStarted
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.target import Writer
from tests.servers import MariaDb, mariadb_template
from tests.support.canal_json import keyless
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

_VALUE = Column("v", "INT")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MariaDb]:
    """One that a test may kill."""
    server = MariaDb(mariadb_template(tmp_path), ["--innodb-flush-log-at-trx-commit=1"]).start()
    yield server
    server.stop()


class Outage(InlineLoader):
    """Kills the server once the first rows are written, before the driver hears of it; upstream goes on meanwhile."""

    def __init__(self, server: MariaDb, feed: Feed) -> None:
        super().__init__()
        self._server, self._feed = server, feed
        self.begun = threading.Event()

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        outcomes = super().load(tasks, writer, reader, moved)
        if not self.begun.is_set():
            self._server.kill()
            self._feed.file("d.k", 2, keyless(20, 2))
            self._feed.checkpoint(25)
            self.begun.set()
        return outcomes


class Watching(Recorder):
    """Starts the server again when a round has failed for the second time, so none could be without its progress; ends
    the run when everything is there."""

    def __init__(self, server: MariaDb) -> None:
        super().__init__()
        self.stop = threading.Event()
        self._server, self._failed = server, 0
        self.limits: set[float | None] = set()

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, Retrying):
            self.limits.add(event.seconds)
        if isinstance(event, Retrying) and event.what == "round":
            self._failed += 1
            if self._failed == 2:
                self._server.start()
        if isinstance(event, RoundStarted) and not event.files and event.checkpoint == 25:
            self.stop.set()


def test_rows_without_a_key_are_applied_once_over_an_outage(server: MariaDb, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.statement("d.k", 2, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (_VALUE,))
    feed.file("d.k", 2, keyless(10, 1) + keyless(11, 1))
    feed.checkpoint(15)
    seen, loader = Watching(server), Outage(server, feed)
    settings = Replica(feed, server.url()).settings(flush_interval="100ms", tz="UTC", max_wait="100ms")
    limit = threading.Timer(60, seen.stop.set)
    limit.start()
    result = app.run(settings, seen, seen.stop, loader)
    limit.cancel()
    assert loader.begun.is_set()
    assert (result.exit_code, seen.stopped, seen.limits) == (0, {}, {None})
    assert server.execute("SELECT v FROM d.k ORDER BY v") == [(1,), (1,), (2,)]
    assert server.execute("SELECT applied_ts FROM storage_consumer.consumer") == [(25,)]
