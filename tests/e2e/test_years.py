"""Folders called 2024: years of a date-separator or ids of partitions, as the table's own statements say."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from consumer.app.inspect import inspect
from consumer.config.load import load
from consumer.config.settings import InspectSettings
from consumer.model.actions import Action
from consumer.results import InspectResult
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.observers import Recorder

PLAIN = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)"
HASHED = PLAIN + " PARTITION BY HASH (`id`) PARTITIONS 2"


def storage(folder: Path, create: str, *levels: str, table: str = "d.t", action: Action = Action.CREATE_TABLE) -> Feed:
    feed = Feed(folder)
    feed.database("d", 1)
    feed.statement(table, 2, action, create)
    for number, level in enumerate(levels):
        feed.puts(table, 2, {10 + number: (number, "1")}, date=level)
    feed.checkpoint(100)
    return feed


def look(feed: Feed) -> InspectResult:
    settings = load({"upstream_uri": f"file://{feed.folder}"}, {}, kind=InspectSettings).settings
    return inspect(settings, Recorder())


def sink(result: InspectResult) -> dict[str, object]:
    found: dict[str, object] = tomllib.loads(result.toml)["sink"]
    return found


def test_a_table_with_no_partitions_has_years(tmp_path: Path) -> None:
    result = look(storage(tmp_path, PLAIN, "2024", "2025"))
    assert sink(result)["date-separator"] == "year"
    assert "enable-partition-separator" not in sink(result)
    (table,) = result.tables
    assert (table.partitions, table.first_date, table.last_date) == (0, "2024", "2025")


@pytest.mark.parametrize(("create", "action"), [(HASHED, Action.CREATE_TABLE), ("", Action.NONE)])
def test_what_the_statements_do_not_tell_is_a_comment_and_a_finding(
    create: str, action: Action, tmp_path: Path
) -> None:
    result = look(storage(tmp_path, create, "2024", "2025", action=action))
    assert not {"date-separator", "enable-partition-separator"} & set(sink(result))
    assert '# date-separator = "none"' in result.toml
    assert any("2024" in finding for finding in result.findings)


def test_a_partition_that_can_be_no_year_proves_that_there_are_none(tmp_path: Path) -> None:
    result = look(storage(tmp_path, HASHED, "2024", "1040"))
    assert (sink(result)["date-separator"], sink(result)["enable-partition-separator"]) == ("none", True)


def test_years_behind_partitions_are_years(tmp_path: Path) -> None:
    result = look(storage(tmp_path, HASHED, "2100/2024", "2101/2024"))
    assert (sink(result)["date-separator"], sink(result)["enable-partition-separator"]) == ("year", True)


@pytest.mark.parametrize("given", [None, "year"])
def test_changes_of_two_years_end_as_upstream_or_stop(given: str | None, tmp_path: Path) -> None:
    """Rows with no time are ordered by their files: years that are taken for partitions have no order."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, PLAIN)
    for date, value in (("2024", 9), ("2025", 10)):
        feed.file("d.t", 2, f'"I","t","d",1,{value}\r\n'.encode(), extension="csv", date=date)
    feed.checkpoint(100)
    replica = MemoryReplica(feed)
    flags = {"date_separator": given} if given else {}
    result = replica.once(upstream_uri=f"file://{feed.folder}?protocol=csv", **flags)
    if states(result) == {"d.t": "ok"}:
        assert replica.tables == {"d.t": {1: "10"}}
    else:
        assert (given, result.exit_code) == (None, 3)
