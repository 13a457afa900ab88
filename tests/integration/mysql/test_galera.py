"""A Galera cluster as the target: nodes that lag, transactions that another node's overtake, a node that is alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pymysql
import pytest

from consumer.errors import TargetUnavailable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.sink.mysql.sink import MySqlSink
from tests.galera import NO_GALERA, Balancer, GaleraCluster, GaleraNode, provider
from tests.integration.mysql.steps import settings
from tests.servers import mariadb_template
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, Replica, with_two_rows

pytestmark = pytest.mark.skipif(provider() is None, reason=NO_GALERA)
EVERYTHING = "SET SESSION wsrep_sync_wait = 15"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GaleraCluster]:
    with GaleraCluster(mariadb_template(tmp_path_factory.mktemp("galera"))) as cluster:
        yield cluster


@pytest.fixture
def nodes(cluster: GaleraCluster) -> tuple[GaleraNode, ...]:
    cluster.nodes[0].drop_all()
    return cluster.nodes


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return with_two_rows(tmp_path / "cdc")


def rows(node: GaleraNode, table: str = "d.t") -> dict[int, int]:
    return dict(node.execute(EVERYTHING, f"SELECT id, v FROM {table}"))


class Behind:
    """While it lasts `node` applies nothing of what others commit."""

    def __init__(self, node: GaleraNode) -> None:
        self._connection = node.connect()

    def __enter__(self) -> Behind:
        self._connection.cursor().execute("FLUSH TABLES WITH READ LOCK")
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self._connection.open:
            self._connection.close()


def test_a_node_that_lags_is_waited_for(nodes: tuple[GaleraNode, ...], feed: Feed) -> None:
    first, second = nodes
    assert Replica(feed, first.url()).once(15).exit_code == 0
    assert rows(second) == {1: 1, 2: 2}
    feed.puts("d.t", 10, {21: (1, "10")})
    with Behind(second) as behind:
        assert Replica(feed, first.url()).once(25).exit_code == 0
        sink = MySqlSink(settings(second, "default"))
        timer = threading.Timer(0.5, behind.end)
        timer.start()
        seen = sink.progress()
        sink.close()
        timer.join()
    assert seen.applied_ts == 25


def test_connections_may_go_to_any_node(nodes: tuple[GaleraNode, ...], feed: Feed) -> None:
    with Balancer([node.port for node in nodes]) as balancer:
        replica = Replica(feed, balancer.url)
        table, version = "d.t", 10
        for checkpoint in range(20, 80, 10):
            if checkpoint in (50, 60):
                old, table, version = table, "d.u" if table == "d.t" else "d.t", checkpoint - 2
                feed.rename(old, table, version)
            feed.puts(table, version, {checkpoint - 1: (checkpoint, str(checkpoint))})
            assert replica.once(checkpoint).exit_code == 0
    assert [rows(node) for node in nodes] == [{1: 1, 2: 2, **{at: at for at in range(20, 80, 10)}}] * 2


def test_a_default_is_the_same_moment_on_every_node(nodes: tuple[GaleraNode, ...], feed: Feed) -> None:
    columns = (ID, VALUE, Column("c", "TIMESTAMP", nullable=False, default="2024-02-29 19:32:03"))
    replica = Replica(feed, nodes[0].url())
    assert replica.once(15, tz="+05:30").exit_code == 0
    query = "ALTER TABLE `t` ADD COLUMN `c` TIMESTAMP NOT NULL DEFAULT '2024-03-01 01:02:03'"
    feed.statement("d.t", 20, Action.ADD_COLUMN, query, columns)
    assert replica.once(25, tz="+05:30").exit_code == 0
    moments = [node.execute(EVERYTHING, "SET time_zone = '+00:00'", "SELECT DISTINCT c FROM d.t") for node in nodes]
    assert moments == [[(datetime(2024, 2, 29, 19, 32, 3),)]] * 2


def test_a_time_that_the_nodes_would_make_differently_is_refused(nodes: tuple[GaleraNode, ...], feed: Feed) -> None:
    columns = (ID, VALUE, Column("c", "DATETIME", nullable=False, default="CURRENT_TIMESTAMP"))
    replica = Replica(feed, nodes[0].url())
    assert replica.once(15, tz="+05:30").exit_code == 0
    query = "ALTER TABLE `t` ADD COLUMN `c` DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP"
    feed.statement("d.t", 20, Action.ADD_COLUMN, query, columns)
    result = replica.once(25, tz="+05:30")
    assert result.exit_code == 5
    assert "run a statement in their own time zone" in result.tables[TableName("d", "t")].error


def test_a_transaction_that_another_nodes_overtakes_is_done_again(
    nodes: tuple[GaleraNode, ...], feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes
    replica = Replica(feed, first.url())
    assert replica.once(15).exit_code == 0
    feed.puts("d.t", 10, {21: (1, "10")})
    commit, refused = pymysql.Connection.commit, []

    def overtaken(connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT v FROM d.t WHERE id = 1")
            written = cursor.fetchone() == (10,)
        if written and not refused:
            second.execute("UPDATE d.t SET v = 99 WHERE id = 1")
            try:
                commit(connection)
            except pymysql.MySQLError as error:
                refused.append(error.args[0])
                raise
        commit(connection)

    monkeypatch.setattr(pymysql.Connection, "commit", overtaken)
    result = replica.once(25)
    monkeypatch.undo()
    assert refused == [1213]
    assert (result.exit_code, rows(second)) == (0, {1: 10, 2: 2})


def test_a_node_that_has_lost_the_others_does_not_answer(nodes: tuple[GaleraNode, ...], feed: Feed) -> None:
    _, second = nodes
    replica = Replica(feed, second.url())
    assert replica.once(15).exit_code == 0
    feed.puts("d.t", 10, {21: (1, "10")})
    second.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate = 1'")
    while second.execute("SHOW STATUS LIKE 'wsrep_ready'")[0][1] == "ON":
        time.sleep(0.05)
    try:
        with pytest.raises(TargetUnavailable, match="does not answer"):
            replica.once(25, max_wait="0s")
    finally:
        second.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate = 0'")
    second.wait_until_synced()
    assert replica.once(25).exit_code == 0
    assert rows(second) == {1: 10, 2: 2}
