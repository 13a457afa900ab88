"""What a command does with its target, tried again while that may help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.errors import Retryable
from consumer.model import patience
from consumer.model.events import Retrying, RetryPassed
from consumer.ports import Observer

T = TypeVar("T")


def patiently(what: str, call: Callable[[], T], observer: Observer, seconds: float) -> T:
    """`call`, for `seconds` from its first failure on (see model.patience); the observer is told of each failure, and
    of the end of the trouble."""
    failed = False

    def told(error: Retryable, left: float) -> None:
        nonlocal failed
        failed = True
        observer.tell(Retrying(what, error, left))

    result = patience.patiently(call, seconds, told)
    if failed:
        observer.tell(RetryPassed(what))
    return result
