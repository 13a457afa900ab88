"""Processes of this machine, from /proc; none if the system has no /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path


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
