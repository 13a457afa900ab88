"""A Galera cluster of two MariaDB nodes, on 127.0.0.1, on free ports, in temporary folders."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Self

import pymysql

from tests.servers import MariaDb, free_port

_PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
NO_GALERA = "no Galera provider is installed beside MariaDB"
_JOIN_SECONDS = 90


def provider() -> str | None:
    """The path of Galera's library."""
    return next((path for path in _PROVIDERS if Path(path).exists()), None)


class GaleraNode(MariaDb):
    """One node. `peers` are in the cluster already; the first node is the cluster."""

    def __init__(self, template: Path, peers: Sequence[GaleraNode] = (), options: Sequence[str] = ()) -> None:
        self._group, transfer = free_port(), free_port()
        group = {
            "base_host": "127.0.0.1", "base_port": self._group, "gmcast.listen_addr": f"tcp://127.0.0.1:{self._group}",
            "ist.recv_addr": f"127.0.0.1:{free_port()}", "gcache.size": "16M",
        }  # fmt: skip
        addresses = ",".join(f"127.0.0.1:{peer._group}" for peer in peers)
        cluster = [
            "--wsrep-on=ON", f"--wsrep-provider={provider()}", f"--wsrep-cluster-address=gcomm://{addresses}",
            "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-node-address=127.0.0.1",
            "--wsrep-sst-method=rsync", f"--wsrep-sst-receive-address=127.0.0.1:{transfer}",
            "--wsrep-provider-options=" + ";".join(f"{key}={value}" for key, value in group.items()),
        ]  # fmt: skip
        super().__init__(template, [*cluster, *options])

    def start(self) -> Self:
        super().start()
        self.wait_until_synced()
        return self

    def wait_until_synced(self) -> None:
        """In the cluster, with all that it has."""
        deadline = time.monotonic() + _JOIN_SECONDS
        while self._state() != "Synced":
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(
                    f"the node did not join: {(self.folder / 'log').read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.05)

    def _state(self) -> str:
        with suppress(pymysql.MySQLError):
            return str(self.execute("SHOW STATUS LIKE 'wsrep_local_state_comment'")[0][1])
        return ""

    def lend(self, other: GaleraNode) -> None:
        """Give a node that has not begun this one's data, so that it asks the cluster for what is newer alone."""
        unlike = shutil.ignore_patterns("gvwstate.dat", "galera.cache")
        shutil.copytree(self.folder / "data", other.folder / "data", ignore=unlike)
        other.folder.chmod(0o755)  # rsync, which root starts, reads and writes there as nobody
        for folder, _, files in os.walk(other.folder / "data"):
            Path(folder).chmod(0o777)
            for file in files:
                (Path(folder) / file).chmod(0o666)


class GaleraCluster:
    """``with GaleraCluster(template) as cluster: cluster.nodes``."""

    def __init__(self, template: Path, options: Sequence[str] = ()) -> None:
        first = GaleraNode(template, options=options)
        self.nodes = (first, GaleraNode(template, [first], options))

    def __enter__(self) -> Self:
        first, second = self.nodes
        try:
            first.start()
            first.end()
            first.lend(second)
            first.start()
            second.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
            shutil.rmtree(node.folder, ignore_errors=True)


class Balancer:
    """A TCP balancer: one connection goes to the first server, the next to the second, and so on."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = cycle(ports)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"mysql://root@127.0.0.1:{self._listening.getsockname()[1]}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", next(self._ports)))
                for source, drain in ((client, server), (server, client)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=_pass_on, args=(source, drain), daemon=True).start()


def _pass_on(source: socket.socket, drain: socket.socket) -> None:
    with suppress(OSError), source, drain:
        while data := source.recv(1 << 16):
            drain.sendall(data)
