"""A statement whose connection breaks, and that something between delivers to the server all the same, later."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer.sink.mysql.server import statement_sessions
from tests.servers import MariaDb
from tests.support.feed import Feed, Replica

_QUERY = 3
_PATIENCE = 60


class Keeper:
    """A proxy. The first client that sends `text` is cut off; the server gets it when `deliver` is set, `done` then."""

    def __init__(self, server: MariaDb, text: bytes) -> None:
        self._server, self._text = server, text
        self._kept = False
        self.deliver, self.done = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mysql://root@127.0.0.1:{self._listener.getsockname()[1]}/?ssl-mode=DISABLED"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.deliver.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server.port))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self._kept and data[4:5] == bytes([_QUERY]) and self._text in data:
                    self._kept = True
                    _cut(source)
                    self.deliver.wait(_PATIENCE)
                    sink.sendall(data)
                    self._server.execute("DO SLEEP(0.3)")  # it runs
                    self.done.set()
                    break
                sink.sendall(data)
        _cut(source)
        _cut(sink)


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
    look = statement_sessions._listening

    def looked(*given: Any) -> int:
        if found := look(*given):
            keeper.deliver.set()
        return found

    monkeypatch.setattr(statement_sessions, "_listening", looked)
    assert Replica(feed, keeper.url).once(30, tz="UTC").exit_code == 0
    keeper.deliver.set()
    assert keeper.done.wait(_PATIENCE)
    assert fresh_mariadb.execute("SELECT * FROM d.t ORDER BY id") == [(4, 44), (5, 55)]


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
