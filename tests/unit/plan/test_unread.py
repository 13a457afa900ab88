"""Which files are read again, and what a folder remembers."""

from consumer.model.progress import FolderProgress, OpenFile
from consumer.plan.unread import Unread, folder_after, unread_files
from tests.support.build import data_file

FILES = [data_file(index) for index in (1, 2, 3, 4)]
FOLDER = FILES[0].folder


def test_done_files_are_not_read_again() -> None:
    folders = {FOLDER: FolderProgress(done=2, size=100, stamp="a")}
    assert unread_files(FILES, folders) == [Unread(FILES[2], 0), Unread(FILES[3], 0)]


def test_the_last_done_file_is_read_again_when_it_was_written_anew() -> None:
    folders = {FOLDER: FolderProgress(done=2, size=100, stamp="other")}
    assert unread_files(FILES, folders)[0] == Unread(FILES[1], 0)


def test_without_time_a_copy_of_the_last_done_file_is_not_read_again_but_another_file_is() -> None:
    copied = {FOLDER: FolderProgress(done=2, size=100, stamp="other", open=(OpenFile(4, 0, 100, "other"),))}
    assert unread_files(FILES, copied, timeless=True) == [Unread(FILES[2], 0)]
    anew = {FOLDER: FolderProgress(done=2, size=99, stamp="a")}
    assert unread_files(FILES, anew, timeless=True)[0] == Unread(FILES[1], 0)


def test_an_open_file_keeps_its_next_ts_and_a_file_done_out_of_order_is_left_alone() -> None:
    open_files = (OpenFile(3, 77, 100, "a"), OpenFile(4, 0, 100, "a"))
    folders = {FOLDER: FolderProgress(done=2, size=100, stamp="a", open=open_files)}
    assert unread_files(FILES, folders) == [Unread(FILES[2], 77)]


def test_done_moves_over_contiguous_files_only() -> None:
    read = {FILES[0].path: 0, FILES[1].path: 50, FILES[2].path: 0}
    after = folder_after(FolderProgress(), FILES, read)
    assert after == FolderProgress(1, 100, "a", (OpenFile(2, 50, 100, "a"), OpenFile(3, 0, 100, "a")))
    assert folder_after(after, FILES, {FILES[1].path: 0}) == FolderProgress(3, 100, "a")


def test_done_moves_over_numbers_that_were_cleaned_up() -> None:
    assert folder_after(FolderProgress(), FILES[2:], {FILES[2].path: 0, FILES[3].path: 0}).done == 4


def test_reading_the_rewritten_last_file_keeps_its_new_identity() -> None:
    rewritten = data_file(2, size=70, stamp="b")
    after = folder_after(FolderProgress(2, 100, "a"), [FILES[0], rewritten], {rewritten.path: 0})
    assert after == FolderProgress(2, 70, "b")
    assert unread_files([FILES[0], rewritten], {FOLDER: after}) == []
