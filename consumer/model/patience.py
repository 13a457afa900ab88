"""The one retry policy. Its limits are times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.errors import Retryable
from consumer.model.times import between, now, sleep

WRITE_SECONDS = 15.0
"""The seconds for which a task retries one transaction after its first failure. Later work waits that long."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 5.0

T = TypeVar("T")


def with_retries(
    call: Callable[[], T],
    seconds: float,
    on_failure: Callable[[Retryable, float], None] = lambda error, seconds_left: None,
) -> T:
    """Returns the result of `call`, which is retried with growing random pauses while it raises a Retryable, until
    `seconds` have passed since the first failure; then its last error is raised. `on_failure` is called before each
    pause with the error and the seconds left."""
    tries, deadline = 0, 0.0
    while True:
        try:
            return call()
        except Retryable as error:
            tries += 1
            deadline = deadline or now() + seconds
            seconds_left = deadline - now()
            if not error.may_pass or seconds_left <= 0:
                raise
            on_failure(error, seconds_left)
        sleep(min(pause(tries), seconds_left))


def pause(tries: int) -> float:
    """Returns the seconds before the next try, doubling and random, so that two transactions that collided do not
    collide again."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries, 10)) * between(0.5, 1.5)
