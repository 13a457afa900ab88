"""Several consumers in one process: they share Spark, and each runs as if it were alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from consumer.app.commands import run
from consumer.app.parts import loader_of
from consumer.config.settings import Settings
from consumer.errors import ConsumerError, JobBroken
from consumer.model.check import CheckTask, Counted
from consumer.model.load import LoadOutcome, LoadTask
from consumer.model.result import RunResult
from consumer.model.timekeeper import now
from consumer.ports import Found, Loader, Moved, Observer, RangeReader, Told, unheard
from consumer.sink import ONE_AT_A_TIME
from consumer.target import Comparer, Writer

AGAIN_AFTER = 60.0
"""Seconds until a consumer that an error has ended is begun anew, beside others that run."""
LEFT_AFTER = 4.0
"""Seconds that consumers have to end once Spark is gone."""
_LOOK_EVERY = 0.2

Ended = RunResult | BaseException
Failed = Callable[[str, ConsumerError], None]


class SharedLoader:
    """Spark as one of several consumers has it: who ends does not end it for the others."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._began = loader.start_seconds
        self._left = False

    @property
    def connections(self) -> int:
        return self._loader.connections

    @property
    def start_seconds(self) -> float:
        return self._loader.start_seconds - self._began

    def split(self, tasks: Sequence[LoadTask]) -> Sequence[Sequence[LoadTask]]:
        self._check()
        return self._loader.split(tasks)

    def width(self, tasks: Sequence[LoadTask]) -> int:
        self._check()
        return self._loader.width(tasks)

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> Sequence[LoadOutcome]:
        self._check()
        return self._loader.load(tasks, writer, reader, moved)

    def compare(
        self,
        task: CheckTask,
        comparer: Comparer,
        reader: RangeReader,
        at_a_time: int,
        moved: Moved = unheard,
        found: Found = unheard,
        other: Told | None = None,
    ) -> Counted:
        self._check()
        return self._loader.compare(task, comparer, reader, at_a_time, moved, found, other)

    def abandon(self) -> None:
        self._left = True
        self._loader.abandon()

    def leave(self) -> None:
        """Begin nothing more."""
        self._left = True

    def close(self) -> None:
        """The others go on with it."""

    def _check(self) -> None:
        if self._left:
            raise JobBroken("a signal has ended the command")


@contextmanager
def shared_loader(settings: Settings) -> Iterator[Loader]:
    """For all consumers of the command, whose settings of Spark are the same."""
    loader = loader_of(settings)
    try:
        yield loader
    finally:
        loader.close()


@dataclass(slots=True)
class _Running:
    """One consumer of `run_all`, on a thread of its own."""

    settings: Settings
    observer: Observer
    loader: SharedLoader
    turns: threading.Lock | None
    ended: Ended | None = None
    failing: bool = False
    thread: threading.Thread = field(init=False)


def run_all(
    consumers: Mapping[str, tuple[Settings, Observer]],
    stop: threading.Event,
    failed: Failed,
    loader: Loader | None = None,
) -> dict[str, Ended]:
    """`run` of each, beside one another, until `stop` is set or an error has ended each of them. One that an error has
    ended is begun anew after a while, as long as others run. `failed` is told of each such error. Returns how each of
    them ended; those that did not end in time after a signal have a result that is unfinished."""
    turns: dict[str, threading.Lock] = {}
    general = next(iter(consumers.values()))[0]
    with shared_loader(general) if loader is None else _kept(loader) as spark:
        running = {}
        for name, (settings, observer) in consumers.items():
            running[name] = _Running(settings, observer, SharedLoader(spark), _turns_of(settings, turns))
        over = threading.Event()
        for name, one in running.items():
            call = _calling(name, one, running, stop, over, failed)
            one.thread = threading.Thread(target=call, name=f"run {name}", daemon=True)
            one.thread.start()
        try:
            while any(one.thread.is_alive() for one in running.values()):
                next(one.thread for one in running.values() if one.thread.is_alive()).join(_LOOK_EVERY)
        except KeyboardInterrupt:
            stop.set()
            over.set()
            for one in running.values():
                one.loader.leave()
            spark.abandon()
            for one in running.values():
                one.thread.join(LEFT_AFTER / len(running))
        return {name: one.ended or RunResult(unfinished=True) for name, one in running.items()}


@contextmanager
def _kept(loader: Loader) -> Iterator[Loader]:
    yield loader


def _turns_of(settings: Settings, known: dict[str, threading.Lock]) -> threading.Lock | None:
    """A lock for a target that one consumer has at a time."""
    uri = urlsplit(str(settings.downstream_uri))
    if uri.scheme not in ONE_AT_A_TIME:
        return None
    return known.setdefault(os.path.realpath(uri.path[1:]), threading.Lock())


def _calling(
    name: str,
    one: _Running,
    all_of_them: Mapping[str, _Running],
    stop: threading.Event,
    over: threading.Event,
    failed: Failed,
) -> Callable[[], None]:
    def call() -> None:
        while not over.is_set():
            try:
                one.ended = run(one.settings, one.observer, stop, one.loader, one.turns)
                return
            except ConsumerError as error:
                one.ended, one.failing = error, True
                failed(name, error)
            except BaseException as bug:
                one.ended, one.failing = bug, True
                return
            finally:
                if all(other.failing for other in all_of_them.values()):
                    over.set()
            until = now() + AGAIN_AFTER
            while now() < until:
                if stop.is_set() or over.wait(_LOOK_EVERY):
                    return
            one.failing = False

    return call
