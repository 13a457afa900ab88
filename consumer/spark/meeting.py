"""Where the rows of both sides of `verify` meet: in buckets, by the hash of their keys. Executor side.

A part of a bucket is an Arrow IPC stream whose schema says of which era its rows are: HELD for those of the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from consumer.fold.identity import identities
from consumer.model.check import CheckTask
from consumer.spark.exchange import SHUFFLED, Exchange
from consumer.target import Comparer

HELD = -1
"""Instead of the number of an era."""
_ERA = b"era"
Part = tuple[int, bytes]
"""A bucket, or what stands instead of one, and what goes to it."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """One table's, in so many `buckets`; `exchange` carries the rows to them."""

    task: CheckTask
    comparer: Comparer
    buckets: int = 1
    exchange: Exchange = SHUFFLED

    def parts(self, rows: pa.Table, era: int) -> Iterator[Part]:
        """`rows` by the hash of upstream's key, of a table with no key of all values that are compared."""
        if not rows.num_rows:
            return
        marked = rows.replace_schema_metadata({_ERA: str(era).encode()})
        if self.buckets == 1:
            yield 0, self.exchange.put(marked)
            return
        task = self.task
        values = rows if task.target.key else rows.select([f"c{position}" for position in task.compared])
        bucket = (identities(values, task.upstream_key) % np.uint64(self.buckets)).astype(np.int64)
        ordered = marked.take(pa.array(np.argsort(bucket, kind="stable")))
        sizes = np.bincount(bucket, minlength=self.buckets)
        ends = np.cumsum(sizes)
        for number in np.flatnonzero(sizes):
            yield int(number), self.exchange.put(ordered.slice(int(ends[number] - sizes[number]), int(sizes[number])))

    def eras(self, bodies: Iterable[pa.Buffer]) -> dict[int, pa.Table]:
        """The rows of a bucket's parts, by era."""
        found: dict[int, list[pa.Table]] = {}
        for body in bodies:
            rows = self.exchange.get(body)
            found.setdefault(int(rows.schema.metadata[_ERA]), []).append(rows.replace_schema_metadata(None))
        return {number: pa.concat_tables(parts) for number, parts in found.items()}
