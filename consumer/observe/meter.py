"""How far a round is: the finished work, the running work, and the speed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from consumer.model.events import Event, RoundStarted, StepFinished, WorkEnded, WorkMoved, WorkStarted, WorkUnit
from consumer.model.load import LoadPart
from consumer.model.texts import duration_text, shortened

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Reading:
    """`done` of `total` bytes of change files, in `seconds` since the first load began; 0.0: none has begun. `oldest`
    describes the work that has been running for longest, "" for none."""

    done: LoadPart
    total: int
    seconds: float
    loads: int
    statements: int
    oldest: str

    @property
    def rate(self) -> float:
        """Returns bytes a second."""
        return self.done.bytes / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float | None:
        """Returns the seconds until all is done at this rate; None if unknown."""
        return (self.total - self.done.bytes) / self.rate if self.rate else None


@dataclass(slots=True)
class _InHand:
    since: float
    part: LoadPart = field(default_factory=LoadPart)


class Meter:
    """Receives events of work on any thread, and is read on another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._total, self._done, self._first = 0, LoadPart(), 0.0
        self._in_hand: dict[WorkUnit, _InHand] = {}

    def tell(self, event: Event) -> None:
        with self._lock:
            match event:
                case RoundStarted():
                    # What the round before had in hand is forgotten.
                    self._total, self._done, self._first, self._in_hand = event.bytes, LoadPart(), 0.0, {}
                case WorkStarted(work):
                    now = self._clock()
                    self._in_hand[work] = _InHand(now)
                    self._first = self._first or (0.0 if work.statement else now)
                case WorkMoved(work, part) if work in self._in_hand:
                    self._in_hand[work].part += part
                case WorkEnded(work):
                    self._in_hand.pop(work, None)
                case StepFinished(row, _, size):
                    self._done += LoadPart(size, row.changes, row.rows)

    def reading(self) -> Reading:
        with self._lock:
            now = self._clock()
            done = sum((hand.part for hand in self._in_hand.values()), self._done)
            statements = sum(bool(work.statement) for work in self._in_hand)
            oldest = min(self._in_hand, key=lambda work: self._in_hand[work].since, default=None)
            text = "" if oldest is None else _text(oldest, now - self._in_hand[oldest].since)
            # A file that is read twice (bounded rounds) counts twice: never more than all, then.
            total, seconds = max(self._total, done.bytes), now - self._first if self._first else 0.0
            return Reading(done, total, seconds, len(self._in_hand) - statements, statements, text)


def _text(work: WorkUnit, seconds: float) -> str:
    more = f" and {len(work.tables) - 1:,} more" if len(work.tables) > 1 else ""
    query = shortened(work.statement, _SHOWN)
    what = f"{query} of" if work.statement else "load of"
    return f"{what} {work.tables[0]}{more}, {duration_text(seconds)}"
