"""Names that a server cannot hold. MySQL makes ? of each character of 4 bytes: the name of one table is another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import SqlServer
from tests.support.feed import Feed, Replica, states


@pytest.mark.parametrize("name", ["fresh_mariadb", "fresh_mysql"])
def test_a_name_of_4_bytes_is_not_taken_for_another(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server: SqlServer = request.getfixturevalue(name)
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.?", 2)
    feed.puts("d.?", 2, {10: (1, "1")})
    replica = Replica(feed, server.url())
    assert replica.once(15).exit_code == 0
    feed.create("d.😀", 20)
    result = replica.once(25)
    assert (result.exit_code, states(result)) == (5, {"d.?": "ok", "d.😀": "stopped"})
    feed.drop("d.😀", 30)
    replica.once(35)
    feed.puts("d.?", 2, {40: (2, "2")})
    assert states(replica.once(45))["d.?"] == "ok"
    assert server.execute("SELECT id, v FROM d.`?` ORDER BY id") == [(1, 1), (2, 2)]
    assert server.execute("SHOW TABLES FROM d") == [("?",)]
