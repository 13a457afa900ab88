"""Kinds of trouble that belong together. Each history has one theme, whose events come more often and find the setup
that they need; all trouble at once would hide itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulate.shaping import KINDS


@dataclass(frozen=True)
class Theme:
    """What is set, of the style and of the setup, and what happens more often: between runs and during them. `runs`:
    the kinds of runs."""

    style: Mapping[str, Any] = field(default_factory=dict)
    setup: Mapping[str, Any] = field(default_factory=dict)
    between: tuple[str, ...] = ()
    during: tuple[str, ...] = ()
    runs: tuple[str, ...] = ("once", "once", "run")
    only: bool = False
    """Whether nothing else is drawn to happen during a run."""
    rules: tuple[str, ...] = ()
    """One of these is in the settings."""


_TIMED = {"csv": None, "commit_ts": True}

THEMES: dict[str, Theme] = {
    "anything": Theme(),
    "files written again": Theme(
        style={"classic": True, "commit_ts": True},
        setup={"index_fails": 0.5, "goes_back": False},
        between=("flush", "publish", "restart", "catch up", "lose an index", "once", "once"),
        during=("flush", "restart", "lose an index"),
    ),
    "torn": Theme(
        setup={"goes_back": False},
        between=("flush", "tear", "flush", "publish", "once", "once"),
        during=("tear", "flush", "publish"),
    ),
    "listings": Theme(
        style=_TIMED | {"dates": False}, setup={"page": 1, "in_order": False},
        between=("catch up", "commit"),
        during=("flush", "flush", "commit", "commit"),
        only=True,
    ),
    "clean-up": Theme(
        style={"dates": True, "commit_ts": True},
        setup={"expiration_days": 2, "goes_back": False},
        between=("night", "night", "catch up", "once", "clean up"),
        during=("clean up",),
    ),
    "late attempts": Theme(
        style=_TIMED, setup={"direct": True, "round_bytes": 1},
        between=("commit", "catch up"),
        during=("late task", "late task", "catch up", "catch up", "commit"),
        runs=("run",),
        only=True,
    ),
    "outages": Theme(
        style=_TIMED | {"dispatchers": 0}, setup={"direct": True, "keyless": True},
        between=("commit", "catch up"),
        during=("outage", "outage", "cut", "catch up", "commit"),
        runs=("run", "run", "once"),
        only=True,
    ),
    "fail-overs": Theme(
        setup={"goes_back": True, "direct": True, "index_fails": 0.0},
        between=("fail over", "fail over", "catch up", "commit"),
        during=("catch up", "commit", "fail over", "fail over", "fail over", "switch"),
        only=True,
    ),
    "stopped tables": Theme(
        setup={"statements": 0.6},
        between=("damage", "take away", "mend", "refuse", "refuse", "change", "detour", "detour", "catch up", "once"),
        during=("refuse",),
    ),
    "locks": Theme(
        setup={"own_tables": True, "direct": True, "goes_back": False},
        between=("lock", "change", "catch up"),
        during=("lock", "lock"),
        only=True,
    ),
    "many renames": Theme(setup={"own_tables": False}, between=("rotate", "catch up"), only=True),
    "moved dispatchers": Theme(
        style=_TIMED | {"classic": False, "dispatchers": 1}, setup={"keyless": True, "never_split": True},
        between=("restart", "set back", "flush", "once"),
    ),
    "moved keys": Theme(
        setup={"keyless": True, "more": "keys", "statements": 0.3, "own_tables": False},
        between=("change", "change", "catch up", "commit"),
    ),
    "moved names": Theme(
        setup={"more": "names columns", "statements": 0.4, "own_tables": False},
        between=("change", "catch up", "set back", "restart"),
    ),
    "moved rows": Theme(
        style=_TIMED | {"raw": True}, setup={"more": "ids", "statements": 0.1},
        between=("commit", "commit", "catch up"),
    ),
    "given tables": Theme(
        style={"commit_ts": True},
        setup={"given": True, "more": "names columns indexes", "statements": 0.3, "own_tables": False},
        between=("change", "catch up", "once"),
    ),
    "masks and filters": Theme(
        setup={"keyless": False, "more": "names columns", "statements": 0.15, "own_tables": False},
        between=("change", "catch up", "once"),
        rules=KINDS,
    ),
    "sent again": Theme(
        style={"dates": True, "commit_ts": True},
        setup={"more": "names indexes", "own_tables": False, "goes_back": False},
        between=("night", "catch up", "once", "send again", "send again", "set back", "once"),
    ),
}  # fmt: skip
