"""What tells rows that were sent again from rows that came late."""

from __future__ import annotations

from consumer.model.files import Folder
from consumer.model.progress import FolderProgress
from consumer.model.times import MAX_TSO
from consumer.plan.late import accounted_commit_ts


def place(first: int, last: int) -> FolderProgress:
    return FolderProgress(1, 1, "a", first_ts=first, last_ts=last)


def test_what_was_read_and_what_is_above_the_position_is_seen() -> None:
    days = {Folder("d/t", 2, date="2026-03-01"): place(10, 20), Folder("d/t", 2, date="2026-03-02"): place(30, 40)}
    assert accounted_commit_ts(days, 0, 50) == {"": (0, 1, 10, 21, 30, 41, 51, MAX_TSO)}
    assert accounted_commit_ts(days, 15, 35) == {"": (0, 21, 30, MAX_TSO)}


def test_versions_and_dispatchers_are_one_stretch_and_partitions_are_not() -> None:
    folders = {
        Folder("d/t", 2, "7", "", "1"): place(10, 20),
        Folder("d/t", 5, "7", "", "2"): place(20, 30),
        Folder("d/t", 5, "8"): place(12, 14),
    }
    assert accounted_commit_ts(folders, 0, 50) == {"7": (0, 1, 10, 31, 51, MAX_TSO), "8": (0, 1, 12, 15, 51, MAX_TSO)}
    together = accounted_commit_ts({**folders, Folder("d/t", 9): FolderProgress()}, 0, 50)
    assert together[""] == (0, 1, 10, 31, 51, MAX_TSO)


def test_a_folder_of_which_it_is_not_known_what_was_read_hides_what_came_late_until_it_is_read_again() -> None:
    folder = Folder("d/t", 2)
    unknown = FolderProgress(1, 1, "a", last_ts=MAX_TSO)
    assert accounted_commit_ts({folder: unknown}, 0, 50) == {"": (0, MAX_TSO + 1)}
    assert unknown.with_rows([60, 70], 50) == FolderProgress(1, 1, "a", last_ts=70)
    assert unknown.with_rows([], 50) == unknown
