"""Missing numbers."""

from dataclasses import replace

from consumer.model.files import Bounds
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, OpenFile
from consumer.plan.gaps import find_gaps, find_lost_remainders, lost_rows_up_to, missing_file_below
from consumer.plan.unread import folder_with_due
from tests.support.build import data_file

TABLE = TableName("d", "t")


def gap(indexes, done=0):
    files = [data_file(index) for index in indexes]
    return next(find_gaps(TABLE, files, {files[0].folder: FolderProgress(done)} if done else {}), None)


def test_contiguous_numbers_have_no_gap() -> None:
    assert gap([1, 2, 3]) is None


def test_a_hole_above_the_last_done_file_is_a_gap() -> None:
    error = gap([1, 2, 4], done=1)
    assert error is not None
    assert "number 3" in error.message


def test_every_hole_is_told() -> None:
    files = [data_file(index) for index in (3, 5, 6, 9)]
    assert [error.message for error in find_gaps(TABLE, files, {})] == [
        "file numbers 1 to 2 are missing before number 3",
        "file number 4 is missing before number 5",
        "file numbers 7 to 8 are missing before number 9",
    ]


def test_a_cleaned_up_head_below_the_last_done_file_is_none() -> None:
    assert gap([5, 6], done=5) is None


def test_a_folder_never_read_must_begin_at_one() -> None:
    assert gap([2, 3]) is not None


def test_the_next_number_after_the_last_done_one_must_be_there() -> None:
    assert gap([7], done=5) is not None


def test_a_file_that_could_not_be_read_is_a_gap_once_it_is_gone() -> None:
    """Where the table is at 50, rows from 51 on may have been in it."""
    files = [data_file(index) for index in (1, 2, 3)]
    due = {files[0].folder: folder_with_due(FolderProgress(1), files, 3, 51)}
    assert next(find_lost_remainders(TABLE, files, due, 50), None) is None
    error = next(find_lost_remainders(TABLE, files[:2], due, 50), None)
    assert error is not None
    assert "number 3" in error.message
    assert next(find_lost_remainders(TABLE, files[:2], due, 51), None) is None  # a statement has taken its rows since


def gone(indexes: list[int], place: FolderProgress, first: int = 5) -> int:
    """The table is at 50, and each file begins at `first`."""
    files, folder = [data_file(index) for index in indexes], data_file(1).folder
    return lost_rows_up_to(files, {folder: place}, 50, lambda asked: {f.path: Bounds(first, 90, True) for f in asked})


def test_files_that_were_read_and_are_not_there_leave_a_doubt() -> None:
    last = data_file(3)
    read = FolderProgress(3, last.size, last.stamp, first_ts=10, last_ts=40)
    assert gone([1, 2, 3], read) == 0
    assert gone([2, 3], read) == 0  # its head was cleaned up: that is a gap, and older than all that is there
    assert [gone(indexes, read) for indexes in ([1, 2], [])] == [40, 40]
    folders = {data_file(1).folder: read}
    assert [missing_file_below(map(data_file, indexes), folders) for indexes in ([1, 2, 3], [2, 3, 5], [])] == [
        "",
        "",
        "",
    ]
    assert "number 2" in missing_file_below(map(data_file, [1, 3]), folders)
    waits = replace(read, open=(OpenFile(4, 60, 9, "a"),))
    assert gone([1, 2, 3], waits) == 40
    assert gone([1], replace(read, last_ts=90)) == 50


def test_a_file_written_anew_leaves_a_doubt_if_it_begins_later() -> None:
    other = FolderProgress(3, 9, "other", first_ts=10, last_ts=40)
    assert [gone([1, 2, 3], other, first) for first in (10, 36, 50, 51)] == [0, 35, 40, 40]
    assert [gone([1, 2, 3], replace(other, file_first_ts=35), first) for first in (35, 36)] == [0, 35]
    assert [gone([1, 2, 3], replace(other, head_ts=10, stamp="a", size=100), first) for first in (10, 12)] == [0, 11]
    assert gone([1, 2, 3], replace(other, gone_ts=45), 51) == 45
