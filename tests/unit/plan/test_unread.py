"""Which files are read again, and what a folder remembers."""

from dataclasses import replace

from consumer.model.files import Bounds
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, OpenFile, Progress
from consumer.plan.gaps import find_gaps
from consumer.plan.rewrites import overcounted_folders, with_later_folders
from consumer.plan.unread import UnreadFile, folder_after, loses_record, unread_files
from tests.support.build import data_file

FILES = [data_file(index) for index in (1, 2, 3, 4)]
FOLDER = FILES[0].folder


def test_done_files_are_not_read_again() -> None:
    folders = {FOLDER: FolderProgress(done=2, size=100, stamp="a")}
    assert unread_files(FILES, folders) == [UnreadFile(FILES[2], 0), UnreadFile(FILES[3], 0)]


def test_the_last_done_file_is_read_again_when_it_was_written_anew() -> None:
    folders = {FOLDER: FolderProgress(done=2, size=100, stamp="other")}
    assert unread_files(FILES, folders)[0] == UnreadFile(FILES[1], 0)


def test_without_time_what_comes_behind_a_file_that_was_written_anew_is_read_again_too() -> None:
    later = data_file(1, date="2026-03-02")
    elsewhere = data_file(1, partition="7")
    done = FolderProgress(done=1, size=100, stamp="a")
    known = {later.folder: done, elsewhere.folder: done}
    files = [*FILES[:3], elsewhere, later]
    for anew in (FolderProgress(2, 99, "a"), FolderProgress(2, 100, "other")):
        found = unread_files(files, {FOLDER: anew, **known}, timeless=True)
        assert [entry.file for entry in found] == [FILES[1], FILES[2], later]
    assert unread_files(files[:2], {FOLDER: FolderProgress(2, 100, "a")}, timeless=True) == []


def test_an_open_file_keeps_its_next_ts_and_a_file_done_out_of_order_is_left_alone() -> None:
    open_files = (OpenFile(3, 77, 100, "a"), OpenFile(4, 0, 100, "a"))
    folders = {FOLDER: FolderProgress(done=2, size=100, stamp="a", open=open_files)}
    assert unread_files(FILES, folders) == [UnreadFile(FILES[2], 77)]


def test_a_file_that_was_written_anew_is_told_before_its_record_is_dropped() -> None:
    """Another file is read first, and then nothing tells that this one was."""
    place = FolderProgress(1, 99, "a", (OpenFile(2, 0, 99, "a"), OpenFile(3, 50, 99, "a"), OpenFile(4, 0, 100, "a")))
    assert folder_after(place, FILES, {FILES[3].path: 0}, {FILES[1].path}).open[-1] == OpenFile(4, 0, 100, "a")
    assert loses_record(FILES[:1], place)
    assert loses_record(FILES[1:2], place)
    assert not loses_record(FILES[2:3], place), "it was not read wholly, and is told by what is left of it"
    assert not loses_record(FILES[3:], place)


def test_done_moves_over_contiguous_files_only() -> None:
    read = {FILES[0].path: 0, FILES[1].path: 50, FILES[2].path: 0}
    after = folder_after(FolderProgress(), FILES, read)
    assert after == FolderProgress(1, 100, "a", (OpenFile(2, 50, 100, "a"), OpenFile(3, 0, 100, "a")))
    assert folder_after(after, FILES, {FILES[1].path: 0}) == FolderProgress(3, 100, "a")


def test_done_moves_over_numbers_that_were_cleaned_up() -> None:
    assert folder_after(FolderProgress(), FILES[2:], {FILES[2].path: 0, FILES[3].path: 0}).done == 4


def test_a_hole_that_was_accepted_stays_so_where_files_may_be_written_anew_below_it() -> None:
    files = [data_file(index) for index in (1, 2, 4, 5)]
    after = folder_after(FolderProgress(), files, dict.fromkeys((file.path for file in files), 0), end=1)
    assert after == FolderProgress(4, 100, "a", (OpenFile(5, 0, 100, "a"),))
    assert next(find_gaps(TableName("d", "t"), files, {FOLDER: after}), None) is None


def test_a_file_that_is_to_be_read_again_in_this_round_does_not_count_as_read_until_then() -> None:
    before = FolderProgress(1, 100, "a", (OpenFile(3, 0, 100, "a"),))
    after = folder_after(before, FILES, {FILES[1].path: 0}, unread={FILES[2].path})
    assert after == FolderProgress(2, 100, "a")
    assert unread_files(FILES, {FOLDER: after}) == [UnreadFile(FILES[2], 0), UnreadFile(FILES[3], 0)]


def test_a_folder_of_which_more_counts_as_done_than_what_stays_is_looked_at_whole() -> None:
    progress = Progress(folders={FOLDER: FolderProgress(3)})
    assert [overcounted_folders({FOLDER: number}, progress) for number in (2, 3)] == [{FOLDER}, set()]
    watched = Progress(folders={FOLDER: FolderProgress(3, open=(OpenFile(4, 0, 9, "a"),))})
    assert overcounted_folders({FOLDER: 2}, watched) == set()


def test_without_time_all_folders_from_the_first_one_that_changed_on_are_looked_at_whole() -> None:
    first, second, third = (data_file(1, date=f"2026-03-0{day}").folder for day in (1, 2, 3))
    elsewhere = data_file(1, partition="7").folder
    known = dict.fromkeys((first, second, third, elsewhere), FolderProgress(1))
    assert with_later_folders({first, third}, Progress(folders=known)) == {first, second, third}
    assert with_later_folders({second}, Progress(folders=known)) == {second, third}


def test_reading_the_rewritten_last_file_keeps_its_new_identity() -> None:
    rewritten = data_file(2, size=70, stamp="b")
    after = folder_after(FolderProgress(2, 100, "a"), [FILES[0], rewritten], {rewritten.path: 0})
    assert after == FolderProgress(2, 70, "b")
    assert unread_files([FILES[0], rewritten], {FOLDER: after}) == []


def test_the_checksum_of_a_file_stays_with_the_record_of_it() -> None:
    sums = {FILES[0].path: 7, FILES[2].path: 9}
    read = {FILES[0].path: 0, FILES[2].path: 0}
    after = folder_after(FolderProgress(), FILES, read, checksums=sums)
    assert after == FolderProgress(1, 100, "a", (OpenFile(3, 0, 100, "a", 9),), checksum=7)
    assert folder_after(after, FILES, {FILES[1].path: 0}) == FolderProgress(3, 100, "a", checksum=9)
    assert folder_after(after, FILES, {FILES[0].path: 0}).checksum == 0
    anew = replace(FILES[2], stamp="b")
    assert after.last.may_hold(replace(FILES[0], stamp="b"))
    assert not after.last.may_hold(replace(FILES[0], stamp="b", size=99))
    assert after.copied(anew).open == (OpenFile(3, 0, 100, "b", 9),)
    assert after.copied(replace(FILES[0], stamp="b")) == replace(after, stamp="b")


def test_a_rewritten_file_with_rows_left_is_open_again_and_the_files_behind_it_stay_done() -> None:
    anew = data_file(2, size=70, stamp="b")
    files = [FILES[0], anew, FILES[2]]
    after = folder_after(FolderProgress(3, 100, "a"), files, {anew.path: 30})
    assert after == FolderProgress(1, 100, "a", (OpenFile(2, 30, 70, "b"), OpenFile(3, 0, 100, "a")))
    assert unread_files(files, {FOLDER: after}) == [UnreadFile(anew, 30)]
    assert folder_after(after, files, {anew.path: 0}) == FolderProgress(3, 100, "a")


def test_what_was_not_listed_below_a_rewritten_file_is_not_taken_for_another() -> None:
    anew = data_file(2, size=70, stamp="b")
    after = folder_after(FolderProgress(2, 100, "a"), [anew], {anew.path: 30})
    assert after == FolderProgress(1, 0, "", (OpenFile(2, 30, 70, "b"),))
    assert unread_files([FILES[0], anew], {FOLDER: after}) == [UnreadFile(anew, 30)]


def test_all_done_files_of_a_folder_that_is_looked_at_whole_are_unread() -> None:
    folders = {FOLDER: FolderProgress(3, 100, "a", last_ts=50)}
    assert unread_files(FILES, folders, relisted={FOLDER}) == [
        UnreadFile(FILES[0], 0, 50),
        UnreadFile(FILES[1], 0, 50),
        UnreadFile(FILES[2], 0),
        UnreadFile(FILES[3], 0),
    ]


def test_a_file_looked_at_again_is_needed_only_for_rows_that_were_not_read() -> None:
    entry = UnreadFile(FILES[0], 0, 1 << 62)
    assert [entry.needed(Bounds(5, last, True), 20, 30) for last in (20, 21)] == [False, True]
    assert entry.needed(None, 20, 30)
    assert [UnreadFile(FILES[0], 0, 15).needed(Bounds(5, last, True), 20, 30) for last in (15, 16)] == [False, True]
    assert not entry.needed(Bounds(31, 40, True), 20, 30)
    millisecond = 1 << 18
    coarse = [
        entry.needed(Bounds(0, last, False), 2 * millisecond + 5, 9 * millisecond)
        for last in (millisecond, 2 * millisecond)
    ]
    assert coarse == [False, True]
