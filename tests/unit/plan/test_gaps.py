"""Missing numbers."""

from consumer.model.names import TableName
from consumer.model.progress import FolderProgress
from consumer.plan.gaps import find_gap
from tests.support.build import data_file

TABLE = TableName("d", "t")


def gap(indexes, done=0):
    files = [data_file(index) for index in indexes]
    return find_gap(TABLE, files, {files[0].folder: FolderProgress(done)} if done else {})


def test_contiguous_numbers_have_no_gap() -> None:
    assert gap([1, 2, 3]) is None


def test_a_hole_above_the_last_done_file_is_a_gap() -> None:
    error = gap([1, 2, 4], done=1)
    assert error is not None
    assert "number 3" in error.message


def test_a_cleaned_up_head_below_the_last_done_file_is_none() -> None:
    assert gap([5, 6], done=5) is None


def test_a_folder_never_read_must_begin_at_one() -> None:
    assert gap([2, 3]) is not None


def test_the_next_number_after_the_last_done_one_must_be_there() -> None:
    assert gap([7], done=5) is not None
