"""Slices of files -> their changes, folded while more are decoded. Executor side: no pyspark, no driver code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from consumer.codec.change_table import change_schema
from consumer.codec.decoder import decoded, decoder_for, in_whole_files
from consumer.codec.unproven import with_unproven
from consumer.fold.late_deletes import files_of, without_late_deletes
from consumer.fold.table_modes import fold
from consumer.model.load import FileSlice, FileStat, LoadTask
from consumer.ports import RangeReader

FOLD_ROWS, FOLD_BYTES = 200_000, 32 << 20
"""Decoded rows that pile up before they are folded, and their bytes before a task decodes more slices: they bound its
memory when few keys change often."""


def decode_files(task: LoadTask, reader: RangeReader) -> tuple[list[tuple[int, int, pa.Table]], list[FileStat]]:
    """Decode the task's slices: of each its series, its position and its changes; and their statistics."""
    files: list[tuple[int, int, pa.Table]] = []
    stats: list[FileStat] = []
    for piece in task.slices:
        decoder = decoder_for(reader, piece, task)
        changes = pa.concat_tables([change_schema(task.target).empty_table(), *decoder.batches()])
        files.append((piece.series, piece.position, changes))
        stats.append(decoder.stat)
    return files, stats


def decode_folded(
    pieces: Sequence[FileSlice], task: LoadTask, reader: RangeReader, final: bool = False
) -> tuple[list[FileStat], pa.Table]:
    """Decode slices one after the other, folding whenever enough rows have piled up.

    Returns the slices' statistics and one change table; `final` as in `fold_keyed`.
    """
    folding = Folding(task)
    folding.add(pieces, reader)
    return folding.take(final)


class Folding:
    """Changes of slices, and their statistics, folded whenever enough rows have piled up."""

    def __init__(self, task: LoadTask) -> None:
        self._task = task
        self._none = change_schema(task.source).empty_table()
        self._timeless: dict[str, bool] = {}
        self._begin()

    def _begin(self) -> None:
        self._stats: list[FileStat] = []
        self._folded, self._pile, self._rows = self._none, list[pa.Table](), 0

    def add(self, pieces: Sequence[FileSlice], reader: RangeReader) -> list[FileStat]:
        """Decode slices. Returns the statistics of these."""
        stats: list[FileStat] = []
        for table in self._changes(pieces, reader, stats):
            self._pile.append(table)
            self._rows += table.num_rows
            if self._rows >= max(FOLD_ROWS, self._folded.num_rows):
                self._fold()
        self._stats += stats
        return stats

    def _changes(self, pieces: Sequence[FileSlice], reader: RangeReader, stats: list[FileStat]) -> Iterator[pa.Table]:
        task = self._task
        pieces = in_whole_files(reader, pieces, task, self._timeless)
        if task.source.load.shaping is not None:
            yield from decoded(reader, pieces, task, stats)  # `shaped` has looked for late deletes
            return
        for table in files_of(decoded(reader, pieces, task, stats)):
            yield without_late_deletes(table, task.source.key)

    def is_full(self) -> bool:
        """Whether what is held is to be taken before more is added: folding it leaves much of it."""
        if sum(table.nbytes for table in self._pile) < FOLD_BYTES:
            return False
        self._fold()
        return bool(self._folded.nbytes >= FOLD_BYTES // 2)

    def take(self, final: bool = False) -> tuple[list[FileStat], pa.Table]:
        """All statistics and changes, which are held no longer; `final` as in `fold_keyed`."""
        if self._pile or final:
            self._fold(final)
        stats, changes = self._stats, self._folded
        self._begin()
        task = self._task
        return with_unproven(stats, changes, task.source, task.dialect.clock.doubled), changes

    def _fold(self, final: bool = False) -> None:
        self._folded = fold(pa.concat_tables([self._folded, *self._pile]), self._task, final)
        self._pile, self._rows = [], 0
