"""What a machine, or a limit of a process, does not give: no bug."""

from __future__ import annotations

import errno

from consumer.model.texts import one_line

_NUMBERS = {
    errno.ENOMEM: "memory",
    errno.EMFILE: "open files (ulimit -n)",
    errno.ENFILE: "open files",
    errno.EAGAIN: "processes or threads (ulimit -u)",
    errno.ENOSPC: "room on a disk",
    errno.EDQUOT: "room on a disk",
}
_NO_THREAD = "can't start new thread"
"""What Python says, as a RuntimeError and with no number."""


def lacking(error: BaseException) -> str:
    """What there is not enough of, "" where `error` says nothing of the kind."""
    if isinstance(error, OSError):
        return _NUMBERS.get(error.errno or 0, "")
    if isinstance(error, MemoryError):
        return "memory (ulimit -v)"
    return "memory or threads (ulimit -v, -u)" if isinstance(error, RuntimeError) and _NO_THREAD in str(error) else ""


def said(error: BaseException) -> str:
    """Its own words, on one line."""
    return one_line(str(error)) or type(error).__name__
