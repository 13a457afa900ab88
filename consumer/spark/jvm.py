"""Spark's JVM is a child of ours: a signal breaks its start off, and it does not outlive the driver.

A driver that is killed closes the pipe that the JVM reads from, and the JVM ends by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkConf

_ENDS_WITHIN = 3
"""Seconds for its shutdown hooks, which delete Spark's temporary folders."""


def start_jvm(conf: SparkConf, noise: IO[bytes]) -> None:
    """Start it with stderr in `noise`: what it says at every start (its own modules, its logging) is not for whoever
    runs the consumer, and only when it does not start there is something to be told of it."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    before = _children()
    try:
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"stderr": noise}))
    except BaseException:
        # PySpark has taken the folder away in which it waits for the JVM's answer: a JVM that comes up now would find
        # nobody, and stay.
        for child in _children() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise


def end_jvm() -> None:
    """End it without waiting for the job in hand. A later session starts another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    SparkContext._active_spark_context = SparkSession._instantiatedSession = None
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    process.terminate()
    try:
        process.wait(_ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def own_handlers() -> Iterator[None]:
    """Around what makes PySpark set a SIGINT handler of its own: afterwards ours is back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _children() -> set[int]:
    """The processes that this one has started and not waited for; empty where the system does not tell."""
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(child) for child in task.read_text().split()}
    return found
