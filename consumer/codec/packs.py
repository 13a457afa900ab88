"""Many small files at once: a parser costs as much for ten rows as for a thousand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from consumer.codec.batches import Origin
from consumer.codec.canal_json.changes import ChangeBuilder
from consumer.codec.canal_json.faults import RowLines
from consumer.codec.canal_json.rows import Flags, Ints, RowParser
from consumer.codec.csv.cells import CellReader
from consumer.codec.csv.changes import CsvChangeBuilder
from consumer.codec.csv.faults import CsvPlace, Records
from consumer.codec.csv.form import RowForm
from consumer.codec.csv.lines import RecordEnds
from consumer.codec.csv.rows import RowLayout, read_rows
from consumer.codec.faults import Place
from consumer.codec.lines import Block
from consumer.codec.sight import with_sight
from consumer.errors import TableError
from consumer.model.load import FileSlice, FileStat, LoadTask
from consumer.model.names import MAX_TSO
from consumer.ports import RangeReader

SMALL_BYTES = 256 << 10
"""Files up to this size are worth packing."""
PACK_BYTES = 8 << 20
_READERS = 16
"""Files of a pack that are read at a time: object stores answer slowly, but many at once."""


def packs(pieces: Sequence[FileSlice], task: LoadTask) -> Iterator[list[FileSlice]]:
    """Consecutive whole small files with the same columns together, everything else alone, in order."""
    csv = task.dialect.csv
    # A header would stand between the rows.
    packable = task.dialect.terminator.endswith(b"\n") if csv is None else not csv.output_field_header
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
    terminator = task.dialect.terminator
    if not all(text.endswith(terminator) and len(text) == p.size for text, p in zip(texts, pieces, strict=True)):
        return None
    try:
        rows = _canal_rows(texts, pieces, task) if task.dialect.csv is None else _csv_rows(texts, pieces, task)
        after, upto = _windows(pieces, rows, task.dialect.timeless)
        inside = (rows.ts > after) & (rows.ts <= upto)
        changes = rows.changes(inside, _origin(pieces, rows.counts))
    except (ValueError, TableError):
        return None
    return changes, _stats(pieces, rows, after, upto, np.where(inside & ~rows.exact, rows.ts, 0), task.dialect.timeless)


@dataclass(frozen=True, slots=True)
class _PackRows:
    """The rows of a pack: `counts` of each file, `ts` and `exact` of each row, and what makes changes of some."""

    counts: Ints
    ts: Ints
    exact: Flags
    changes: Callable[[Flags, Origin], pa.Table]


def _canal_rows(texts: Sequence[bytes], pieces: Sequence[FileSlice], task: LoadTask) -> _PackRows:
    """Raises ValueError where a line is not a row, and for blank lines."""
    block = Block(b"".join(texts), 0)
    place = Place.of(pieces[0], task.target)
    counts = np.array([text.count(b"\n") for text in texts])
    rows = RowParser(task.target).parse(block.text)
    if rows.count != counts.sum():
        raise ValueError("blank lines")
    lines = RowLines(block, lambda offset: 0, place)
    builder = ChangeBuilder(task.target, place, task.dialect.clock)
    return _PackRows(counts, rows.ts, rows.exact, lambda inside, origin: builder.changes(rows, inside, origin, lines))


def _csv_rows(texts: Sequence[bytes], pieces: Sequence[FileSlice], task: LoadTask) -> _PackRows:
    """Raises ValueError where files are not whole records, SchemaDrift, CorruptFile."""
    form = RowForm.of(task.dialect)
    block = Block(b"".join(texts), 0)
    cells = CellReader(form).read(block.text)
    sizes = np.array([len(text) for text in texts])
    begins = np.cumsum(sizes) - sizes
    if not np.all(np.isin(begins, cells.begins)):
        raise ValueError("a record goes over the end of its file")
    counts = np.diff(np.append(np.searchsorted(cells.begins, begins), cells.records))
    layout = RowLayout.of(task.layouts[pieces[0].layout], task.target)
    place = CsvPlace(pieces[0].path, str(task.target.table))
    records = Records(block, RecordEnds(form, True), lambda offset: 0, place)
    rows = read_rows(cells, form, layout, records)
    builder = CsvChangeBuilder(task.target, form)
    exact = np.full(cells.records, not task.dialect.timeless)
    return _PackRows(
        counts, rows.ts, exact, lambda inside, origin: builder.changes(rows, inside, origin, layout, records)
    )


def _windows(pieces: Sequence[FileSlice], rows: _PackRows, timeless: bool) -> tuple[Ints, Ints]:
    """The window of each row; without a time all are inside."""
    if timeless:
        return np.full_like(rows.ts, -1), np.full_like(rows.ts, MAX_TSO)
    bounds = [(p.exact.after, p.coarse.after, p.exact.upto, p.coarse.upto) for p in pieces]
    exact_after, coarse_after, exact_upto, coarse_upto = np.repeat(np.array(bounds, np.int64), rows.counts, axis=0).T
    return np.where(rows.exact, exact_after, coarse_after), np.where(rows.exact, exact_upto, coarse_upto)


def _origin(pieces: Sequence[FileSlice], counts: Ints) -> Origin:
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return Origin(
        np.repeat([piece.series for piece in pieces], counts),
        np.repeat([piece.position for piece in pieces], counts) + within,
    )


def _stats(
    pieces: Sequence[FileSlice], rows: _PackRows, after: Ints, upto: Ints, coarse: Ints, timeless: bool
) -> list[FileStat]:
    """`coarse` has the ts of rows inside the window that have no commit-ts, 0 for all others."""
    ts, counts = rows.ts, rows.counts
    starts = np.cumsum(counts) - counts
    dropped = np.add.reduceat(ts <= after, starts, dtype=np.int64)
    late = np.minimum.reduceat(np.where(ts > upto, ts, MAX_TSO), starts)
    coarse = np.maximum.reduceat(coarse, starts)
    next_ts = np.where(late == MAX_TSO, 0, late)
    numbers = zip(counts.tolist(), dropped.tolist(), next_ts.tolist(), coarse.tolist(), strict=True)
    found = [FileStat(piece.path, *of_file) for piece, of_file in zip(pieces, numbers, strict=True)]
    if timeless:
        return found
    parts = zip(*(np.split(numbers, starts[1:]) for numbers in (ts, after, upto)), strict=True)
    return [
        with_sight(stat, stat, of_file, (low, high), piece.seen)
        for stat, (of_file, low, high), piece in zip(found, parts, pieces, strict=True)
    ]
