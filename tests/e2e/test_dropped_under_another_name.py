"""A stopped table that was renamed and then dropped upstream: log rotation behind a damaged file."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.model.actions import Action
from tests.support.crashes import once_through_crashes
from tests.support.every_target import Target
from tests.support.feed import Feed, states

KEPT: Any = {"ddl": {"rules": [{"action": "rename", "kinds": ["drop-table"], "tables": ["*.*"]}]}}


def rotated(feed: Feed) -> None:
    """d.a cannot be read to its end; it was renamed, a new d.a was made, and the old one dropped."""
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "1")})
    feed.damaged("d.a", 10)
    feed.statement("d.a", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT 'x'")
    feed.rename("d.a", "d.b", 20)
    feed.create("d.a", 25)
    feed.puts("d.a", 25, {26: (5, "5")})


def test_a_drop_ends_the_table_under_the_name_that_it_still_has(feed: Feed, target: Target) -> None:
    rotated(feed)
    assert states(target.once(28)) == {"d.a": "stopped", "d.b": "waits"}
    feed.drop("d.b", 30)
    result = target.once(40)
    assert (result.exit_code, states(result)["d.a"]) == (0, "ok")
    assert target.tables == {"d.a": {5: "5"}}
    feed.puts("d.a", 25, {45: (6, "6")})
    assert target.once(50).exit_code == 0
    assert target.tables == {"d.a": {5: "5", 6: "6"}}


def test_a_table_of_several_former_names(feed: Feed, target: Target) -> None:
    rotated(feed)
    feed.rename("d.b", "d.c", 27)
    feed.create("d.b", 28)
    feed.puts("d.b", 28, {29: (7, "7")})
    feed.drop("d.c", 30)
    assert target.once(40).exit_code == 0
    assert target.tables == {"d.a": {5: "5"}, "d.b": {7: "7"}}


def test_a_drop_waits_where_another_table_still_needs_the_old_one(feed: Feed, target: Target) -> None:
    feed.create("d.a", 10)
    broken = feed.damaged("d.a", 10)
    feed.statement("d.n", 15, Action.CREATE_TABLE, "CREATE TABLE `n` LIKE `a`")
    feed.rename("d.a", "d.b", 20)
    feed.drop("d.b", 30)
    assert states(target.once(40))["d.n"] == "waits"
    broken.write_bytes(feed._line("d.a", 12, 1, "1"))
    assert target.once(50).exit_code == 0
    assert target.tables == {"d.n": {}}


def test_a_new_table_of_its_old_name_can_wait_beside_the_drop(feed: Feed, target: Target) -> None:
    feed.create("d.a", 10)
    feed.damaged("d.a", 10)
    feed.create("d.c", 12)
    broken = feed.damaged("d.c", 12)
    feed.rename("d.a", "d.b", 20)
    feed.statement("d.a", 25, Action.CREATE_TABLE, "CREATE TABLE `a` LIKE `c`")
    feed.drop("d.b", 30)
    result = target.once(40)
    assert (result.exit_code, states(result)) == (3, {"d.a": "waits", "d.b": "dropped", "d.c": "stopped"})
    broken.write_bytes(feed._line("d.c", 13, 1, "1"))
    assert target.once(50).exit_code == 0
    assert target.tables == {"d.a": {}, "d.c": {1: "1"}}


def test_what_was_read_of_it_is_kept_where_the_policy_says_so(feed: Feed, target: Target) -> None:
    rotated(feed)
    feed.drop("d.b", 30)
    assert target.once(40, **KEPT).exit_code == 0
    assert {name: rows for name, rows in target.tables.items() if "__partial" not in name} == {"d.a": {5: "5"}}
    assert "d.__partial_30_b" in target.tables


@pytest.mark.parametrize("stride", [1, 3])
def test_wherever_the_runs_die_the_table_is_dropped_once(
    stride: int, feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    rotated(feed)
    feed.drop("d.b", 30)
    feed.checkpoint(40)
    assert once_through_crashes(target.replica.settings(), stride, monkeypatch).exit_code == 0
    assert target.tables == {"d.a": {5: "5"}}


def test_another_table_can_wait_for_the_name_behind_the_drop(feed: Feed, target: Target) -> None:
    feed.create("d.a", 10)
    feed.damaged("d.a", 10)
    feed.create("d.c", 12)
    broken = feed.damaged("d.c", 12)
    feed.rename("d.a", "d.b", 20)
    feed.drop("d.b", 30)
    feed.rename("d.c", "d.b", 35)
    for checkpoint in (40, 45):
        result = target.once(checkpoint)
        found = states(result)
        assert (result.exit_code, found["d.b"], found["d.c"]) == (3, "waits", "stopped")
    broken.write_bytes(feed._line("d.c", 14, 1, "1"))
    assert target.once(50).exit_code == 0
    assert target.tables == {"d.b": {1: "1"}}
