"""Starts Spark: late, once, quietly."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from resource import RLIMIT_NOFILE, getrlimit
from typing import IO, TYPE_CHECKING

from consumer.errors import BadConfig, ConsumerError, TargetUnavailable
from consumer.spark.archive import own_java
from consumer.spark.failures import MORE_FILES, cannot_be_written
from consumer.spark.jvm import (
    JvmEnded,
    end_jvm,
    killed_by,
    new_noise,
    own_folder,
    own_handlers,
    start_jvm,
    telling_line,
)
from consumer.spark.release import check_release
from consumer.spark.settings import SparkSettings, sockets_in, standard_properties

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from consumer.spark.parts import PartsOfLoads

_NAME = "storage-consumer"
_OPEN_FILES = 512
"""Java fails in many ways with fewer open files, and few of its errors show why. It uses the hard limit: below 0 there
is none."""
_NOT_A_PATH = "InvalidPathException", "Invalid properties file"
"""Java's messages about a path with letters that its encoding does not have."""
_NO_MASTER = "Invalid master URL"
"""Spark's message about a URL that it cannot read: its port is missing."""
_NO_THREAD = "native thread"
"""Java's words if the system gives it no thread."""
_NO_COMMAND = "CMD: bad array subscript"
"""The message of Spark's script if the JVM that makes its command ended without output."""


@dataclass(frozen=True, slots=True)
class Session:
    """Spark as we use it: a session of our own, or the one that this process has already, whose owner continues to use
    it.

    `one_machine`: its tasks see this process's folder for temporary files, and nobody gave Spark another one.
    """

    spark: SparkSession
    owned: bool
    parts: PartsOfLoads
    one_machine: bool

    @property
    def cores(self) -> int:
        """How many tasks run at a time. A cluster's executors come and go."""
        return int(self.spark.sparkContext.defaultParallelism)

    def alive(self) -> bool:
        """Returns whether its JVM answers and can run jobs, and still has the folder in which workers connect to it."""
        from consumer.spark.internals import is_running

        folder = own_folder() if self.owned else None
        if folder is not None and not os.path.isdir(folder):
            return False
        try:
            return is_running(self.spark.sparkContext)
        except Exception:  # py4j raises what the operating system says of its socket, and errors of its own
            return False

    def abandon(self) -> None:
        """Ends it with its JVM, if it is our own, whatever it waits for."""
        if self.owned:
            end_jvm()

    def close(self) -> None:
        """Ends it, if it is our own."""
        if not self.owned:
            return
        if self.alive() and own_folder() is None:
            self.spark.stop()
        else:
            end_jvm()


def start_session(settings: SparkSettings) -> Session:
    """Returns Spark for `settings`; if this process has a session already, one of ours next to it. Raises BadConfig if
    Spark refuses to start, TargetUnavailable if the master does not answer."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if settings.local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    _quieten_py4j()
    wanted = {**standard_properties(settings), **dict(settings.conf)}
    _check(wanted)
    borrowed = _has_context()
    session = _borrowed(wanted) if borrowed else _own(settings, wanted)
    check_release(session.version)
    context = session.sparkContext
    from consumer.spark.executors import wait_for_executors
    from consumer.spark.parts import PartsOfLoads

    if not borrowed and not settings.local:
        wait_for_executors(context)
    return Session(session, not borrowed, PartsOfLoads(context), _is_one_machine(context))


def _is_one_machine(context: SparkContext) -> bool:
    threads = context.master == "local" or context.master.startswith("local[")
    return threads and context.getConf().get("spark.local.dir") is None and "SPARK_LOCAL_DIRS" not in os.environ


def _has_context() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from consumer.spark.internals import active_context

    return active_context() is not None


def end_own() -> None:
    """Ends the JVM that we started, or are starting, without waiting for its jobs. One that is not ours stays."""
    from consumer.spark.internals import active_context

    context = active_context()
    if context is None or context.appName == _NAME:
        end_jvm()


def _own(settings: SparkSettings, wanted: Mapping[str, str]) -> SparkSession:
    properties = {"spark.master": settings.master, "spark.app.name": _NAME, **wanted}
    with new_noise() as noise:
        try:
            start_jvm(properties, noise, plain=settings.local and not settings.conf)
            from pyspark import SparkConf
            from pyspark.sql import SparkSession

            from consumer.spark.internals import mute_accumulators

            with own_handlers():
                conf = SparkConf(loadDefaults=False).setAll([*{**properties, **sockets_in(own_folder())}.items()])
                session = SparkSession.builder.config(conf=conf).getOrCreate()
            mute_accumulators()
        except Exception as error:
            reason = _why_not(error, noise, settings)
            if reason is None:
                raise
            raise reason from error
    session.sparkContext.setLogLevel("OFF")
    return session


def _why_not(error: Exception, noise: IO[bytes], settings: SparkSettings) -> ConsumerError | None:
    """Returns why Spark does not start; None if `error` is a bug."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    if not isinstance(error, (JvmEnded, PySparkException, Py4JError, OSError)):
        return None
    reason, signal = telling_line(noise), killed_by(error)
    end_jvm()
    if _NO_THREAD in reason:
        return TargetUnavailable(
            f"Spark does not start: its JVM gets no more threads: {reason}",
            hint="raise the limit of processes (ulimit -u, a container's pids) or memory (ulimit -v), then run again",
        )
    if signal or (_NO_COMMAND in reason and own_java() is not None):
        return TargetUnavailable(
            f"Spark does not start: its JVM was killed ({f'signal {signal}' if signal else 'it ended without a word'})",
            hint="run again; where memory is short, the system ends the largest process: its log says so",
        )
    if any(os.strerror(number) in reason for number in (errno.ENOSPC, errno.EDQUOT)):
        return cannot_be_written(reason)
    if any(words in reason for words in _NOT_A_PATH):
        return BadConfig(
            f"Spark does not start: {reason}",
            hint="set TMPDIR to a folder whose path Java can read: of ASCII letters, or in UTF-8",
        )
    if java := lacking_java():
        return BadConfig(f"Spark does not start: {java}", hint="install Java 17, or name its folder in JAVA_HOME")
    if "Too many open files" in reason or 0 <= getrlimit(RLIMIT_NOFILE)[1] < _OPEN_FILES:
        return BadConfig(f"Spark does not start: {reason or error}", hint=MORE_FILES)
    if isinstance(error, (JvmEnded, PySparkException)) or _NO_MASTER in reason:
        return BadConfig(
            f"Spark does not start: {reason or error}",
            hint="check --master, the Spark properties, and that Java 17 is installed (make setup installs it)",
        )
    if settings.local and (reason or isinstance(error, Py4JJavaError)):
        return BadConfig(f"Spark does not start: {reason or error}", hint="check the Spark properties")
    reason = reason or (str(error) if isinstance(error, OSError) else "it gives no reason")
    return TargetUnavailable(
        f"Spark does not start on {settings.master}: {reason}",
        hint="check --master and that it can be reached, then try again",
    )


def lacking_java() -> str | None:
    """Returns the error for a machine on which Spark's scripts find no Java: their own message about it is about their
    code."""
    if own_java() is not None:
        return None
    home = os.environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home}, where no bin/java is" if home else "there is no java on the PATH, and no JAVA_HOME"


def _borrowed(wanted: Mapping[str, str]) -> SparkSession:
    """Returns a session of ours on the existing context: its owner's settings stay as they are."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    try:
        theirs = SparkSession.builder.getOrCreate()
        _check(dict(theirs.sparkContext.getConf().getAll()))
        session = theirs.newSession()
        for name, value in wanted.items():
            if name.startswith("spark.sql.") and name != "spark.sql.extensions":  # which is read at the start alone
                session.conf.set(name, value)
    except (Py4JError, OSError) as error:
        raise TargetUnavailable(
            f"the Spark session of this process does not answer: {error}", hint="start another, then try again"
        ) from error
    return session


def _check(conf: Mapping[str, str]) -> None:
    if conf.get("spark.speculation", "false").lower() == "true":
        raise BadConfig(
            "spark.speculation runs tasks twice at a time, and each of ours writes to the target",
            hint="leave spark.speculation out of the Spark properties",
        )


def _quieten_py4j() -> None:
    """Silences py4j: we raise and report errors of a call, and py4j also logs their traces, some of them as the root
    logger."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname
