"""Decodes slices of any protocol: one after the other, or many small files at once, as a parser costs nearly as much
for ten rows as for a thousand."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from consumer.codec import protocol_of
from consumer.codec.change_table import Ints, Origin
from consumer.codec.lines import Block, SliceLines
from consumer.codec.quarantine import BlockQuarantine, first_line
from consumer.codec.rows import BlockRows, ChangesOf, RowFile, all_changes, rows_in_window
from consumer.errors import TableError
from consumer.model.load import Dialect, FileSlice, FileStat, Layout, LoadTarget, LoadTask
from consumer.ports import RangeReader

BLOCK_BYTES = 8 << 20


class SliceDecoder:
    """Decodes the rows of one slice that lie inside its window, and holds about `block_bytes` of the file at a time.

    Rows without a time are all inside: whether they are read is decided by file. A file that the protocol does not call
    `splittable` must be one slice.
    """

    def __init__(
        self,
        reader: RangeReader,
        piece: FileSlice,
        target: LoadTarget,
        dialect: Dialect,
        layout: Layout = (),
        *,
        changes: ChangesOf = all_changes,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._reader, self._piece, self._block_bytes = reader, piece, block_bytes
        self._changes_of = changes
        self._target, self._dialect, self._layout = target, dialect, layout
        self._sums = dialect.timeless and piece.length == piece.size  # then the blocks are the bytes of the file
        self._most = target.load.quarantine
        """The quarantine of bad lines, None for none."""
        self.stat = FileStat(piece.path, 0, 0, 0)
        """What has been read so far. It is complete once `batches` is exhausted."""

    def batches(self) -> Iterator[pa.Table]:
        """Yields change tables (see `codec.change_table`) in file order, none of them empty.

        Raises CorruptFile, SchemaDrift, CannotBeExact, StorageUnavailable.
        """
        if not self._piece.size:  # a file that TiCDC has only created so far is not listed
            raise self._file.place.corrupt("the file is empty")
        checksum = zlib.crc32(self._file.header)
        for block in self._lines.blocks():
            if self._sums:
                checksum = zlib.crc32(block.text, checksum)
            for changes, stat in self._decoded(block):
                self.stat += stat
                if changes is not None and changes.num_rows:
                    yield changes
        if not self.stat.rows and self._piece.length == self._piece.size:
            raise self._file.place.corrupt("the file has no row")  # TiCDC writes no file without rows
        if self._sums:
            self.stat = replace(self.stat, checksum=checksum)

    def _decoded(self, block: Block) -> Iterator[tuple[pa.Table | None, FileStat]]:
        quarantined = self._quarantined
        try:
            rows = self._file.rows(
                block, self.line_at if quarantined is None else first_line, blame=quarantined is None
            )
            changes_and_stat = None if rows is None else self._changes(rows)
        except TableError as error:
            if quarantined is None:
                raise
            if not quarantined.takes(error):
                raise quarantined.placed(error, block) from error
            yield from quarantined.around(block, self.stat.rows)
            return
        if quarantined is not None:
            quarantined.passed(block, rows)
        if changes_and_stat is not None:
            yield changes_and_stat

    def _changes(self, rows: BlockRows) -> tuple[pa.Table, FileStat]:
        count = len(rows.ts)
        inside, (stat,) = rows_in_window([self._piece], rows, np.array([count]))
        origin = Origin.of(self._piece, self.stat.rows, count)
        return self._changes_of(rows, inside, origin), stat

    def line_at(self, offset: int) -> int:
        """Returns the number, from 1, of the line that begins at `offset`. Reads the file up to there."""
        return self._lines.line_at(offset)

    def first_line(self) -> bytes:
        """Returns the slice's first line, as `LineEnds.as_read` has it; b"" if none begins in it."""
        block = next(iter(self._lines.blocks()), None)
        return b"" if block is None else self._file.ends.split(block.text)[0][0]

    def has_commit_ts(self) -> bool:
        """Returns whether the slice's first row has a commit-ts. It is also true if the row cannot be read, which
        `batches` reports."""
        with suppress(TableError):
            block = next(iter(self._lines.blocks()), None)
            rows = None if block is None else self._file.rows(block, first_line, blame=False)
            return rows is None or (rows.exact is not None and bool(rows.exact[0]))
        return True

    @cached_property
    def _quarantined(self) -> BlockQuarantine | None:
        if self._most is None:
            return None
        return BlockQuarantine(self._most, self._piece, self._file, self.line_at, self._changes_of)

    @cached_property
    def _unpacked(self) -> tuple[RangeReader, FileSlice]:
        return protocol_of(self._dialect).unpacked(self._reader, self._piece)

    @cached_property
    def _file(self) -> RowFile:
        opened = protocol_of(self._dialect).opened
        return opened(*self._unpacked, self._target, self._dialect, self._layout)

    @cached_property
    def _lines(self) -> SliceLines:
        file = self._file
        return SliceLines(*self._unpacked, file.ends, file.place, self._block_bytes, len(file.header))


SMALL_BYTES = 256 << 10
"""Files up to this size are worth packing."""
PACK_BYTES = 8 << 20
_READERS = 16
"""The most files of a pack that are read at a time: object stores answer slowly, but many at once."""


def packs(pieces: Sequence[FileSlice], task: LoadTask) -> Iterator[list[FileSlice]]:
    """Yields consecutive whole small files with the same columns together, and all others alone, in order."""
    packable = protocol_of(task.dialect).joinable(task.dialect)
    pack: list[FileSlice] = []
    size = 0
    for piece in pieces:
        small = packable and piece.length == piece.size <= SMALL_BYTES
        if pack and (not small or size + piece.length > PACK_BYTES or piece.layout != pack[0].layout):
            yield pack
            pack, size = [], 0
        if small:
            pack.append(piece)
            size += piece.length
        else:
            yield [piece]
    if pack:
        yield pack


def decode_pack(
    reader: RangeReader, pieces: Sequence[FileSlice], task: LoadTask, changes_of: ChangesOf = all_changes
) -> tuple[pa.Table, list[FileStat]] | None:
    """Returns the changes of a pack, in file order, and each file's statistics.

    Returns None if anything about it is unusual or wrong: then the files must be decoded one by one, which also shows
    what is wrong and where. Raises StorageUnavailable.
    """
    with ThreadPoolExecutor(min(_READERS, len(pieces)), "read") as pool:
        texts = list(pool.map(lambda piece: reader.read(piece, 0, piece.size), pieces))
    dialect, layout = task.dialect, task.layout_of(pieces[0])
    if not all(t.endswith(dialect.terminator) and len(t) == p.size for t, p in zip(texts, pieces, strict=True)):
        return None
    try:
        file = protocol_of(dialect).opened(reader, pieces[0], task.source, dialect, layout)
        rows = file.rows(Block(b"".join(texts), 0), lambda _: 0)
        if rows is None:
            return None
        counts = rows.counts(np.array([len(text) for text in texts]))
        if not counts.all():
            return None
        inside, stats = rows_in_window(pieces, rows, counts)
        changes = changes_of(rows, inside, _origin(pieces, counts))
    except (ValueError, TableError):
        return None
    if dialect.timeless:
        stats = [replace(stat, checksum=zlib.crc32(text)) for stat, text in zip(stats, texts, strict=True)]
    return changes, stats


def _origin(pieces: Sequence[FileSlice], counts: Ints) -> Origin:
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return Origin(
        np.repeat([piece.series for piece in pieces], counts),
        np.repeat([piece.position for piece in pieces], counts) + within,
    )
