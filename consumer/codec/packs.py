"""Many small files at once: a parser costs as much for ten rows as for a thousand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from consumer.codec.batches import Ints, Origin
from consumer.codec.lines import Block
from consumer.codec.registry import protocol_of
from consumer.codec.shaped import shaped
from consumer.codec.windows import windowed
from consumer.errors import TableError
from consumer.model.load import FileSlice, FileStat, LoadTask
from consumer.ports import RangeReader

SMALL_BYTES = 256 << 10
"""Files up to this size are worth packing."""
PACK_BYTES = 8 << 20
_READERS = 16
"""Files of a pack that are read at a time: object stores answer slowly, but many at once."""


def packs(pieces: Sequence[FileSlice], task: LoadTask) -> Iterator[list[FileSlice]]:
    """Consecutive whole small files with the same columns together, everything else alone, in order."""
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
    reader: RangeReader, pieces: Sequence[FileSlice], task: LoadTask
) -> tuple[pa.Table, list[FileStat]] | None:
    """The changes of a pack, in file order, and each file's statistics.

    None when anything about it is unusual or wrong: then the files must be decoded one by one, which also tells what is
    wrong and where. Raises StorageUnavailable.
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
        inside, stats = windowed(pieces, rows, counts)
        changes = shaped(rows, inside, _origin(pieces, counts), task.source, dialect.clock)
    except (ValueError, TableError):
        return None
    return changes, stats


def _origin(pieces: Sequence[FileSlice], counts: Ints) -> Origin:
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return Origin(
        np.repeat([piece.series for piece in pieces], counts),
        np.repeat([piece.position for piece in pieces], counts) + within,
    )
