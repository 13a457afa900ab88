"""What `check` reports of one thing: whether a run can go well with it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Literal

from consumer.errors import Code
from consumer.model.texts import size_text

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Readiness:
    """A line of `check`. `about` is the checked thing, in a word. `fix` is what to do if the verdict is not ok."""

    about: str
    verdict: Verdict
    text: str
    fix: str = ""
    code: Code | None = None
    """The code of the error that a run would meet; None if the verdict is not that of an error."""


def room(folder: str, size: int) -> Readiness:
    """Returns whether the disk of `folder` has room for about as much as change files of `size` bytes hold."""
    free = shutil.disk_usage(folder).free
    text = f"{size_text(free)} free at {folder}, {size_text(size)} of change files to load"
    if free > size:
        return Readiness("disk", "ok", text)
    return Readiness("disk", "warn", text, "make room there, or load in smaller rounds (round-bytes, docs/settings.md)")
