"""Reduces the changes of a key to the one that decides.

In files without commit-ts a DELETE can stand after the row that has its key now, because TiCDC does not write all
deletes of a transaction first. There are two forms:

1. The new architecture leaves an INSERT where it is, before the delete of the row that has given its key away.
2. CSV of v6.5.3, v6.5.4, v7.1.1, v7.2 and v7.3 has the two halves of an UPDATE that changes a key side by side. An
   UPDATE that is not split has both halves in one place.

A DELETE, and the old row of an UPDATE, has all values, so it shows which row it belongs to, unless both rows have equal
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from consumer.changes.identity import key_codes, last_of, row_codes, row_hash
from consumer.codec.change_table import META, RANK, SERIES, UPDATE, Ints
from consumer.errors import CannotBeExact, Code
from consumer.model.hints import FROM_A_NEW_PREFIX
from consumer.model.load import POSITION_BITS


def without_late_deletes(changes: pa.Table, key: Sequence[int]) -> pa.Table:
    """Returns `changes` without late deletes. `changes` are all changes of some files, in file order.

    A delete is late if its file has put another row under the same key just before, in the same millisecond as far as
    the file has times. Rows with a commit-ts stay: at one commit-ts a put already wins over a delete. Where TiCDC does
    not split UPDATEs, a delete that may belong to the same row gets a negative `rank`, like the old key of an UPDATE
    (`codec.change_table`): the fold raises if that delete is the last change of its key.
    """
    put: npt.NDArray[np.bool_] = changes.column("put").to_numpy()
    rank, ts = changes.column("rank").to_numpy(), changes.column("ts").to_numpy()
    if not key or np.all(put) or not np.any(rank):
        return changes
    codes, _ = key_codes([changes.column(f"c{position}") for position in key])
    series = changes.column("series").to_numpy()
    file = np.abs(rank) >> POSITION_BITS
    order = np.lexsort((np.arange(len(codes)), file, series, codes))
    earlier, later = order[:-1], order[1:]
    suspects = (codes[earlier] == codes[later]) & (series[earlier] == series[later]) & (file[earlier] == file[later])
    suspects &= (rank[earlier] > 0) & (ts[earlier] == ts[later]) & put[earlier] & ~put[later]
    if not np.any(suspects):
        return changes
    without_values = {UPDATE, *(f"c{position}" for position in key)}
    values = changes.select([name for name in changes.column_names[META:] if name not in without_values])
    pairs = values.take(pa.array(earlier[suspects])), values.take(pa.array(later[suspects]))
    of_other_rows = _differ(*pairs) if values.num_columns else np.zeros(int(suspects.sum()), np.bool_)
    unsplit = np.isin(rank[earlier[suspects]], -rank[rank < 0]) & (rank[later[suspects]] > 0)
    kept, doubtful = np.ones(len(codes), dtype=bool), later[suspects][unsplit & ~of_other_rows]
    kept[later[suspects][of_other_rows]] = False
    if doubtful.size:
        ranks = rank.copy()
        ranks[doubtful] *= -1
        changes = changes.set_column(changes.column_names.index(RANK), RANK, pa.array(ranks))
    return changes if np.all(kept) else changes.filter(pa.array(kept))


def files_of(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yields change tables in file order, with those of one file joined. Rows with a commit-ts are passed on as they
    come."""
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
    """Returns which file a row without commit-ts is from: the number of its series, and its own number in that series.
    Returns None for a row with a commit-ts."""
    rank = abs(changes.column(RANK)[row].as_py())
    return (changes.column(SERIES)[row].as_py(), rank >> POSITION_BITS) if rank else None


def _differ(puts: pa.Table, deletes: pa.Table) -> npt.NDArray[np.bool_]:
    """Returns where a row and a deleted row have different values. A delete without any value does not count: it may be
    one that does not carry them."""
    different, has_values = np.zeros(len(puts), dtype=bool), np.zeros(len(puts), dtype=bool)
    for put, delete in zip(puts.columns, deletes.columns, strict=True):
        both_null = pc.and_(pc.is_null(put), pc.is_null(delete))
        different |= ~pc.or_(pc.fill_null(pc.equal(put, delete), False), both_null).to_numpy()
        has_values |= pc.is_valid(delete).to_numpy()
    return different & has_values


_RUN_DIGITS = 2
COMMIT_TS = "commit-ts in the changefeed"


def fold_keyed(
    changes: pa.Table, key: Sequence[int], final: bool, parts: Sequence[int] = (), commit_ts: str = COMMIT_TS
) -> pa.Table:
    """Returns the rows of a change table that decide the state of each key; `key` are positions among ``c0 .. cN``,
    which are never null.

    The greatest ts of a key wins. Among the rows of that ts each series has a winner: the greatest rank, and a put
    before a delete of the same rank. With `final` one row for each key remains: a winner that is a put before one that
    is a delete. Without `final` the winners of all series remain, and their last old keys of UPDATEs (see
    `codec.change_table`). So folds can be folded again, in any grouping and order. Rows keep their order. Only one
    transaction can put a key at one commit-ts, so rows that tie are the same row. `parts` has for each number of a
    series the part of the table that it writes; without it each series writes a part of its own. `commit_ts` is the
    setting that gives rows their commit-ts (`RowProtocol.commit_ts`).

    Raises CannotBeExact (without the table's name), if `final`, for three keys: one that two series hold without any
    ts; one whose winners in two series of one part differ, where they only have ``es``; one that an UPDATE of the same
    ``es`` gives away after the put that wins.
    """
    if changes.num_rows == 0:
        return changes
    codes, count = key_codes(_key_columns(changes, key))
    rows = _newest(changes.column("ts").to_numpy(), codes, count)
    if len(rows) > count:
        rows = _winners(changes, codes, count, rows, parts if final else None, commit_ts)
    if len(rows) == changes.num_rows:
        return changes
    kept = np.zeros(changes.num_rows, dtype=bool)
    kept[rows] = True
    return changes.filter(pa.array(kept))


def bucket_of(changes: pa.Table, key: Sequence[int], buckets: int, in_runs: bool = False) -> Ints:
    """Returns the bucket of each row, in [0, buckets). It depends only on the bytes of the key, so it is the same in
    every process and batch.

    Texts that differ only in trailing blanks share a bucket, as targets may take them for equal. `in_runs`: the key's
    last column has whole numbers, and those that differ only in the last two digits share a bucket, too. So each bucket
    fills pages of a clustered index by itself, where several buckets would split one another's.
    """
    columns = [_trimmed(column) for column in _key_columns(changes, key)]
    if in_runs:
        columns[-1] = pc.utf8_slice_codeunits(columns[-1], 0, -_RUN_DIGITS)
    hashed = row_hash(columns)
    return (hashed % np.uint64(buckets)).astype(np.int64)


def split_by_bucket(
    changes: pa.Table, key: Sequence[int], buckets: int, in_runs: bool = False
) -> list[tuple[int, pa.Table]]:
    """Returns the rows of each bucket that has any (see `bucket_of`), ordered by bucket; rows keep their order."""
    if changes.num_rows == 0:
        return []
    return cut_by_bucket(changes, bucket_of(changes, key, buckets, in_runs), buckets)


def cut_by_bucket(rows: pa.Table, bucket: Ints, buckets: int) -> list[tuple[int, pa.Table]]:
    """Returns the `rows` of each bucket that has any, ordered by bucket; rows keep their order. `bucket` has the bucket
    of each row."""
    # the smallest type that holds the numbers: sixteen bits and fewer are sorted in one pass
    bucket = bucket.astype(np.min_scalar_type(buckets))
    sizes = np.bincount(bucket, minlength=buckets)
    ends = np.cumsum(sizes)
    ordered = rows.take(pa.array(np.argsort(bucket, kind="stable")))
    return [
        (int(number), ordered.slice(int(ends[number] - sizes[number]), int(sizes[number])))
        for number in np.flatnonzero(sizes)
    ]


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not is_text or not pc.any(pc.ends_with(column, " ")).as_py():
        return column
    return pc.utf8_rtrim(column, " ")


def _key_columns(changes: pa.Table, key: Sequence[int]) -> list[pa.ChunkedArray]:
    return [changes.column(f"c{position}") for position in key]


def _newest(ts: Ints, codes: Ints, count: int) -> Ints:
    """Returns the rows that have the greatest ts of their key."""
    if np.all(ts[1:] >= ts[:-1]):
        last = last_of(codes, np.arange(len(ts)), count)
    else:
        order = np.argsort(ts, kind="stable")
        last = last_of(codes[order], order, count)
    return np.flatnonzero(ts == ts[last][codes])


def _winners(
    changes: pa.Table, codes: Ints, count: int, rows: Ints, parts: Sequence[int] | None, commit_ts: str
) -> Ints:
    """Returns the numbers of the rows that win. `parts` is None where the winners of all series remain."""
    put: npt.NDArray[np.bool_] = changes.column("put").to_numpy()
    rank: Ints = changes.column("rank").to_numpy()
    series: Ints = changes.column("series").to_numpy()
    rows = rows[np.lexsort((put[rows], rank[rows]))]
    slots, slot_count = _slots(codes[rows], count, series[rows])
    given_away, rows = last_of(slots[::-1], rows[::-1], slot_count), last_of(slots, rows, slot_count)
    if parts is None:
        given_away = given_away[(rank[given_away] < 0) & (given_away != rows)]
        return np.concatenate([rows, given_away])
    _refuse_given_away(put[rows] & (rank[rows] < -rank[given_away]), commit_ts)
    if len(rows) > count:
        _refuse_timeless(changes, rows, codes, count, commit_ts)
        _refuse_unordered(changes, rows, codes, np.array(parts)[series] if parts else series, commit_ts)
        # two series put a key at one ts only where both wrote the same row; taking the greater makes order irrelevant
        rows = rows[np.lexsort((series[rows], put[rows]))]
        rows = last_of(codes[rows], rows, count)
    return rows


def _refuse_given_away(after_a_put: npt.NDArray[np.bool_], commit_ts: str) -> None:
    """Raises CannotBeExact if an UPDATE gives its old key away after a put of that key. Either it moved the row of that
    put, and the key is free, or both are of one transaction that swaps keys."""
    if np.any(after_a_put):
        raise CannotBeExact(
            "a row got a key and an UPDATE gave that key away within one millisecond, and without commit-ts it is"
            " unknown whether another row has it now",
            hint=f"set {commit_ts}, {FROM_A_NEW_PREFIX}",
            code=Code.NO_COMMIT_TS,
        )


def _refuse_timeless(changes: pa.Table, rows: Ints, codes: Ints, count: int, commit_ts: str) -> None:
    """Raises CannotBeExact if rows of one key that have no time are in two series: they have an order only within their
    series."""
    twice = np.bincount(codes[rows], minlength=count)[codes[rows]] > 1
    if np.any(changes.column("ts").to_numpy()[rows[twice]] == 0):
        raise CannotBeExact(
            "the rows of one key lie in two series of files, and without commit-ts nothing says which came first",
            hint=f"set {commit_ts}, {FROM_A_NEW_PREFIX}",
            code=Code.NO_COMMIT_TS,
        )


def _refuse_unordered(changes: pa.Table, rows: Ints, codes: Ints, part: Ints, commit_ts: str) -> None:
    """Raises CannotBeExact where rows of one key that only have ``es`` differ, in two series of one part. If a key was
    sent again the rows are equal; else it is unknown which came first. A row that moved to another part of the table is
    deleted in the one and put in the other, which is no fault."""
    coarse = rows[changes.column("rank").to_numpy()[rows] != 0]
    pairs, count = row_codes([pa.chunked_array([codes[coarse]]), pa.chunked_array([part[coarse]])])
    shared = np.bincount(pairs, minlength=count)[pairs] > 1
    if not np.any(shared):
        return
    winners = changes.take(pa.array(coarse[shared]))
    image = row_codes(winners.columns[4:])[0]
    image[~winners.column("put").to_numpy()] = -1
    pairs = pairs[shared]
    if np.any(image != image[last_of(pairs, np.arange(len(pairs)), count)[pairs]]):
        raise CannotBeExact(
            "the changes of one key within a millisecond lie in two series of files, and without commit-ts nothing"
            " says which came first",
            hint='date-order = "time" or "date" in [consumer] says what orders date folders; else set'
            f" {commit_ts}, {FROM_A_NEW_PREFIX}",
            code=Code.NO_COMMIT_TS,
        )


def _slots(codes: Ints, count: int, series: Ints) -> tuple[Ints, int]:
    """Returns a number for each (key, series), and how many there are."""
    if np.all(series == series[0]):
        return codes, count
    return row_codes([pa.chunked_array([codes]), pa.chunked_array([series])])
