"""What starts Spark leaves this process's signals alone, and a signal leaves no JVM behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from resource import RLIM_INFINITY
from typing import IO

import psutil
import pytest
from py4j.protocol import Py4JError

from consumer.errors import BadConfig, ConsumerError, TargetUnavailable
from consumer.spark import jvm
from consumer.spark.failures import own_room
from consumer.spark.jvm import JvmEnded, forget, has_given_up, new_noise, own_handlers, telling_line
from consumer.spark.session import _why_not
from consumer.spark.settings import SparkSettings


def test_ctrl_c_is_ours_while_spark_sets_a_handler_of_its_own() -> None:
    heard: list[str] = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("ours"))
    try:
        with own_handlers():
            signal.signal(signal.SIGINT, lambda *_: heard.append("theirs"))
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["ours", "ours"]


def test_other_signals_can_be_set_meanwhile() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with own_handlers():
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
    signal.signal(signal.SIGALRM, before)
    assert signal.signal.__module__ == "signal"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM])
def test_a_signal_while_the_jvm_is_forked_leaves_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    """The child itself sends it, before it becomes the JVM: the parent waits inside of Popen."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jvm, "_without_interrupts", lambda: os.kill(os.getppid(), number))
    before = signal.signal(number, interrupted)
    try:
        with new_noise() as noise, pytest.raises(KeyboardInterrupt):
            jvm._launched(["/bin/sleep", "100.25"], {}, noise, str(tmp_path), noise.fileno())
        assert signal.getsignal(number) is interrupted
    finally:
        signal.signal(number, before)
    assert not [child for child in psutil.Process().children() if "100.25" in child.cmdline()]


GIVING_UP = """echo 'Exception in thread "main" java.io.IOException: %s' >&2; exec sleep 100.5"""


def launched(noise: IO[bytes], folder: Path, reason: str) -> None:
    jvm._launched(["/bin/sh", "-c", GIVING_UP % reason], {}, noise, str(folder), noise.fileno())


def test_a_jvm_whose_main_thread_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Its other threads live on, and would do so without a driver."""
    with new_noise() as noise:
        with pytest.raises(JvmEnded):
            launched(noise, tmp_path, "why")
        assert telling_line(noise).endswith("java.io.IOException: why")
        forget(noise)
        assert not has_given_up(noise)
    assert not [child for child in psutil.Process().children() if "100.5" in child.cmdline()]


@pytest.mark.parametrize(
    ("reason", "kind", "hint"),
    [
        ("No space left on device", TargetUnavailable, "make room"),
        ("InvalidPathException: /tmp/t??st", BadConfig, "whose path Java can read"),
        ("Too many open files", BadConfig, "ulimit -n"),
    ],
)
def test_why_it_gave_up_says_what_to_do(tmp_path: Path, reason: str, kind: type[ConsumerError], hint: str) -> None:
    with new_noise() as noise:
        with pytest.raises(JvmEnded) as caught:
            launched(noise, tmp_path, reason)
        told = _why_not(caught.value, noise, SparkSettings("local[1]"))
    assert isinstance(told, kind)
    assert reason in told.message
    assert hint in told.hint


@pytest.mark.parametrize(("most", "hint"), [(256, "ulimit -n"), (RLIM_INFINITY, "check --master")])
def test_few_open_files_are_thought_of(most: int, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java says many things of them."""
    monkeypatch.setattr("consumer.spark.session.getrlimit", lambda _: (most, most))
    with new_noise() as noise:
        noise.write(b"Error: A JNI error has occurred, please check\njava.lang.InternalError: Error loading a file\n")
        told = _why_not(JvmEnded(1), noise, SparkSettings("local[1]"))
    assert told is not None
    assert "Error loading a file" in told.message
    assert hint in told.hint


@pytest.mark.parametrize(("name", "added"), [("C", {"LC_ALL": "C.UTF-8"}), ("C.UTF-8", {})])
def test_java_writes_letters_as_python_does(name: str, added: dict[str, str]) -> None:
    command = [sys.executable, "-c", "from consumer.spark import jvm; print(jvm._locale())"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": name})
    assert told.stdout.strip() == str(added)


def test_no_folder_for_temporary_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with pytest.raises(TargetUnavailable, match="No usable temporary directory"):
        own_room()


REFUSED = """\
26/11/26 00:45:26 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
26/11/26 00:45:29 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 127.0.0.1:1
org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: java.io.IOException: Failed to connect to /127.0.0.1:1
\t... 4 more
26/11/26 00:46:29 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive!
"""
"""What Spark 4.1 says of a master that is not there."""
UNANSWERED = REFUSED.splitlines()[-1]
NO_PORT = "org.apache.spark.SparkException: Invalid master URL: spark://127.0.0.1"


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        (REFUSED, TargetUnavailable, "java.io.IOException: Failed to connect to /127.0.0.1:1"),
        (UNANSWERED, TargetUnavailable, "Application has been killed. Reason: All masters are unresponsive!"),
        (NO_PORT, BadConfig, NO_PORT),
    ],
)
def test_why_a_master_cannot_be_used(said: str, kind: type[ConsumerError], reason: str) -> None:
    with new_noise() as noise:
        noise.write(said.encode())
        told = _why_not(Py4JError("a stopped SparkContext"), noise, SparkSettings("spark://127.0.0.1:1"))
    assert isinstance(told, kind)
    assert told.message.endswith(f": {reason}")


SILENT = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(100)
"""


def test_a_jvm_that_takes_a_connection_and_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that can start no thread for it."""
    process = subprocess.Popen([sys.executable, "-c", SILENT], stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = process.stdout.readline().decode().strip()
    monkeypatch.setattr(jvm, "_ANSWERS_WITHIN", 0.5)
    monkeypatch.setattr(jvm, "_submitted", lambda *_: jvm._Jvm(process, port, "secret"))
    monkeypatch.setattr("consumer.spark.internals.is_connected", lambda: False)
    with new_noise() as noise, pytest.raises(JvmEnded):
        jvm.start_jvm({}, noise, plain=False)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "said",
    [
        'Exception in thread "Thread-3" java.lang.OutOfMemoryError: unable to create native thread: process limits',
        '[9.5s][warning][os,thread] Failed to start the native thread for java.lang.Thread "Thread-3"',
    ],
)
def test_a_system_that_gives_no_thread_is_named(said: str) -> None:
    settings = SparkSettings("local[1]")
    with new_noise() as noise:
        noise.write(f"{said}\nTo adjust logging level use sc.setLogLevel(newLevel).\n".encode())
        error = _why_not(JvmEnded(-signal.SIGKILL), noise, settings)
    assert isinstance(error, TargetUnavailable)
    assert "no more threads" in error.message
    assert "native thread" in error.message
