"""A table with no key whose writer was moved under enable-table-across-nodes: stopped, or applied as told."""

from __future__ import annotations

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.support.canal_json import row_line
from tests.support.feed import Feed, MemoryReplica

LOG = (Column("v", "INT", nullable=True),)
FIRST, SECOND = "1" * 38, "2" * 38
"""Dispatcher ids."""


def write(feed: Feed, dispatcher: str, *rows: tuple[int, str], date: str = "") -> None:
    """A file of (commit-ts, v)."""
    lines = (row_line("INSERT", {"v": value}, commit_ts=ts, table="log", pkNames=None) for ts, value in rows)
    feed.file("d.log", 2, b"".join(line + b"\r\n" for line in lines), date=date, dispatcher=dispatcher)


@pytest.fixture
def moved(feed: Feed, replica: MemoryReplica) -> MemoryReplica:
    """The first writer was broken off within the transaction 12, the second began behind 10."""
    feed.statement("d.log", 2, Action.CREATE_TABLE, "CREATE TABLE `log` (`v` INT)", LOG)
    write(feed, FIRST, (10, "1"), (11, "1"), (11, "1"), (12, "1"))
    write(feed, SECOND, (11, "1"), (11, "1"), (12, "1"), (12, "2"), (13, "3"))
    return replica


def rows(replica: MemoryReplica) -> list[str | None]:
    return sorted(row["v"] or "" for row in replica.sink.rows(TableName("d", "log")))


def test_it_stops_and_goes_on_once_the_setting_that_the_hint_names_is_set(moved: MemoryReplica) -> None:
    result = moved.once(20)
    assert result.exit_code == 3
    (error,) = moved.seen.stopped.values()
    assert "two series of files hold the same row at commit-ts 11" in error.message
    assert "never-split = ['`d`.`log`']" in error.hint
    assert moved.once(20, never_split="`d`.`log`").exit_code == 0
    assert rows(moved) == ["1", "1", "1", "1", "2", "3"]


@pytest.mark.parametrize("rule", ["d.*", "*.lo?", "x.y,d.log"])
def test_rules_are_those_of_the_table_filter(moved: MemoryReplica, rule: str) -> None:
    assert moved.once(20, never_split=rule).exit_code == 0
    assert rows(moved) == ["1", "1", "1", "1", "2", "3"]


def test_of_another_table_it_says_nothing(moved: MemoryReplica) -> None:
    assert moved.once(20, never_split="d.*,!d.log").exit_code == 3


def test_rounds_may_end_anywhere(moved: MemoryReplica) -> None:
    for checkpoint in (10, 11, 12, 13, 20):
        assert moved.once(checkpoint, never_split="d.log").exit_code == 0
    assert rows(moved) == ["1", "1", "1", "1", "2", "3"]


def test_writers_side_by_side_prove_it_wrong(feed: Feed, moved: MemoryReplica) -> None:
    write(feed, FIRST, (13, "4"))
    assert moved.once(20, never_split="d.log").exit_code == 3
    (error,) = moved.seen.stopped.values()
    assert "wrote side by side" in error.message
    assert rows(moved) == []


@pytest.mark.parametrize("rounds", [(20,), (10, 11, 12, 13, 20)])
@pytest.mark.parametrize("dates", [("2026-03-04", "2026-03-05"), ("2026-03-05", "2026-03-04")])
def test_one_that_begins_again_under_another_date_is_no_second_one(
    dates: tuple[str, str], rounds: tuple[int, ...], feed: Feed, replica: MemoryReplica
) -> None:
    """The times of the files are those of a copy, and do not say which of the two days came first."""
    feed.statement("d.log", 2, Action.CREATE_TABLE, "CREATE TABLE `log` (`v` INT)", LOG)
    write(feed, "", (10, "1"), (11, "1"), (11, "1"), (12, "1"), date=dates[0])
    write(feed, "", (11, "1"), (11, "1"), (12, "1"), (13, "3"), date=dates[1])
    for checkpoint in rounds:
        assert replica.once(checkpoint).exit_code == 0
    assert rows(replica) == ["1", "1", "1", "1", "3"]
