"""Spark's Python daemon without Spark's archives on the module path, for ``spark.python.daemon.module``.

Every Python task begins with `importlib.invalidate_caches`, which reads the list of each archive on the path again:
of pyspark.zip, and the much longer one of a jar of Spark. Where pyspark is installed as a package neither is needed,
and without them a task that has nothing to do costs a tenth. What tasks import is imported here once, before workers
are forked. After each task PySpark collects garbage, and looked at every object of all these modules to find none.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import io
import os
import runpy
import socket
import stat
import sys
import zipimport
from typing import Any


def drop_archives() -> None:
    """Removes archives from the module path, if pyspark is found without them."""
    kept = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    if importlib.util.find_spec("pyspark") is None:
        return
    sys.path[:] = kept
    for entry, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[entry]


def import_tasks() -> None:
    """Imports what every task needs. A task that lacks a part of it reports that itself."""
    for module in ("consumer.spark.packed", "pyspark.worker"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def import_no_pandas() -> None:
    """Lets pyarrow find out, once for all workers, that there is no pandas. Each of them would import it, to check
    whether what becomes an array belongs to it, which is never the case."""
    sys.meta_path.insert(0, _NoPandas)
    try:
        with contextlib.suppress(ImportError):
            importlib.import_module("pyarrow").array([])
    finally:
        sys.meta_path.remove(_NoPandas)


def acknowledge_at_once() -> None:
    """Makes workers to which the JVM connects over TCP acknowledge at once what they read. The JVM sends in small
    pieces, each of which waits for the acknowledgement of the one before, and Linux would delay that by 40 ms for each
    task."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    opened = os.fdopen

    def fdopen(fd: int, mode: str = "r", buffering: int = -1, *more: Any, **options: Any) -> Any:
        if mode == "rb" and stat.S_ISSOCK(os.fstat(fd).st_mode):
            with contextlib.suppress(OSError):
                return io.BufferedReader(_Acknowledging(fd), buffering)
        return opened(fd, mode, buffering, *more, **options)

    os.fdopen = fdopen


class _Acknowledging(io.FileIO):
    """A TCP socket to read from. Raises OSError for another one."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        super().__init__(fd, "rb")

    def readinto(self, buffer: Any) -> int | None:
        """Sets the option again, because the system resets it."""
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return super().readinto(buffer)


class _NoPandas(importlib.abc.MetaPathFinder):
    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


if __name__ == "__main__":
    drop_archives()
    import_tasks()
    import_no_pandas()
    acknowledge_at_once()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
