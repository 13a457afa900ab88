"""A target behind a proxy that gives each transaction some session of the server."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from consumer.errors import BadConfig
from tests.pooling_proxy import PoolingProxy
from tests.servers import MariaDb
from tests.support.feed import Feed, Replica, with_two_rows


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return with_two_rows(tmp_path / "cdc")


def test_the_proxy_pools(fresh_mariadb: MariaDb) -> None:
    with PoolingProxy(fresh_mariadb.port) as proxy:
        port = int(proxy.url.rpartition(":")[2].strip("/"))
        one, other = (pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True) for _ in range(2))
        numbers = set()
        for _ in range(1000):  # a session is idle again only shortly after its answer
            if len(numbers) > 1:
                break
            with one.cursor() as cursor:
                cursor.execute("SELECT CONNECTION_ID()")
                numbers.add(cursor.fetchone())
        assert len(numbers) > 1
        one.begin()
        with one.cursor() as cursor:
            seen = set()
            for _ in range(3):
                cursor.execute("SELECT CONNECTION_ID()")
                seen.add(cursor.fetchone())
        assert len(seen) == 1
        one.close()
        other.close()


def test_it_is_refused_and_nothing_is_wrong_behind_it(fresh_mariadb: MariaDb, feed: Feed) -> None:
    with PoolingProxy(fresh_mariadb.port) as proxy:
        with pytest.raises(BadConfig, match="a proxy before it pools connections"):
            Replica(feed, proxy.url).once(15)
        assert proxy.handed_over
    fresh_mariadb.kill_clients()
    assert Replica(feed, fresh_mariadb.url()).once(15).exit_code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 1), (2, 2)]
