"""Spark's JVM is a child of ours: a signal interrupts its start, and it does not outlive the driver.

If the driver is killed, the pipe that the JVM reads from is closed, and the JVM ends by itself.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import locale
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from consumer.model.process import signals_later
from consumer.spark.archive import archived_start
from consumer.spark.failures import cannot_be_written, own_room

_ENDS_WITHIN = 3
"""Seconds for its shutdown hooks, which delete Spark's temporary folders."""
_ANSWERS_WITHIN = 60.0
"""Seconds in which it must answer the first request; usually it takes a hundredth of one."""
_LOOKS_EVERY = 0.01
_MAIN_FAILED = 1
"""The exit code of a JVM after an exception of its main thread, unless other threads keep it alive."""
TELLS_PORT = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""A variable of a JVM's environment: the file to which it writes where it listens."""
_FIRST_JOB_IMPORTS = (
    "consumer.spark.internals",
    "pyspark.sql.classic.dataframe",
    "pyspark.sql.pandas.map_ops",
    "pandas",
)

_GAVE_UP = b'Exception in thread "main"'
_SAY_NOTHING = (
    *("A JNI error has occurred", "Error initializing SparkContext", "Exception thrown in awaitResult"),
    *("Spark's default log4j", "Setting default log level", "To adjust logging level"),
)
"""Beginnings of lines without the reason, which is in another line."""
_AROUND = re.compile(r"^(\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ [\w$]+: |Caused by: )")
"""What stands before the message: the time, level and class of a log line."""


class JvmEnded(Exception):
    """The JVM ended before it could be used; `code` as in Popen."""

    def __init__(self, code: int) -> None:
        super().__init__(f"its JVM ended with code {code} and gave no reason")
        self.code = code


@dataclass(frozen=True, slots=True)
class _Jvm:
    """A JVM. `folder` holds all files that it writes, if it may be killed without its shutdown hooks."""

    process: subprocess.Popen[bytes]
    port: str = ""
    secret: str = field(default="", repr=False)
    folder: str | None = None

    def kill(self) -> None:
        """Kills it at once, with all processes that it has started."""
        started = _descendants(self.process.pid)
        self.process.kill()
        self.process.wait()
        _end_all(started)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """Ends it without waiting for the running job."""
        if self.folder is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_ENDS_WITHIN)
        self.kill()


_started: list[_Jvm] = []
"""The running JVM, if it is ours."""


def start_jvm(conf: Mapping[str, str], noise: IO[bytes], *, plain: bool) -> None:
    """Starts a JVM with the properties `conf`, unless this process is connected to one, and with its output in `noise`:
    what it prints at every start (its own modules, its logging) only matters if it does not start. A `plain` one leaves
    nothing but temporary files: it may be started from the archive of classes, and be killed once its work is done."""
    if "pyspark" in sys.modules:
        from consumer.spark.internals import is_connected

        if is_connected():
            return
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from consumer.spark.internals import connect

        connect()
        return
    jvm = (_archived(conf, noise) if plain else None) or _submitted(conf, noise)
    try:
        from consumer.spark.internals import connect

        gateway = {"PYSPARK_GATEWAY_PORT": jvm.port, "PYSPARK_GATEWAY_SECRET": jvm.secret}
        with _environment(gateway), _answering(jvm.process):
            connect(jvm.process)
    except BaseException as error:
        code = _code(jvm.process) if isinstance(error, Exception) else None
        jvm.kill()
        if code is None:
            raise
        raise JvmEnded(code) from error
    _started[:] = [jvm]


@contextmanager
def _answering(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills a JVM that can start no more threads: it accepts a connection and never answers on it, and its end ends the
    wait."""
    timer = threading.Timer(_ANSWERS_WITHIN, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def own_folder() -> str | None:
    """Returns the folder that is deleted with the JVM, if nothing is lost when it ends without Spark's own stop."""
    return _started[0].folder if _started else None


def _archived(conf: Mapping[str, str], noise: IO[bytes]) -> _Jvm | None:
    """Returns a JVM that starts with the archive of classes, and without `spark-submit`: it gets the properties with
    the context. Returns None if there is no archive, or if the JVM does not start."""
    start = archived_start(conf)
    if start is None:
        return None
    folder, lock = own_room()
    java, *rest = start.command
    jvm = None
    try:
        command = [java, f"-Djava.io.tmpdir={folder}", *rest, "org.apache.spark.api.python.PythonGatewayServer"]
        jvm = _launched(command, start.environment, noise, folder, lock)
    except JvmEnded:
        forget(noise)
        return None
    finally:
        os.close(lock)
        if jvm is None:
            shutil.rmtree(folder, ignore_errors=True)
    return replace(jvm, folder=folder)


def _submitted(conf: Mapping[str, str], noise: IO[bytes]) -> _Jvm:
    """Returns a JVM as Spark's own script starts it, with whatever that takes from the environment."""
    from consumer.spark.internals import spark_home
    from consumer.spark.release import check_release, release_in

    home = spark_home()
    check_release(release_in(home), home)
    given = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    folder, lock = own_room()
    try:
        words = ["--properties-file", _properties(conf, Path(folder)), "--load-spark-defaults"]
        return _launched([f"{home}/bin/spark-submit", *words, *given], {}, noise, folder, lock)
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _launched(command: Sequence[str], environment: Mapping[str, str], noise: IO[bytes], folder: str, lock: int) -> _Jvm:
    """Starts the JVM, and waits until it writes to `folder` where it listens. It inherits `lock`. Raises JvmEnded."""
    answer = Path(folder) / "answer"
    asked = {"SPARK_CONNECT_MODE": "0", TELLS_PORT: str(answer)}
    process = None
    try:
        with signals_later():
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=noise, stderr=noise, preexec_fn=_without_interrupts,
                env={**os.environ, **environment, **_locale(), **asked}, pass_fds=(lock,),
            )  # fmt: skip
        _import_what_jobs_need()
        from consumer.spark.internals import port_in

        while not answer.is_file():
            if (code := process.poll()) is not None:
                raise JvmEnded(code)
            if has_given_up(noise):
                raise JvmEnded(_MAIN_FAILED)
            time.sleep(_LOOKS_EVERY)
        port, secret = port_in(answer)
        answer.unlink()
        return _Jvm(process, port, secret)
    except BaseException:
        # A JVM that comes up now would find nobody, and stay.
        if process is not None:
            _Jvm(process).kill()
        raise


def _locale() -> dict[str, str]:
    """Returns a locale in which Java writes the letters of paths as Python does: in the C locale Python takes UTF-8,
    and Java ASCII."""
    same = codecs.lookup(locale.getencoding()) == codecs.lookup(sys.getfilesystemencoding())
    return {} if same else {"LC_ALL": "C.UTF-8"}


def _import_what_jobs_need() -> None:
    """Imports modules while the JVM starts: that takes a second, on another core than the JVM's."""
    for module in _FIRST_JOB_IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def _without_interrupts() -> None:
    """A terminal sends its SIGINT and SIGHUP to all processes; we end the JVM ourselves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _properties(conf: Mapping[str, str], folder: Path) -> str:
    """Writes a file in `folder` that gives the JVM its properties, because everyone can read a command line. Returns
    its path."""
    file = folder / "spark.conf"
    lines = "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items())
    try:
        file.write_text(lines, "latin-1")
    except OSError as error:
        raise cannot_be_written(error) from error
    return str(file)


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _escaped(text: str) -> str:
    """Returns `text` as a name or a value in a properties file of Java: in ASCII, with all other characters as their
    UTF-16 units."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    return "".join(chr(unit) if chr(unit).isascii() and chr(unit).isalnum() else f"\\u{unit:04x}" for unit in units)


def killed_by(error: Exception) -> int:
    """Returns the signal that ended the JVM, 0 if none did. `error` is the error that followed."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from consumer.spark.internals import jvm_process

    code = error.code if isinstance(error, JvmEnded) else None
    if code is None and not isinstance(error, (Py4JJavaError, PySparkException)):  # these come of a live one
        code = _code(jvm_process())
    if code is None:
        return 0
    return -code if code < 0 else max(code - 128, 0)  # Java itself and shells add 128


def _code(process: subprocess.Popen[bytes] | None) -> int | None:
    """Returns the JVM's exit code, once its connection has broken; None if it lives, or is no child of ours."""
    if process is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_ENDS_WITHIN)
    return None


def end_jvm() -> None:
    """Ends the JVM without waiting for the running job. A later session starts another."""
    from consumer.spark.internals import disconnect, jvm_process

    process: subprocess.Popen[bytes] | None = jvm_process()
    disconnect()
    ours = [jvm for jvm in _started if jvm.process is process]
    _started.clear()
    if process is not None:
        (ours or [_Jvm(process)])[0].end()


@contextmanager
def own_handlers() -> Iterator[None]:
    """A context in which PySpark sets no SIGINT handler of its own. Its handler would call the JVM in the middle of
    another call, which breaks the start of Spark, and it may be set seconds before that is over."""
    given = signal.signal

    def keep(number: int, handler: Any) -> Any:
        return signal.getsignal(number) if number == signal.SIGINT else given(number, handler)

    signal.signal = keep  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = given


def new_noise() -> IO[bytes]:
    """Opens a file for output, in memory if the system can: a JVM whose disk is full can still report it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("spark-stderr"), "w+b", buffering=0)
    return tempfile.TemporaryFile()


def has_given_up(noise: IO[bytes]) -> bool:
    """Returns whether Java's main thread has ended with an exception. Its other threads keep the JVM alive."""
    return _GAVE_UP in _output(noise)


def forget(noise: IO[bytes]) -> None:
    """Empties the output before another JVM writes to it."""
    noise.seek(0)
    noise.truncate()


def telling_line(noise: IO[bytes]) -> str:
    """Returns the first line about an error, else the last line, "" if there is no output."""
    lines = [line.strip() for line in _output(noise).decode(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if not any(words in line for words in _SAY_NOTHING)]
    telling = [line for line in lines if "error" in line.lower() or "exception" in line.lower()]
    return _AROUND.sub("", (telling or lines or [""])[0 if telling else -1])[:500]


def _output(noise: IO[bytes]) -> bytes:
    """Returns all of the output. The position in the file is shared with the JVM, and does not change."""
    handle = noise.fileno()
    output = io.BytesIO()
    while part := os.pread(handle, 1 << 20, output.tell()):
        output.write(part)
    return output.getvalue()


def _descendants(process: int) -> list[int]:
    """Returns the processes that `process` and its descendants have started, as far as they live."""
    found: list[int] = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _end_all(processes: Iterable[int]) -> None:
    """Kills those of the processes that live."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
