"""Cuts changes into shares, each for one task: a range of time, and the slices of files that have rows in it.

A change that was written again has the same commit-ts, so it is in the same stretch: a task sees both, and gives one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from consumer.model.check import Era
from consumer.model.load import FileSlice
from consumer.model.steps import Window

Bounds = Mapping[str, tuple[int, int]]
"""The first and the last commit-ts of files, by path."""


def cut(era: Era, bounds: Bounds, asked: Window, size: int) -> Iterator[Era]:
    """Yields the parts of an era that have rows in the window `asked`, of about `size` bytes each."""
    whole = Window(max(era.task.window.after, asked.after), min(era.task.window.end, asked.end))
    every = (whole.after, whole.end)
    pieces = [p for p in era.task.slices if _meets(whole, *bounds.get(p.path, every))]
    if not pieces or whole.end <= whole.after:
        return
    for window in _windows(pieces, bounds, whole, size):
        inside = (p for p in pieces if _meets(window, *bounds.get(p.path, every)))
        slices = tuple(replace(p, exact=_common(p.exact, window), coarse=window) for p in inside)
        yield replace(era, task=replace(era.task, window=window, slices=slices))


def _meets(window: Window, first: int, last: int) -> bool:
    return first <= window.end and last > window.after


def _common(one: Window, other: Window) -> Window:
    return Window(max(one.after, other.after), min(one.end, other.end))


def _windows(pieces: Sequence[FileSlice], bounds: Bounds, whole: Window, size: int) -> Iterator[Window]:
    """Yields the windows. One ends before a file if enough bytes lie before that file, and if few of them belong to
    files that reach further, since these are read twice."""
    if any(piece.path not in bounds for piece in pieces):
        yield whole
        return
    files: dict[str, int] = {}
    for piece in pieces:
        files[piece.path] = files.get(piece.path, 0) + piece.length
    after, held, goes_on = whole.after, 0, list[tuple[int, int]]()
    for path, length in sorted(files.items(), key=lambda file: bounds[file[0]]):
        first, last = bounds[path]
        goes_on = [(end, of) for end, of in goes_on if end >= first]
        again = sum(of for _, of in goes_on)
        if held >= size and again * 2 <= held - again and first - 1 > after:
            yield Window(after, first - 1)
            after, held = first - 1, again
        held += length
        goes_on.append((last, length))
    yield Window(after, whole.end)
