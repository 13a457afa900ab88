"""Two consumer names on one server that begin at once, with a table that is older than both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.results import RunResult
from consumer.sink.mysql.sink import MySqlSink
from consumer.target import Writer
from tests.servers import MariaDb
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder


class _Meanwhile(InlineLoader):
    """Calls something before its first load."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self._calls = [call]

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        if self._calls:
            self._calls.pop()()
        return super().load(tasks, writer, reader, moved)


@pytest.fixture
def replica(tmp_path: Path, fresh_mariadb: MariaDb) -> Replica:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.old (id INT PRIMARY KEY, v INT)")
    feed = Feed(tmp_path / "cdc")
    feed.describe("d.old", 3)
    feed.puts("d.old", 3, {16: (1, "1")})
    feed.checkpoint(20)
    return Replica(feed, fresh_mariadb.url())


def _once(replica: Replica, name: str, loader: InlineLoader) -> RunResult:
    return app.once(replica.settings(name=name), Recorder(), loader)


def test_a_table_is_kept_before_its_first_rows_are_there(replica: Replica) -> None:
    found: list[RunResult] = []
    first = _once(replica, "first", _Meanwhile(lambda: found.append(_once(replica, "second", InlineLoader()))))
    assert (first.exit_code, found[0].exit_code) == (0, 5)
    assert "d.old belongs to the consumer 'first' of this target" in str(found[0].tables)
    assert _once(replica, "first", InlineLoader()).exit_code == 0


def _second_after_the_first_look(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = MySqlSink.of_others

    def late(sink: MySqlSink) -> object:
        seen = looks(sink)
        monkeypatch.setattr(MySqlSink, "of_others", looks)
        assert _once(replica, "second", InlineLoader()).exit_code == 0
        return seen

    monkeypatch.setattr(MySqlSink, "of_others", late)


def test_whoever_looked_too_early_sees_the_other_one(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    _second_after_the_first_look(replica, monkeypatch)
    loader = InlineLoader()
    assert _once(replica, "first", loader).exit_code == 5
    assert not loader.loads
    monkeypatch.undo()
    assert _once(replica, "second", InlineLoader()).exit_code == 0


def test_a_statement_of_an_older_table_is_run_by_who_took_it_first(
    replica: Replica, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the first that either of the two does to the table, and no error shows that the other did it too."""
    fresh_mariadb.execute("CREATE TABLE d.bare (id INT PRIMARY KEY, v INT)")
    replica.feed.describe("d.bare", 4)
    replica.feed.statement("d.bare", 18, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `bare`")
    replica.feed.puts("d.bare", 18, {19: (2, "2")})
    _second_after_the_first_look(replica, monkeypatch)
    first = replica.settings(name="first", tables=("d.bare",))
    assert app.once(first, Recorder(), InlineLoader()).exit_code == 5
    assert fresh_mariadb.execute("SELECT id, v FROM d.bare") == [(2, 2)]
