"""What a round does with its target, tried again while that may help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.model import patience
from consumer.ports import Observer

T = TypeVar("T")


def patiently(what: str, call: Callable[[], T], observer: Observer) -> T:
    """`call`, for as long as a round waits for its target (see model.patience); the observer is told of each try."""
    return patience.patiently(call, patience.ROUND_SECONDS, lambda error, tries: observer.retrying(what, error, tries))
