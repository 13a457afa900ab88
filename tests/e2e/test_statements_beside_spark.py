"""A statement that ends while Spark starts has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from consumer import app
from consumer.model.events import Event, StepFinished, WorkEnded
from consumer.model.load import LoadTask
from tests.servers import MariaDb
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

_STARTS = 2.0


class _Watching(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.statement_ended, self.seconds = threading.Event(), -1.0

    def tell(self, event: Event) -> None:
        if isinstance(event, WorkEnded) and event.work.statement:
            self.statement_ended.set()
        if isinstance(event, StepFinished) and event.row.step == "ddl":
            self.seconds = event.seconds
        super().tell(event)


class _SlowToStart(InlineLoader):
    """As Spark's, it starts on the thread that drives the round."""

    def __init__(self, watching: _Watching) -> None:
        super().__init__()
        self._watching, self.ended_meanwhile = watching, False

    def split(self, tasks: Sequence[LoadTask]) -> list[Sequence[LoadTask]]:
        self.ended_meanwhile = self.ended_meanwhile or self._watching.statement_ended.wait(60)
        time.sleep(_STARTS)
        return super().split(tasks)


def test_a_statement_is_over_when_it_is(tmp_path: Path, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.old (id INT PRIMARY KEY, v INT)")
    feed = Feed(tmp_path / "cdc")
    feed.describe("d.old", 3)
    feed.puts("d.old", 3, {16: (1, "1")})
    feed.create("d.new", 4)
    feed.checkpoint(20)
    watching = _Watching()
    loader, began = _SlowToStart(watching), time.monotonic()
    result = app.once(Replica(feed, fresh_mariadb.url()).settings(), watching, loader)
    assert result.exit_code == 0
    assert loader.ended_meanwhile
    assert 0 <= watching.seconds < time.monotonic() - began - _STARTS
