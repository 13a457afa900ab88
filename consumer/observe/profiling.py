"""The stacks of all threads, at the address where TiCDC's sample consumer serves its profiles."""

from __future__ import annotations

import sys
import threading
import traceback

from consumer.observe.http import Answer, Site

ADDRESS = ("127.0.0.1", 6060)
PATH = "/debug/pprof/"


def stacks() -> str:
    """Returns the stack of every thread, as Python prints it."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    shown = ((names.get(ident, "?"), frame) for ident, frame in sys._current_frames().items())
    return "\n".join(f"{name}:\n{''.join(traceback.format_stack(frame))}" for name, frame in shown)


SITE = Site({PATH: lambda _: Answer(stacks().encode())})
