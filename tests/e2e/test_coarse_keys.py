"""Unique keys of the target that are coarser than upstream's, or that upstream does not have, never lose a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.mysql_server import NO_MYSQL, MySql, has_mysql, mysql_template
from tests.servers import MariaDb
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed, Replica, states

K = Column("k", "VARCHAR", length=20, nullable=False, is_pk=True)
E = Column("e", "VARCHAR", length=40)
CREATE = "CREATE TABLE `t` (`k` VARCHAR(20) PRIMARY KEY,`e` VARCHAR(40)) DEFAULT CHARSET=utf8mb4 COLLATE={}"


def line(ts: int, row: dict[str, str], kind: str = "INSERT") -> bytes:
    return row_line(kind, dict(row), commit_ts=ts, pkNames=[next(iter(row))]) + b"\r\n"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    found = Feed(tmp_path)
    found.database("d", 1)
    return found


def put(feed: Feed, ts: int, *keys: str) -> None:
    feed.file("d.t", 2, b"".join(line(ts + n, {"k": key, "e": str(ts + n)}) for n, key in enumerate(keys)))


def rows(server: MariaDb) -> Sequence[object]:
    return sorted(server.execute("SELECT * FROM d.t"))


@pytest.mark.parametrize(
    ("collation", "first", "second"),
    [
        ("utf8mb4_general_ci", ("a", "A"), ()),
        ("utf8mb4_general_ci", ("a", "b"), ("A",)),
        ("utf8mb4_bin", ("a", "a "), ()),
        ("utf8mb4_bin", ("a", "b"), ("a ",)),
    ],
)
def test_a_key_that_takes_two_rows_for_one(
    collation: str, first: Sequence[str], second: Sequence[str], feed: Feed, fresh_mariadb: MariaDb
) -> None:
    """TiDB compares bytes, whatever the column says, where its new collations are switched off."""
    feed.statement("d.t", 2, Action.CREATE_TABLE, CREATE.format(collation), (K, E))
    put(feed, 10, *first)
    replica = Replica(feed, fresh_mariadb.url())
    result = replica.once(20)
    before = rows(fresh_mariadb)
    if second:
        assert result.exit_code == 0
        put(feed, 30, *second)
        result = replica.once(40)
    assert result.exit_code == 3
    [error] = [table.error for table in result.tables.values() if table.error]
    assert "unique key `PRIMARY`" in error
    assert rows(fresh_mariadb) == before  # rolled back
    assert len(before) == (2 if second else 0)


def test_keys_that_upstream_compares_so_too(feed: Feed, fresh_mariadb: MariaDb) -> None:
    """One after the other they are fine, whichever way the key is spelled."""
    feed.statement("d.t", 2, Action.CREATE_TABLE, CREATE.format("utf8mb4_general_ci"), (K, E))
    put(feed, 10, "a", "b", "c ")
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(20).exit_code == 0
    gone = line(30, {"k": "a"}, "DELETE") + line(32, {"k": "c "}, "DELETE")
    feed.file("d.t", 2, gone + line(33, {"k": "A", "e": "33"}) + line(34, {"k": "C", "e": "34"}))
    assert replica.once(40).exit_code == 0
    assert rows(fresh_mariadb) == [("A", "33"), ("C", "34"), ("b", "11")]
    put(feed, 50, "A")
    assert replica.once(60).exit_code == 0
    assert rows(fresh_mariadb) == [("A", "50"), ("C", "34"), ("b", "11")]


@pytest.mark.parametrize("second", ["X@Y", "x@y "])
def test_a_secondary_key_with_a_coarser_collation(second: str, feed: Feed, fresh_mariadb: MariaDb) -> None:
    ci = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
    fresh_mariadb.execute(
        "CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, e VARCHAR(40) {ci}, UNIQUE u (e))"
    )
    feed.describe("d.t", 2, (ID, E))
    feed.file("d.t", 2, line(10, {"id": "1", "e": "x@y"}) + line(11, {"id": "2", "e": "z"}))
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(20).exit_code == 0
    swapped = line(30, {"id": "1", "e": "Z"}) + line(30, {"id": "2", "e": "X@Y"})
    feed.file("d.t", 2, swapped)  # values that move between rows are no loss
    assert replica.once(40).exit_code == 0
    assert rows(fresh_mariadb) == [(1, "Z"), (2, "X@Y")]
    feed.file("d.t", 2, line(50, {"id": "3", "e": second}))
    result = replica.once(60)
    assert result.exit_code == 3
    assert rows(fresh_mariadb) == [(1, "Z"), (2, "X@Y")]


def test_a_unique_key_that_only_the_target_has(feed: Feed, fresh_mariadb: MariaDb) -> None:
    feed.create("d.t", 2)
    replica = Replica(feed, fresh_mariadb.url())
    replica.once(5)
    fresh_mariadb.execute("ALTER TABLE d.t ADD UNIQUE KEY x (v)")
    feed.puts("d.t", 2, {10: (1, "7"), 11: (2, "7")})
    result = replica.once(20)
    assert states(result) == {"d.t": "stopped"}
    [table] = result.tables.values()
    assert "unique key `x` on `v`" in table.error
    fresh_mariadb.execute("ALTER TABLE d.t DROP INDEX x")
    assert replica.once(20).exit_code == 0
    assert len(rows(fresh_mariadb)) == 2


def _ignored(event: str) -> dict[str, object]:
    return {"event_filters": [{"matcher": ["d.*"], "ignore-event": [event]}]}


@pytest.mark.parametrize(
    "flags",
    [
        _ignored("delete"),
        _ignored("update"),
        _ignored("truncate table"),
        {"ddl": {"rules": [{"kinds": ["truncate-table"], "action": "ignore"}]}},
        {"event_filters": [{"matcher": ["d.*"], "ignore-delete-value-expr": "id = 1"}]},
    ],
    ids=lambda flags: " ".join(map(str, flags)),
)
def test_a_row_that_was_kept_when_upstream_gives_its_value_to_another_one(
    flags: dict[str, object], feed: Feed, fresh_mariadb: MariaDb
) -> None:
    feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT,UNIQUE `u` (`v`))")
    feed.puts("d.t", 2, {10: (1, "7"), 11: (5, "5")})
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(15, **flags).exit_code == 0
    update = line(20, {"id": "1", "v": "9"}, "UPDATE").replace(b'"old":null', b'"old":[{"id":"1","v":"7"}]')
    if "truncate" in str(flags):
        feed.truncate("d.t", 20)
    else:
        feed.file("d.t", 2, update if "update" in str(flags) else line(20, {"id": "1", "v": "7"}, "DELETE"))
    feed.puts("d.t", 20 if "truncate" in str(flags) else 2, {30: (2, "7")})
    result = replica.once(40, **flags)
    assert states(result) == {"d.t": "stopped"}
    assert "a filter or policy kept" in next(iter(result.tables.values())).error
    assert rows(fresh_mariadb) == [(1, 7), (5, 5)]
    fresh_mariadb.execute("ALTER TABLE d.t DROP INDEX u")
    assert replica.once(40, **flags).exit_code == 0
    assert rows(fresh_mariadb) == [(1, 7), (2, 7), (5, 5)]


@pytest.mark.parametrize(
    "query",
    [
        "ALTER TABLE `t` ADD UNIQUE KEY `u` (`v`)",
        "ALTER TABLE `t` ADD UNIQUE (`v`,`id`)",
        "CREATE UNIQUE INDEX `u` ON `t` (`v`)",
    ],
)
def test_the_keys_that_statements_made_are_known(query: str, feed: Feed, fresh_mariadb: MariaDb) -> None:
    feed.create("d.t", 2)
    feed.statement("d.t", 3, Action.ADD_INDEX, query)
    feed.puts("d.t", 3, {10: (1, "7"), 11: (2, "8")})
    assert Replica(feed, fresh_mariadb.url()).once(20).exit_code == 0
    assert len(rows(fresh_mariadb)) == 2


@pytest.mark.skipif(not has_mysql(), reason=NO_MYSQL)
@pytest.mark.parametrize("consistency", ["row", "table"])
def test_a_server_with_gtids_that_logs_statements_takes_staged_rows(consistency: str, feed: Feed) -> None:
    """It makes temporary tables only in sessions that commit by themselves, and so do older ones whatever they log."""
    feed.statement("d.t", 2, Action.CREATE_TABLE, CREATE.format("utf8mb4_general_ci"), (K, E))
    put(feed, 5, "a", "b")
    options = ("--log-bin=bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-format=STATEMENT")
    server = MySql(mysql_template(), options)
    server.start()
    try:
        assert Replica(feed, server.url()).once(10, consistency=consistency).exit_code == 0
        feed.file("d.t", 2, line(12, {"k": "a", "e": "5"}, "DELETE") + line(12, {"k": "A", "e": "12"}))
        assert Replica(feed, server.url()).once(20, consistency=consistency).exit_code == 0
        assert server.execute("SELECT k, e FROM d.t ORDER BY e") == [("A", "12"), ("b", "6")]
    finally:
        server.stop()
