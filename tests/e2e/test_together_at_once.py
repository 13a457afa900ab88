"""Several upstreams together with `--consistency snapshot`: readers see the rows of all of them at one moment."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from consumer.model.actions import Action
from consumer.sink.mysql.rows.publish import Publisher
from consumer.sink.mysql.server.wire import Connection
from tests.e2e.test_several_processes import program
from tests.servers import MariaDb, SqlServer
from tests.support.bank import NAMES, TOTAL, Bank, tso
from tests.support.command_line import CommandLine, Left, command_line
from tests.support.server_faults import Fault, faulty

State = tuple[int | None, ...]
"""What eu, us and asia have; None for an empty table."""


@pytest.fixture(params=["fresh_mariadb", "fresh_mysql"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


class AtOnce(Bank):
    """With the states that upstream was in, one after each transaction or statement."""

    def __init__(self, folder: Path, target: str, cli: CommandLine | None = None, more: str = "") -> None:
        super().__init__(folder, target)
        self.cli = cli
        self.write(f'together = true\nconsistency = "snapshot"\n{more}')
        self.now = 2
        self.states: list[State] = [(None, None, None), (100, 100, 100)]
        self.at: dict[str, int] = dict.fromkeys(NAMES, 1)

    def transfer(self, chance: random.Random) -> None:
        """Over two clusters, or all three."""
        self.now += chance.choice((1, 1, 5))
        source, *others = chance.sample(NAMES, chance.choice((2, 2, 3)))
        for to in others:
            money = chance.randint(1, 20)
            self.held[source] -= money
            self.held[to] += money
        for name in (source, *others):
            self._put(name)
        self._seen()

    def statement(self, chance: random.Random) -> None:
        """One that readers see; a TRUNCATE empties the table until the next row comes, in the next transaction."""
        self.now += 2
        name = chance.choice(NAMES)
        feed = self.feeds[name]
        self.at[name] = self.now
        if chance.random() < 0.5:
            feed.statement("bank.a", tso(self.now), Action.ADD_INDEX, f"ALTER TABLE `a` ADD INDEX `i{self.now}` (`v`)")
            return
        feed.truncate("bank.a", tso(self.now))
        shown = self.states[-1]
        self.states.append(tuple(None if one == name else v for one, v in zip(NAMES, shown, strict=True)))
        self.now += 1
        self._put(name)
        self._seen()

    def _put(self, name: str) -> None:
        self.feeds[name].puts("bank.a", tso(self.at[name]), {tso(self.now): (1, str(self.held[name]))})

    def _seen(self) -> None:
        self.states.append(tuple(self.held.values()))

    def once(self, *more: str) -> Left:
        assert self.cli is not None
        return self.cli.raw("once", "--config", str(self.config), "--log-level", "error", *more)


def held(connection: pymysql.Connection) -> State | None:
    """What a reader sees in one transaction; None where the tables are not there, or were changed meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            found: list[int | None] = []
            for name in NAMES:
                cursor.execute(f"SELECT v FROM {name}.a")
                row = cursor.fetchone()
                found.append(None if row is None else int(row[0]))
            return tuple(found)
        except pymysql.MySQLError as error:
            if error.args[0] in (1146, 1049, 1412):
                return None
            raise
        finally:
            connection.rollback()


@contextmanager
def every_state(server: SqlServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[State]]:
    """Fills with what a reader sees after each commit of any thread."""
    reader, states, one_at_a_time = server.connect(), list[State](), threading.Lock()

    def committed(connection: Connection) -> None:
        with one_at_a_time:
            pymysql.Connection.commit(connection)
            if (state := held(reader)) is not None and states[-1:] != [state]:
                states.append(state)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "commit", committed)
        yield states
    reader.close()


def check(seen: list[State], states: list[State]) -> None:
    at = 0
    for state in seen:
        assert state in states, f"upstream never was in {state}"
        assert state in states[at:], f"upstream was in {state} before"
        at = states.index(state, at)


@pytest.mark.parametrize("seed", range(4))
def test_every_state_is_one_of_upstream(
    seed: int, server: SqlServer, tmp_path: Path, consumer: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    bank = AtOnce(tmp_path, server.url(), consumer, f"publish-bytes = {chance.choice((2600, 5000, 1000000))}\n")
    last = 2
    with every_state(server, monkeypatch) as seen:
        for _ in range(6):
            for _ in range(chance.randint(1, 12)):
                bank.statement(chance) if chance.random() < 0.2 else bank.transfer(chance)
            for name in NAMES:
                bank.feeds[name].checkpoint(tso(chance.randint(last, bank.now)))
            last = bank.now
            left = bank.once()
            assert left.code == 0, left.err
        bank.checkpoints(**dict.fromkeys(NAMES, bank.now + 1))
        left = bank.once("--json")
        assert left.code == 0, left.err
    check(seen, bank.states)
    assert seen[-1] == bank.states[-1]
    assert len(seen) > 5
    assert {one["checkpoint_ts"] for one in left.json["consumers"].values()} == {tso(bank.now + 1)}


class AtRandom:
    """Of `commits` of all COMMITs, and `others` of all other statements, the connection is cut, or the answer lost."""

    def __init__(self, seed: int, commits: float, others: float) -> None:
        self.count, self._dice, self._lock = 0, random.Random(seed), threading.Lock()
        self._commits, self._others = commits, others

    def __call__(self, statement: str) -> Fault | None:
        with self._lock:
            if self._dice.random() >= (self._commits if statement.startswith("COMMIT") else self._others):
                return None
            self.count += 1
            return self._dice.choice(("lost", "lost", "cut"))


@pytest.mark.parametrize(("seed", "others"), [(1, 0.0), (2, 0.01)])
def test_connections_that_break_at_random(
    seed: int, others: float, server: SqlServer, tmp_path: Path, consumer: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that goes together is there, or nothing of it, whichever answers of COMMIT are lost."""
    chance, faults = random.Random(seed), AtRandom(seed, 0.2, others)
    bank = AtOnce(tmp_path, server.url(), consumer, "publish-bytes = 2600\n")
    with every_state(server, monkeypatch) as seen:
        for _ in range(4):
            for _ in range(8):
                bank.statement(chance) if chance.random() < 0.2 else bank.transfer(chance)
            bank.checkpoints(**dict.fromkeys(NAMES, bank.now))
            with faulty(faults, monkeypatch):
                left = bank.once("--max-wait", "10s")
            assert left.code in (0, 4), left.err
        bank.checkpoints(**dict.fromkeys(NAMES, bank.now + 1))
        assert bank.once().code == 0
    check(seen, bank.states)
    assert seen[-1] == bank.states[-1]
    assert faults.count > 5


def test_one_that_fails_is_not_seen_without_the_others(
    server: SqlServer, tmp_path: Path, consumer: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = AtOnce(tmp_path, server.url(), consumer)
    with every_state(server, monkeypatch) as seen:
        assert bank.once().code == 0
        bank.transfer(random.Random(1))
        bank.checkpoints(**dict.fromkeys(NAMES, bank.now))
        metadata = bank.feeds["us"].folder / "metadata"
        kept = metadata.read_bytes()
        metadata.write_bytes(b"{")
        left = bank.once("--max-wait", "0")
        assert left.code == 4
        assert "us holds up the others (together)" in left.err
        metadata.write_bytes(kept)
        with monkeypatch.context() as patch:

            def fails(self: Publisher, *_: object) -> None:
                raise pymysql.OperationalError(1205, "Lock wait timeout exceeded")

            patch.setattr(Publisher, "write", fails)
            assert bank.once("--max-wait", "0").code == 4
        assert seen[-1] == (100, 100, 100)
        assert bank.once().code == 0
    check(seen, bank.states)
    assert seen[-1] == bank.states[-1]


def test_a_table_that_stops_is_left_by_the_others(server: SqlServer, tmp_path: Path, consumer: CommandLine) -> None:
    bank = AtOnce(tmp_path, server.url(), consumer)
    assert bank.once().code == 0
    bank.transfer(random.Random(1))
    bank.transfer(random.Random(2))
    bank.feeds["us"].puts("bank.a", tso(1), {tso(bank.now): (1, "no number")})
    bank.checkpoints(**dict.fromkeys(NAMES, bank.now))
    left = bank.once("--json")
    assert left.code == 3
    states = {name: one["tables"]["bank.a"]["state"] for name, one in left.json["consumers"].items()}
    assert states == {"eu": "ok", "us": "stopped", "asia": "ok"}
    hint = next(line for line in left.err.splitlines() if "storage-consumer resync" in line)
    assert hint.endswith("--only us --consistency table")
    reader = server.connect()
    assert held(reader) == tuple(100 if name == "us" else bank.held[name] for name in NAMES)
    reader.close()


def test_none_of_them_goes_by_itself(server: SqlServer, tmp_path: Path, consumer: CommandLine) -> None:
    bank = AtOnce(tmp_path, server.url(), consumer)
    for command in (["once"], ["run"], ["resync", "--table", "bank.a"]):
        left = consumer.raw(*command, "--config", str(bank.config), "--only", "eu", "--log-level", "error")
        assert left.code == 2
        assert "eu goes together with us, asia, and not by itself" in left.err
        assert "leave --only out" in left.err
    assert bank.once().code == 0
    resync = ["resync", "--table", "bank.a", "--only", "eu", "--consistency", "table"]
    assert consumer.raw(*resync, "--config", str(bank.config), "--log-level", "error").code == 0
    before = bank.config.read_text(encoding="utf-8")
    for text, hint in (
        (before.replace(bank.target, f"duckdb:///{tmp_path}/x.duckdb"), "use --consistency table or row"),
        (before.replace("together = true", 'together = true\ntogether-max-wait = "1m"'), "leave together-max-wait out"),
        (before.replace("routes =", 'consistency = "table"\nroutes =', 1), "set it in [consumer], and in no entry"),
    ):
        bank.config.write_text(text, encoding="utf-8")
        left = bank.once()
        assert left.code == 2
        assert hint in left.err


def test_readers_beside_a_run_that_is_killed(tmp_path: Path, fresh_mariadb: MariaDb) -> None:
    bank = AtOnce(tmp_path, fresh_mariadb.url(), more='flush-interval = "50ms"\n')
    chance, reader, seen = random.Random(5), fresh_mariadb.connect(), list[State]()
    for end in (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        with program(bank.config, "run") as process:
            deadline, states = time.monotonic() + 90, len(set(seen))
            while len(set(seen)) < states + 4:
                assert time.monotonic() < deadline, bank.config.with_suffix(".log").read_text(encoding="utf-8")
                bank.transfer(chance)
                for name in NAMES:
                    bank.feeds[name].checkpoint(tso(bank.now + chance.choice((-0.5, 0, 0.4))))
                for _ in range(6):
                    if (state := held(reader)) is not None:
                        assert sum(v or 0 for v in state) in (0, TOTAL)
                        seen.append(state)
                    time.sleep(0.02)
            if end is signal.SIGTERM:
                process.terminate()
                process.wait(30)
            else:
                os.killpg(process.pid, end)
                process.wait(30)
    assert process.returncode == 0
    check(seen, bank.states)
    bank.checkpoints(**dict.fromkeys(NAMES, bank.now))
    with program(bank.config, "once") as process:
        process.communicate(timeout=90)
    assert process.returncode == 0
    assert held(reader) == bank.states[-1]
    reader.close()
