"""The Loader port without Spark: the same task functions, in this process. For tests with thousands of small loads."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from consumer.model.load import FileSlice, LoadOutcome, LoadTask
from consumer.ports import Made, Moved, RangeReader, Work, unheard
from consumer.spark.buckets import alone
from consumer.spark.load import outcome_of
from consumer.spark.packed import load_share
from consumer.spark.tasks import Loading, Reading, Result, made
from consumer.target import Writer


class AtOnce(Executor):
    """Each call is made when it is handed over: what happens then has one order."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args, **more))
        return future


class InlineLoader:
    """`keyed`: send every keyed table, if it may be divided, through the two halves of the keyed shape, with this many
    buckets."""

    def __init__(self, keyed: int = 0) -> None:
        self._keyed = keyed
        self.loads = 0

    connections = 1
    start_seconds = 0.0

    def split(self, tasks: Sequence[LoadTask]) -> list[Sequence[LoadTask]]:
        return [tasks]

    def width(self, tasks: Sequence[LoadTask]) -> int:
        return 1

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        self.loads += len(tasks)
        sent = pickle.loads(pickle.dumps(tasks))
        keyed = [task for task in sent if self._keyed and task.target.key and not task.target.whole]
        numbers = {task.number for task in keyed}
        packed = [task for task in sent if task.number not in numbers]
        results = dict(load_share(packed, writer, reader, AtOnce))
        for task in keyed:
            results[task.number] = self._keyed_shape(task, writer, reader)
        return [outcome_of(task, results[task.number]) for task in sent]

    def _keyed_shape(self, task: LoadTask, writer: Writer, reader: RangeReader) -> list[Result]:
        shares = [[[piece] for piece in task.slices]]
        return list(map(pickle.loads, alone(Loading(task, shares, self._keyed, writer, reader))))

    def read(self, work: Work[Made], moved: Moved = unheard) -> Iterator[Made]:
        yield from made(alone(Reading(work, work.pieces(_one_by_one), self._keyed or 1, moved)))

    def abandon(self) -> None:
        pass

    def close(self) -> None: ...


def _one_by_one(task: LoadTask) -> list[list[FileSlice]]:
    return [[piece] for piece in task.slices]
