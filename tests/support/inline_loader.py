"""The Loader port without Spark: the same task functions, in this process. For tests with thousands of small loads."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from consumer.model.check import CheckTask, Counted
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Found, Moved, RangeReader, unheard
from consumer.spark.buckets import alone
from consumer.spark.changes import Changes, tables
from consumer.spark.comparison import Comparison, counted
from consumer.spark.load import outcome_of
from consumer.spark.packed import load_share
from consumer.spark.tasks import Loading, Result
from consumer.target import Comparer, Writer


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

    def changes(
        self, task: LoadTask, reader: RangeReader, rows: Collection[int] = (), moved: Moved = unheard
    ) -> Iterator[Any]:
        task = pickle.loads(pickle.dumps(task))
        ranges = [range(at, at + 1) for at in range(len(task.slices))]
        return tables(alone(Changes(task, ranges, reader, rows, self._keyed or 1, moved)))

    def compare(
        self,
        task: CheckTask,
        comparer: Comparer,
        reader: RangeReader,
        at_a_time: int,
        moved: Moved = unheard,
        found: Found = unheard,
    ) -> Counted:
        task = pickle.loads(pickle.dumps(task))
        groups = [(number, era.task.slices) for number, era in enumerate(task.eras)]
        work = Comparison(task, comparer, reader, groups, buckets=self._keyed or 1, moved=moved)
        return counted(alone(work), task, found)

    def abandon(self) -> None:
        pass

    def close(self) -> None: ...
