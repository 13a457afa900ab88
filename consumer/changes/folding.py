"""Slices of files -> decoded blocks -> their changes by the rules of the table -> folded changes, in bounded memory; or
each change, given back.

Executor side: no pyspark, no driver code.
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
from consumer.changes.keyed import cut, files_of, without_late_deletes
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
"""Decoded rows that pile up before they are folded, and their bytes before a task decodes more slices: they bound its
memory when few keys change often."""
_LOST = "\ufffd"
"""What TiCDC writes for bytes of a text that are not UTF-8."""
_LOST_BYTES = re.compile(_LOST.encode())


def decoder_for(reader: RangeReader, piece: FileSlice, task: LoadTask) -> SliceDecoder:
    """The decoder of one of the task's slices. Where rules follow on what is known of late deletes, a block has
    all rows of a file that has no commit-ts. Raises StorageUnavailable."""
    at_once = task.source.load.shaping is not None and piece.length > BLOCK_BYTES and _is_timeless(reader, piece, task)
    size = piece.length if at_once else BLOCK_BYTES
    layout, changes = task.layout_of(piece), _changes_of(task)
    return SliceDecoder(reader, piece, task.source, task.dialect, layout, changes=changes, block_bytes=size)


def _changes_of(task: LoadTask) -> ChangesOf:
    """What makes the changes of a block."""
    if task.source.load.shaping is None:
        return all_changes
    from consumer.changes.rules import shaped  # what rules need is loaded only where there are some

    return partial(shaped, target=task.source, clock=task.dialect.clock)


def in_whole_files(
    reader: RangeReader, pieces: Sequence[FileSlice], task: LoadTask, timeless: dict[str, bool]
) -> list[FileSlice]:
    """`pieces`, but of a file whose rows have no commit-ts all for its first slice, and none for another: whose row a
    DELETE is of can be said by any line in front of it (see `without_late_deletes`). `timeless` has the answer
    for files by path, and gets those of others. Raises StorageUnavailable."""
    found: list[FileSlice] = []
    for piece in pieces:
        whole = piece.length == piece.size
        if not whole and piece.path not in timeless:
            timeless[piece.path] = _is_timeless(reader, piece, task)
        if whole or not timeless[piece.path]:
            found.append(piece)
        elif not piece.offset:
            found.append(replace(piece, length=piece.size))
    return found


def _is_timeless(reader: RangeReader, piece: FileSlice, task: LoadTask) -> bool:
    begin = replace(piece, offset=0, length=1)
    return task.dialect.timeless or not decoder_for(reader, begin, task).has_commit_ts()


def decoded(
    reader: RangeReader, pieces: Sequence[FileSlice], task: LoadTask, stats: list[FileStat]
) -> Iterator[pa.Table]:
    """The change tables of slices one after the other, small files in packs; each slice's statistics go to `stats`."""
    for pack in packs(pieces, task):
        packed = decode_pack(reader, pack, task, _changes_of(task)) if len(pack) > 1 else None
        if packed is not None:
            changes, found = packed
            stats += found
            if changes.num_rows:
                yield changes
            continue
        for piece in pack:
            decoder = decoder_for(reader, piece, task)
            yield from decoder.batches()
            stats.append(decoder.stat)


def decode_files(task: LoadTask, reader: RangeReader) -> tuple[list[FileChanges], list[FileStat]]:
    """Decode the task's slices: of each its series, its position and its changes; and their statistics."""
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
    """The rows of a table with no key, as `fold_keyless` has them, which the replica has. Raises CannotBeExact."""
    if not files:
        values = value_schema(task.target).empty_table()
        return values.add_column(0, "n", pa.array([], pa.int64()))
    net = fold_keyless(files, task.target.table, *_writers(task))
    if task.target.load.shaping is None:
        return net
    from consumer.changes.rules import fitting

    return fitting(net, task.target, task.dialect.clock)


def each_change(files: Sequence[FileChanges], task: LoadTask) -> pa.Table:
    """The changes of a table with no key, each once. Raises CannotBeExact."""
    if not files:
        return change_schema(task.target).empty_table()
    return every_change(files, task.target.table, *_writers(task))


def _writers(task: LoadTask) -> tuple[Sequence[int], str, Sequence[int]]:
    """What tells rows that were written again: the parts of the table, what gives rows their commit-ts, who wrote."""
    return task.parts if task.never_split else (), protocol_of(task.dialect).commit_ts, task.writers


def decode_folded(
    pieces: Sequence[FileSlice], task: LoadTask, reader: RangeReader, final: bool = False
) -> tuple[list[FileStat], pa.Table]:
    """Decode slices one after the other, folding whenever enough rows have piled up.

    Returns the slices' statistics and one change table; `final` as in `Folding.take`.
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
            yield from decoded(reader, pieces, task, stats)  # the rules have looked for late deletes
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
        """All statistics and changes, which are held no longer. With `final` they are what is to be written."""
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


def _with_unproven(
    stats: Sequence[FileStat], changes: pa.Table, target: LoadTarget, doubled: Sequence[tuple[str, str]]
) -> list[FileStat]:
    """`stats` with what cannot be proven in the `changes` that come of them, counted in the last one. `doubled` are
    those moments that the changefeed's clock shows twice, as UTC."""
    if not stats or not changes.num_rows:
        return list(stats)
    columns = [(column.family, changes.column(META + n)) for n, column in enumerate(target.columns)]
    lost = sum(_with_lost_bytes(values) for family, values in columns if family is Family.TEXT)
    times = [values for family, values in columns if family is Family.TIMESTAMP] if doubled else []
    twice = sum(_in_doubled(values, doubled) for values in times)
    return [*stats[:-1], replace(stats[-1], lost_texts=lost, doubled_times=twice)]


def _in_doubled(values: pa.ChunkedArray, doubled: Sequence[tuple[str, str]]) -> int:
    """How many of `values` lie in one of the stretches. A load's are mostly of a few days without one."""
    least, most = pc.min_max(values).as_py().values()
    near = [(first, end) for first, end in doubled if least is not None and first <= most and end > least]
    return sum(_count(pc.and_(pc.greater_equal(values, first), pc.less(values, end))) for first, end in near)


def _with_lost_bytes(texts: pa.ChunkedArray) -> int:
    """How many of `texts` hold U+FFFD. To look for it in all their bytes at once is six times faster than in each."""
    return sum(_count(pc.match_substring(chunk, _LOST)) for chunk in texts.chunks if _has_lost_bytes(chunk))


def _has_lost_bytes(texts: pa.LargeStringArray) -> bool:
    _, offsets, content = texts.buffers()
    if content is None:
        return False
    first, last = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    return _LOST_BYTES.search(content, first, last) is not None


def _count(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0
