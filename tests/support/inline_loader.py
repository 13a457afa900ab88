"""The product's loader without Spark, as tests need it: what goes to tasks is pickled, tables can be divided into
buckets, and loads are counted."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

from consumer.model.load import FileSlice, LoadOutcome, LoadTask
from consumer.ports import Made, Moved, RangeReader, Work, unheard
from consumer.spark.buckets import alone
from consumer.spark.in_process import InProcessLoader
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.spark.tasks import Loading, Reading, Result, made, outcome_of
from consumer.target import Writer


class WithoutSpark(SparkLoader):
    """As a command has it with `in-process-bytes`, above what a setting can say, so that every load is made here. Also
    comparisons, which are no loads."""

    def __init__(self) -> None:
        super().__init__(SparkSettings("no such master", in_process_bytes=1 << 40))

    def read(self, work: Work[Made], moved: Moved = unheard) -> Iterator[Made]:
        yield from InProcessLoader().read(work, moved)


class InlineLoader(InProcessLoader):
    """`keyed`: send every keyed table, if it may be divided, through the two halves of the keyed shape, with this many
    buckets."""

    def __init__(self, keyed: int = 0) -> None:
        self._keyed = keyed
        self.loads = 0

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        self.loads += len(tasks)
        sent: list[LoadTask] = pickle.loads(pickle.dumps(tasks))
        keyed = {task.number for task in sent if self._keyed and task.target.key and not task.target.in_one_call}
        packed = super().load([task for task in sent if task.number not in keyed], writer, reader)
        found = {outcome.task.number: outcome for outcome in packed}
        for task in sent:
            if task.number in keyed:
                found[task.number] = outcome_of(task, self._keyed_shape(task, writer, reader))
        return [found[task.number] for task in sent]

    def _keyed_shape(self, task: LoadTask, writer: Writer, reader: RangeReader) -> list[Result]:
        shares = [[[piece] for piece in task.slices]]
        return list(map(pickle.loads, alone(Loading(task, shares, self._keyed, writer, reader))))

    def read(self, work: Work[Made], moved: Moved = unheard) -> Iterator[Made]:
        yield from made(alone(Reading(work, work.pieces(_one_by_one), self._keyed or 1, moved)))


def _one_by_one(task: LoadTask) -> list[list[FileSlice]]:
    return [[piece] for piece in task.slices]
