"""The clock of rounds and retries, and their random numbers. Leases and connections have the real one.

A test that plays years in a second replaces `keeper`.
"""

from __future__ import annotations

import random
import time


class Timekeeper:
    def now(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def between(self, least: float, most: float) -> float:
        """Any number of the two and those between."""
        return random.uniform(least, most)


keeper = Timekeeper()


def now() -> float:
    return keeper.now()


def sleep(seconds: float) -> None:
    keeper.sleep(seconds)


def between(least: float, most: float) -> float:
    return keeper.between(least, most)
