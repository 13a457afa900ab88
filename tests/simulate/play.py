"""Plays a history through the real driver, and looks after every run whether all is as it must be."""

from __future__ import annotations

import math
import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import consumer.app.parts
import consumer.codec.decoder
import consumer.codec.lines
import consumer.storage.reader
import consumer.storage.remote
from consumer import app
from consumer.app.commands import CheckpointWatch
from consumer.errors import ConsumerError
from consumer.model import times
from consumer.model.events import RoundStarted
from consumer.model.files import SchemaFile, StoredFile
from consumer.model.progress import State
from consumer.pipeline.manager import ConsumerManager
from consumer.results import RunResult
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings
from tests.simulate.checks import behind, check_end, check_run, check_target, check_waiting
from tests.simulate.events import Event, History
from tests.simulate.loader import SimulatedLoader
from tests.simulate.machine import Beside, Crash, Failure, Happening, VirtualTime
from tests.simulate.readers import Readers
from tests.simulate.world import Random, World
from tests.support.observers import Recorder

pa.set_cpu_count(1)  # threads of its own would only cost

MOST_CPU = 20.0
AFTER_A_CRASH = 60.0
"""Seconds until somebody starts the consumer again."""


@dataclass(frozen=True)
class Played:
    """`problem`: what is wrong, "" if nothing. `happened`: how often which kind of event, and what came of it."""

    problem: str
    story: list[str]
    happened: Counter[str]


def play(history: History, readers: bool = False) -> Played:
    """`readers`: what they give is looked at, too."""
    world = World(history)
    world.consume = lambda event: _consume(world, event)
    if history.setup.consistency == "snapshot":
        world.server.watched = lambda: _together(world)
    problem, looking = "", Readers(world) if readers else None
    signal.signal(signal.SIGVTALRM, _too_long)
    with _installed(world):
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU)
        try:
            for event in history.events:
                world.do(event)
                if looking is not None:
                    looking.look(event.seed)
            _end(world)
            if looking is not None:
                looking.look_in_the_end()
        except Failure as failure:
            problem = str(failure)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            places = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames))
            problem = f"{type(error).__name__}: {error} ({places})"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return Played(problem, world.machine.story, world.machine.happened)


@contextmanager
def _together(world: World) -> Iterator[None]:
    """A commit leaves no table behind: readers would see two moments."""
    before = behind(world)
    yield
    progress = world.server.progress
    if left := {name for name in behind(world) - before if progress.table(name).state is State.OK}:
        raise Failure(f"{sorted(left)} stay behind the moment that the others come to")


def _consume(world: World, event: Event) -> RunResult | None:
    machine, random = world.machine, Random(event.seed)
    happenings: dict[int, list[Happening]] = {}
    for moment, other in event.during:
        happenings.setdefault(moment, []).append(_happening(world, other))
    outer, world.loader = world.loader, SimulatedLoader(machine, random)
    trouble, world.trouble = world.trouble, world.lingering()
    observer = Told()
    machine.tell(f"the consumer runs ({event.kind})")
    result: RunResult | None = None
    try:
        with machine.run(happenings) as frame:
            # A round of `run` may leave tables to the next one, and what is seen together waits for all.
            if event.kind == "once" and world.history.setup.consistency != "snapshot":
                frame.idle = lambda: _idle(world, observer)
            if event.kind == "run":
                stop: Any = Rounds(world, random.randint(1, 3))
                result = app.run(world.settings, observer, stop, world.loader)
            else:
                result = app.once(world.settings, observer, world.loader)
        told = f"exit {result.exit_code} at {result.checkpoint_ts}"
        error: ConsumerError | None = None
        for name, table in result.tables.items():
            told += f"; {name} {table.state} {table.watermark}" + (f": {table.error}" if table.error else "")
    except Crash:
        machine.now += AFTER_A_CRASH
        world.loader, world.trouble = outer, trouble
        check_target(world, ended=False)
        return None
    except ConsumerError as raised:
        error, told = raised, f"exit {raised.exit_code}: {type(raised).__name__}: {raised}"
    machine.tell(told)
    check_run(world, result, error, observer)
    world.loader, world.trouble = outer, trouble
    return result


def _happening(world: World, event: Event) -> Happening:
    return lambda moment: world.do(event, moment)


def _end(world: World) -> None:
    """Nothing disturbs any more: everything must come right."""
    server, machine = world.server, world.machine
    machine.now += 2000.0
    server.refuses.clear()
    world.storage_until = 0.0
    world.original.rest()  # a RENAME at the checkpoint itself would wait
    world.changefeed.index_fails = 0.0
    world._mend(Random(1), "")
    machine.tell("in the end, " + world._catch_up(Random(1), ""))
    before = _consume(world, Event("once", 1))
    check_end(world, before, _consume(world, Event("once", 2)))


class Told(Recorder):
    checkpoint = 0

    def tell(self, event: Any) -> None:
        super().tell(event)
        if isinstance(event, RoundStarted):
            self.checkpoint = event.checkpoint


def _idle(world: World, observer: Told) -> None:
    if not world.trouble and not world.excuses and not world.damaged:
        check_waiting(world, observer.checkpoint)


def _too_long(*_: object) -> None:
    raise Failure(f"a history takes more than {MOST_CPU} s of CPU")


class Rounds:
    """Takes the place of the event that ends `run`, after so many rounds."""

    def __init__(self, world: World, rounds: int) -> None:
        self._world, self._left = world, rounds

    def is_set(self) -> bool:
        return self._left <= 0

    def wait(self, seconds: float) -> None:
        self._left -= 1
        self._world.machine.now += seconds
        self._world.machine.moment("between rounds")


class _AtOnce:
    """A pool of threads with none."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _AtOnce:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, call: Callable[..., Any], *items: Any) -> Iterator[Any]:
        return map(call, *items)

    def submit(self, call: Callable[..., Any], *given: Any) -> Future[Any]:
        found: Future[Any] = Future()
        try:
            found.set_result(call(*given))
        except Exception as error:
            found.set_exception(error)
        return found


@contextmanager
def _installed(world: World) -> Iterator[None]:
    machine = world.machine
    storage = StorageSettings.from_uri(world.settings.upstream_uri)
    filesystems = {(os.getpid(), storage): world.bucket}
    schemas: dict[StoredFile, SchemaFile] = {}  # that no history finds those of another
    # Hundreds of RENAMEs, one a round, would be thousands of listings.
    hurried = world.history.setup.hurried and all(event.kind != "rotate" for event in world.history.events)
    hurry = {"shortest_round": 1.0 if hurried else math.inf, "round_share": 1.0}
    with (
        patch.object(times, "keeper", VirtualTime(machine)),
        patch.multiple(ConsumerManager, calls_factory=staticmethod(lambda: Beside(machine)), **hurry),
        patch.object(consumer.app.parts, "sink_for", lambda *_, **__: world.server.connect()),
        patch.object(consumer.storage.remote, "_FILESYSTEMS", filesystems),
        patch.object(consumer.storage.reader, "cached_schemas", lambda _: dict(schemas)),
        patch.object(consumer.storage.reader, "cache_schemas", lambda _, parsed: schemas.update(parsed)),
        patch.object(ChangefeedReader, "_concurrently", lambda self, call, items: list(map(call, items))),
        patch.object(CheckpointWatch, "_watch", lambda self: None),  # a thread beside would make no two runs the same
        patch.object(ChangefeedReader, "elsewhere", lambda self: ""),  # the played bucket is all there is
        patch.object(consumer.codec.decoder, "ThreadPoolExecutor", _AtOnce),
        patch.object(consumer.codec.lines, "_READER", _AtOnce()),
    ):
        yield
