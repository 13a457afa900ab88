"""Trying again what may go through the next time, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tenacity

from consumer.errors import ConsumerError, LeaseHeld, Retryable
from consumer.ports import Observer

ATTEMPTS = 5
T = TypeVar("T")


def patiently(what: str, call: Callable[[], T], observer: Observer) -> T:
    """`call`, up to five times with growing pauses while it raises Retryable. LeaseHeld is final: another took over."""

    def told(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, ConsumerError):
            observer.retrying(what, error, state.attempt_number)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, Retryable) and not isinstance(error, LeaseHeld)
        ),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=15),
        before_sleep=told,
        reraise=True,
    )(call)
