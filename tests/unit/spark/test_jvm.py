"""What starts Spark leaves this process's signals alone, and a signal leaves no JVM behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from tempfile import TemporaryFile

import psutil
import pytest

from consumer.spark import jvm
from consumer.spark.jvm import own_handlers


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
        with TemporaryFile() as noise, pytest.raises(KeyboardInterrupt):
            jvm._launched(["/bin/sleep", "100.25"], {}, noise, str(tmp_path), noise.fileno())
        assert signal.getsignal(number) is interrupted
    finally:
        signal.signal(number, before)
    assert not [child for child in psutil.Process().children() if "100.25" in child.cmdline()]
