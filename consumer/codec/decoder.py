"""The decoder of a slice, by the changefeed's protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from consumer.codec.packs import decode_pack, packs
from consumer.model.load import FileSlice, FileStat, LoadTask
from consumer.ports import RangeReader


class Decoder(Protocol):
    """Decodes the rows of one slice that lie inside its window."""

    stat: FileStat
    """What has been read so far: complete once `batches` is exhausted."""

    def batches(self) -> Iterator[pa.Table]:
        """Change tables (see `codec.batches`) in file order, none of them empty.

        Raises CorruptFile, SchemaDrift, CannotBeExact, StorageUnavailable.
        """

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line of the file that begins at `offset`. Reads the file up to there."""


def decoder_for(reader: RangeReader, piece: FileSlice, task: LoadTask) -> Decoder:
    """The decoder of one of the task's slices."""
    if task.dialect.csv is None:
        from consumer.codec.canal_json.slices import SliceDecoder

        return SliceDecoder(reader, piece, task.target, task.dialect)
    from consumer.codec.csv.slices import CsvSliceDecoder

    return CsvSliceDecoder(reader, piece, task.target, task.layouts[piece.layout], task.dialect)


def decoded(
    reader: RangeReader, pieces: Sequence[FileSlice], task: LoadTask, stats: list[FileStat]
) -> Iterator[pa.Table]:
    """The change tables of slices one after the other, small files in packs; each slice's statistics go to `stats`."""
    for pack in packs(pieces, task):
        packed = decode_pack(reader, pack, task) if len(pack) > 1 else None
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
