"""What the driver does right now, where no work is in hand."""

from __future__ import annotations

from collections.abc import Callable

from consumer.model.events import Event, Idle, NowDoing, RoundStarted


class Activity:
    """The driver does `what` since `since`. `applied_ts`: while idle, the commit-ts that everything is applied up to,
    else None. `begun` is when it did something first, 0.0 before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.what, self.since, self.begun = "", clock(), 0.0
        self.applied_ts: int | None = None

    def tell(self, event: Event) -> None:
        match event:
            case NowDoing(what):
                self._does(what)
            case RoundStarted():
                self._does("goes through its steps")
            case Idle(applied_ts):
                self._does("waits for new files")
                self.applied_ts = applied_ts

    def _does(self, what: str) -> None:
        self.what, self.since, self.applied_ts = what, self._clock(), None
        self.begun = self.begun or self.since
