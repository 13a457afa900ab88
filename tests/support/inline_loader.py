"""The Loader port without Spark: the same task functions, in this process. For tests with thousands of small loads."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from consumer.errors import ConsumerError
from consumer.model.check import CheckTask, Counted
from consumer.model.load import FileStat, LoadOutcome, LoadTask, Receipt
from consumer.ports import Found, Moved, RangeReader, Told, unheard
from consumer.spark.check_tasks import compare_alone
from consumer.spark.tasks import FAILED, decode_to_buckets, load_whole, write_buckets
from consumer.target import Comparer, Writer, WriteSession


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
        with writer.session() as session:
            return [self._outcome(task, writer, reader, session) for task in pickle.loads(pickle.dumps(tasks))]

    def _outcome(self, task: LoadTask, writer: Writer, reader: RangeReader, session: WriteSession) -> LoadOutcome:
        if self._keyed and task.target.key and not task.target.whole:
            results = self._keyed_shape(task, writer, reader)
        else:
            results = load_whole(task, session, reader)
        errors = [result for result in results if isinstance(result, ConsumerError)]
        return LoadOutcome(
            task,
            tuple(result for result in results if isinstance(result, FileStat)),
            tuple(result for result in results if isinstance(result, Receipt)),
            errors[0] if errors else None,
        )

    def _keyed_shape(self, task: LoadTask, writer: Writer, reader: RangeReader) -> list[object]:
        import pyarrow as pa

        rows = [
            (bucket, body)
            for piece in task.slices
            for bucket, body in decode_to_buckets([piece], task, reader, self._keyed)
        ]
        failed = [row for row in rows if row[0] == FAILED]
        rows = sorted(failed or rows, key=lambda row: row[0])
        return [pickle.loads(body) for body in write_buckets(((b, pa.py_buffer(x)) for b, x in rows), task, writer)]

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
        task, other = pickle.loads(pickle.dumps((task, other)))
        return compare_alone(task, comparer, reader, self._keyed or 1, moved, found, other)

    def abandon(self) -> None:
        pass

    def close(self) -> None: ...
