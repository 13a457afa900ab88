"""The labels that the type of an ENUM or SET lists, and whether another list means the same by its numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TYPE = re.compile(r"\s*(?:enum|set)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)


def labels_of(type_: str) -> tuple[str, ...]:
    """The labels that a full type tells: ``enum('a','it''s')`` -> ``('a', "it's")``; none for another type, or for one
    without its labels."""
    told = _TYPE.match(type_)
    return tuple(_ESCAPED.sub(lambda e: e[1] or "'", text) for text in _LABEL.findall(told[1])) if told else ()


def mislabelled(upstream: Sequence[str], there: Sequence[str]) -> str:
    """Which number is one of the labels `upstream` and another one `there`, "" for none: there may be more. Blanks at
    the end of a label do not count."""
    for number, label in enumerate(upstream, 1):
        other = there[number - 1] if number <= len(there) else None
        if other is None or other.rstrip(" ") != label.rstrip(" "):
            shown = "no label" if other is None else repr(other)
            return f"label {number} is {label!r} upstream and {shown} in the target"
    return ""
