from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from consumer.changes import identity
from consumer.changes.keyed import bucket_of, fold_keyed, split_by_bucket
from consumer.errors import CannotBeExact

Row = tuple[int, bool, int, int, str, str | None]
SCHEMA = pa.schema(
    {"ts": pa.int64(), "put": pa.bool_(), "series": pa.int32(), "rank": pa.int64()}
    | dict.fromkeys(("c0", "c1"), pa.string())
)


def table(*rows: Row) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def keys_table(keys: list[str], kind: pa.DataType | None = None) -> pa.Table:
    folded = table(*((1, True, 0, 0, key, None) for key in keys))
    return folded.set_column(4, "c0", folded.column("c0").cast(kind)) if kind else folded


def rows(folded: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in folded.columns), strict=True))


def test_the_greatest_commit_ts_of_a_key_wins() -> None:
    old, new, other = (5, True, 0, 0, "a", "old"), (7, False, 0, 0, "a", None), (6, True, 0, 0, "b", "x")
    assert rows(fold_keyed(table(old, new, other), [0], final=True)) == [new, other]
    assert rows(fold_keyed(table(new, other, old), [0], final=True)) == [new, other]


@pytest.mark.parametrize("final", [True, False])
def test_a_put_wins_over_a_delete_of_the_same_commit_ts(final: bool) -> None:
    put, delete = (5, True, 0, 0, "a", "x"), (5, False, 0, 0, "a", None)
    assert rows(fold_keyed(table(put, delete), [0], final)) == [put]
    assert rows(fold_keyed(table(delete, put), [0], final)) == [put]


def test_within_a_series_the_greatest_rank_of_one_es_wins() -> None:
    put, delete = (5, True, 1, 3, "a", "x"), (5, False, 1, 4, "a", None)
    assert rows(fold_keyed(table(delete, put), [0], final=True)) == [delete]


def test_an_old_key_in_front_of_a_put_of_the_same_es_is_there() -> None:
    old, put = (5, False, 1, -3, "a", None), (5, True, 1, 4, "a", "x")
    assert rows(fold_keyed(table(put, old), [0], final=True)) == [put]
    assert rows(fold_keyed(table(old), [0], final=True)) == [old]


def test_an_old_key_behind_a_put_of_the_same_es_is_refused() -> None:
    """The row of the put went away, or two rows swapped their keys."""
    old, put, later = (5, False, 1, -4, "a", None), (5, True, 1, 3, "a", "x"), (5, True, 1, 5, "a", "y")
    with pytest.raises(CannotBeExact, match="gave that key away within one millisecond"):
        fold_keyed(fold_keyed(table(put, old), [0], final=False), [0], final=True)
    assert rows(fold_keyed(fold_keyed(table(put, old, later), [0], final=False), [0], final=True)) == [later]


def test_a_row_that_moved_between_series_is_there() -> None:
    gone, there = (5, False, 1, 9, "a", None), (5, True, 2, 4, "a", "x")
    assert rows(fold_keyed(table(there, gone), [0], final=True)) == [there]


def test_a_row_that_differs_between_series_of_one_part_is_refused() -> None:
    """One of them was broken off, or the row moved: nothing says which."""
    there, gone, other = (5, True, 1, 9, "a", "x"), (5, False, 2, 4, "a", None), (5, True, 2, 7, "a", "y")
    for changes in (table(there, gone), table(other, there)):
        with pytest.raises(CannotBeExact, match="within a millisecond"):
            fold_keyed(changes, [0], True, parts=(0, 0, 0))
    assert rows(fold_keyed(table(there, gone), [0], True, parts=(0, 0, 1))) == [there]


def test_a_row_that_was_sent_again_is_no_doubt() -> None:
    one, again, newer = (5, True, 1, 9, "a", "x"), (5, True, 2, 4, "a", "x"), (6, True, 1, 11, "b", "y")
    older = (5, False, 2, 3, "b", None)
    assert rows(fold_keyed(table(one, again, newer, older), [0], True, parts=(0, 0, 0))) == [again, newer]
    gone, gone_again = (5, False, 1, 9, "a", "x"), (5, False, 2, 4, "a", None)
    assert rows(fold_keyed(table(gone, gone_again), [0], True, parts=(0, 0, 0))) == [gone_again]


def test_a_partial_fold_keeps_the_winner_of_each_series() -> None:
    """Were only the put kept, the later delete of its series could not undo it."""
    first, other, later = (5, True, 1, 1, "a", "x"), (5, False, 2, 1, "a", None), (5, False, 1, 2, "a", None)
    partial = fold_keyed(table(first, other), [0], final=False)
    assert rows(partial) == [first, other]
    assert rows(fold_keyed(pa.concat_tables([partial, table(later)]), [0], final=True)) == [other]


def test_a_key_in_two_series_without_any_time_is_refused_when_all_is_known() -> None:
    one, other, alone = (0, True, 1, 7, "a", "x"), (0, False, 2, 3, "a", None), (0, True, 2, 9, "b", "y")
    partial = fold_keyed(table(one, alone, other), [0], final=False)
    assert rows(partial) == [one, alone, other]
    with pytest.raises(CannotBeExact, match="two series of files"):
        fold_keyed(partial, [0], final=True)
    assert rows(fold_keyed(table(one, (0, False, 1, 8, "a", None)), [0], final=True)) == [(0, False, 1, 8, "a", None)]


def test_composite_keys_are_not_joined_texts() -> None:
    changes = table((5, True, 0, 0, "ab", "c"), (6, True, 0, 0, "a", "bc"), (7, True, 0, 0, "abc", ""))
    assert fold_keyed(changes, [0, 1], final=True).equals(changes)


def test_keys_are_compared_bytewise() -> None:
    keys = ["", "a", "A", "a ", "a\0", "1", "01", "1.0", "é", "e\u0301", "12345678", "123456789", "x" * 3000]
    assert fold_keyed(keys_table(keys), [0], final=True).num_rows == len(keys)
    assert fold_keyed(keys_table(keys * 2, pa.binary()), [0], final=True).column("c0").to_pylist() == [
        key.encode() for key in keys
    ]


def test_keys_of_equal_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "row_hash", lambda columns: np.zeros(len(columns[0]), np.uint64))
    a, b, newer = (5, True, 0, 0, "a", "x"), (6, True, 0, 0, "b", "y"), (7, True, 0, 0, "a", "z")
    assert rows(fold_keyed(table(a, b, newer), [0], final=True)) == [b, newer]


def test_no_changes_fold_to_none() -> None:
    empty = table()
    assert fold_keyed(empty, [0], final=True).equals(empty)
    assert split_by_bucket(empty, [0], 4) == []


def test_a_key_has_one_bucket_whatever_the_batch_and_type() -> None:
    keys = [*(str(number) for number in range(500)), "", "é", "x" * 100]
    whole = bucket_of(keys_table(keys), [0], 7)
    chunked = pa.concat_tables([keys_table(["before", *keys[:200]]).slice(1), keys_table(keys[200:])])
    assert np.array_equal(whole, bucket_of(chunked, [0], 7))
    for kind in (pa.binary(), pa.large_string(), pa.large_binary()):
        assert np.array_equal(whole, bucket_of(keys_table(keys, kind), [0], 7))
    assert np.array_equal(whole[::-1], bucket_of(keys_table(keys[::-1]), [0], 7))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_that_differ_in_trailing_blanks_come_together(kind: pa.DataType) -> None:
    """Of such a key a delete goes before the put."""
    padded = bucket_of(keys_table(["a", "a ", "a  ", "", " "], kind), [0], 1000)
    assert len(set(padded[:3])) == len(set(padded[3:])) == 1
    assert np.array_equal(padded[:1], bucket_of(keys_table(["a"], kind), [0], 1000))


@pytest.mark.parametrize("key", [[0], [0, 1]])
def test_keys_spread_evenly_over_buckets(key: list[int]) -> None:
    changes = table(*((1, True, 0, 0, str(number // 100), str(number)) for number in range(0, 1_600_000, 100)))
    sizes = Counter(bucket_of(changes, key, 16).tolist())
    assert sorted(sizes) == list(range(16))
    assert max(sizes.values()) < 1200


def test_runs_of_neighbours_come_together_and_spread_evenly() -> None:
    """A key of its digits but the last two has all of a run: so do the same digits in any batch."""
    numbers = [*range(-250, 40_000), 7, 2**64 - 1]
    whole = bucket_of(keys_table([str(number) for number in numbers]), [0], 4, in_runs=True)
    assert np.array_equal(whole[:300], bucket_of(keys_table([str(n) for n in numbers[:300]]), [0], 4, in_runs=True))
    runs: dict[str, set[int]] = {}
    for number, bucket in zip(numbers, whole.tolist(), strict=True):
        runs.setdefault(str(number)[:-2], set()).add(bucket)
    assert all(len(buckets) == 1 for buckets in runs.values())
    assert len(runs) > 400
    assert max(Counter(whole.tolist()).values()) < 13_000
    two = table(*((1, True, 0, 0, str(number // 300), str(number)) for number in range(3_000)))
    assert set(Counter(bucket_of(two, [0, 1], 4, in_runs=True).tolist())) == {0, 1, 2, 3}


@pytest.mark.parametrize("in_runs", [False, True])
def test_buckets_hold_every_row_once_in_its_order(in_runs: bool) -> None:
    changes = table(*((number, True, 0, 0, str(number % 50 * 100), None) for number in range(300)))
    parts = split_by_bucket(changes, [0], 8, in_runs)
    assert [number for number, _ in parts] == sorted({number for number, _ in parts})
    for number, part in parts:
        assert set(bucket_of(part, [0], 8, in_runs).tolist()) == {number}
        assert part.column("ts").to_pylist() == sorted(part.column("ts").to_pylist())
    assert sorted(row for _, part in parts for row in rows(part)) == sorted(rows(changes))
