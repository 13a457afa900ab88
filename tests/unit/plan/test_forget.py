"""Which folders the progress forgets once they are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.model.files import DataFile, Folder, Listing
from consumer.model.progress import FolderProgress, OpenFile, Progress
from consumer.model.times import MAX_TSO
from consumer.plan.retention import forget_folders, forgotten_folders, possibly_cleaned_up

DONE = FolderProgress(9, 1, "a", last_ts=7)


def dated(*dates: str, root: str = "d/t", version: int = 5, dispatcher: str = "") -> list[Folder]:
    return [Folder(root, version, "", date, dispatcher) for date in dates]


def listing(gone: list[Folder], *listed: Folder) -> Listing:
    files = {folder.root: [DataFile(folder, 9, "p", 1, "a")] for folder in listed}
    return Listing(100, (), files, empty_folders=gone)


def test_what_is_gone_is_forgotten_but_the_newest_of_each_version() -> None:
    old, new = dated("2026-03-01", "2026-03-02", "2026-03-03"), dated("2026-03-04", version=6)
    progress = Progress("u", folders=dict.fromkeys([*old, *new], DONE))
    assert forgotten_folders(listing(old, *new), progress, {"d/t"}) == set(old[:2])
    assert forgotten_folders(listing([*old, *new]), progress, {"d/t"}) == set(old[:2])
    assert forgotten_folders(listing([*old, *new]), progress, set()) == {*old, *new}
    assert forgotten_folders(listing([]), progress, {"d/t"}) == set()


def test_what_an_earlier_part_of_the_round_has_forgotten_is_gone_already() -> None:
    old, newest = dated("2026-03-01"), dated("2026-03-02")
    assert forgotten_folders(listing(old, *newest), Progress("u", folders={newest[0]: DONE}), {"d/t"}) == set()


def test_of_old_dispatchers_the_one_with_the_last_rows_stays() -> None:
    first, second = dated("", dispatcher="1"), dated("", dispatcher="2")
    places = {first[0]: FolderProgress(9, 1, "a", last_ts=8), second[0]: DONE}
    assert forgotten_folders(listing([*first, *second]), Progress("u", folders=places), {"d/t"}) == set(second)


def test_a_folder_with_rows_still_to_be_read_is_not_forgotten() -> None:
    old, newest = dated("2026-03-01", "2026-03-02")
    waits = FolderProgress(3, 1, "a", (OpenFile(5, 50, 1, "a"),))
    progress = Progress("u", folders={old: waits, newest: DONE})
    assert forgotten_folders(listing([old], newest), progress, {"d/t"}) == set()


def test_folders_that_were_left_out_are_looked_at_once_one_of_their_date_is_gone() -> None:
    first, second, third = dated("2026-03-01", "2026-03-02", "2026-03-03")
    others = dated("2026-03-01", "2026-03-02", "2026-03-03", root="d/u")
    progress = Progress("u", folders=dict.fromkeys([first, second, third, *others], DONE))
    seen = listing([first], third, others[2])
    assert possibly_cleaned_up({first}, seen, progress) == {others[0]}
    assert possibly_cleaned_up(set(), seen, progress) == set()


def test_the_rows_of_a_forgotten_folder_count_as_read_of_the_next_one_and_as_gone() -> None:
    first, second, third, fourth = dated("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04")
    ends = {first: (1, 3), second: (0, 0), third: (7, 8), fourth: (10, 12)}
    folders = {at: FolderProgress(9, 1, "a", first_ts=begin, last_ts=end) for at, (begin, end) in ends.items()}
    folders[second] = replace(folders[second], done=0)
    heir = FolderProgress(9, 1, "a", first_ts=1, last_ts=8, gone_ts=3)
    progress = Progress("u", applied_ts=12, folders=folders)
    assert forget_folders({first, second}, progress) == {first: None, second: None, third: heir}
    doubtful = {**folders, first: replace(folders[first], gone_ts=5)}
    assert forget_folders({first, second}, replace(progress, folders=doubtful))[third] == replace(heir, gone_ts=5)
    later = {**folders, first: replace(folders[first], last_ts=9)}  # as after a restart
    after = forget_folders({first, second}, replace(progress, folders=later))
    assert after[third] == replace(heir, last_ts=9, gone_ts=9)
    assert forget_folders(set(), progress) == {}


@pytest.mark.parametrize(("last_ts", "gone_ts"), [(0, 6), (MAX_TSO, 12)], ids=["no time", "not known"])
def test_rows_whose_times_nobody_knows_are_gone_too(last_ts: int, gone_ts: int) -> None:
    first, second = dated("2026-03-01", "2026-03-02")
    folders = {first: FolderProgress(9, 1, "a", last_ts=last_ts), second: FolderProgress(9, 1, "a")}
    changes = forget_folders({first}, Progress("u", applied_ts=12, folders=folders))
    assert changes[first] is None
    assert changes[second] is not None
    assert changes[second].gone_ts == gone_ts
