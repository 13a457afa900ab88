"""Signals that come before a command can handle them, and after. Imports next to nothing, to be there at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_came: list[int] = []


def keep() -> None:
    """From now on a signal is kept for `came`. Under nohup a SIGHUP stays ignored."""
    _handle(lambda number, _frame: _came.append(number))


def came() -> int:
    """A signal that was kept, 0 for none; they are forgotten."""
    number = _came[0] if _came else 0
    _came.clear()
    return number


def leave_with(code: int) -> None:
    """All is said: from now on a signal ends the process at once, with the exit code of the command."""
    _handle(lambda *_: os._exit(code))


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
