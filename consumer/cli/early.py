"""What happens before a command can handle it, and after: signals, and streams that a process may have been started
without. It imports next to nothing, so that it is ready at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_came: list[int] = []


def keep() -> None:
    """From now on a signal is kept for `came`. Under nohup a SIGHUP stays ignored."""
    _handle(lambda number, _frame: _came.append(number))


def came() -> int:
    """Returns a signal that was kept, 0 for none, and forgets all."""
    number = _came[0] if _came else 0
    _came.clear()
    return number


def leave_with(code: int) -> None:
    """Everything is printed: from now on a signal ends the process at once, with the exit code of the command."""
    _handle(lambda *_: os._exit(code))


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}
"""The modes by the number of the stream."""


def open_missing() -> None:
    """Redirects each closed stream to nowhere, also for programs that are started. Else the next file would get its
    number, and their output would be written into that file."""
    for number, (name, mode) in enumerate(_MODES.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as we live
