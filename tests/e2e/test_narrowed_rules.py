"""Table rules that leave out what they took before, and take it again: what happened in between is caught up."""

from __future__ import annotations

from consumer.model.actions import Action
from tests.support.feed import Feed, MemoryReplica

WITHOUT_D, ALL = ("other.*",), ("*.*",)


def test_a_database_that_was_dropped_in_between_goes_with_its_tables(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "first life")})
    feed.create("d.u", 12)
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.database("d", 20, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 21)
    feed.create("d.t", 25)
    feed.puts("d.t", 25, {26: (5, "second life")})
    assert replica.once(30, tables=WITHOUT_D).exit_code == 0
    assert replica.once(40, tables=ALL).exit_code == 0
    assert replica.tables == {"d.t": {5: "second life"}}


def test_rows_in_front_of_a_rename_away_from_a_database_that_was_dropped_then_are_read(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.database("e", 2)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "early")})
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.puts("d.t", 10, {16: (1, "late")})
    feed.rename("d.t", "e.t", 20)
    feed.database("d", 25, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 26)
    feed.create("d.t", 27)
    assert replica.once(30, tables=WITHOUT_D).exit_code == 0
    assert replica.once(40, tables=ALL).exit_code == 0
    assert replica.tables == {"d.t": {}, "e.t": {1: "late"}}
