"""Round after round onto real targets: tiny rounds, random histories, crashes at any moment, a second consumer."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import consumer.sink.mysql.sink as mysql_sink
from consumer import app
from consumer.app import parts
from consumer.config.load import load
from consumer.errors import LeaseHeld
from consumer.model.load import LoadOutcome
from consumer.ports import Loader, unheard
from consumer.results import RunResult
from consumer.sink import sink_for
from consumer.sink.mysql.statements.execute import execute_ddls
from tests.e2e import targets
from tests.e2e.corpus import Case, compare, read_cases
from tests.servers import MariaDb
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.examples import TIMES
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.upstream import DATABASE, State, Storage, Upstream, last_moment_without_rename

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cdc"
HISTORIES = 3 * TIMES
"""For each target."""


class Target:
    """A target of random histories: where it is, and what its tables hold."""

    url: str

    def reset(self) -> None: ...

    def state(self) -> State: ...


class Server(Target):
    def __init__(self, server: MariaDb) -> None:
        self._server, self.url = server, server.url()

    def reset(self) -> None:
        self._server.drop_all()

    def state(self) -> State:
        connection = self._server.connect()
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [DATABASE])
            found: State = {}
            for (table,) in cursor.fetchall():
                cursor.execute(f"SELECT * FROM `{DATABASE}`.`{table}`")
                found[table] = _rows([column[0] for column in cursor.description], cursor.fetchall())
            return found


class File(Target):
    def __init__(self, folder: Path) -> None:
        self._path = folder / "replica.duckdb"
        self.url = f"duckdb:///{self._path}"

    def reset(self) -> None:
        self._path.unlink(missing_ok=True)

    def state(self) -> State:
        with duckdb.connect(str(self._path)) as connection:
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = ?", [DATABASE]
            ).fetchall()
            found: State = {}
            for (table,) in tables:
                rows = connection.execute(f'SELECT * FROM "{DATABASE}"."{table}"')
                found[table] = _rows([column[0] for column in rows.description], rows.fetchall())
            return found


def _rows(names: list[str], rows: list[tuple[object, ...]]) -> dict[int, dict[str, str | None]]:
    text = [{n: None if v is None else str(v) for n, v in zip(names, row, strict=True)} for row in rows]
    found = {int(str(row.pop("id"))): row for row in text}
    assert len(found) == len(rows), "a key is there twice"
    return found


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {case.name: case for case in read_cases(FIXTURES, tmp_path_factory.mktemp("unpacked"))}


@pytest.fixture(params=["MariaDB", "DuckDB"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    found = Server(request.getfixturevalue("mariadb")) if request.param == "MariaDB" else File(tmp_path)
    found.reset()
    return found


def once(folder: Path, target: Target, loader: Loader, **more: object) -> RunResult:
    flags = {"upstream_uri": f"file://{folder}?protocol=canal-json", "downstream_uri": target.url, **more}
    result = app.once(load(flags, {}).settings, Recorder(), loader)
    assert result.exit_code == 0, [table.error for table in result.tables.values() if table.error]
    return result


# Bounded rounds


@pytest.mark.parametrize(
    ("name", "size", "loads"), [("ticdc/l_volume/cj_none", "2000", 20), ("tiflow/d_keys/cj_ext", "300", 12)]
)
def test_a_backlog_in_many_small_rounds_ends_equal(
    name: str, size: str, loads: int, cases: dict[str, Case], fresh_mariadb: MariaDb
) -> None:
    case, loader = cases[name], InlineLoader()
    settings = case.settings(case.folder / "storage", fresh_mariadb.url(), round_bytes=size)
    assert app.once(settings, Recorder(), loader).exit_code == 0
    assert loader.loads >= loads
    assert compare(case.expected(), fresh_mariadb.url(), case.folder / "storage") == []


# Random histories


def history(seed: int, folder: Path) -> Iterator[tuple[Upstream, int]]:
    """A storage that grows, and the checkpoints at which a target must be equal; restarts send rows again."""
    rnd = random.Random(seed)
    upstream = Upstream(rnd)
    storage = Storage(folder, upstream)
    checkpoint = 1
    for _ in range(rnd.randint(1, 3)):
        for _ in range(rnd.randint(5, 25)):
            upstream.step()
        moments = [ts for ts, _ in upstream.states if ts >= checkpoint]
        checkpoint = rnd.choice(moments) if rnd.random() < 0.5 else upstream.now
        storage.write_up_to(rnd.choice([checkpoint, upstream.now]), checkpoint)
        yield upstream, checkpoint
        if rnd.random() < 0.5:
            storage.restart(rnd.choice([ts for ts, _ in upstream.states if ts <= checkpoint]))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_histories_end_in_the_true_state(seed: int, target: Target, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    for upstream, checkpoint in history(seed, tmp_path / "storage"):
        size = rnd.choice(["1", "300", "1000", "1GiB"])
        once(tmp_path / "storage", target, InlineLoader(rnd.choice([0, 3])), round_bytes=size)
        assert target.state() == upstream.at(last_moment_without_rename(upstream, checkpoint))


# Crashes


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_run_that_dies_anywhere_is_taken_up_by_the_next(
    seed: int, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rnd = random.Random(1000 + seed)
    real_sink, real_ddls = sink_for, execute_ddls
    fuse = Fuse()
    # Around the statements: an intent without its fact, the statement not yet executed, or executed.
    monkeypatch.setattr(mysql_sink, "execute_ddls", lambda *given: fuse.around(real_ddls)(*given))
    monkeypatch.setattr(parts, "sink_for", lambda *given, **named: CrashingSink(real_sink(*given, **named), fuse))
    died = 0
    for upstream, checkpoint in history(seed, tmp_path / "storage"):
        moment = rnd.randrange(4)
        while True:
            fuse = Fuse(moment)
            try:
                once(tmp_path / "storage", target, CrashingLoader(fuse), round_bytes=rnd.choice(["1", "300", "1GiB"]))
                break
            except Crash:
                died += 1
                # Later and later, so that every run gets somewhere.
                moment += rnd.randrange(6)
        assert target.state() == upstream.at(last_moment_without_rename(upstream, checkpoint))
    assert died


@pytest.mark.parametrize("kind", ["MariaDB", "DuckDB"])
def test_rows_of_tables_with_no_key_count_once_whenever_a_run_dies(
    kind: str, cases: dict[str, Case], mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, real_sink = cases["tiflow/d2_nokey/cj_ext"], sink_for
    target = targets.Server(mariadb) if kind == "MariaDB" else targets.File(tmp_path)
    settings = case.settings(case.folder / "storage", target.url)
    fuse = Fuse()
    monkeypatch.setattr(parts, "sink_for", lambda *given, **named: CrashingSink(real_sink(*given, **named), fuse))
    for moment in itertools.count():
        target.prepare(case)
        fuse = Fuse(moment)
        try:
            app.once(settings, Recorder(), CrashingLoader(fuse))
            break
        except Crash:
            fuse = Fuse()
        assert app.once(settings, Recorder(), CrashingLoader(fuse)).exit_code == 0
        assert target.differences(case, None) == [], f"died at moment {moment}"
    assert moment > 10


# Two consumers


class TakenOver(InlineLoader):
    """While this consumer's load is on its way, its connections break and another consumer takes over."""

    def __init__(self, server: MariaDb, replica: Replica) -> None:
        super().__init__()
        self._server, self._replica = server, replica
        self.outcomes: list[LoadOutcome] = []

    def load(self, tasks, writer, reader, moved=unheard):
        self._server.kill_clients()
        assert self._replica.once(40).exit_code == 0
        self.outcomes = super().load(tasks, writer, reader, moved)
        return self.outcomes


def test_the_writer_of_an_old_epoch_changes_nothing(fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 31: (1, "2")})
    feed.checkpoint(20)
    replica = Replica(feed, fresh_mariadb.url())
    old = TakenOver(fresh_mariadb, replica)
    with pytest.raises(LeaseHeld):
        app.once(replica.settings(), Recorder(), old)
    assert [type(outcome.error) for outcome in old.outcomes] == [LeaseHeld]
    assert fresh_mariadb.execute("SELECT id, v FROM d.t") == [(1, 2)]
    status = app.status(replica.settings(), Recorder())
    assert status.applied_ts == 40


# Rows and statements at the edges


def edges(feed: Feed) -> None:
    feed.database("d", 1)
    feed.create("d.t", 10)


def numbers(target: Target) -> dict[int, str | None]:
    return {key: row["v"] for key, row in target.state()["t"].items()}


def test_rows_count_by_their_own_time_in_older_and_newer_folders(target: Target, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    edges(feed)
    replica = Replica(feed, target.url)
    feed.truncate("d.t", 30)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.puts("d.t", 30, {20: (2, "2"), 31: (3, "3"), 32: (4, "4")})
    feed.puts("d.t", 10, {33: (5, "5")})
    assert replica.once(40).exit_code == 0
    assert numbers(target) == {3: "3", 4: "4", 5: "5"}
    feed.puts("d.t", 30, {20: (2, "2"), 31: (3, "3"), 41: (6, "6")})
    feed.puts("d.t", 10, {11: (1, "1"), 42: (3, "30")})
    assert replica.once(50).exit_code == 0
    assert numbers(target) == {3: "30", 4: "4", 5: "5", 6: "6"}


@pytest.mark.parametrize("size", ["1", "1GiB"])
def test_one_transaction_over_several_files_is_applied_whole(size: str, target: Target, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    edges(feed)
    replica = Replica(feed, target.url)
    feed.puts("d.t", 10, {11: (1, "1"), 20: (1, "2")})
    feed.puts("d.t", 10, {20: (2, "2")})
    feed.puts("d.t", 10, {20: (3, "2"), 21: (3, "3")})
    assert replica.once(19, round_bytes=size).exit_code == 0
    assert numbers(target) == {1: "1"}
    assert replica.once(20, round_bytes=size).exit_code == 0
    assert numbers(target) == {1: "2", 2: "2", 3: "2"}
    assert replica.once(21, round_bytes=size).exit_code == 0
    assert numbers(target) == {1: "2", 2: "2", 3: "3"}


def test_a_statement_at_the_checkpoint_itself(target: Target, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    edges(feed)
    replica = Replica(feed, target.url)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (2, "2")})
    assert replica.once(20).exit_code == 0
    assert numbers(target) == {}
    # At the old checkpoint, but seen only now.
    feed.truncate("d.t", 30)
    feed.puts("d.t", 30, {31: (3, "3")})
    feed.checkpoint(30)
    assert replica.once(30).exit_code == 0
    assert replica.once(40).exit_code == 0
    assert numbers(target) == {3: "3"}


def test_a_rename_at_the_checkpoint_waits_for_its_companions(target: Target, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    edges(feed)
    replica = Replica(feed, target.url)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.rename("d.t", "d.u", 20)
    assert replica.once(20).exit_code == 0
    assert set(target.state()) == {"t"}
    feed.create("d.t", 21)
    assert replica.once(30).exit_code == 0
    assert target.state() == {"t": {}, "u": {1: {"v": "1"}}}
