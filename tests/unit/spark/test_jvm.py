"""What starts Spark leaves this process's signals alone."""

from __future__ import annotations

import os
import signal

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
