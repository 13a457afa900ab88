"""Trying again what may go through a moment later: one policy, and its limits are times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.errors import Retryable
from consumer.model.timekeeper import between, now, sleep

WRITE_SECONDS = 15.0
"""How long a task tries one transaction again, from its first failure on; what is behind it waits as long."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 5.0

T = TypeVar("T")


def patiently(
    call: Callable[[], T],
    seconds: float,
    told: Callable[[Retryable, float], None] = lambda error, left: None,
) -> T:
    """`call`, again with growing random pauses while it raises a Retryable that may pass, until `seconds` have gone by
    since the first; then its last error. `told` gets each error before the pause, and the seconds that are left."""
    tries, deadline = 0, 0.0
    while True:
        try:
            return call()
        except Retryable as error:
            tries += 1
            deadline = deadline or now() + seconds
            left = deadline - now()
            if not error.may_pass or left <= 0:
                raise
            told(error, left)
        sleep(min(pause(tries), left))


def pause(tries: int) -> float:
    """Seconds before the next try, doubling and spread at random, so that two who met do not meet again."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries, 10)) * between(0.5, 1.5)
