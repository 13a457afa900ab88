"""Files that TiCDC writes again where it could not write an index file, never or not again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from consumer.model.times import ms_to_tso
from tests.support.feed import Feed, MemoryReplica


def _tso(moment: datetime) -> int:
    return ms_to_tso(int(moment.timestamp()) * 1000)


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("restarts", [1, 2])
def test_files_are_written_anew_where_no_index_file_was_ever_written(
    tmp_path: Path, rounds: int, restarts: int
) -> None:
    """Each restart begins with number 1 again."""
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    for number in (1, 2, 3, 4):
        feed.puts("d.t", 2, {10 * number: (number, "1")}, number=number)
        if number % rounds == 0:
            assert replica.once(10 * number + 5).exit_code == 0
    wanted = dict.fromkeys((1, 2, 3, 4), "1")
    for restart in range(1, restarts + 1):
        for number in (1, 2, 3):
            wanted[number] = str(restart + 1)
            feed.puts("d.t", 2, {100 * restart + 10 * number: (number, wanted[number])}, number=number)
            for _ in range(2):
                assert replica.once(100 * restart + 10 * number + 5).exit_code == 0
                assert replica.tables == {"d.t": wanted}


@pytest.mark.parametrize("between", [0, 1, 2])
@pytest.mark.parametrize("open_last", [True, False])
def test_the_index_file_is_written_once_after_a_restart_and_fails_again(
    tmp_path: Path, between: int, open_last: bool
) -> None:
    """It is younger than all files but the one that it names."""
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    feed.index("d.t", 2, 1)
    for number in range(1, 6):
        feed.puts("d.t", 2, {10 + number: (number, "1")}, number=number)
    feed.puts("d.t", 2, {16: (6, "1"), 38 if open_last else 17: (7, "1")}, number=6)
    assert replica.once(20).exit_code == 0
    feed.index("d.t", 2, 2)
    feed.puts("d.t", 2, {30: (2, "2")}, number=2)
    for at in range(between):
        assert replica.once(35 + 4 * at).exit_code == 0
    for number in (3, 4, 5, 6, 7):
        feed.puts("d.t", 2, {10 * number + 10: (number, "2")}, number=number)
        assert replica.once(10 * number + 15).exit_code == 0
        wanted = {1: "1"} | {key: "2" if key <= number else "1" for key in range(2, 8)}
        assert replica.tables == {"d.t": wanted}


def test_older_layouts_begin_a_folder_at_each_restart_and_watch_no_file_but_the_last(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    made = feed.create("d.t", 2)
    place = feed.folder / "d/t/2/schema.json"
    place.parent.mkdir()
    made.rename(place)
    replica = MemoryReplica(feed)
    for number in (1, 2, 3):
        feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number)
    assert replica.once(15).exit_code == 0
    (place_of_t,) = replica.sink.progress().folders.values()
    assert (place_of_t.done, place_of_t.open) == (3, ())


def test_files_of_a_date_that_is_over_are_not_watched_any_more(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    replica = MemoryReplica(feed)
    days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 9, 10)]
    version = _tso(days[0])
    feed.create("d.t", version)
    for day in days:
        for number in (1, 2, 3):
            row = {_tso(day) + number: (10 * day.day + number, "1")}
            feed.puts("d.t", version, row, number=number, date=f"{day:%Y-%m-%d}")
        assert replica.once(_tso(day) + 10).exit_code == 0
    places = {folder.date: place for folder, place in replica.sink.progress().folders.items()}
    assert {date: (place.done, len(place.open)) for date, place in places.items()} == {
        "2026-03-01": (1, 2),  # the oldest of all is looked at in every round
        "2026-03-02": (3, 0),
        "2026-03-09": (1, 2),
        "2026-03-10": (1, 2),
    }
    assert replica.once().exit_code == 0
    assert len(replica.tables["d.t"]) == 12
