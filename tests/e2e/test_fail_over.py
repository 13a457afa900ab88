"""A fail-over in the middle of a run, to a replica that is behind: rows, statements and progress go back together."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import Retryable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.sink.mysql.server.wire import Connection
from tests.mysql_server import NO_MYSQL, MySql, has_mysql, mysql_template
from tests.server_pair import ServerPair
from tests.servers import MariaDb, mariadb_template
from tests.support.canal_json import keyless
from tests.support.feed import Feed, Replica

CHECKPOINTS = (12, 25, 45)
_VALUE = Column("v", "INT")
_Rows = dict[str, list[tuple[int, ...]]]

EXPECTED: dict[int, _Rows] = {
    12: {"t": [(1, 11), (2, 22)], "k": [(5,), (5,)]},
    25: {"t": [(4, 44)], "k": [(5,), (5,), (6,)]},
    45: {"u": [(4, 44), (5, 55)], "t": [(6, 66)], "k": [(5,), (5,), (6,), (7,)]},
}


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPair]:
    if request.param == "mysql" and not has_mysql():
        pytest.skip(NO_MYSQL)
    if request.param == "mysql":
        found = ServerPair(lambda options: MySql(mysql_template(), options))
    else:
        template = mariadb_template(tmp_path_factory.mktemp("pair"))
        found = ServerPair(lambda options: MariaDb(template, options))
    with found:
        yield found


def storage(folder: Path) -> Feed:
    """Every kind of load and statement whose loss would show: rows by key, counted rows, names that are taken again."""
    feed = Feed(folder)
    folder.mkdir()
    feed.database("d", 1)
    feed.create("d.t", 5)
    feed.statement("d.k", 6, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (_VALUE,))
    feed.puts("d.t", 5, {8: (1, "10"), 9: (2, "22"), 10: (1, "11")})
    feed.file("d.k", 6, keyless(9, 5) + keyless(10, 5))
    feed.puts("d.t", 5, {14: (3, "33")})
    feed.file("d.k", 6, keyless(18, 6))
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {22: (4, "44")})
    feed.puts("d.t", 20, {27: (5, "55")})
    feed.rename("d.t", "d.u", 30)
    feed.create("d.t", 31)
    feed.puts("d.t", 31, {35: (6, "66")})
    feed.file("d.k", 6, keyless(36, 7))
    return feed


class Moments:
    """Every command that the consumer sends to the target is one; `then` says what happens before which. `happened` and
    `committed` are the last one before which something did, and the last COMMIT."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.then = 0, dict[int, Callable[[], None]]()
        self.happened = self.committed = 0
        real = Connection._execute_command

        def sent(connection: Any, command: int, sql: Any) -> None:
            self.count += 1
            if (happens := self.then.pop(self.count, None)) is not None:
                happens()
                self.happened = self.count
            real(connection, command, sql)
            if sql == "COMMIT":
                self.committed = self.count

        monkeypatch.setattr(Connection, "_execute_command", sent)


def held(pair: ServerPair) -> _Rows:
    tables = [name for (name,) in pair.primary.execute("SHOW TABLES FROM d")]
    return {name: sorted(pair.primary.execute(f"SELECT * FROM d.`{name}`")) for name in tables}


def through(pair: ServerPair, feed: Feed, moments: Moments) -> None:
    """Each checkpoint is reached, however often it takes; what is said to be there is there. Of a fail-over behind the
    last COMMIT only the next run can know."""
    replica = Replica(feed, pair.url)
    for checkpoint in CHECKPOINTS:
        for _ in range(4):
            try:
                result = replica.once(checkpoint, tz="UTC", max_wait="20s")
            except Retryable:
                continue
            assert result.exit_code == 0, {str(name): table.error for name, table in result.tables.items()}
            if moments.happened > moments.committed:
                continue
            assert held(pair) == EXPECTED[checkpoint]
            break
        else:
            raise AssertionError(f"{checkpoint} is not reached")


@pytest.fixture(scope="module")
def commands(pair: ServerPair, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many commands it takes where nothing happens."""
    pair.begin()
    with pytest.MonkeyPatch.context() as patch:
        moments = Moments(patch)
        through(pair, storage(tmp_path_factory.mktemp("calm") / "storage"), moments)
    return moments.count


@pytest.mark.parametrize("seed", range(int(os.environ.get("FAIL_OVERS", "6"))))
def test_nothing_is_lost_whenever_it_comes(
    seed: int, pair: ServerPair, commands: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rnd = random.Random(seed)
    pair.begin()
    moments = Moments(monkeypatch)
    behind = rnd.randrange(1, commands)
    moments.then = {behind: pair.lag, behind + rnd.choice((1, 3, 10, 30, 100)): pair.fail_over}
    through(pair, storage(tmp_path / "storage"), moments)
