"""Processes of this machine, from /proc; none if the system has no /proc. And signals while one is started."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_RAISING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
"""Signals whose handlers may raise."""


def descendants(process: int) -> list[int]:
    """What `process` has started and what those have, as far as it lives."""
    found: list[int] = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *descendants(child)]
    return found


def end_all(processes: Iterable[int]) -> None:
    """Kill those of them that live."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@contextmanager
def signals_later() -> Iterator[None]:
    """Signals that come within it are handled behind it. What is raised in the middle of the start of a process would
    leave one that nobody knows of."""
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
