"""Two consumer names on one server that begin at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.load import LoadOutcome, LoadTask
from consumer.model.progress import OwnedTables
from consumer.ports import Moved, RangeReader, unheard
from consumer.results import RunResult
from consumer.sink.mysql.sink import MySqlSink
from consumer.target import Writer
from tests.servers import MariaDb, SqlServer
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


_VIEW = "CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `d`.`t` (`id`) AS "
_IF_NOT_EXISTS = "CREATE TABLE IF NOT EXISTS `t` (`id` INT PRIMARY KEY,`v` INT)"
_Begins = Callable[[Feed, int], object]


def _exchanges(feed: Feed, number: int) -> None:
    """A partition with one row becomes d.t."""
    name = f"part{number}"
    parts = "PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN (9))"
    feed.describe("d.t", 11)
    query = f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY,`v` INT) {parts}"
    feed.statement(f"d.{name}", 11, Action.CREATE_TABLE, query)
    feed.puts(f"d.{name}", 11, {12: (number, str(number))})
    query = f"ALTER TABLE `d`.`{name}` EXCHANGE PARTITION `p` WITH TABLE `d`.`t`"
    feed.statement(f"d.{name}", 14, Action.EXCHANGE_PARTITION, query)


AT_ONCE: dict[str, tuple[_Begins, dict[str, object]]] = {
    "CREATE": (lambda feed, _: feed.create("d.t", 12), {}),
    "IF NOT EXISTS": (lambda feed, _: feed.statement("d.t", 12, Action.CREATE_TABLE, _IF_NOT_EXISTS), {}),
    "LIKE": (lambda feed, n: feed.statement("d.t", 12, Action.CREATE_TABLE, f"CREATE TABLE `t` LIKE `own{n}`"), {}),
    "merged": (lambda feed, _: feed.create("d.t", 12), {"routes": ("d.t -> d.t merge src",)}),
    "merged of two names": (lambda feed, n: feed.create(f"d.t{n}", 12), {"routes": ("d.t* -> d.t merge src",)}),
    "RENAME": (lambda feed, n: feed.rename(f"d.own{n}", "d.t", 12), {}),
    "VIEW": (
        lambda feed, n: feed.statement(
            "d.t", 12, Action.CREATE_VIEW, f"{_VIEW}SELECT `v` FROM `d`.`own{n}`", (Column("id", "INT"),)
        ),
        {},
    ),
    "older": (lambda feed, _: feed.describe("d.t", 12), {}),
    "older, TRUNCATE": (lambda feed, _: (feed.describe("d.t", 11), feed.truncate("d.t", 12)), {}),
    "older, EXCHANGE": (_exchanges, {}),
    "older, --start-ts": (lambda feed, _: feed.describe("d.t", 12), {"start_ts": "10", "tables": ("d.t",)}),
    "replay": (lambda feed, _: feed.create("d.t", 12), {"tables": ("d.t",)}),
}
"""How two consumers begin with d.t at one moment: what each reads of it, and its settings."""


class _AtOnce:
    """Each of two consumers has looked whose the tables are before the other one goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._looked, self._met = set[str](), threading.Barrier(2)
        looks = MySqlSink.of_others

        def look(sink: MySqlSink) -> OwnedTables:
            seen = looks(sink)
            name = threading.current_thread().name
            if name not in self._looked:
                self._looked.add(name)
                self._met.wait(20)
            return seen

        monkeypatch.setattr(MySqlSink, "of_others", look)

    def results(self, *calls: Callable[[], RunResult]) -> list[RunResult]:
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(lambda call: call(), calls))


@pytest.fixture(params=["fresh_mariadb", "fresh_mysql"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("how", AT_ONCE)
def test_one_of_two_who_begin_at_one_moment_has_the_table(
    how: str, tmp_path: Path, server: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, flags = AT_ONCE[how]
    server.execute("CREATE DATABASE d")
    if how.startswith("older"):
        server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT) COLLATE utf8mb4_bin")
    calls: list[Callable[[], RunResult]] = []
    for number in (1, 2):
        folder = tmp_path / f"cdc{number}"
        folder.mkdir()
        feed = Feed(folder)
        feed.create(f"d.own{number}", 2)
        feed.puts(f"d.own{number}", 2, {3: (number, str(number))})
        feed.checkpoint(10)
        settings = Replica(feed, server.url()).settings(name=f"c{number}", **flags)
        if not flags:
            assert app.once(settings, Recorder(), InlineLoader()).exit_code == 0
        begins(feed, number)
        if how not in ("VIEW", "RENAME", "older, EXCHANGE"):
            feed.puts(f"d.t{number}" if how == "merged of two names" else "d.t", 12, {14: (number, str(number))})
        feed.checkpoint(20)
        once = partial(app.once, settings, Recorder(), InlineLoader())
        replay = partial(app.replay, settings, Recorder(), "10", "20", InlineLoader())
        calls.append(replay if how == "replay" else once)
    results = _AtOnce(monkeypatch).results(*calls)
    assert sorted(result.exit_code for result in results) == [0, 5], [str(result.tables) for result in results]
    first = 1 + [result.exit_code for result in results].index(0)
    assert f"belongs to the consumer 'c{first}" in str(results[2 - first].tables)
    assert server.execute("SELECT id FROM d.t") == [(first,)], "no row of the other one"


def test_who_dies_between_taking_a_table_and_making_it_still_has_it(
    tmp_path: Path, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.checkpoint(20)
    replica = Replica(feed, fresh_mariadb.url())

    def dies(*_: object) -> None:
        raise RuntimeError("killed")

    _once(replica, "first", InlineLoader())
    feed.statement("d.new", 22, Action.CREATE_TABLE, "CREATE TABLE IF NOT EXISTS `new` (`id` INT PRIMARY KEY,`v` INT)")
    feed.puts("d.new", 22, {23: (1, "1")})
    feed.checkpoint(30)
    with monkeypatch.context() as patch:
        patch.setattr(MySqlSink, "apply_ddls", dies)
        with pytest.raises(RuntimeError, match="killed"):
            _once(replica, "first", InlineLoader())
    second = app.once(replica.settings(name="second", tables=("d.new",)), Recorder(), InlineLoader())
    assert second.exit_code == 5
    assert "d.new belongs to the consumer 'first' of this target" in str(second.tables)
    assert _once(replica, "first", InlineLoader()).exit_code == 0
    assert fresh_mariadb.execute("SELECT id FROM d.new") == [(1,)]


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
