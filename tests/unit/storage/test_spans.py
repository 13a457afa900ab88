"""What a listing may leave out, one exception after the other."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from consumer.layout.paths import DataPath, IndexPath, render
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, OpenFile, Progress, State, TableProgress
from consumer.model.times import ms_to_tso
from consumer.storage.spans import Span, Spans, read_spans

NOON = ms_to_tso(int(datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp() * 1000))
DONE = FolderProgress(9, 1, "a")


OLDEST = dict.fromkeys((Folder("a/a", 1, "", "1999-12-01"), Folder("a/a", 1, "", "1999-12-31")), FolderProgress())
"""The oldest date of all is never closed: here it is this one, without a file to leave out."""


def spans(*folders: Folder, place: FolderProgress = DONE, **progress: object) -> Spans:
    known = {**OLDEST, **dict.fromkeys(folders, place)}
    return read_spans(Progress("u", NOON, folders=known, **progress))  # type: ignore[arg-type]


def left_out(found: Spans, *paths: str) -> list[str]:
    return [path for path in paths if found.covering(path) is not None]


def dated(*dates: str, root: str = "d/t", partition: str = "", version: int = 5) -> list[Folder]:
    return [Folder(root, version, partition, date) for date in dates]


def closed(found: Spans, *folders: Folder) -> list[str]:
    """The dates of which nothing at all is looked at."""
    index = {folder: f"d/t/5/{folder.date}/meta/CDC.index" for folder in folders}
    return [folder.date for folder in folders if found.covering(index[folder]) is not None]


@pytest.mark.parametrize("width", [6, 7, 12, 20])
@pytest.mark.parametrize("done", [1, 9, 99_999, 999_999, 1_000_000, 10**12])
def test_the_last_file_and_what_comes_behind_it_is_looked_at_whatever_its_width(width: int, done: int) -> None:
    folder = Folder("d/t", 5)
    found = spans(folder, place=FolderProgress(done, 1, "a"))
    for new in (done, done + 1, done * 10, 10**6, 10**7, 10**13):
        if new >= done:
            assert found.covering(render(DataPath(folder, new), width)) is None
    for old in {1, done // 2, done - 1} - {0}:
        if old < done:
            assert found.covering(render(DataPath(folder, old), 20)) is not None


def test_new_folders_and_schema_files_beside_a_known_one_are_looked_at() -> None:
    found = spans(Folder("d/t", 45, "", "2026-03-10"))
    assert left_out(
        found,
        "d/t/45/2026-03-10/CDC00000000000000000008.json",
        "d/t/45/2026-03-10/CDC00000000000000000010.csv",
        "d/t/45/2026-03-10/CDC_12_00000000000000000001.json",
        "d/t/45/2026-03-10/schema.json",
        "d/t/45/2026-03-11/CDC00000000000000000001.json",
        "d/t/45/2026-03-09/CDC00000000000000000001.json",
        "d/t/45/77/2026-03-10/CDC00000000000000000001.json",
        "d/t/45/schema.json",
        "d/t/9/2026-03-10/CDC00000000000000000001.json",
        "d/t/450/2026-03-10/CDC00000000000000000001.json",
        "d/t/meta/schema_45_0000000001.json",
        "d/t2/45/2026-03-10/CDC00000000000000000001.json",
        "d/a/45/2026-03-10/CDC00000000000000000001.json",
        "d/meta/schema_45_0000000001.json",
        "metadata",
    ) == ["d/t/45/2026-03-10/CDC00000000000000000008.json"]


@pytest.mark.parametrize("beside", [False, True])
def test_an_index_file_is_looked_at_wherever_it_lies(beside: bool) -> None:
    for folder in (Folder("d/t", 5), Folder("d/t", 5, "7"), Folder("d/t", 5, date="2026-03-10")):
        assert spans(folder).covering(render(IndexPath(folder, beside))) is None


def test_each_dispatcher_has_a_stretch_of_its_own() -> None:
    known = [Folder("d/t", 5, dispatcher=dispatcher) for dispatcher in ("12", "123", "7")]
    found = spans(*known)
    for folder in known:
        assert found.covering(render(DataPath(folder, 8))) is not None
        assert found.covering(render(DataPath(folder, 9))) is None
    for new in ("1", "1234", "124", "70", "6", ""):
        assert found.covering(render(DataPath(Folder("d/t", 5, dispatcher=new), 1))) is None


def test_a_date_is_over_two_days_after_its_end_but_never_the_newest() -> None:
    folders = dated("2026-03-05", "2026-03-06", "2026-03-07", "2026-03-08", "2026-03-10")
    assert closed(spans(*folders), *folders) == ["2026-03-05", "2026-03-06", "2026-03-07"]
    assert closed(spans(*dated("2026-01", "2026-02", "2026-03")), *dated("2026-01", "2026-02")) == ["2026-01"]
    assert closed(spans(*dated("2024", "2025", "2026")), *dated("2024", "2025", "2026")) == ["2024"]


def test_a_date_is_over_two_days_before_the_newest_of_its_table_however_far_commit_ts_are_ahead() -> None:
    folders = dated("2026-02-26", "2026-02-27", "2026-02-28", "2026-03-01")
    assert closed(spans(*folders), *folders) == ["2026-02-26"]
    assert closed(spans(*folders[1:]), *folders) == []
    strange = dated("2026-02-30", "2026-02-31")  # no node's clock, but people can
    assert closed(spans(*strange, *dated("2026-02-20")), *strange) == []
    assert closed(spans(*strange, *folders), *folders) == ["2026-02-26"]


def test_the_oldest_date_of_all_is_looked_at_for_one_table() -> None:
    folders = dated("2026-03-05", "2026-03-06", "2026-03-10")
    others = dated("2026-03-05", "2026-03-10", root="d/u")
    found = read_spans(Progress("u", NOON, folders=dict.fromkeys([*others, *folders], DONE)))
    assert found.closed == {folders[1], others[0]}
    assert left_out(found, "d/t/5/2026-03-05/meta/CDC.index", "d/u/5/2026-03-05/meta/CDC.index") == [
        "d/u/5/2026-03-05/meta/CDC.index"
    ]


def test_dates_are_over_for_the_table_not_for_the_others() -> None:
    folders = dated("2026-03-01", "2026-03-02", "2026-03-05")
    behind = TableProgress(NOON - ms_to_tso(7 * 86_400_000), State.STOPPED)
    assert closed(spans(*folders), *folders) == ["2026-03-01", "2026-03-02"]
    assert closed(spans(*folders, tables={TableName("d", "t"): behind}), *folders) == []
    assert closed(spans(*folders, tables={TableName("d", "other"): behind}), *folders) == ["2026-03-01", "2026-03-02"]


def test_a_table_id_may_be_any_table() -> None:
    folders = dated("2026-03-01", "2026-03-02", "2026-03-05", root="104")
    stopped = TableProgress(NOON - ms_to_tso(7 * 86_400_000), State.STOPPED)
    old = "104/5/2026-03-01/meta/CDC.index"
    assert left_out(spans(*folders), old) == [old]
    assert left_out(spans(*folders, tables={TableName("d", "t"): stopped}), old) == []
    dropped = TableProgress(stopped.applied_ts, State.DROPPED)
    assert left_out(spans(*folders, tables={TableName("d", "t"): dropped}), old) == [old]


def test_an_open_file_keeps_its_folder_open() -> None:
    folders = dict.fromkeys(dated("2026-03-01", "2026-03-02", "2026-03-05"), DONE)
    waits = FolderProgress(3, 1, "a", (OpenFile(5, NOON, 1, "a"),))
    found = read_spans(Progress("u", NOON, folders={**OLDEST, **folders, dated("2026-03-02")[0]: waits}))
    assert closed(found, *folders) == ["2026-03-01"]
    assert [span.count for span in found.all] == [10, 2, 8]


def test_neighbours_that_are_over_are_one_stretch_within_a_year() -> None:
    """A partition's id can lie between the dates of two years."""
    found = spans(*dated("2024-12-30", "2024-12-31", "2025-01-01", "2025-06-30", "2026-03-10"))
    assert [(span.first, span.end) for span in found.all][:2] == [
        ("d/t/5/2024-12-30/", "d/t/5/2024-12-310"),
        ("d/t/5/2025-01-01/", "d/t/5/2025-06-300"),
    ]
    assert left_out(found, "d/t/5/20251/2026-03-10/CDC00000000000000000001.json") == []


def test_nothing_is_left_out_of_a_folder_that_is_wanted_whole() -> None:
    folders = dated("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-10")
    progress = Progress("u", NOON, folders=dict.fromkeys(folders, DONE))
    for wanted in folders:
        found = read_spans(progress, {wanted})
        first = [f"d/t/5/{folder.date}/CDC00000000000000000001.json" for folder in folders]
        assert [path for path in first if path not in left_out(found, path)] == [
            f"d/t/5/{wanted.date}/CDC00000000000000000001.json"
        ]


def test_nothing_is_left_out_without_progress_or_checkpoint() -> None:
    assert read_spans(Progress()).all == []
    folders = dated("2026-03-01", "2026-03-02", "2026-03-05")
    found = read_spans(Progress("u", 0, folders=dict.fromkeys(folders, DONE)))
    assert closed(found, *folders) == []


def test_overlapping_spans_become_one() -> None:
    found = Spans([Span("b", "d", 3), Span("a", "c", 5), Span("e", "f", 1)])
    assert found.all == [Span("a", "d", 5), Span("e", "f", 1)]
    assert [found.covering(path) is not None for path in "abcdef"] == [True, True, True, False, True, False]
    assert found.after("a") == found.all[1]
    assert found.after("e") is None


def test_months_and_days_of_one_table_are_told_apart() -> None:
    """By its path a month comes behind its days."""
    months = dated("2026-01", "2026-02", "2026-02-15", "2026-03-10")
    known = {**OLDEST, **dict.fromkeys(months, DONE)}
    found = read_spans(Progress("u", NOON, folders=known), [months[2]])
    assert closed(found, months[2]) == []
    found = spans(*dated("2025-02", "2025-02-14", "2025-02-15", "2025-02-16", "2026-03-10"))
    assert all(span.first < span.end for span in found.all)


def test_a_month_is_looked_at_while_a_day_of_it_is() -> None:
    month, day, later = dated("2026-01", "2026-01-31", "2026-03-10")
    known = {**OLDEST, **dict.fromkeys((month, day, later), DONE)}
    progress = Progress("u", NOON, folders=known)
    assert closed(read_spans(progress), month, day) == ["2026-01", "2026-01-31"]
    assert closed(read_spans(progress, [day]), month, day) == []
    assert closed(read_spans(progress, [month]), month, day) == ["2026-01-31"]
