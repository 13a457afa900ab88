"""A run that ends around a statement, and somebody who alters the table before the next one: that tells nothing of the
statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import SqlServer
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, Fuse
from tests.support.feed import Feed, Replica

CREATE = (
    "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT,KEY `i`(`v`)) PARTITION BY RANGE (`id`)"
    " (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (20))"
)
ROWS = {3: (1, "1"), 4: (2, "2"), 5: (12, "3")}
BIG = (ID, Column("v", "BIGINT"))
STATEMENTS: dict[str, tuple[Action, tuple[Column, ...]]] = {
    "TRUNCATE TABLE `t`": (Action.TRUNCATE_TABLE, (ID, VALUE)),
    "ALTER TABLE `t` TRUNCATE PARTITION `p0`": (Action.TRUNCATE_PARTITION, (ID, VALUE)),
    "ALTER TABLE `t` DROP PARTITION `p0`": (Action.DROP_PARTITION, (ID, VALUE)),
    "ALTER TABLE `t` ADD PARTITION (PARTITION `p2` VALUES LESS THAN (30))": (Action.ADD_PARTITION, (ID, VALUE)),
    "ALTER TABLE `t` REORGANIZE PARTITION `p0`,`p1` INTO (PARTITION `q` VALUES LESS THAN (20))": (
        Action.REORGANIZE_PARTITION,
        (ID, VALUE),
    ),
    "ALTER TABLE `t` REMOVE PARTITIONING": (Action.REMOVE_PARTITIONING, (ID, VALUE)),
    "ALTER TABLE `t` MODIFY COLUMN `v` BIGINT": (Action.MODIFY_COLUMN, BIG),
    "ALTER TABLE `t` MODIFY COLUMN `v` BIGINT, ALTER COLUMN `id` SET DEFAULT 5": (Action.MULTI_SCHEMA_CHANGE, BIG),
    "ALTER TABLE `t` ADD INDEX `j`(`v`)": (Action.ADD_INDEX, (ID, VALUE)),
    "ALTER TABLE `t` DROP INDEX `i`": (Action.DROP_INDEX, (ID, VALUE)),
    "ALTER TABLE `t` RENAME INDEX `i` TO `j`": (Action.RENAME_INDEX, (ID, VALUE)),
    "ALTER TABLE `t` COMMENT = 'c'": (Action.MODIFY_TABLE_COMMENT, (ID, VALUE)),
}
BY_HAND = "ALTER TABLE `t` ADD INDEX `own`(`v`,`id`)"


@pytest.fixture
def server(fresh_mariadb: SqlServer) -> SqlServer:
    return fresh_mariadb


def begun(server: SqlServer, folder: Path, create: str = CREATE, rows: dict[int, tuple[int, str]] = ROWS) -> Replica:
    """With one table, and its rows."""
    feed = Feed(folder)
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, create)
    feed.puts("d.t", 2, rows)
    replica = Replica(feed, server.url())
    assert replica.once(15).exit_code == 0
    return replica


def dies_before_a_statement(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("consumer.sink.mysql.sink.execute_ddls", Fuse(0).around(lambda: None))
        with pytest.raises(Crash):
            replica.once(25)


def content(server: SqlServer, database: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """The definition of its table, in lines in no order, and the rows."""
    definition = str(server.execute(f"SHOW CREATE TABLE {database}.t")[0][1])
    return sorted(line.strip(" ,)") for line in definition.splitlines()), server.execute(
        f"SELECT * FROM {database}.t ORDER BY id"
    )


@pytest.mark.parametrize("query", STATEMENTS)
@pytest.mark.parametrize("ran", [False, True], ids=["not run", "run"])
def test_a_table(query: str, ran: bool, server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends as one on which both were executed."""
    rows = ",".join(f"({key},{value})" for key, value in ROWS.values())
    charset = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    server.execute(f"CREATE DATABASE o {charset}", "USE o", CREATE, f"INSERT INTO t VALUES {rows}", query, BY_HAND)
    replica = begun(server, tmp_path)
    action, columns = STATEMENTS[query]
    replica.feed.statement("d.t", 20, action, query, columns)
    dies_before_a_statement(replica, monkeypatch)
    server.execute("USE d", *([query] if ran else []), BY_HAND)
    assert replica.once(25).exit_code == 0
    assert content(server, "d") == content(server, "o")


def test_partitions_that_are_exchanged(server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = begun(server, tmp_path)
    feed = replica.feed
    feed.statement("d.u", 16, Action.CREATE_TABLE, "CREATE TABLE `u` (`id` INT PRIMARY KEY,`v` INT,KEY `i`(`v`))")
    assert replica.once(18).exit_code == 0
    query = "ALTER TABLE `d`.`t` EXCHANGE PARTITION `p0` WITH TABLE `d`.`u`"
    feed.statement("d.t", 20, Action.EXCHANGE_PARTITION, query)
    feed.describe("d.u", 20)
    dies_before_a_statement(replica, monkeypatch)
    server.execute("ALTER TABLE d.t COMMENT = 'own'")
    assert replica.once(25).exit_code == 0
    held = [server.execute(f"SELECT id FROM d.{table} ORDER BY id") for table in ("t", "u")]
    assert held == [[(12,)], [(1,), (2,)]]


def test_a_database(server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 2)
    replica = Replica(feed, server.url())
    assert replica.once(15).exit_code == 0
    feed.database("d", 20, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    dies_before_a_statement(replica, monkeypatch)
    server.execute("ALTER DATABASE d CHARACTER SET latin1")
    assert replica.once(25).exit_code == 0
    assert ("d",) not in server.execute("SHOW DATABASES")


@pytest.mark.parametrize("ran", [False, True], ids=["not run", "run"])
@pytest.mark.parametrize(("query", "count"), [("COALESCE PARTITION 2", 2), ("ADD PARTITION PARTITIONS 4", 8)])
def test_partitions_that_are_counted(
    query: str, count: int, ran: bool, server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later statement names some of them."""
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT) PARTITION BY HASH (`id`) PARTITIONS 4"
    replica = begun(server, tmp_path, create, {3 + key: (key, "1") for key in range(8)})
    feed = replica.feed
    feed.statement("d.t", 20, Action.REORGANIZE_PARTITION, f"ALTER TABLE `t` {query}")
    dies_before_a_statement(replica, monkeypatch)
    server.execute("USE d", *([f"ALTER TABLE `t` {query}"] if ran else []), "ALTER TABLE `t` ADD INDEX `own`(`v`)")
    feed.statement("d.t", 30, Action.TRUNCATE_PARTITION, "ALTER TABLE `t` TRUNCATE PARTITION `p1`")
    assert replica.once(35).exit_code == 0
    assert server.execute("SELECT id FROM d.t ORDER BY id") == [(key,) for key in range(8) if key % count != 1]


def test_a_table_that_was_not_there(server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CREATE TABLE leaves it empty."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.u", 2)
    replica = Replica(feed, server.url())
    assert replica.once(15).exit_code == 0
    feed.create("d.t", 20)
    feed.puts("d.t", 20, {22: (1, "1")})
    dies_before_a_statement(replica, monkeypatch)
    server.execute("USE d", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (9, 9)")
    result = replica.once(25)
    assert result.exit_code == 5
    assert "a table of this name exists" in result.tables[TableName("d", "t")].error
    server.execute("DROP TABLE d.t")
    assert replica.once(25).exit_code == 0
    assert server.execute("SELECT * FROM d.t") == [(1, 1)]
