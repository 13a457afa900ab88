"""Runs several consumers in one process: they share Spark, and each runs as if it were alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from consumer.app.commands import run
from consumer.app.parts import loader_of
from consumer.config.settings import Settings
from consumer.model.times import now
from consumer.ports import Loader, Observer
from consumer.results import RunResult
from consumer.sink import ONE_AT_A_TIME

AGAIN_AFTER = 60.0
"""The seconds until a consumer that an error has ended is started again, while others run."""
LEFT_AFTER = 4.0
"""The seconds that consumers have to end once Spark is gone."""
_LOOK_EVERY = 0.2

Consumers = Mapping[str, tuple[Settings, Observer]]
Ended = RunResult | BaseException
Failed = Callable[[str, Exception], None]


@dataclass(slots=True)
class _Running:
    """One of several consumers, on a thread of its own."""

    settings: Settings
    observer: Observer
    turns: threading.Lock | None
    ended: Ended | None = None
    failing: bool = False
    thread: threading.Thread = field(init=False)


def run_all(
    consumers: Consumers, stop: threading.Event, failed: Failed, loader: Loader | None = None
) -> Mapping[str, Ended | None]:
    """Runs each of the consumers in parallel, until `stop` is set or an error has ended all of them. A consumer that an
    error has ended is started again after a while, as long as others run. Each such error is passed to `failed`.
    Returns how each of them ended; None if it had not when the time for that was over."""
    targets: dict[str, threading.Lock] = {}
    running = {
        name: _Running(settings, observer, _turns(settings, targets))
        for name, (settings, observer) in consumers.items()
    }
    over = threading.Event()

    def keep_going(name: str, consumer: _Running, spark: Loader) -> None:
        while not over.is_set():
            consumer.ended, consumer.failing = None, False
            try:
                consumer.ended = run(consumer.settings, consumer.observer, stop, spark, consumer.turns)
                return
            except Exception as error:
                consumer.ended, consumer.failing = error, True
                failed(name, error)
            if all(other.failing for other in running.values()):
                over.set()
            until = now() + AGAIN_AFTER
            while now() < until:
                if stop.is_set() or over.wait(_LOOK_EVERY):
                    return

    general = next(iter(running.values())).settings
    with closing(loader_of(general)) if loader is None else nullcontext(loader) as spark:
        for name, consumer in running.items():
            args = (name, consumer, spark)
            consumer.thread = threading.Thread(target=keep_going, args=args, name=f"consumer {name}", daemon=True)
        for consumer in running.values():
            consumer.thread.start()
        try:
            while alive := [consumer.thread for consumer in running.values() if consumer.thread.is_alive()]:
                alive[0].join(_LOOK_EVERY)
        except KeyboardInterrupt:
            over.set()
            stop.set()
            spark.abandon()
            for consumer in running.values():
                consumer.thread.join(LEFT_AFTER / len(running))
        return {name: consumer.ended for name, consumer in running.items()}


def _turns(settings: Settings, locks: dict[str, threading.Lock]) -> threading.Lock | None:
    """Returns a lock for a target that one consumer uses at a time, None for other targets."""
    uri = urlsplit(str(settings.downstream_uri))
    if uri.scheme not in ONE_AT_A_TIME:
        return None
    return locks.setdefault(os.path.realpath(unquote(uri.path)[1:]), threading.Lock())
