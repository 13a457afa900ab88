"""A process that stops itself (SIGSTOP) before or after calls of named functions."""

from __future__ import annotations

import functools
import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.points import Point


class Stop:
    """At the `number`-th call, once the file `reached` is there."""

    def __init__(self, number: int, reached: Path) -> None:
        self._left, self._reached = number, reached

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._reached.touch()
            os.kill(os.getpid(), signal.SIGSTOP)


def watch(point: Point, stop: Callable[[], None]) -> None:
    """Call `stop` wherever this process comes to the point."""
    for place in point.places:
        _watch(place, point.when, stop)


def _watch(place: str, when: str, stop: Callable[[], None]) -> None:
    module, _, path = place.partition(":")
    *outer, name = path.split(".")
    owner = functools.reduce(getattr, outer, importlib.import_module(module))
    called = getattr(owner, name)

    @functools.wraps(called)
    def watched(*given: Any, **named: Any) -> Any:
        if when == "before":
            stop()
        result = called(*given, **named)
        if when == "after":
            stop()
        return result

    setattr(owner, name, watched)


def state(pid: int) -> str:
    """How the kernel sees the process: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
