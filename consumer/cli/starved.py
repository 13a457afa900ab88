"""What this machine, or a limit of this process, does not give: no bug, and what was applied is recorded."""

from __future__ import annotations

from consumer.errors import Starved
from consumer.model.process import lacking, said


def starved(error: BaseException) -> Starved | None:
    """`error` as what is lacking, None where it says nothing of the kind."""
    what = lacking(error)
    if not what:
        return None
    return Starved(
        f"this machine has not enough {what}: {said(error)}", hint="give it more, then run again; nothing is lost"
    )
