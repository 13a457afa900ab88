"""How Spark is started, and its properties."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass

_LONGEST_SOCKET, _SOCKET_NAME = 107, len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
"""Bytes of the path of a Unix socket on Linux, and of the names that Spark gives to its own."""
_SHORT_JOBS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""JVM flags for a driver that lives for seconds on few cores: they take little more than half of the defaults' CPU
time."""
_PASSES_ROWS_ON = "-XX:TieredStopAtLevel=1"
"""JVM flags for executors: their JVMs only pass rows on, and the second compiler cost more than it saved: half their
CPU time."""
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 128 << 20}
"""Variables for glibc in Python workers: memory of a decoded block is kept for the next one. Releasing it and
allocating it again took a tenth of the time."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How Spark is started. `conf` are further ``spark.*`` settings, which override the program's own.
    `max_connections` bounds the tasks that write at the same time, as each holds one connection to the target. Loads of
    at most `in_process_bytes` do not go through Spark."""

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = ()
    max_connections: int = 16
    in_process_bytes: int = 0

    @property
    def local(self) -> bool:
        return self.master.startswith("local")


def sockets_in(folder: str | None) -> dict[str, str]:
    """Returns properties with which the JVM connects to its Python workers in `folder`, if a socket's path can be so
    long. Over TCP it sends rows in small pieces, each of which waits for the acknowledgement of the one before (see
    `daemon`)."""
    if folder is None or len(os.fsencode(folder)) + _SOCKET_NAME > _LONGEST_SOCKET:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def standard_properties(settings: SparkSettings) -> dict[str, str]:
    """Returns the properties that we set where `settings` have none."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        # What Spark itself does with our few rows is not worth code of its own.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.scheduler.mode": "FAIR",
        "spark.speculation": "false",
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
        **{f"spark.executorEnv.{name}": str(size) for name, size in _KEPT_MEMORY.items()},
    }
    if importlib.util.find_spec("pyspark") is not None:
        conf["spark.python.daemon.module"] = "consumer.spark.daemon"
    if settings.local:
        conf |= {
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": _SHORT_JOBS,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    else:
        conf |= {
            # Both stand before what the cluster's own settings say of the JVMs.
            "spark.driver.defaultJavaOptions": _SHORT_JOBS,
            "spark.executor.defaultJavaOptions": _PASSES_ROWS_ON,
            # Each row is a part of a bucket, of megabytes: a batch of many would grow by being copied again and again.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
        }
    return conf
