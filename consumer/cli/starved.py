"""What this machine, or a limit of this process, does not give: no bug, and what was applied is recorded."""

from __future__ import annotations

import errno

from consumer.errors import Starved

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


def starved(error: BaseException) -> Starved | None:
    """`error` as what is lacking, None where it says nothing of the kind."""
    lacking = _NUMBERS.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, MemoryError):
        lacking = "memory (ulimit -v)"
    elif isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        lacking = "memory or threads (ulimit -v, -u)"
    if lacking is None:
        return None
    said = " ".join(str(error).split()) or type(error).__name__
    return Starved(
        f"this machine has not enough {lacking}: {said}", hint="give it more, then run again; nothing is lost"
    )
