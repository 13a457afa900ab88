"""Loads in this process, by the same functions as in Spark's tasks: for what is read before a JVM has started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Made, Moved, RangeReader, Work, unheard
from consumer.spark.buckets import alone
from consumer.spark.packed import load_share
from consumer.spark.sizes import groups_of
from consumer.spark.tasks import Reading, made, outcome_of
from consumer.target import Writer


class AtOnce(Executor):
    """Makes each call when it is submitted: there is one order, and no thread that a signal would wait for."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args, **more))
        return future


class InProcessLoader:
    """The Loader port without Spark: whole tables one after the other, on one connection."""

    connections = 1
    start_seconds = 0.0

    def split(self, tasks: Sequence[LoadTask]) -> Sequence[Sequence[LoadTask]]:
        return [tasks]

    def width(self, tasks: Sequence[LoadTask]) -> int:
        return 1

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        results = dict(load_share(tasks, writer, reader, AtOnce))
        return [outcome_of(task, results[task.number]) for task in tasks]

    def read(self, work: Work[Made], moved: Moved = unheard) -> Iterator[Made]:
        yield from made(alone(Reading(work, work.pieces(groups_of), moved=moved)))

    def abandon(self) -> None:
        """The running load continues, on a thread that does not keep the process alive."""

    def close(self) -> None: ...
