"""A sink and a loader that die at a chosen moment, as a process does: nobody catches it, nobody cleans up after it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from consumer import app
from consumer.app import parts as app_parts
from consumer.config.settings import Settings
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.results import RunResult
from consumer.sink import sink_for
from consumer.target import Sink, Writer
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

MUTATIONS = ("commit", "record", "apply_ddls", "empty_table", "replace_table", "fence", "forget")


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


Run = Callable[[Settings, Recorder, InlineLoader], RunResult]


def once_through_crashes(
    settings: Settings, stride: int, monkeypatch: pytest.MonkeyPatch, run: Run = app.once
) -> RunResult:
    """Runs that go on where the one before died: each at a moment that is `stride` further, until one ends."""
    fuse, real = Fuse(), sink_for
    monkeypatch.setattr(app_parts, "sink_for", lambda *given, **named: CrashingSink(real(*given, **named), fuse))
    for moment in itertools.count(0, stride):
        fuse = Fuse(moment)
        try:
            result = run(settings, Recorder(), CrashingLoader(fuse))
        except Crash:
            continue
        assert moment > 3
        return result
    raise AssertionError("there is always another moment")
