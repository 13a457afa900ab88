"""CSV without commit-ts, date folders that nodes name by the clocks of their own zones: ordered rightly, or stopped."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from consumer import app
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

YESTERDAY, TODAY = "2026-03-04", "2026-03-05"


class Changefeed:
    """A table whose files are modified when the test says."""

    def __init__(self, folder: Path) -> None:
        self.feed = Feed(folder / "storage")
        self.feed.create("d.t", 2)
        self.replica = MemoryReplica(self.feed)

    def write(self, day: str, number: int, value: int, *modified: int) -> None:
        """One row of the key 1; `modified` is (day of March, hour)."""
        path = self.feed.file("d.t", 2, f'"I","t","d",1,{value}\r\n'.encode(), number, day, "csv")
        moment = datetime(2026, 3, *modified, tzinfo=UTC).timestamp()  # type: ignore[arg-type]
        os.utime(path, (moment, moment))

    def once(self, checkpoint: int, order: str = "") -> RunResult:
        flags = {"upstream_uri": f"file://{self.feed.folder}?protocol=csv", "date_order": order}
        return self.replica.once(checkpoint, **flags)

    @property
    def value(self) -> str | None:
        return self.replica.tables["d.t"].get(1)


@pytest.fixture
def changefeed(tmp_path: Path) -> Changefeed:
    return Changefeed(tmp_path)


def test_a_day_that_follows_another_is_in_order(changefeed: Changefeed) -> None:
    changefeed.write(YESTERDAY, 1, 10, 4, 12)
    changefeed.write(YESTERDAY, 2, 11, 4, 23)
    changefeed.write(TODAY, 1, 20, 5, 0)
    assert changefeed.once(10).exit_code == 0
    assert changefeed.value == "20"


def test_files_whose_dates_and_times_disagree_stop_their_table(changefeed: Changefeed) -> None:
    changefeed.write(TODAY, 1, 10, 4, 20)
    changefeed.write(YESTERDAY, 1, 20, 4, 21)
    result = changefeed.once(10)
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
    assert 'date-order = "time"' in next(iter(result.tables.values())).hint


@pytest.mark.parametrize(("order", "value"), [("time", "20"), ("date", "10")])
def test_a_person_says_which_of_them_is_right(order: str, value: str, changefeed: Changefeed) -> None:
    changefeed.write(TODAY, 1, 10, 4, 20)
    changefeed.write(YESTERDAY, 1, 20, 4, 21)
    (stopped,) = changefeed.once(10).tables.values()
    assert f'date-order = "{order}" ' in stopped.hint
    assert changefeed.once(10, order).exit_code == 0
    assert changefeed.value == value


def test_the_times_of_a_copy_say_nothing(changefeed: Changefeed) -> None:
    changefeed.write(TODAY, 1, 20, 20, 1)
    changefeed.write(YESTERDAY, 1, 10, 20, 2)
    assert changefeed.once(10).exit_code == 0
    assert changefeed.value == "20"


def test_a_file_of_an_earlier_date_that_was_written_later_is_applied_later(changefeed: Changefeed) -> None:
    changefeed.write(TODAY, 1, 10, 4, 20)
    assert changefeed.once(10).exit_code == 0
    changefeed.write(YESTERDAY, 1, 20, 4, 21)
    assert changefeed.once(20).exit_code == 0
    assert changefeed.value == "20"


@pytest.mark.parametrize("order", ["time", "date"])
def test_a_clean_up_that_is_half_way_brings_no_older_row_back(order: str, changefeed: Changefeed) -> None:
    for number in (1, 2):
        changefeed.write(YESTERDAY, number, number, 4, number)
        index = changefeed.feed.index("d.t", 2, number, YESTERDAY)
    os.utime(index, (moment := datetime(2026, 3, 4, 3, tzinfo=UTC).timestamp(), moment))
    changefeed.write(TODAY, 1, 10, 5, 1)
    assert changefeed.once(10, order).exit_code == 0
    next(changefeed.feed.folder.glob(f"d/t/2/{YESTERDAY}/CDC*2.csv")).unlink()
    for checkpoint in (20, 30):
        assert changefeed.once(checkpoint, order).exit_code == 0
        assert changefeed.value == "10"


@pytest.mark.parametrize(
    ("order", "modified"), [("", (4, 19)), ("", (20, 1)), ("date", (4, 19)), ("date", (4, 21)), ("time", (4, 19))]
)
def test_a_file_of_an_earlier_date_that_came_late_stops_its_table(
    order: str, modified: tuple[int, int], changefeed: Changefeed
) -> None:
    changefeed.write(TODAY, 1, 10, 4, 20)
    assert changefeed.once(10, order).exit_code == 0
    changefeed.write(YESTERDAY, 1, 20, *modified)
    result = changefeed.once(20, order)
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
    assert changefeed.value == "10"
    assert "storage-consumer resync --table d.t" in next(iter(result.tables.values())).hint
    uri = f"file://{changefeed.feed.folder}?protocol=csv"
    settings = changefeed.replica.settings(upstream_uri=uri, date_order=order or "date")
    assert app.resync(settings, Recorder(), TableName("d", "t"), InlineLoader()).exit_code == 0
    assert changefeed.value == "10", "the row of the later date came later"


@pytest.mark.parametrize(
    ("older", "newer"),
    [("2026-03-04", "2026-03"), ("2026-03-04", ""), ("2026-03", "")],
)
def test_a_date_separator_that_was_changed_leaves_no_order_but_that_of_the_times(
    older: str, newer: str, changefeed: Changefeed
) -> None:
    changefeed.write(older, 1, 10, 4, 20)
    changefeed.write(newer, 1, 20, 4, 21)
    result = changefeed.once(10)
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
    assert 'date-order = "time"' in next(iter(result.tables.values())).hint
    assert changefeed.once(10, "time").exit_code == 0
    assert changefeed.value == "20"


@pytest.mark.parametrize(("older", "newer"), [("2026-03", "2026-03-04"), ("", "2026-03-04"), ("", "2026-03")])
def test_times_prove_that_levels_of_dates_follow_one_another(older: str, newer: str, changefeed: Changefeed) -> None:
    changefeed.write(older, 1, 10, 4, 20)
    changefeed.write(newer, 1, 20, 4, 21)
    assert changefeed.once(10).exit_code == 0
    assert changefeed.value == "20"
