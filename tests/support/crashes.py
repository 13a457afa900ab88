"""A sink and a loader that die at a chosen moment, as a process does: nobody catches it, nobody cleans up after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.target import Sink, Writer
from tests.support.inline_loader import InlineLoader

MUTATIONS = ("commit", "record", "apply_ddls", "empty_table", "fence")


class Crash(BaseException):
    """The end of a run. No error of the consumer, so nothing handles it."""


class Fuse:
    """Counts the moments at which a process can die, and dies at the one numbered `moment`."""

    def __init__(self, moment: int | None = None) -> None:
        self.moments, self._moment = 0, moment

    def tick(self) -> None:
        if self.moments == self._moment:
            raise Crash
        self.moments += 1

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, with a moment before and one after it."""

        def guarded(*given: Any, **named: Any) -> Any:
            self.tick()
            result = call(*given, **named)
            self.tick()
            return result

        return guarded


class CrashingSink:
    """A sink whose changes have moments before and after them."""

    def __init__(self, sink: Sink, fuse: Fuse) -> None:
        self._sink, self._fuse = sink, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._sink, name)
        return self._fuse.around(found) if name in MUTATIONS else found


class CrashingLoader(InlineLoader):
    """A loader with a moment before and after each task: tasks of one load may be written when others are not."""

    def __init__(self, fuse: Fuse, keyed: int = 0) -> None:
        super().__init__(keyed)
        self._fuse = fuse

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        one_task = self._fuse.around(super().load)
        return [outcome for task in tasks for outcome in one_task([task], writer, reader)]
