"""The SQL that hints print, run as it is printed, brings the table back."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.result import RunResult, TableResult
from tests.servers import MariaDb
from tests.support.feed import Feed, Replica

_SQL = re.compile(r"ALTER TABLE [^;]*")
ODD = "d.it's"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "feed")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.create(ODD, 2)
    feed.puts(ODD, 2, {10: (1, "1"), 11: (2, "2")})
    return feed


def only(result: RunResult) -> TableResult:
    (stopped,) = (table for table in result.tables.values() if table.state == "stopped")
    return stopped


@pytest.mark.parametrize(
    "by_hand",
    [
        "ADD COLUMN `ex tra` INT NOT NULL, ADD COLUMN more INT NOT NULL",
        "DROP PRIMARY KEY",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (`id`, `v`), MODIFY COLUMN `v` INT NOT NULL",
        "ADD UNIQUE KEY `a ``b` (`v`)",
        "MODIFY COLUMN `v` FLOAT",
    ],
)
def test_on_a_server(by_hand: str, feed: Feed, fresh_mariadb: MariaDb) -> None:
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(12).exit_code == 0
    fresh_mariadb.execute(f"ALTER TABLE d.`it's` {by_hand}")
    feed.puts(ODD, 2, {20: (3, "300"), 21: (4, "2")})
    hint = only(replica.once(25)).hint
    (statement,) = _SQL.findall(hint)
    fresh_mariadb.execute(statement)
    assert replica.once(25).exit_code == 0, hint
    assert fresh_mariadb.execute("SELECT id, v FROM d.`it's` ORDER BY id") == [(1, 1), (2, 2), (3, 300), (4, 2)]


def test_a_table_with_no_key_gets_an_engine_with_transactions(feed: Feed, fresh_mariadb: MariaDb) -> None:
    column = Column("v", "INT")
    feed.statement("d.k s", 16, Action.CREATE_TABLE, "CREATE TABLE `k s` (`v` INT)", (column,))
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(17).exit_code == 0
    fresh_mariadb.execute("ALTER TABLE d.`k s` ENGINE = MyISAM")
    line = feed._line("d.k s", 20, 1, "7").replace(b'"pkNames": ["id"]', b'"pkNames": []')
    feed.file("d.k s", 16, line.replace(b'"id": "1", ', b"").replace(b'"id": 4, ', b"").replace(b'"id": "int", ', b""))
    hint = only(replica.once(25)).hint
    fresh_mariadb.execute(hint)
    assert replica.once(25).exit_code == 0
    assert fresh_mariadb.execute("SELECT v FROM d.`k s`") == [(7,)]


def test_on_a_file(feed: Feed, tmp_path: Path) -> None:
    file = str(tmp_path / "replica.duckdb")
    replica = Replica(feed, f"duckdb:///{file}")
    assert replica.once(12).exit_code == 0
    with duckdb.connect(file) as connection:
        for name in ('"ex tra"', "more"):
            connection.execute(f"""ALTER TABLE d."it's" ADD COLUMN {name} INT DEFAULT 0""")
            connection.execute(f"""ALTER TABLE d."it's" ALTER COLUMN {name} SET NOT NULL""")
            connection.execute(f"""ALTER TABLE d."it's" ALTER COLUMN {name} DROP DEFAULT""")
    feed.puts(ODD, 2, {20: (3, "300")})
    hint = only(replica.once(25)).hint
    with duckdb.connect(file) as connection:
        statements = _SQL.findall(hint)
        assert len(statements) == 2
        for statement in statements:
            connection.execute(statement)
    assert replica.once(25).exit_code == 0
    with duckdb.connect(file) as connection:
        rows = connection.execute("""SELECT * FROM d."it's" ORDER BY id""").fetchall()
    assert rows == [(1, 1, 0, 0), (2, 2, 0, 0), (3, 300, 0, 0)]
