"""Decodes slices of files in blocks, takes their changes by the rules of the table, and folds these in bounded memory;
or returns each change.

This is executor code: no pyspark, no driver code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.changes.identity import first_of_equal, identities, row_codes
from consumer.changes.keyed import cut_by_bucket, files_of, without_late_deletes
from consumer.changes.keyless import FileChanges, every_change, fold_keyless
from consumer.changes.table_modes import fold, in_mode
from consumer.codec import protocol_of
from consumer.codec.change_table import META, SLICE, change_schema, value_schema
from consumer.codec.decoder import BLOCK_BYTES, SliceDecoder, decode_pack, packs
from consumer.codec.rows import ChangesOf, all_changes
from consumer.model.columns import Family
from consumer.model.load import FileSlice, FileStat, LoadPart, LoadTarget, LoadTask
from consumer.model.names import TableName
from consumer.ports import Moved, RangeReader

FOLD_ROWS, FOLD_BYTES = 200_000, 32 << 20
"""The decoded rows that collect before they are folded, and their bytes before a task stops decoding more slices. They
bound its memory when few keys change often."""
_LOST = "\ufffd"
"""The character that TiCDC writes for bytes of a text that are not UTF-8."""
_LOST_BYTES = re.compile(_LOST.encode())


def decoder_for(reader: RangeReader, piece: FileSlice, task: LoadTask) -> SliceDecoder:
    """Returns the decoder of one of the task's slices. Rules need to know which deletes are late, so with rules one
    block has all rows of a file that has no commit-ts. Raises StorageUnavailable."""
    at_once = task.source.load.shaping is not None and piece.length > BLOCK_BYTES and _is_timeless(reader, piece, task)
    size = piece.length if at_once else BLOCK_BYTES
    layout, changes = task.layout_of(piece), _changes_of(task)
    return SliceDecoder(reader, piece, task.source, task.dialect, layout, changes=changes, block_bytes=size)


def _changes_of(task: LoadTask) -> ChangesOf:
    """Returns the function that makes the changes of a block."""
    if task.source.load.shaping is None:
        return all_changes
    from consumer.changes.rules import shaped  # what rules need is loaded only where there are some

    return partial(shaped, target=task.source, clock=task.dialect.clock)


def in_whole_files(
    reader: RangeReader, pieces: Sequence[FileSlice], task: LoadTask, timeless: dict[str, bool]
) -> list[FileSlice]:
    """Returns `pieces` with each file whose rows have no commit-ts whole: its first slice becomes the whole file, and
    its others are left out.

    A DELETE of such a file can belong to the row of any line before it (see `without_late_deletes`). `timeless` has the
    answer by path for the files that were asked before, and gets those of others. Raises StorageUnavailable.
    """
    slices: list[FileSlice] = []
    for piece in pieces:
        is_whole = piece.length == piece.size
        if not is_whole and piece.path not in timeless:
            timeless[piece.path] = _is_timeless(reader, piece, task)
        if is_whole or not timeless[piece.path]:
            slices.append(piece)
        elif not piece.offset:
            slices.append(replace(piece, length=piece.size))
    return slices


def _is_timeless(reader: RangeReader, piece: FileSlice, task: LoadTask) -> bool:
    begin = replace(piece, offset=0, length=1)
    return task.dialect.timeless or not decoder_for(reader, begin, task).has_commit_ts()


def decoded(
    reader: RangeReader, pieces: Sequence[FileSlice], task: LoadTask, stats: list[FileStat]
) -> Iterator[pa.Table]:
    """Yields the change tables of slices one after the other, with small files in packs. The statistics of each slice
    are added to `stats`."""
    for pack in packs(pieces, task):
        packed = decode_pack(reader, pack, task, _changes_of(task)) if len(pack) > 1 else None
        if packed is not None:
            changes, pack_stats = packed
            stats += pack_stats
            if changes.num_rows:
                yield changes
            continue
        for piece in pack:
            decoder = decoder_for(reader, piece, task)
            yield from decoder.batches()
            stats.append(decoder.stat)


def decode_files(task: LoadTask, reader: RangeReader) -> tuple[list[FileChanges], list[FileStat]]:
    """Decodes the task's slices. Returns the series, position and changes of each, and all statistics."""
    files: list[FileChanges] = []
    stats: list[FileStat] = []
    for piece in task.slices:
        decoder = decoder_for(reader, piece, task)
        changes = pa.concat_tables([change_schema(task.target).empty_table(), *decoder.batches()])
        files.append((piece.series, piece.position, changes))
        stats.append(decoder.stat)
    written = pa.concat_tables([change_schema(task.target).empty_table(), *(changes for _, _, changes in files)])
    return files, _with_unproven(stats, written, task.target, task.dialect.clock.doubled)


def net_changes(files: Sequence[FileChanges], task: LoadTask) -> pa.Table:
    """Returns the net rows of a table with no key that the replica is to have, in the form of `fold_keyless`. Raises
    CannotBeExact."""
    if not files:
        values = value_schema(task.target).empty_table()
        return values.add_column(0, "n", pa.array([], pa.int64()))
    net = fold_keyless(files, task.target.table, *_writers(task))
    if task.target.load.shaping is None:
        return net
    from consumer.changes.rules import filter_net_rows

    return filter_net_rows(net, task.target, task.dialect.clock)


def each_change(files: Sequence[FileChanges], task: LoadTask) -> pa.Table:
    """Returns each change of a table with no key once. Raises CannotBeExact."""
    if not files:
        return change_schema(task.target).empty_table()
    return every_change(files, task.target.table, *_writers(task))


def _writers(task: LoadTask) -> tuple[Sequence[int], str, Sequence[int]]:
    """Returns what shows that rows were written again: the parts of the table, the setting that gives rows their
    commit-ts, and who wrote."""
    return task.parts if task.never_split else (), protocol_of(task.dialect).commit_ts, task.writers


def decode_folded(
    pieces: Sequence[FileSlice], task: LoadTask, reader: RangeReader, final: bool = False
) -> tuple[list[FileStat], pa.Table]:
    """Decodes slices one after the other, and folds whenever enough rows have collected.

    Returns the slices' statistics and one change table; `final` as in `Folding.take`.
    """
    folding = Folding(task)
    folding.add(pieces, reader)
    return folding.take(final)


class Folding:
    """Collects the changes and statistics of slices, and folds whenever enough rows have collected."""

    def __init__(self, task: LoadTask) -> None:
        self._task = task
        self._none = change_schema(task.source).empty_table()
        self._timeless: dict[str, bool] = {}
        self._begin()

    def _begin(self) -> None:
        self._stats: list[FileStat] = []
        self._folded, self._pile, self._rows = self._none, list[pa.Table](), 0

    def add(self, pieces: Sequence[FileSlice], reader: RangeReader) -> list[FileStat]:
        """Decodes slices. Returns the statistics of these."""
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
            yield from decoded(reader, pieces, task, stats)  # the rules have looked for late deletes
            return
        for table in files_of(decoded(reader, pieces, task, stats)):
            yield without_late_deletes(table, task.source.key)

    def is_full(self) -> bool:
        """Returns whether the changes are to be taken before more are added: their fold is still large."""
        if sum(table.nbytes for table in self._pile) < FOLD_BYTES:
            return False
        self._fold()
        return bool(self._folded.nbytes >= FOLD_BYTES // 2)

    def take(self, final: bool = False) -> tuple[list[FileStat], pa.Table]:
        """Returns all statistics and changes, and keeps them no longer. With `final` the changes are those to be
        written."""
        if self._pile or final:
            self._fold(final)
        stats, changes = self._stats, self._folded
        self._begin()
        task = self._task
        stats = _with_unproven(stats, changes, task.source, task.dialect.clock.doubled)
        return stats, in_mode(changes, task) if final else changes

    def _fold(self, final: bool = False) -> None:
        self._folded = fold(pa.concat_tables([self._folded, *self._pile]), self._task, final)
        self._pile, self._rows = [], 0


@dataclass(frozen=True, slots=True)
class EveryChange:
    """A `ports.Work` whose result is each change that the task's slices have inside their windows, once.

    It returns change tables of `LoadTask.source` that are not folded, with the number of each change's slice (see
    `codec.change_table`; `codec.typed` has them under the columns' names and in their types). With `of_rows`, only the
    changes of these rows are returned (see `identities`).
    """

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
            yield from cut_by_bucket(changes, bucket.astype(np.int64), buckets)

    def made(self, rows: Sequence[pa.Table]) -> pa.Table:
        """Returns `rows` without changes that were written again: a transaction puts at most one row of a key, and
        deletes at most one. Rows without a commit-ts, and those of a table with no key, are all returned."""
        changes, key = pa.concat_tables(rows), self.task.source.key
        if not key:
            return changes
        names = [*(f"c{position}" for position in key), "ts", "put", "series", "rank"]
        codes, _ = row_codes([changes.column(name) for name in names])
        order = np.lexsort((changes.column(SLICE).to_numpy(), codes))
        kept = np.sort(order[first_of_equal(codes[order])])
        return changes if len(kept) == changes.num_rows else changes.take(pa.array(kept))

    def _decoded(self, numbers: range, moved: Moved) -> Iterator[pa.Table]:
        """Yields the changes of some slices, each with the number of its slice. Small files are first read together, to
        see whether they have any of the rows that are wanted."""
        pieces, first_number = self.task.slices[numbers.start : numbers.stop], numbers.start
        for pack in packs(pieces, self.task) if self.of_rows else ([piece] for piece in pieces):
            if len(pack) == 1 or any(True for _ in self._of(pack)):
                for number, piece in enumerate(pack, first_number):
                    for changes in self._of([piece]):
                        yield changes.append_column(SLICE, pa.array(np.full(changes.num_rows, number, np.int32)))
            first_number += len(pack)
            moved(LoadPart(sum(piece.length for piece in pack)))

    def _of(self, pieces: Sequence[FileSlice]) -> Iterator[pa.Table]:
        wanted = np.array(list(self.of_rows), np.uint64)
        for changes in decoded(self.reader, pieces, self.task, []):
            if self.of_rows:
                row_ids = identities(changes, self.task.source.key)
                changes = changes.filter(pa.array(np.isin(row_ids, wanted)))
            if changes.num_rows:
                yield changes


def _with_unproven(
    stats: Sequence[FileStat], changes: pa.Table, target: LoadTarget, doubled: Sequence[tuple[str, str]]
) -> list[FileStat]:
    """Returns `stats` with the values that cannot be proven in the `changes` decoded from them, counted in the last
    one. `doubled` are the stretches of time, in UTC, that the changefeed's clock shows twice."""
    if not stats or not changes.num_rows:
        return list(stats)
    columns = [(column.family, changes.column(META + n)) for n, column in enumerate(target.columns)]
    lost = sum(_with_lost_bytes(values) for family, values in columns if family is Family.TEXT)
    times = [values for family, values in columns if family is Family.TIMESTAMP] if doubled else []
    twice = sum(_in_doubled(values, doubled) for values in times)
    return [*stats[:-1], replace(stats[-1], lost_texts=lost, doubled_times=twice)]


def _in_doubled(values: pa.ChunkedArray, doubled: Sequence[tuple[str, str]]) -> int:
    """Returns how many of `values` lie in one of the stretches. Most loads have values of a few days without any such
    stretch."""
    least, most = pc.min_max(values).as_py().values()
    near = [(first, end) for first, end in doubled if least is not None and first <= most and end > least]
    return sum(_count(pc.and_(pc.greater_equal(values, first), pc.less(values, end))) for first, end in near)


def _with_lost_bytes(texts: pa.ChunkedArray) -> int:
    """Returns how many of `texts` hold U+FFFD. One search over all their bytes is six times faster than a search in
    each."""
    return sum(_count(pc.match_substring(chunk, _LOST)) for chunk in texts.chunks if _has_lost_bytes(chunk))


def _has_lost_bytes(texts: pa.LargeStringArray) -> bool:
    _, offsets, content = texts.buffers()
    if content is None:
        return False
    first, last = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    return _LOST_BYTES.search(content, first, last) is not None


def _count(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0
