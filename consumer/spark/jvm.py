"""Spark's JVM is a child of ours: a signal breaks its start off, and it does not outlive the driver.

A driver that is killed closes the pipe that the JVM reads from, and the JVM ends by itself.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkConf

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_ENDS_WITHIN = 3
"""Seconds for its shutdown hooks, which delete Spark's temporary folders."""


def start_jvm(conf: SparkConf, noise: IO[bytes]) -> None:
    """Start it with stderr in `noise`: what it says at every start (its own modules, its logging) is not for whoever
    runs the consumer, and only when it does not start there is something to be told of it."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    before = _children()
    try:
        with _properties(conf):
            SparkContext._ensure_initialized(gateway=launch_gateway(None, {"stderr": noise}))
    except BaseException:
        # PySpark has taken the folder away in which it waits for the JVM's answer: a JVM that comes up now would find
        # nobody, and stay.
        for child in _children() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise


@contextmanager
def _properties(conf: SparkConf) -> Iterator[None]:
    """Tell the JVM its properties by a file that only we can read: what stands in its command line, everyone can."""
    given = os.environ.get(_ARGUMENTS)
    with tempfile.NamedTemporaryFile("w", encoding="latin-1", suffix=".conf") as file:  # mode 0600
        file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.getAll())
        file.flush()
        file_first = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        os.environ[_ARGUMENTS] = f"{file_first} {given or 'pyspark-shell'}"
        try:
            yield
        finally:
            del os.environ[_ARGUMENTS]
            if given is not None:
                os.environ[_ARGUMENTS] = given


def _escaped(text: str) -> str:
    """`text` as a name or a value in a properties file of Java: ASCII alone, everything else by its UTF-16 units."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    return "".join(chr(unit) if chr(unit).isascii() and chr(unit).isalnum() else f"\\u{unit:04x}" for unit in units)


def end_jvm() -> None:
    """End it without waiting for the job in hand. A later session starts another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    accumulators = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if accumulators is not None:
        # It would print a trace when the JVM's end of its connection goes away.
        accumulators.handle_error = lambda *_: None
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
