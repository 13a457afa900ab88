"""The changes of one table, each once, as they are given back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from consumer.changes.folding import decoded
from consumer.changes.identity import first_of_equal, identities, row_codes
from consumer.changes.keyed import cut
from consumer.codec.change_table import SLICE
from consumer.codec.decoder import packs
from consumer.model.load import FileSlice, LoadPart, LoadTask
from consumer.model.names import TableName
from consumer.ports import Moved, RangeReader


@dataclass(frozen=True, slots=True)
class EveryChange:
    """Each change that the task's slices have inside their windows, once, as `ports.Work`: change tables of
    `LoadTask.source` that are not folded, with the number of each change's slice (see `codec.change_table`;
    `codec.typed` has them under the columns' names and in their types). If there are any `of_rows`, their changes alone
    (see `identities`)."""

    task: LoadTask
    reader: RangeReader
    of_rows: Collection[int] = ()
    ranges: int = 1
    is_large: bool = True

    @property
    def table(self) -> TableName:
        return self.task.target.table

    @property
    def tasks(self) -> Sequence[LoadTask]:
        return (self.task,)

    def pieces(self, groups: Callable[[LoadTask], Sequence[Sequence[FileSlice]]]) -> list[range]:
        ends = accumulate(map(len, groups(self.task)), initial=0)
        return [range(*pair) for pair in pairwise(ends)]

    def rows(self, piece: range, buckets: int, moved: Moved) -> Iterator[tuple[int, pa.Table]]:
        for changes in self._decoded(piece, moved):
            bucket = identities(changes, self.task.source.key) % np.uint64(buckets)
            yield from cut(changes, bucket.astype(np.int64), buckets)

    def made(self, rows: Sequence[pa.Table]) -> pa.Table:
        """Without changes that were written again: a transaction leaves one row of a key, and takes away one. Rows
        without a commit-ts, and those of a table with no key, are all there."""
        changes, key = pa.concat_tables(rows), self.task.source.key
        if not key:
            return changes
        names = [*(f"c{position}" for position in key), "ts", "put", "series", "rank"]
        codes, _ = row_codes([changes.column(name) for name in names])
        order = np.lexsort((changes.column(SLICE).to_numpy(), codes))
        kept = np.sort(order[first_of_equal(codes[order])])
        return changes if len(kept) == changes.num_rows else changes.take(pa.array(kept))

    def _decoded(self, numbers: range, moved: Moved) -> Iterator[pa.Table]:
        """The changes of some slices, each with the number of its slice. Small files are read together first, to see
        whether they have any of the rows that are looked for."""
        pieces, at = self.task.slices[numbers.start : numbers.stop], numbers.start
        for pack in packs(pieces, self.task) if self.of_rows else ([piece] for piece in pieces):
            if len(pack) == 1 or any(True for _ in self._of(pack)):
                for number, piece in enumerate(pack, at):
                    for changes in self._of([piece]):
                        yield changes.append_column(SLICE, pa.array(np.full(changes.num_rows, number, np.int32)))
            at += len(pack)
            moved(LoadPart(sum(piece.length for piece in pack)))

    def _of(self, pieces: Sequence[FileSlice]) -> Iterator[pa.Table]:
        wanted = np.array(list(self.of_rows), np.uint64)
        for changes in decoded(self.reader, pieces, self.task, []):
            if self.of_rows:
                names = identities(changes, self.task.source.key)
                changes = changes.filter(pa.array(np.isin(names, wanted)))
            if changes.num_rows:
                yield changes
