"""The changes of one table, given back. Executor side: no pyspark, no driver code."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from consumer.changes.folding import decoded
from consumer.changes.identity import first_of_equal, identities, row_codes
from consumer.changes.keyed import cut
from consumer.codec.change_table import SLICE
from consumer.codec.decoder import packs
from consumer.errors import ConsumerError
from consumer.model.load import FileSlice, LoadPart, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.spark.buckets import FAILED, SHUFFLED, Exchange, Part
from consumer.spark.tasks import of_table


@dataclass(frozen=True, slots=True)
class Changes:
    """What `ports.Loader.changes` gives of one task, as `consumer.spark.buckets.Halves`. A source is a range of the
    task's slices. A result is a pickled table, or a ConsumerError."""

    task: LoadTask
    ranges: Sequence[range]
    reader: RangeReader
    rows: Collection[int] = ()
    buckets: int = 1
    moved: Moved = unheard
    exchange: Exchange = SHUFFLED

    @property
    def sources(self) -> int:
        return len(self.ranges)

    def parts(self, source: int) -> Iterator[Part]:
        task = self.task
        try:
            for changes in self._decoded(self.ranges[source]):
                bucket = identities(changes, task.source.key) % np.uint64(self.buckets)
                for number, rows in cut(changes, bucket.astype(np.int64), self.buckets):
                    yield Part(number, self.exchange.put(rows), rows.nbytes)
        except Exception as error:
            yield Part(FAILED, pickle.dumps(of_table(error, task.target)))

    def results(self, rows: Iterator[tuple[int, pa.Buffer]], buckets: int) -> Iterator[bytes]:
        for bucket, group in groupby(rows, key=lambda row: row[0]):
            if bucket == FAILED:
                yield from (bytes(body) for _, body in group)
                return
            try:
                yield pickle.dumps(self._once(pa.concat_tables([self.exchange.get(body) for _, body in group])))
            except Exception as error:
                yield pickle.dumps(of_table(error, self.task.target))

    def _decoded(self, numbers: range) -> Iterator[pa.Table]:
        """The changes of some slices, each with the number of its slice. Small files are read together first, to see
        whether they have any of the `rows` that are looked for."""
        pieces, at = self.task.slices[numbers.start : numbers.stop], numbers.start
        for pack in packs(pieces, self.task) if self.rows else ([piece] for piece in pieces):
            if len(pack) == 1 or any(True for _ in self._of(pack)):
                for number, piece in enumerate(pack, at):
                    for changes in self._of([piece]):
                        yield changes.append_column(SLICE, pa.array(np.full(changes.num_rows, number, np.int32)))
            at += len(pack)
            self.moved(LoadPart(sum(piece.length for piece in pack)))

    def _of(self, pieces: Sequence[FileSlice]) -> Iterator[pa.Table]:
        wanted = np.array(list(self.rows), np.uint64)
        for changes in decoded(self.reader, pieces, self.task, []):
            if self.rows:
                names = identities(changes, self.task.source.key)
                changes = changes.filter(pa.array(np.isin(names, wanted)))
            if changes.num_rows:
                yield changes

    def _once(self, changes: pa.Table) -> pa.Table:
        """Without changes that were written again: a transaction leaves one row of a key, and takes away one. Rows
        without a commit-ts, and those of a table with no key, are all there."""
        key = self.task.source.key
        if not key:
            return changes
        names = [*(f"c{position}" for position in key), "ts", "put", "series", "rank"]
        codes, _ = row_codes([changes.column(name) for name in names])
        order = np.lexsort((changes.column(SLICE).to_numpy(), codes))
        kept = np.sort(order[first_of_equal(codes[order])])
        return changes if len(kept) == changes.num_rows else changes.take(pa.array(kept))


def tables(results: Iterator[bytes]) -> Iterator[pa.Table]:
    """The tables of all buckets. Raises what one of them met."""
    for result in map(pickle.loads, results):
        if isinstance(result, ConsumerError):
            raise result
        yield result
