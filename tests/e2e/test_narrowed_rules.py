"""Table rules that leave out what they took before, and take it again: what happened in between is caught up."""

from __future__ import annotations

import pytest

from consumer import app
from consumer.errors import BadConfig
from consumer.model.actions import Action
from tests.support.feed import Feed, MemoryReplica
from tests.support.observers import Recorder

WITHOUT_D, ALL = ("!*.*",), ("*.*",)


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


ONLY_C, WITHOUT_A = ("d.c",), ("*.*", "!d.a")


def test_a_database_goes_though_one_that_is_left_out_was_made_in_it_since(feed: Feed, replica: MemoryReplica) -> None:
    assert replica.once(3, tables=WITHOUT_D).exit_code == 0
    feed.create("d.c", 10)
    feed.puts("d.c", 10, {11: (1, "first life")})
    feed.database("d", 20, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 21)
    feed.create("d.a", 25)
    assert replica.once(30, tables=ONLY_C).exit_code == 0
    assert replica.tables == {}


def test_a_rename_that_is_not_due_yet_is_not_passed_over(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 5)
    feed.drop("d.a", 6)
    feed.create("d.b", 10)
    feed.puts("d.b", 10, {11: (1, "x")})
    assert replica.once(15, tables=("d.b",)).exit_code == 0
    feed.rename("d.b", "d.a", 20)
    assert replica.once(20, tables=ALL).exit_code == 0
    assert replica.once(30, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {1: "x"}}


def test_what_the_target_has_goes_as_it_went_upstream_under_names_that_are_new(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "x")})
    assert replica.once(15, tables=("d.a",)).exit_code == 0
    feed.rename("d.a", "d.c", 20)
    feed.puts("d.c", 20, {21: (1, "y")})
    feed.drop("d.c", 30)
    assert replica.once(18, tables=WITHOUT_D).exit_code == 0
    assert replica.once(40, tables=ALL).exit_code == 0
    assert replica.tables == {}


def test_what_is_left_of_a_table_whose_end_nobody_followed_goes(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "x")})
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.rename("d.a", "d.b", 20)
    feed.drop("d.b", 30)
    assert replica.once(40, tables=WITHOUT_A).exit_code == 0
    assert replica.tables == {"d.a": {1: "x"}}
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {}


def test_plan_shows_the_table_that_takes_the_name_of_what_is_left(feed: Feed, replica: MemoryReplica) -> None:
    """The target has the old one still, which a run drops first."""
    feed.create("d.b", 10)
    feed.puts("d.b", 10, {11: (1, "x")})
    replica.once(12)
    feed.rename("d.b", "d.c", 20)
    feed.drop("d.c", 21)
    replica.once(25, tables=WITHOUT_D)
    feed.create("d.b", 30)
    feed.checkpoint(31)
    planned = app.plan(replica.settings(tables=("d.b",)), Recorder())
    assert [(step.kind, str(step.table), step.to_ts) for step in planned.steps] == [("ddl", "d.b", 30)]
    assert [note for note in planned.notes if "d.b: the target's table is dropped first" in note]
    replica.once(31, tables=("d.b",))
    assert replica.tables["d.b"] == {}


def test_a_rename_onto_a_name_that_was_left_out_and_has_another_table_since(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.b", 10)
    feed.puts("d.b", 10, {11: (1, "x")})
    feed.rename("d.b", "d.a", 20)
    feed.puts("d.a", 20, {21: (2, "y")})
    assert replica.once(15, tables=("d.b",)).exit_code == 0
    feed.drop("d.a", 30)
    feed.create("d.a", 35)
    feed.puts("d.a", 35, {36: (3, "z")})
    assert replica.once(40, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {3: "z"}}


def test_a_table_that_is_gone_under_a_name_newly_let_in_is_not_made_under_its_first_name(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.b", 10)
    feed.create("d.other", 11)
    assert replica.once(15, tables=("*.*", "!d.b")).exit_code == 0
    feed.drop("d.b", 20)
    feed.create("d.a", 25)
    feed.rename("d.a", "d.b", 30)
    feed.drop("d.b", 35)
    feed.create("d.b", 40)
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {"d.b": {}, "d.other": {}}


def test_tables_from_before_a_drop_database_go_though_one_came_into_it_since(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.database("e", 2)
    feed.create("e.b", 10)
    feed.puts("e.b", 10, {11: (1, "first life")})
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.database("e", 25, "DROP DATABASE `e`", Action.DROP_SCHEMA)
    feed.database("e", 26)
    feed.create("d.a", 28)
    feed.puts("d.a", 28, {29: (2, "moves")})
    feed.rename("d.a", "e.a", 30)
    assert replica.once(40, tables=("d.*",)).exit_code == 0
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {"e.a": {2: "moves"}}


def test_what_was_executed_under_a_name_that_is_let_in_again_stays_known(feed: Feed, replica: MemoryReplica) -> None:
    feed.database("e", 2)
    feed.create("e.b", 10)
    feed.puts("e.b", 10, {11: (1, "x")})
    feed.rename("e.b", "d.a", 20)
    assert replica.once(25, tables=ALL).exit_code == 0
    feed.rename("d.a", "e.b", 30)
    feed.drop("e.b", 35)
    feed.create("e.b", 40)
    assert replica.once(42, tables=WITHOUT_D).exit_code == 0
    assert replica.once(45, tables=("e.*",)).exit_code == 0
    feed.create("d.a", 50)
    assert replica.once(60, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {}, "e.b": {}}


def test_a_refused_rename_onto_a_left_out_table_does_not_pass_over_its_rows(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.create("d.b", 12)
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.puts("d.a", 10, {21: (1, "late")})
    feed.rename("d.a", "d.c", 25)
    feed.rename("d.b", "d.a", 30)
    assert replica.once(40, tables=("d.b",)).exit_code == 5
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {}, "d.c": {1: "late"}}


def test_rules_that_no_table_meets_are_told(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.create("d.u", 11)
    assert replica.once(15, tables=("d.t",)).exit_code == 0
    assert not [note for note in replica.seen.notes if "--tables" in note]
    assert replica.once(15, tables=("*.*", "!d.*")).exit_code == 0
    assert [note for note in replica.seen.notes if "--tables" in note] == [
        "the table rules (--tables) include none of the storage's 2 tables: nothing is applied"
    ]
    with pytest.raises(BadConfig, match=r"--tables lets no table of the storage through; it has d\.t, d\.u"):
        replica.once(15, tables=("typo.*",))
