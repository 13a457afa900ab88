"""How Spark is started."""

from __future__ import annotations

import os
from dataclasses import dataclass

_LONGEST_SOCKET, _SOCKET_NAME = 107, len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
"""Bytes of the path of a Unix socket on Linux, and of the names that Spark gives to its own."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`conf` are further ``spark.*`` settings, which win over the program's own. `max_connections` bounds the tasks
    that write at the same time, as each holds one connection to the target."""

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = ()
    max_connections: int = 16

    @property
    def local(self) -> bool:
        return self.master.startswith("local")


def sockets_in(folder: str | None) -> dict[str, str]:
    """Properties with which the JVM meets its Python workers in `folder`, where a socket's path can be so long. Over
    TCP it sends rows in small pieces, each of which waits for the answer to the one before (see `daemon`)."""
    if folder is None or len(os.fsencode(folder)) + _SOCKET_NAME > _LONGEST_SOCKET:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}
