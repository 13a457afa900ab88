"""Within a place that no signal may interrupt, one waits, and is handled behind it."""

from __future__ import annotations

import signal
import threading

from consumer.model.process import signals_later


def test_a_signal_waits_for_the_end() -> None:
    seen: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("handled"))
    try:
        with signals_later():
            signal.raise_signal(signal.SIGTERM)
            seen.append("still within")
        assert seen == ["still within", "handled"]
        assert callable(signal.getsignal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_pass_through() -> None:
    """Handlers run on the main thread alone."""
    seen: list[str] = []

    def work() -> None:
        with signals_later():
            seen.append("ran")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["ran"]
