"""Two servers behind one address: the second is a replica of the first, and takes its place when it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self

from tests.servers import MariaDb, SqlServer

_WAIT_SECONDS = 30


class Address:
    """A port of 127.0.0.1 that leads to the port of some server, as a virtual IP or a proxy does."""

    def __init__(self, port: int) -> None:
        self._leads_to = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, port: int) -> None:
        """From now on; whoever is connected is cut off."""
        with self._lock:
            self._leads_to = port
            cut, self._open = self._open, set()
        for end in cut:
            shut(end)

    def close(self) -> None:
        shut(self._listener)
        self._listener.close()
        self.lead_to(0)

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                try:
                    theirs = socket.create_connection(("127.0.0.1", self._leads_to))
                except OSError:
                    ours.close()
                    continue
                self._open |= {ours, theirs}
            for source, sink in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def pass_on(self, data: bytes, source: socket.socket, sink: socket.socket) -> bool:
        """Returns whether the connection goes on."""
        sink.sendall(data)
        return True

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (data := source.recv(65536)) and self.pass_on(data, source, sink):
                pass
        shut(source)
        shut(sink)
        with self._lock:
            self._open.discard(source)
        source.close()


class ServerPair:
    """`primary` is whoever has the address."""

    def __init__(self, make: Callable[[list[str]], SqlServer]) -> None:
        options = ("--log-bin=bin", "--sync-binlog=0")
        self.primary, self.replica = (make([*options, f"--server-id={number}"]) for number in (1, 2))

    def __enter__(self) -> Self:
        self.primary.start()
        self.replica.start()
        own_identity = self.replica.folder / "data" / "auto.cnf"
        if own_identity.exists():  # MySQL's, from the folder that both are copies of
            self.replica.end()
            own_identity.unlink()
            self.replica.start()
        self.address = Address(self.primary.port)
        return self

    def __exit__(self, *_: object) -> None:
        self.address.close()
        self.primary.stop()
        self.replica.stop()

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.address.port}/"

    def begin(self) -> None:
        """Both are empty, and the replica follows."""
        self.replica.execute(*self._says("STOP", "RESET ALL"))
        for server in (self.primary, self.replica):
            server.drop_all()
            server.execute(self._says("RESET LOGS")[0])
        name, position = self.primary.execute(self._says("STATUS")[0])[0][:2]
        options = {
            "HOST": "'127.0.0.1'", "PORT": self.primary.port, "USER": "'root'",
            "LOG_FILE": f"'{name}'", "LOG_POS": position,
        }  # fmt: skip
        place = ", ".join(f"{self._says('OTHER')[0]}_{option}={value}" for option, value in options.items())
        self.replica.execute(f"{self._says('FOLLOW')[0]} {place}", *self._says("START"))

    def lag(self) -> None:
        """The replica has what there is until now, and nothing later."""
        name, position = self.primary.execute(self._says("STATUS")[0])[0][:2]
        wait = f"SELECT {self._says('OTHER')[0]}_POS_WAIT('{name}', {position}, {_WAIT_SECONDS})"
        if self.replica.execute(wait)[0][0] in (None, -1):
            raise RuntimeError("the replica does not follow")
        self.replica.execute(*self._says("STOP"))

    def fail_over(self) -> None:
        """The replica has the address, with what it has."""
        self.replica.execute(*self._says("STOP", "RESET ALL"))
        self.primary, self.replica = self.replica, self.primary
        self.address.lead_to(self.primary.port)

    @property
    def _maria(self) -> bool:
        return isinstance(self.primary, MariaDb)

    def _says(self, *what: str) -> list[str]:
        return [_WORDS[word][0 if self._maria else 1] for word in what]


_WORDS = {
    "START": ("START SLAVE", "START REPLICA"),
    "STOP": ("STOP SLAVE", "STOP REPLICA"),
    "RESET ALL": ("RESET SLAVE ALL", "RESET REPLICA ALL"),
    "RESET LOGS": ("RESET MASTER", "RESET BINARY LOGS AND GTIDS"),
    "STATUS": ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"),
    "OTHER": ("MASTER", "SOURCE"),
    "FOLLOW": ("CHANGE MASTER TO", "CHANGE REPLICATION SOURCE TO"),
}


def shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
