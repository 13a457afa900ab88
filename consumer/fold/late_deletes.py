"""DELETEs that stand behind the row that has their key now, in files without commit-ts.

TiCDC does not write all deletes of a transaction first. The new architecture leaves an INSERT where it is, before the
delete of the row that has given its key away. CSV of v6.5.3, v6.5.4, v7.1.1, v7.2 and v7.3 has the two halves of an
UPDATE that changes a key side by side, and an UPDATE that is not split is both. A DELETE, or what an UPDATE found, has
all values, so it shows whose it is, unless both rows are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import META, RANK, SERIES, UPDATE
from consumer.fold.identity import key_codes
from consumer.model.load import POSITION_BITS


def without_late_deletes(changes: pa.Table, key: Sequence[int]) -> pa.Table:
    """`changes`, all of some files' in file order, without deletes of another row than the one that the same file has
    put under their key just before, in the same millisecond as far as it says so. Rows with a commit-ts stay: there a
    put goes before a delete. Where TiCDC does not split UPDATEs, a delete that may be the same row's becomes what the
    old key of an UPDATE is: the fold refuses it where nothing comes behind."""
    put: npt.NDArray[np.bool_] = changes.column("put").to_numpy()
    rank, ts = changes.column("rank").to_numpy(), changes.column("ts").to_numpy()
    if not key or np.all(put) or not np.any(rank):
        return changes
    codes, _ = key_codes([changes.column(f"c{position}") for position in key])
    series = changes.column("series").to_numpy()
    file = np.abs(rank) >> POSITION_BITS
    order = np.lexsort((np.arange(len(codes)), file, series, codes))
    one, other = order[:-1], order[1:]
    near = (codes[one] == codes[other]) & (series[one] == series[other]) & (file[one] == file[other])
    near &= (rank[one] > 0) & (ts[one] == ts[other]) & put[one] & ~put[other]
    if not np.any(near):
        return changes
    left_out = {UPDATE, *(f"c{position}" for position in key)}
    values = changes.select([name for name in changes.column_names[META:] if name not in left_out])
    others = _differ(values.take(pa.array(one[near])), values.take(pa.array(other[near])))
    unsplit = np.isin(rank[one[near]], -rank[rank < 0]) & (rank[other[near]] > 0)
    kept, doubtful = np.ones(len(codes), dtype=bool), other[near][unsplit & ~others]
    kept[other[near][others]] = False
    if doubtful.size:
        ranks = rank.copy()
        ranks[doubtful] *= -1
        changes = changes.set_column(changes.column_names.index(RANK), RANK, pa.array(ranks))
    return changes if np.all(kept) else changes.filter(pa.array(kept))


def files_of(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Change tables in file order, those of one file together. Rows with a commit-ts stay as they come."""
    held: list[pa.Table] = []
    for table in tables:
        if held and _file_at(held[-1], -1) != _file_at(table, 0):
            yield pa.concat_tables(held)
            held = []
        held.append(table)
        if _file_at(table, -1) is None:
            yield from held
            held = []
    if held:
        yield pa.concat_tables(held)


def _file_at(changes: pa.Table, row: int) -> tuple[int, int] | None:
    """Which file a row without commit-ts is of: the number of its series, and its own."""
    rank = abs(changes.column(RANK)[row].as_py())
    return (changes.column(SERIES)[row].as_py(), rank >> POSITION_BITS) if rank else None


def _differ(puts: pa.Table, deletes: pa.Table) -> npt.NDArray[np.bool_]:
    """Where a row and a deleted one have other values. A delete that has none may be one that does not tell them."""
    different, told = np.zeros(len(puts), dtype=bool), np.zeros(len(puts), dtype=bool)
    for put, delete in zip(puts.columns, deletes.columns, strict=True):
        both_null = pc.and_(pc.is_null(put), pc.is_null(delete))
        different |= ~pc.or_(pc.fill_null(pc.equal(put, delete), False), both_null).to_numpy()
        told |= pc.is_valid(delete).to_numpy()
    return different & told
