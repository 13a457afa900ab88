"""Everything that we use of PySpark's private part. If a new version moves a name, `tests/test_private_names.py`
reports which."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import py4j.protocol
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter


def port_in(path: Path) -> tuple[str, str]:
    """Reads the gateway's port and secret from the file `path`, to which the JVM has written them."""
    with path.open("rb") as answer:
        return str(read_int(answer)), UTF8Deserializer().loads(answer)


def spark_home() -> str:
    return str(_find_spark_home())


def active_context() -> SparkContext | None:
    return SparkContext._active_spark_context


def is_running(context: SparkContext) -> bool:
    """Returns whether its JVM answers, and can run jobs. Raises py4j's errors, and those of the operating system."""
    return context._jsc is not None and not context._jsc.sc().isStopped()


def executors_of(context: SparkContext) -> int:
    """Returns how many executors a cluster has given. Raises the errors of `is_running`."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # without the driver


def jvm_process() -> Any:
    """Returns the Popen of the JVM that this process is connected to, None if that is no child of it."""
    return getattr(SparkContext._gateway, "proc", None)


def is_connected() -> bool:
    return SparkContext._gateway is not None


def connect(process: subprocess.Popen[bytes] | None = None) -> None:
    """Connects to the JVM that the environment names, which is that `process` of ours."""
    _ask_for_no_numpy()
    gateway = launch_gateway()
    if process is not None:
        gateway.proc = process
    SparkContext._ensure_initialized(gateway=gateway)


def disconnect() -> None:
    """Removes every trace of the JVM, so that a later session starts another."""
    mute_accumulators()
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = SparkSession._instantiatedSession = None


def mute_accumulators() -> None:
    """Silences PySpark's accumulators, which would print a trace when the JVM's end of their connection is closed."""
    accumulators = getattr(active_context(), "_accumulatorServer", None)
    if accumulators is not None:
        accumulators.handle_error = lambda *_: None


def _ask_for_no_numpy() -> None:
    """To find out whether an argument is numpy's, PySpark loads its testing tools, which takes half a second. None of
    our arguments is, so this check is skipped."""
    known = py4j.protocol.INPUT_CONVERTER
    known[:] = [of for of in known if not isinstance(of, (NumpyArrayConverter, NumpyScalarConverter))]


def java_of(spark: SparkSession) -> tuple[Any, Any]:
    """Returns Java's packages, and Hadoop's configuration."""
    return spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()


def java_frame(frame: DataFrame) -> Any:
    """Returns the frame as Java has it. Its session is then the one of what this thread does in Java."""
    session = frame.sparkSession
    java_of(session)[0].SparkSession.setActiveSession(session._jsparkSession)
    return frame._jdf


def path_in(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Returns the file system that Spark has for `path`, and the path in its form."""
    jvm, configuration = java_of(spark)
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(configuration), place


def bytes_in(spark: SparkSession, stream: Any) -> bytes:
    """Returns all bytes of a Java stream, and closes it."""
    try:
        return bytes(spark._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()
