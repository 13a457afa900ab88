"""The rows of one table that differ, on disk until they are made right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import META, change_schema
from consumer.model.check import CheckTask
from consumer.model.load import LoadTarget
from consumer.spark.mending import ANEW, DELETE, INSERT, PUTS
from consumer.spark.waiting import Waiting
from consumer.target import Comparer


class Differing:
    """`add` gets rows as `consumer.spark.mending` makes them. They come out as changes of a target to write to, which
    can have other columns than the one that was read, and in another order."""

    def __init__(self, task: CheckTask, comparer: Comparer) -> None:
        self._task, self._comparer = task, comparer
        self._held = ExitStack()
        self._parts: dict[tuple[int, int], Waiting] = {}
        self.new: Counter[int] = Counter()
        """By group, how many rows are not there yet."""

    def __enter__(self) -> Differing:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def add(self, rows: pa.Table) -> None:
        """Raises TargetUnavailable where the disk does not take them."""
        if not self._task.target.key:
            self._waiting(0, 0).add(rows)
            return
        pairs = np.stack([rows.column("kind").to_numpy(), rows.column("group").to_numpy()])
        for kind, group in np.unique(pairs, axis=1).T:
            chosen = (pairs[0] == kind) & (pairs[1] == group)
            self._waiting(int(kind), int(group)).add(rows.filter(pa.array(chosen)))
            self.new[int(group)] += int(chosen.sum()) if kind == INSERT else 0

    def removed(self, target: LoadTarget, anew: bool = False) -> Iterator[pa.Table]:
        """The deletes as changes of `target`; `anew`: those too of keys that several rows have."""
        for rows in self._parts.get((DELETE, 0), ()):
            yield self._changes(self._comparer.changes(rows), target, put=False)
        for group in range(len(self._task.groups)) if anew else ():
            for rows in self._parts.get((ANEW, group), ()):
                yield self._changes(rows, target, put=False)

    def written(self, group: int, target: LoadTarget, kinds: Sequence[int] = PUTS) -> Iterator[pa.Table]:
        """The puts of one of the task's groups, and of these kinds, as changes of `target`."""
        for kind in kinds:
            for rows in self._parts.get((kind, group), ()):
                yield self._changes(rows, target, put=True)

    def copies(self, target: LoadTarget) -> Iterator[pa.Table]:
        """Of a table with no key: the rows, with ``n`` and ``held``."""
        for rows in self._parts.get((0, 0), ()):
            told = rows.column("told")
            for part, is_told in ((rows.filter(told), True), (rows.filter(pc.invert(told)), False)):
                if part.num_rows:
                    values = self._values(part if is_told else self._comparer.changes(part), target)
                    yield pa.table(
                        [part.column("n"), part.column("held"), *values], names=["n", "held", *_names(values)]
                    )

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be made right."""
        return not self._parts

    @property
    def groups(self) -> list[int]:
        """Those of the task's groups that have puts."""
        return sorted({group for kind, group in self._parts if kind in PUTS})

    def _waiting(self, kind: int, group: int) -> Waiting:
        if (kind, group) not in self._parts:
            self._parts[kind, group] = self._held.enter_context(Waiting())
        return self._parts[kind, group]

    def _changes(self, rows: pa.Table, target: LoadTarget, put: bool) -> pa.Table:
        schema = change_schema(target)
        pairs = zip((0, put, 0, 0), schema.types[:META], strict=True)
        marks = (pa.repeat(pa.scalar(value, kind), rows.num_rows) for value, kind in pairs)
        return pa.table([*marks, *self._values(rows, target)], schema=schema)

    def _values(self, rows: pa.Table, target: LoadTarget) -> list[pa.ChunkedArray]:
        places = {column.name: position for position, column in enumerate(self._task.target.columns)}
        kinds = change_schema(target).types[META:]
        pairs = zip(target.columns, kinds, strict=True)
        return [rows.column(f"c{places[column.name]}").cast(kind) for column, kind in pairs]


def _names(values: Sequence[pa.ChunkedArray]) -> list[str]:
    return [f"c{position}" for position in range(len(values))]
