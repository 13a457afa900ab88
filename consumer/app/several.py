"""Several consumers in one process: they share Spark, and each runs as if it were alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote, urlsplit

from consumer.app.commands import run
from consumer.app.parts import goes_with_others, loader_of
from consumer.config.settings import Settings
from consumer.errors import ConsumerError, JobBroken
from consumer.model.check import CheckTask, Counted
from consumer.model.load import LoadOutcome, LoadTask
from consumer.model.result import RunResult
from consumer.model.rules import Consistency
from consumer.model.times import now
from consumer.pipeline.group import Group, Member
from consumer.ports import Found, Loader, Moved, Observer, RangeReader, unheard
from consumer.sink import ONE_AT_A_TIME, commit_together_for
from consumer.target import Comparer, Writer

AGAIN_AFTER = 60.0
"""Seconds until a consumer that an error has ended is begun anew, beside others that run."""
LEFT_AFTER = 4.0
"""Seconds that consumers have to end once Spark is gone."""
_LOOK_EVERY = 0.2

Consumers = Mapping[str, tuple[Settings, Observer]]
Command = Callable[[Settings, Observer, Loader, Member | None], RunResult]
Ended = RunResult | BaseException
Results = Mapping[str, Ended | None]
"""How each consumer ended; None: it had not, when the time for that was over."""
Failed = Callable[[str, Exception], None]


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
    ) -> Counted:
        self._check()
        return self._loader.compare(task, comparer, reader, at_a_time, moved, found)

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
    """One of several consumers, on a thread of its own."""

    settings: Settings
    observer: Observer
    loader: SharedLoader
    turns: threading.Lock | None
    member: Member | None
    ended: Ended | None = None
    failing: bool = False
    thread: threading.Thread = field(init=False)


def is_one_moment(settings: Settings) -> bool:
    """Whether readers see the rows of several upstreams at once: they run at the same time then, whatever command it
    is."""
    return settings.together and settings.consistency is Consistency.SNAPSHOT


def run_all(consumers: Consumers, stop: threading.Event, failed: Failed, loader: Loader | None = None) -> Results:
    """`run` of each, beside one another, until `stop` is set or an error has ended each of them. One that an error has
    ended is begun anew after a while, as long as others run. `failed` is told of each such error. Returns how each of
    them ended; those that did not end in time after a signal have a result that is unfinished."""

    def call(one: _Running) -> RunResult:
        return run(one.settings, one.observer, stop, one.loader, one.turns, one.member)

    return _beside(consumers, call, stop, failed, loader)


def apply_all(consumers: Consumers, command: Command, stop: threading.Event) -> Results:
    """`once` or `backfill` of consumers whose rows readers see at once. Returns as `run_all`."""

    def call(one: _Running) -> RunResult:
        return command(one.settings, one.observer, one.loader, one.member)

    return _beside(consumers, call, stop)


def _beside(
    consumers: Consumers,
    call: Callable[[_Running], RunResult],
    stop: threading.Event,
    failed: Failed | None = None,
    loader: Loader | None = None,
) -> Results:
    """`failed`: who fails is begun anew; None: it is not."""
    turns: dict[str, threading.Lock] = {}
    members, over = _members(consumers), threading.Event()
    general = next(iter(consumers.values()))[0]
    with shared_loader(general) if loader is None else nullcontext(loader) as spark:
        running = {
            name: _Running(settings, observer, SharedLoader(spark), _turns_of(settings, turns), members.get(name))
            for name, (settings, observer) in consumers.items()
        }
        for name, one in running.items():
            target = partial(_keep_going, name, running, call, stop, over, failed)
            one.thread = threading.Thread(target=target, name=f"consumer {name}", daemon=True)
        for one in running.values():
            one.thread.start()
        try:
            while alive := [one.thread for one in running.values() if one.thread.is_alive()]:
                alive[0].join(_LOOK_EVERY)
                if stop.is_set():
                    _stop(members)
        except KeyboardInterrupt:
            over.set()
            stop.set()
            _stop(members)
            for one in running.values():
                one.loader.leave()
            spark.abandon()
            for one in running.values():
                one.thread.join(LEFT_AFTER / len(running))
        return {name: one.ended for name, one in running.items()}


def _members(consumers: Consumers) -> dict[str, Member]:
    """Of those whose rows readers see at once, by name, the place in the group of its target."""
    found: dict[str, Group] = {}
    members: dict[str, Member] = {}
    for name, (settings, _) in consumers.items():
        if not is_one_moment(settings):
            continue
        uri = str(settings.downstream_uri)
        if uri not in found:
            names = [other for other, (own, _) in consumers.items() if str(own.downstream_uri) == uri]
            if not {settings.upstream_name, *settings.peers} <= {consumers[other][0].upstream_name for other in names}:
                raise goes_with_others(settings)
            found[uri] = Group(names, commit_together_for(uri))
        members[name] = Member(found[uri], name)
    return members


def _stop(members: Mapping[str, Member]) -> None:
    for member in members.values():
        member.group.stop.set()


def _turns_of(settings: Settings, known: dict[str, threading.Lock]) -> threading.Lock | None:
    """A lock for a target that one consumer has at a time."""
    uri = urlsplit(str(settings.downstream_uri))
    if uri.scheme not in ONE_AT_A_TIME:
        return None
    return known.setdefault(os.path.realpath(unquote(uri.path)[1:]), threading.Lock())


def _keep_going(
    name: str,
    all_of_them: Mapping[str, _Running],
    call: Callable[[_Running], RunResult],
    stop: threading.Event,
    over: threading.Event,
    failed: Failed | None,
) -> None:
    one = all_of_them[name]
    while not over.is_set():
        one.ended, again = None, False
        try:
            one.ended = call(one)
        except Exception as error:
            one.ended, one.failing, again = error, True, failed is not None
            if failed is not None:
                failed(name, error)
        if one.member is not None:
            one.member.ended(one.ended if isinstance(one.ended, ConsumerError) else None)
        if all(other.failing for other in all_of_them.values()):
            over.set()
        until = now() + AGAIN_AFTER
        while again and now() < until:
            if stop.is_set() or over.wait(_LOOK_EVERY):
                return
        if not again:
            return
        one.failing = False
        if one.member is not None:
            one.member.left()
