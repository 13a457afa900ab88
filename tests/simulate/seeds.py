"""Plays seed after seed, in some processes side by side."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count

from tests.simulate.events import History, history, in_a_lake, published
from tests.simulate.play import play

LAKE = "lake"
"""In place of a consistency level: the target's commits are of one table each."""
_SEEDS = 10
"""Of a batch: what a process is given at once."""


@dataclass
class Batch:
    """`failed`: each history with what is wrong; `stories`: all of them, by their seeds; `happened`: as of a Played;
    `cpu`: seconds."""

    played: int = 0
    failed: list[tuple[History, str]] = field(default_factory=list)
    stories: dict[int, list[str]] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    cpu: float = 0.0


def batches(
    first: int, most: int, seconds: float, level: str, jobs: int, theme: str = "", readers: bool = False
) -> Iterator[Batch]:
    """The batches of seeds from `first` on, in their order: of `most` seeds, or of so many `seconds` if that is 0.
    `theme`: of all of them, "" for whichever a seed draws; `readers`: see `play`."""
    until = time.monotonic() + seconds
    starts = iter(range(first, first + most, _SEEDS) if most else count(first, _SEEDS))
    with ProcessPoolExecutor(jobs) as pool:
        under_way = deque[Future[Batch]]()
        try:
            while True:
                while len(under_way) < 2 * jobs and (most or time.monotonic() < until):
                    if (start := next(starts, None)) is None:
                        break
                    end = min(start + _SEEDS, first + most) if most else start + _SEEDS
                    under_way.append(pool.submit(_played, range(start, end), level, theme, readers))
                if not under_way:
                    return
                yield under_way.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _played(seeds: range, level: str, theme: str, readers: bool) -> Batch:
    found, began = Batch(), time.process_time()
    for seed in seeds:
        one = history(seed, theme)
        if (drawn := in_a_lake(one) if level == LAKE else published(one, level)) is None:
            continue
        found.played += 1
        played = play(drawn, readers)
        found.stories[seed] = played.story
        found.happened += played.happened
        if played.problem:
            found.failed.append((drawn, played.problem))
    found.cpu = time.process_time() - began
    return found
