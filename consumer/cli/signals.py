"""SIGTERM, SIGINT and SIGHUP: the process ends within thirty seconds, whatever the running step is doing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from consumer.cli import early
from consumer.cli.early import ENDING

ABANDON_AFTER = 20
"""Seconds that the running step of `run` has to finish; then it is abandoned, which is safe because of the progress."""
_ONCE_MORE_AFTER = 0.05
LEAVE_AFTER = 8
"""Seconds for closing connections after that; then the process leaves without it."""


class Stop(threading.Event):
    """Set by a signal, `by` its name."""

    by = ""
    left = False
    """Whether the running step was interrupted."""


@contextmanager
def stopping(stop: Stop, exit_code: int, *, endless: bool, hangs_up: bool = True) -> Iterator[None]:
    """A context in which a signal raises KeyboardInterrupt with its name (not an Exception, so no retry swallows it).
    With `endless` it sets `stop` first, and raises if the running step takes longer than ABANDON_AFTER. A second signal
    raises at once. If closing hangs as well, the process ends with `exit_code`. A signal that came early counts as one
    that comes now. Without `hangs_up` SIGHUP has no effect."""

    def abandon(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(exit_code))
        signal.alarm(LEAVE_AFTER)
        stop.left = True
        raise KeyboardInterrupt(stop.by)

    def finish(number: int, frame: FrameType | None) -> None:
        stop.by = stop.by or signal.Signals(number).name
        if not endless or stop.is_set():
            abandon(number, frame)
        else:
            stop.set()
            signal.signal(signal.SIGALRM, abandon)
            signal.alarm(ABANDON_AFTER)

    def once_more(lost: sys.UnraisableHookArgs) -> None:
        # Python drops what is raised while it runs a finalizer: that was no place to be interrupted.
        if issubclass(lost.exc_type, KeyboardInterrupt):
            signal.signal(signal.SIGALRM, abandon)
            signal.setitimer(signal.ITIMER_REAL, _ONCE_MORE_AFTER)
        else:
            told_before(lost)

    told_before, sys.unraisablehook = sys.unraisablehook, once_more
    before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGALRM)}
    for number in ENDING:
        if number != signal.SIGHUP:
            signal.signal(number, finish)
        elif before[number] != signal.SIG_IGN:  # nohup: it is to outlive its terminal
            signal.signal(number, finish if hangs_up else lambda *_: None)
    try:
        if (came := early.came()) and (hangs_up or came != signal.SIGHUP):
            os.kill(os.getpid(), came)
        yield
    finally:
        signal.alarm(0)
        sys.unraisablehook = told_before
        for number, handler in before.items():
            signal.signal(number, handler)
