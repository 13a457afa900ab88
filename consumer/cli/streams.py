"""The streams that a process may have been started without. Imports next to nothing."""

from __future__ import annotations

import os
import sys

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}
"""By number."""


def open_missing() -> None:
    """A stream that is closed leads nowhere from now on, for programs that are started too. Else the next file would
    get its number, and what they say would be written into that file."""
    for number, (name, mode) in enumerate(_MODES.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as we live
