"""What one load reads, and where a bounded round ends."""

from dataclasses import replace
from datetime import datetime

import pytest

from consumer.model.files import Bounds
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.plan.options import FileOptions
from consumer.plan.unread import UnreadFile
from consumer.plan.windows import coarse_window, ends_with_millisecond, plan_load
from tests.support.build import data_file

TABLE = TableName("d", "t")
FILES = FileOptions(Dialect())
MS = 1 << 18


def paths(load):
    return [(planned.file.folder.partition, planned.file.index) for planned in load.files]


def test_everything_that_may_hold_a_row_of_the_window_is_read() -> None:
    files = [UnreadFile(data_file(1), 0), UnreadFile(data_file(2), 500), UnreadFile(data_file(3), 0)]
    bounds = {files[2].file.path: Bounds(401, 900, True)}
    assert paths(plan_load(TABLE, Window(100, 400), files, bounds, (), FILES)) == [("", 1)]


def test_a_bounded_round_ends_below_the_first_row_left_out() -> None:
    files = [UnreadFile(data_file(index), 0) for index in (1, 2, 3)]
    bounds = {e.file.path: Bounds(100 * i, 100 * i + 50, True) for i, e in enumerate(files, 1)}
    load = plan_load(TABLE, Window(0, 1000), files, bounds, (), FILES, 150)
    assert paths(load) == [("", 1), ("", 2)]
    assert load.window == Window(0, 299)


def test_a_round_of_one_huge_transaction_reads_on_until_it_gets_somewhere() -> None:
    files = [UnreadFile(data_file(index), 0) for index in (1, 2, 3, 4)]
    bounds = {e.file.path: Bounds(100, 100, True) for e in files[:3]} | {files[3].file.path: Bounds(100, 300, True)}
    load = plan_load(TABLE, Window(99, 1000), files, bounds, (), FILES, 100)
    assert paths(load) == [("", 1), ("", 2), ("", 3), ("", 4)]
    assert load.window == Window(99, 1000)


def test_a_round_takes_files_by_their_rows_time_whatever_their_folder_and_number() -> None:
    late, early, middle = data_file(1, version=10), data_file(1, version=20), data_file(2, version=20)
    bounds = {
        late.path: Bounds(300, 400, True),
        early.path: Bounds(100, 200, True),
        middle.path: Bounds(150, 250, True),
    }
    files = [UnreadFile(file, 0) for file in (late, early, middle)]
    load = plan_load(TABLE, Window(0, 1000), files, bounds, (), FILES, 150)
    assert [planned.file for planned in load.files] == [early, middle]
    assert load.window.end == 299


def series_of(order: str, *moments: tuple[str, str]) -> list[tuple[str, int, int]]:
    """Date, series and ordinal of files with a date and a time of modification, as a load reads them."""
    files = [
        replace(data_file(number, date=date), modified=int(datetime.fromisoformat(time).timestamp()) * 10**9)
        for number, (date, time) in enumerate(moments, 1)
    ]
    unread = [UnreadFile(file, 0) for file in files]
    load = plan_load(TABLE, Window(0, 9), unread, {}, (), replace(FILES, date_order=order))
    return [(planned.file.folder.date, planned.series, planned.ordinal) for planned in load.files]


def test_partitions_are_series_of_their_own() -> None:
    files = [data_file(1), data_file(2), data_file(1, partition="7")]
    load = plan_load(TABLE, Window(0, 9), [UnreadFile(file, 0) for file in files], {}, (), FILES)
    assert [(planned.series, planned.ordinal) for planned in load.files] == [(0, 0), (0, 1), (1, 0)]


def test_dates_that_grow_with_the_files_times_are_one_series() -> None:
    one, other = ("2026-01-02", "2026-01-02T23:00Z"), ("2026-01-01", "2026-01-02T01:00Z")
    assert series_of("", one, other) == [("2026-01-01", 0, 0), ("2026-01-02", 0, 1)]


@pytest.mark.parametrize("later", ["2026-01-02T01:00Z", "2026-01-02T02:00Z", "2026-05-05T05:00Z"])
def test_dates_that_nothing_proves_to_be_in_order_are_several_series(later: str) -> None:
    one, other = ("2026-01-02", "2026-01-02T01:00Z"), ("2026-01-01", later)
    assert series_of("", one, other) == [("2026-01-01", 0, 0), ("2026-01-02", 1, 0)]
    assert series_of("date", one, other) == [("2026-01-01", 0, 0), ("2026-01-02", 0, 1)]


def test_the_files_times_order_them_where_a_person_says_so() -> None:
    one, other = ("2026-01-02", "2026-01-02T01:00Z"), ("2026-01-01", "2026-01-02T02:00Z")
    assert series_of("time", one, other) == [("2026-01-02", 0, 0), ("2026-01-01", 0, 1)]


def test_a_checkpoints_own_millisecond_is_on_both_sides() -> None:
    after, end = 5 * MS + 7, 9 * MS + 3
    window = coarse_window(Window(after, end), data_file(1), ())
    assert window.after < 5 * MS <= window.end
    assert window.after < 9 * MS <= window.end
    assert not window.after < 4 * MS
    assert not window.end >= 10 * MS


def test_a_statements_own_millisecond_follows_the_folder() -> None:
    version = 5 * MS + 7
    old, new = data_file(1, version=10), data_file(1, version=version)
    assert coarse_window(Window(0, version), old, {version}).end >= 5 * MS
    assert coarse_window(Window(0, version), new, {version}).end < 5 * MS
    assert coarse_window(Window(version, 9 * MS), old, {version}).after >= 5 * MS
    assert coarse_window(Window(version, 9 * MS), new, {version}).after < 5 * MS


def test_a_window_that_ends_with_its_millisecond_is_not_read_twice() -> None:
    assert ends_with_millisecond(6 * MS - 1)
    assert not ends_with_millisecond(6 * MS)
    assert coarse_window(Window(6 * MS - 1, 9 * MS), data_file(1), ()).after >= 5 * MS


def test_rows_of_overlapping_files_are_published_a_few_at_a_time() -> None:
    """Each file begins with the rows of all before it: no end lies between two of them."""
    files = [UnreadFile(data_file(index), 0) for index in (1, 2, 3, 4)]
    bounds = {e.file.path: Bounds(101, 100 + 100 * i, True) for i, e in enumerate(files, 1)}
    assert plan_load(TABLE, Window(100, 1000), files, bounds, (), FILES, 100).window == Window(100, 1000)
    load = plan_load(TABLE, Window(100, 1000), files, bounds, (), FILES, 100, publish_bytes=100)
    # Up to 148 the files have 48 + 24 + 16 + 12 bytes.
    assert load.window == Window(100, 148)
    assert len(load.files) == 4


def test_one_transaction_of_too_many_bytes_is_published_alone() -> None:
    files = [UnreadFile(data_file(index), 0) for index in (1, 2, 3, 4)]
    bounds = {e.file.path: Bounds(101, 101, True) for e in files[:3]} | {files[3].file.path: Bounds(101, 300, True)}
    load = plan_load(TABLE, Window(100, 1000), files, bounds, (), FILES, 100, publish_bytes=100)
    assert load.window == Window(100, 101)
    assert len(load.files) == 4
