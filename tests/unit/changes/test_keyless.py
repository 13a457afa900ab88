from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pytest

from consumer.changes.keyless import fold_keyless
from consumer.errors import CannotBeExact
from consumer.model.names import TableName

T = TableName("shop", "lo`g")
Change = tuple[int, str, str | None]
"""commit-ts, "+" or "-", and the row's second column; the first is always "x"."""


def table(*changes: Change, rank: int = 0) -> pa.Table:
    count = len(changes)
    return pa.table(
        {
            "ts": pa.array([ts for ts, _, _ in changes], pa.int64()),
            "put": pa.array([sign == "+" for _, sign, _ in changes], pa.bool_()),
            "series": pa.array([0] * count, pa.int32()),
            "rank": pa.array([rank] * count, pa.int64()),
            "c0": pa.array(["x"] * count, pa.string()),
            "c1": pa.array([value for _, _, value in changes], pa.string()),
        }
    )


def net(*files: tuple[Change, ...], series: int = 0) -> dict[str | None, int]:
    return counted(fold_keyless([(series, number, table(*file)) for number, file in enumerate(files, 1)], T))


def counted(folded: pa.Table) -> dict[str | None, int]:
    assert folded.column_names == ["n", "c0", "c1"]
    assert folded.column("n").type == pa.int64()
    assert set(folded.column("c0").to_pylist()) <= {"x"}
    return dict(zip(folded.column("c1").to_pylist(), folded.column("n").to_pylist(), strict=True))


def test_equal_rows_add_up() -> None:
    assert net(((1, "+", "a"), (1, "+", "a"), (2, "+", "a"), (2, "-", "b"))) == {"a": 3, "b": -1}


def test_a_delete_and_an_insert_of_equal_rows_net_to_nothing() -> None:
    assert net(((1, "-", "a"), (1, "+", "a"), (1, "+", "b"))) == {"b": 1}


def test_null_equals_null_and_is_not_the_empty_text() -> None:
    assert net(((1, "+", None), (1, "+", ""), (2, "+", None))) == {None: 2, "": 1}


def test_rows_of_a_new_run_count_once() -> None:
    assert net(((1, "+", "a"), (2, "+", "b"), (2, "+", "b")), ((1, "+", "a"), (2, "+", "b"), (3, "+", "c"))) == {
        "a": 1,
        "b": 2,
        "c": 1,
    }


def test_a_run_that_was_cut_off_counts_as_far_as_the_complete_one() -> None:
    assert net(((1, "+", "a"), (2, "+", "b")), ((1, "+", "a"), (2, "+", "b"), (2, "+", "b"))) == {"a": 1, "b": 2}


def test_a_transaction_goes_on_in_the_next_file_where_nothing_is_shared() -> None:
    assert net(((1, "+", "a"),), ((1, "+", "b"),), ((1, "-", "a"), (2, "+", "c"))) == {"b": 1, "c": 1}


def test_an_equal_group_behind_a_file_boundary_was_written_again() -> None:
    """Two equal halves of one transaction look the same; a restart is what is likely."""
    group = ((5, "-", "z"), (5, "+", "a"), (5, "+", "a"))
    assert net(((4, "+", "z"), *group), (*group, (6, "+", "b"))) == {"a": 2, "b": 1}


def test_a_group_over_several_files_is_compared_as_a_whole() -> None:
    assert net(((5, "+", "a"),), ((5, "+", "b"),), ((5, "+", "b"), (5, "+", "a")), ((5, "+", "c"),)) == {
        "a": 1,
        "b": 1,
        "c": 1,
    }


def test_files_without_rows_in_the_window_do_not_hide_a_boundary() -> None:
    assert net(((5, "+", "a"),), (), ((5, "+", "a"),)) == {"a": 1}


def test_parts_of_one_file_have_no_boundary_between_them() -> None:
    parts = [(0, 1, table((5, "+", "a"))), (0, 1, table((5, "+", "a")))]
    assert counted(fold_keyless(parts, T)) == {"a": 2}


def test_files_may_come_in_any_order() -> None:
    files = [(0, 2, table((1, "+", "a"), (2, "+", "b"))), (0, 1, table((1, "+", "a")))]
    assert counted(fold_keyless(files, T)) == {"a": 1, "b": 1}


def test_a_partly_equal_group_behind_a_file_boundary_is_refused() -> None:
    with pytest.raises(CannotBeExact, match="commit-ts 5 on the two sides of a file boundary"):
        net(((5, "+", "a"),), ((5, "+", "a"), (5, "+", "b")))


def test_series_that_share_no_row_of_a_commit_ts_add_up() -> None:
    files = [(1, 1, table((5, "+", "a"), (6, "+", "b"))), (2, 1, table((5, "-", "a"), (5, "+", "c"), (7, "+", "b")))]
    assert counted(fold_keyless(files, T)) == {"b": 2, "c": 1}


def of_one_writer(*folders: tuple[Change, ...]) -> dict[str | None, int]:
    """What the rows of date folders come to, whichever order the folders have."""
    found = [
        counted(fold_keyless([(number, 1, table(*rows)) for number, rows in order], T, writers=(0,) * len(folders)))
        for order in permutations(enumerate(folders))
    ]
    assert all(one == found[0] for one in found)
    return found[0]


def test_rows_written_again_in_another_date_folder_count_once() -> None:
    first = ((1, "+", "a"), (2, "+", "a"), (2, "+", "a"))
    again = ((2, "+", "a"), (2, "+", "a"), (3, "+", "b"))
    assert of_one_writer(first, again) == {"a": 3, "b": 1}
    assert of_one_writer(first[:2], (*first, (3, "+", "b"))) == {"a": 3, "b": 1}  # the first was cut off


def test_a_transaction_goes_on_in_another_date_folder_where_nothing_is_shared() -> None:
    assert of_one_writer(((1, "+", "a"), (2, "+", "b")), ((2, "-", "a"), (3, "+", "b"))) == {"b": 2}


def test_a_transaction_that_is_partly_equal_in_another_date_folder_is_refused() -> None:
    ends, begins = ((1, "+", "x"), (5, "+", "a")), ((5, "+", "a"), (5, "+", "b"), (6, "+", "x"))
    for one, other in ((ends, begins), (begins, ends)):
        with pytest.raises(CannotBeExact, match="commit-ts 5 on the two sides of a file boundary"):
            fold_keyless([(0, 1, table(*one)), (1, 1, table(*other))], T, writers=(0, 0))


def test_date_folders_of_two_writers_that_share_a_row_are_refused() -> None:
    files = [(number, 1, table((5, "+", "a"))) for number in range(3)]
    with pytest.raises(CannotBeExact, match="two series of files hold the same row at commit-ts 5"):
        fold_keyless(files, T, writers=(0, 0, 1))


def test_series_that_share_a_row_of_a_commit_ts_are_refused() -> None:
    with pytest.raises(CannotBeExact, match="two series of files hold the same row at commit-ts 5"):
        fold_keyless([(1, 1, table((5, "+", "a"))), (2, 1, table((5, "+", "a")))], T)


def test_the_refusal_names_the_setting_as_it_is_written() -> None:
    with pytest.raises(CannotBeExact) as refused:
        fold_keyless([(1, 1, table((5, "+", "a"))), (2, 1, table((5, "+", "a")))], T)
    assert "never-split = ['`shop`.`lo``g`'] in [consumer]" in refused.value.hint


def test_rows_without_commit_ts_are_refused_with_the_option_to_set() -> None:
    with pytest.raises(CannotBeExact) as refused:
        fold_keyless([(0, 1, table((5 << 18, "+", "a"), rank=1))], T, commit_ts="commit-ts=true in the changefeed")
    assert "set commit-ts=true in the changefeed, and have it write to a new prefix" in refused.value.hint


def test_no_rows_are_no_changes() -> None:
    assert counted(fold_keyless([(0, 1, table())], T)) == {}


def never_split(*series: tuple[Change, ...], parts: tuple[int, ...] = ()) -> dict[str | None, int]:
    files = [(number, 1, table(*changes)) for number, changes in enumerate(series)]
    return counted(fold_keyless(files, T, parts or (0,) * len(series)))


def test_what_a_successor_sends_again_counts_once() -> None:
    first = ((5, "+", "a"), (6, "+", "a"), (6, "+", "a"), (7, "+", "b"))
    second = ((6, "+", "a"), (6, "+", "a"), (7, "+", "b"), (8, "-", "a"))
    third = ((8, "-", "a"), (9, "+", "c"))
    assert never_split(first, second, third) == {"a": 2, "b": 1, "c": 1}


def test_the_last_transaction_of_a_series_may_be_there_in_part() -> None:
    whole = ((5, "+", "a"), (6, "+", "b"), (6, "+", "c"), (6, "+", "c"))
    for broken_off in (whole[:2], whole[:3]):
        assert never_split(broken_off, whole[1:], ((6, "+", "b"),)) == {"a": 1, "b": 1, "c": 2}
        assert never_split(whole[1:], broken_off) == {"a": 1, "b": 1, "c": 2}


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [
        (((5, "+", "a"), (7, "+", "b")), ((6, "+", "c"), (8, "+", "d")), 6),
        (((5, "+", "a"), (7, "+", "b")), ((5, "+", "a"), (6, "+", "c"), (7, "+", "b")), 6),
        (((5, "+", "a"), (6, "+", "b")), ((6, "+", "c"), (7, "+", "d")), 6),
        (((5, "+", "a"), (6, "+", "b"), (6, "+", "c")), ((6, "+", "b"), (7, "+", "d")), 6),
        (((5, "+", "a"), (5, "+", "b")), ((5, "+", "a"), (5, "+", "c")), 5),
        (((5, "+", "a"), (5, "+", "a"), (6, "+", "a")), ((5, "+", "a"), (6, "+", "a")), 5),
        (((5, "+", "a"), (6, "+", "a")), ((5, "-", "a"), (6, "+", "a")), 5),
    ],
)
def test_series_that_wrote_side_by_side_are_refused(
    one: tuple[Change, ...], other: tuple[Change, ...], at: int
) -> None:
    for series in ((one, other), (other, one)):
        with pytest.raises(CannotBeExact, match=f"side by side: at commit-ts {at} .*never-split is not true"):
            never_split(*series)


def test_partitions_of_a_table_are_written_side_by_side() -> None:
    one, other = ((5, "+", "a"), (6, "+", "b")), ((5, "+", "c"), (7, "+", "d"))
    assert never_split(one, other, one[1:], other, parts=(0, 1, 0, 1)) == {"a": 1, "b": 1, "c": 1, "d": 1}
    with pytest.raises(CannotBeExact, match="two series of files hold the same row at commit-ts 6"):
        never_split(one, one[1:], parts=(0, 1))
