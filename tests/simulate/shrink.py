"""A failing history made short: events are left out while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulate.events import Event, History

Fails = Callable[[History], bool]


def shrunk(found: History, fails: Fails, tries: int = 400) -> History:
    """The shortest that was found in so many `tries`."""
    left = tries
    size = max(len(found.events) // 2, 1)
    while size and left > 0:
        smaller = None
        for candidate in _without(found, size):
            left -= 1
            if fails(candidate):
                smaller = candidate
                break
            if left <= 0:
                break
        if smaller is None:
            size //= 2
        else:
            found = smaller
    for candidate in _calmer(found) if left > 0 else ():
        if fails(candidate):
            return shrunk(candidate, fails, left - 1)
    return found


def _without(found: History, size: int) -> Iterator[History]:
    """Each without `size` events that follow one another."""
    events = found.events
    for start in range(max(len(events) - size, 0), -1, -size):
        yield replace(found, events=events[:start] + events[start + size :])


def _calmer(found: History) -> Iterator[History]:
    """Each with less that happens during a run."""
    for place, event in enumerate(found.events):
        for number in range(len(event.during)):
            during = event.during[:number] + event.during[number + 1 :]
            yield _with(found, place, replace(event, during=during))


def _with(found: History, place: int, event: Event) -> History:
    return replace(found, events=(*found.events[:place], event, *found.events[place + 1 :]))
