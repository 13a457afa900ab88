"""`storage_consumer.syncpoint`: moments at which all tables of the target are complete, for outside checkers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.check import Repairing
from consumer.model.load import LoadOutcome, LoadTask
from consumer.model.times import ms_to_tso
from tests.mysql_server import NO_MYSQL, MySql, has_mysql, mysql_template
from tests.server_pair import ServerPair
from tests.servers import MariaDb, SqlServer, mariadb_template
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

ACCOUNTS = 20
Balances = dict[int, int]


class Bank:
    """Money moves between accounts of two tables, one transfer in each transaction; `moments` are all states."""

    def __init__(self, folder: Path) -> None:
        self.feed = Feed(folder)
        self.feed.database("d", 5)
        for table in ("d.a", "d.b"):
            self.feed.create(table, 10)
        self.balances = [dict.fromkeys(range(ACCOUNTS), 100) for _ in range(2)]
        self.moments: dict[int, list[Balances]] = {}
        self._ts = ms_to_tso(1_700_000_000_000) + 1
        for table, balances in zip(("d.a", "d.b"), self.balances, strict=True):
            self.feed.puts(table, 10, {self._ts + n: (n, str(v)) for n, v in balances.items()})
        self._ts += ACCOUNTS
        self.checkpoint()

    def checkpoint(self) -> int:
        self.moments[self._ts] = [dict(balances) for balances in self.balances]
        self.feed.checkpoint(self._ts)
        return self._ts

    def transfers(self, count: int) -> None:
        """The files have a part of what follows, too: rows above the checkpoint."""
        rows: tuple[dict[int, tuple[int, str]], ...] = ({}, {})
        for number in range(count + 3):
            if number == count:
                self.checkpoint()
            self._ts += 1
            for side, (table, amount) in enumerate(zip(rows, (-7, 7), strict=True)):
                account = (self._ts * (3 + side)) % ACCOUNTS
                self.balances[side][account] += amount
                table[self._ts] = (account, str(self.balances[side][account]))
        for name, table in zip(("d.a", "d.b"), rows, strict=True):
            self.feed.puts(name, 10, table)

    def settings(self, target: str, keep: int = 100) -> Settings:
        flags = {
            "upstream_uri": f"file://{self.feed.folder}?protocol=canal-json",
            "downstream_uri": target,
            "tz": "UTC",
        }
        return load(flags, {"STORAGE_CONSUMER_SYNCPOINTS": str(keep)}).settings


def once(settings: Settings, loader: InlineLoader | None = None) -> int:
    return app.once(settings, Recorder(), loader or InlineLoader()).exit_code


POINTS = "SELECT upstream_ts, is_current FROM storage_consumer.syncpoint ORDER BY upstream_ts"
Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["mariadb", "mysql", "tidb", "duckdb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Query]:
    if request.param == "duckdb":
        file = tmp_path / "replica.duckdb"

        def query(statement: str) -> list[tuple[Any, ...]]:
            with duckdb.connect(str(file)) as connection:
                return connection.execute(statement).fetchall()

        return f"duckdb:///{file}", query
    server: SqlServer = request.getfixturevalue(f"fresh_{request.param}")
    return server.url(), server.execute


def test_one_is_written_a_round_and_old_ones_go(target: tuple[str, Query], tmp_path: Path) -> None:
    bank, (url, query) = Bank(tmp_path / "storage"), target
    for _ in range(4):
        assert once(bank.settings(url, keep=3)) == 0
        bank.transfers(5)
    kept = sorted(bank.moments)[1:4]
    assert query(POINTS) == [(ts, int(ts == kept[-1])) for ts in kept]
    times = query("SELECT upstream_time FROM storage_consumer.syncpoint")
    assert {str(time) for (time,) in times} == {"2023-11-14 22:13:20"}
    assert once(bank.settings(url, keep=0)) == 0
    assert not any(current for _, current in query(POINTS))


def test_there_is_none_while_a_table_is_stopped(target: tuple[str, Query], tmp_path: Path) -> None:
    bank, (url, query) = Bank(tmp_path / "storage"), target
    assert once(bank.settings(url)) == 0
    bank.transfers(5)
    broken = bank.feed.damaged("d.a", 10)
    assert once(bank.settings(url)) == 3
    assert [current for _, current in query(POINTS)] == [0]
    sent_again = sorted(broken.parent.glob("CDC*.json"))[-2]
    broken.write_bytes(sent_again.read_bytes())
    assert once(bank.settings(url)) == 0
    assert [current for _, current in query(POINTS)] == [0, 1]


class Dies(InlineLoader):
    """As a kill between the writes of two tables."""

    def load(self, tasks: Sequence[LoadTask], *given: Any) -> list[LoadOutcome]:
        super().load(tasks[:1], *given)
        raise KeyboardInterrupt


def test_a_run_that_died_leaves_none_that_is_current(target: tuple[str, Query], tmp_path: Path) -> None:
    bank, (url, query) = Bank(tmp_path / "storage"), target
    assert once(bank.settings(url)) == 0
    assert [current for _, current in query(POINTS)] == [1]
    bank.transfers(5)
    once(bank.settings(url), Dies())
    assert [current for _, current in query(POINTS)] == [0]
    assert once(bank.settings(url)) == 0
    assert [current for _, current in query(POINTS)] == [0, 1]


def test_whoever_takes_the_target_ends_the_moment(target: tuple[str, Query], tmp_path: Path) -> None:
    bank, (url, query) = Bank(tmp_path / "storage"), target
    settings = bank.settings(url)
    assert once(settings) == 0
    app.verify(settings, Recorder(), loader=InlineLoader(), repairing=Repairing(write=True))
    assert [current for _, current in query(POINTS)] == [0]
    assert once(settings) == 0
    assert [current for _, current in query(POINTS)] == [1]


def test_rows_without_a_time_have_no_moments(tmp_path: Path) -> None:
    flags = {"upstream_uri": f"file://{tmp_path}?protocol=csv"}
    csv = {f"STORAGE_CONSUMER_CSV_{name}": value for name, value in (("NULL", "NULL"), ("INCLUDE_COMMIT_TS", "false"))}
    with pytest.raises(BadConfig, match="moments of the upstream"):
        load(flags, {"STORAGE_CONSUMER_SYNCPOINTS": "1", "STORAGE_CONSUMER_CSV_BINARY_ENCODING_METHOD": "hex", **csv})


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_snapshot_with_a_current_one_is_that_moment(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    bank = Bank(tmp_path / "storage")
    assert once(bank.settings(server.url())) == 0
    seen: list[tuple[int, list[Balances]]] = []
    between = over = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal between, over
        connection = server.connect(autocommit=False)
        with connection, connection.cursor() as cursor:
            while not ended.is_set():
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                cursor.execute("SELECT upstream_ts FROM storage_consumer.syncpoint WHERE is_current = 1")
                points = cursor.fetchall()
                if points:
                    found = []
                    for table in ("a", "b"):
                        cursor.execute(f"SELECT id, v FROM d.{table}")
                        found.append({int(key): int(value) for key, value in cursor.fetchall()})
                    seen.append((points[0][0], found))
                between += not points
                over += len(points) > 1
                connection.rollback()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(12):
            bank.transfers(30)
            assert once(bank.settings(server.url())) == 0
            time.sleep(0.02)
    finally:
        ended.set()
        watcher.join()
    assert over == 0
    assert between > 0, "the reader saw a round under way"
    assert len({ts for ts, _ in seen}) > 5
    for ts, found in seen:
        assert found == bank.moments[ts]
        assert sum(sum(balances.values()) for balances in found) == 2 * ACCOUNTS * 100


@pytest.fixture(params=["mariadb", "mysql"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPair]:
    if request.param == "mysql" and not has_mysql():
        pytest.skip(NO_MYSQL)
    if request.param == "mysql":
        made = ServerPair(lambda options: MySql(mysql_template(), options))
    else:
        template = mariadb_template(tmp_path_factory.mktemp("pair"))
        made = ServerPair(lambda options: MariaDb(template, options))
    with made as found:
        found.begin()
        yield found


def test_a_replica_stopped_at_the_position_is_at_the_moment(pair: ServerPair, tmp_path: Path) -> None:
    bank, maria = Bank(tmp_path / "storage"), isinstance(pair.primary, MariaDb)
    pair.replica.execute("STOP SLAVE" if maria else "STOP REPLICA")
    for _ in range(4):
        assert once(bank.settings(pair.primary.url())) == 0
        bank.transfers(10)
    points = pair.primary.execute(
        "SELECT upstream_ts, position_kind, position FROM storage_consumer.syncpoint ORDER BY upstream_ts"
    )
    assert [ts for ts, *_ in points] == sorted(bank.moments)[:4]
    if maria:
        pair.replica.execute("CHANGE MASTER TO MASTER_USE_GTID = slave_pos")
    for ts, kind, position in points:
        assert kind == "gtid"
        until = (
            f"SLAVE UNTIL master_gtid_pos = '{position}'" if maria else f"REPLICA UNTIL SQL_AFTER_GTIDS = '{position}'"
        )
        pair.replica.execute(f"START {until}")
        _wait_until_stopped(pair.replica, maria)
        found = [{int(k): int(v) for k, v in pair.replica.execute(f"SELECT id, v FROM d.{t}")} for t in ("a", "b")]
        assert found == bank.moments[ts]


def _wait_until_stopped(replica: SqlServer, maria: bool) -> None:
    deadline = time.monotonic() + 60
    place = "Slave_SQL_Running" if maria else "Replica_SQL_Running"
    while time.monotonic() < deadline:
        connection = replica.connect()
        with connection, connection.cursor() as cursor:
            cursor.execute("SHOW SLAVE STATUS" if maria else "SHOW REPLICA STATUS")
            names = [column[0] for column in cursor.description]
            if dict(zip(names, cursor.fetchone(), strict=True))[place] == "No":
                return
        time.sleep(0.05)
    raise AssertionError("the replica did not reach the position")


def test_without_gtids_the_position_is_that_of_the_binary_log(tmp_path: Path) -> None:
    if not has_mysql():
        pytest.skip(NO_MYSQL)
    off = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]
    server = MySql(mysql_template(), ["--log-bin=bin", "--server-id=1", *off])
    server.start()
    try:
        bank = Bank(tmp_path / "storage")
        assert once(bank.settings(server.url())) == 0
        newest = "SELECT position_kind, position FROM storage_consumer.syncpoint ORDER BY upstream_ts DESC LIMIT 1"
        ((kind, position),) = server.execute(newest)
        file, offset, *_ = server.execute("SHOW BINARY LOG STATUS")[0]
        assert (kind, position.partition(":")[0]) == ("binlog", file)
        assert 0 < int(position.partition(":")[2]) < offset
        server.execute(
            "CREATE USER plain IDENTIFIED BY ''",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE TEMPORARY TABLES, DROP, ALTER, CREATE VIEW, INDEX, "
            "LOCK TABLES ON *.* TO plain",
        )
        bank.transfers(5)
        assert once(bank.settings(server.url("plain"))) == 0
        assert server.execute(newest) == [("", "")]
    finally:
        server.stop()
