"""A statement whose connection breaks, and that something between delivers to the server all the same, later."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer.sink.mysql.server import statement_connections
from tests.server_pair import Address, shut
from tests.servers import MariaDb
from tests.support.feed import Feed, Replica

_QUERY = 3
_PATIENCE = 60


class Keeper(Address):
    """The first client that sends `text` is cut off; the server gets it when `deliver` is set, `done` then."""

    def __init__(self, server: MariaDb, text: bytes) -> None:
        self._server, self._text = server, text
        self._kept = False
        self.deliver, self.done = threading.Event(), threading.Event()
        super().__init__(server.port)
        self.url = f"mysql://root@127.0.0.1:{self.port}/?ssl-mode=DISABLED"

    def close(self) -> None:
        self.deliver.set()
        super().close()

    def pass_on(self, data: bytes, source: socket.socket, sink: socket.socket) -> bool:
        if self._kept or data[4:5] != bytes([_QUERY]) or self._text not in data:
            return super().pass_on(data, source, sink)
        self._kept = True
        shut(source)
        self.deliver.wait(_PATIENCE)
        sink.sendall(data)
        self._server.execute("DO SLEEP(0.3)")  # it runs
        self.done.set()
        return False


@pytest.fixture
def keeper(fresh_mariadb: MariaDb) -> Iterator[Keeper]:
    keeper = Keeper(fresh_mariadb, b"TRUNCATE TABLE")
    yield keeper
    keeper.close()


def test_it_does_not_come_behind_newer_rows(
    keeper: Keeper, fresh_mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 5)
    feed.puts("d.t", 5, {8: (1, "10"), 9: (2, "22")})
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {22: (4, "44"), 23: (5, "55")})
    look = statement_connections._listening

    def looked(*given: Any) -> int:
        if found := look(*given):
            keeper.deliver.set()
        return found

    monkeypatch.setattr(statement_connections, "_listening", looked)
    assert Replica(feed, keeper.url).once(30, tz="UTC").exit_code == 0
    keeper.deliver.set()
    assert keeper.done.wait(_PATIENCE)
    assert fresh_mariadb.execute("SELECT * FROM d.t ORDER BY id") == [(4, 44), (5, 55)]
