"""Places where no signal may raise."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RAISING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
"""Signals whose handlers may raise."""


@contextmanager
def signals_later() -> Iterator[None]:
    """Signals that come within it are handled behind it. What their handlers raise in the middle of the start of a
    process would leave one that nobody knows of, and within the import of a native module it can abort this one."""
    if threading.current_thread() is not threading.main_thread():  # the handlers run elsewhere
        yield
        return
    came: list[int] = []
    handlers = {number: handler for number in _RAISING if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda late, _frame: came.append(late))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
