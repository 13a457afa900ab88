"""RENAMEs to and from tables that the table rules leave out for a time."""

from __future__ import annotations

import re

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.names import TableName
from consumer.model.progress import Progress, ProgressChange, TableProgress
from tests.support.crashes import Crash
from tests.support.feed import Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.observers import Recorder

ALL, ONLY_D, ONLY_E, NONE = ("*.*",), ("d.*",), ("e.*",), ("!*.*",)
NO_RENAMES = {"rules": [{"action": "fail", "kinds": ["rename-table"], "tables": ["*.*"]}]}


def drop_database(feed: Feed, name: str, version: int) -> None:
    feed.database(name, version, f"DROP DATABASE `{name}`", Action.DROP_SCHEMA)


def test_a_table_whose_rename_was_overtaken_while_it_was_left_out_goes(feed: Feed, replica: MemoryReplica) -> None:
    feed.database("e", 2)
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "x")})
    assert replica.once(15, tables=("d.a",)).exit_code == 0
    feed.rename("d.a", "d.b", 20)
    feed.rename("d.b", "e.a", 25)
    drop_database(feed, "e", 30)
    assert replica.once(40, tables=ONLY_E).exit_code == 0
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {}


def test_a_table_whose_rename_was_overtaken_by_its_drop_while_it_was_left_out_goes(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.database("e", 2)
    feed.create("d.a", 10)
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.rename("d.a", "e.a", 25)
    feed.drop("e.a", 30)
    assert replica.once(40, tables=ONLY_E).exit_code == 0
    assert replica.tables == {"d.a": {}}
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {}


def test_a_rename_to_a_left_out_name_leaves_what_nobody_read_under_that_name(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.database("e", 2)
    assert replica.once(5, tables=ONLY_D).exit_code == 0
    feed.create("e.a", 10)
    feed.drop("e.a", 12)
    feed.create("d.a", 15)
    feed.puts("d.a", 15, {16: (1, "x")})
    feed.rename("d.a", "e.a", 20)
    feed.puts("e.a", 20, {21: (2, "y")})
    feed.drop("e.a", 30)
    assert replica.once(25, tables=ONLY_D).exit_code == 0
    for moment in (40, 41):
        assert replica.once(moment, tables=ALL).exit_code == 0
        assert replica.tables == {}


def test_a_table_that_began_under_a_name_that_was_left_out_comes_back_once_that_is_free(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.database("e", 2)
    feed.create("e.a", 10)
    feed.puts("e.a", 10, {11: (1, "x")})
    feed.create("d.t", 15)
    feed.rename("e.a", "d.a", 20)
    feed.rename("d.t", "e.a", 25)
    assert replica.once(30, tables=ONLY_D).exit_code == 5
    feed.drop("e.a", 35)
    assert replica.once(40, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {1: "x"}}


def test_a_table_that_cannot_be_made_any_more_stops_and_follows_again_by_its_hint(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.database("e", 2)
    feed.create("e.a", 10)
    feed.puts("e.a", 10, {11: (1, "x")})
    feed.create("d.t", 15)
    feed.rename("e.a", "d.a", 20)
    feed.rename("d.t", "e.a", 25)
    assert replica.once(30, tables=ONLY_D).exit_code == 5
    feed.puts("d.a", 20, {36: (2, "y")})
    feed.puts("e.a", 25, {37: (3, "z")})
    stopped = replica.once(40, tables=ALL).tables
    assert {str(name) for name, table in stopped.items() if table.error} == {"d.a"}
    assert replica.tables == {"e.a": {3: "z"}}
    hint = str(stopped[TableName("d", "a")].hint)
    assert "take e.a too" not in hint
    told = re.search(r"as of (\d+) into the target, then: storage-consumer skip-ddl --table d.a --version \1", hint)
    assert told is not None
    replica.holds("d.a", (1, "x"))
    app.skip_ddl(replica.settings(tables=ALL), Recorder(), TableName("d", "a"), int(told[1]), "copied")
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {1: "x", 2: "y"}, "e.a": {3: "z"}}


def test_a_database_does_not_go_before_a_left_out_table_has_moved_out_of_it(feed: Feed, replica: MemoryReplica) -> None:
    feed.database("e", 2)
    feed.create("e.a", 10)
    feed.puts("e.a", 10, {11: (1, "x")})
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.rename("e.a", "d.a", 20)
    drop_database(feed, "e", 25)
    assert replica.once(30, tables=("d.*", "e.b")).exit_code == 5
    assert replica.once(40, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {1: "x"}}


def test_rows_in_front_of_a_rename_are_read_though_a_later_table_of_that_name_is_passed_over(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "early")})
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.puts("d.a", 10, {16: (1, "late")})
    feed.rename("d.a", "d.b", 20)
    feed.create("d.a", 25)
    feed.drop("d.a", 28)
    assert replica.once(30, tables=NONE).exit_code == 0
    assert replica.once(40, tables=ALL).exit_code == 0
    assert replica.tables == {"d.b": {1: "late"}}


def test_a_table_that_was_stopped_when_it_was_left_out_goes_with_its_database(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.a", 10)
    bad = feed.damaged("d.a", 10)
    feed.create("d.b", 12)
    assert replica.once(15, tables=ALL).exit_code == 3
    drop_database(feed, "d", 30)
    assert replica.once(40, tables=("d.b",)).exit_code == 0
    bad.unlink()
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {}


def test_a_table_that_went_with_the_database_of_its_old_name_is_told(feed: Feed, replica: MemoryReplica) -> None:
    feed.database("e", 2)
    feed.create("e.a", 10)
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.rename("e.a", "d.a", 20)
    drop_database(feed, "e", 25)
    assert replica.once(30, tables=("e.*", "!e.a")).exit_code == 0
    stopped = replica.once(40, tables=ALL).tables[TableName("d", "a")]
    assert "so the target has no such table" in str(stopped.error)
    assert "skip-ddl --table d.a --version 20" in str(stopped.hint)


def its_end_is_left_out(feed: Feed, replica: MemoryReplica) -> None:
    """The rules leave d.a out while it is renamed and dropped."""
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "x")})
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.rename("d.a", "d.b", 20)
    feed.drop("d.b", 30)
    assert replica.once(40, tables=("*.*", "!d.a")).exit_code == 0


def test_a_plan_says_why_a_table_goes(feed: Feed, replica: MemoryReplica) -> None:
    its_end_is_left_out(feed, replica)
    notes = app.plan(replica.settings(tables=ALL), Recorder()).notes
    told = (
        "d.a: the target's table is dropped first: the table no longer exists upstream, and the table rules excluded"
        " the statement that removed it"
    )
    assert told in notes


def test_what_is_left_of_a_table_stops_while_a_policy_keeps_it(feed: Feed, replica: MemoryReplica) -> None:
    its_end_is_left_out(feed, replica)
    for moment in (50, 51):
        kept = replica.once(moment, tables=ALL, ddl={"rules": [{"action": "fail", "kinds": ["drop-table"]}]})
        assert kept.exit_code == 5
        assert "the policy for drop-table keeps it in the target" in str(kept.tables[TableName("d", "a")].error)
        assert "set evolve for drop-table in [consumer.ddl]" in kept.tables[TableName("d", "a")].hint
    assert replica.once(60, tables=ALL).exit_code == 0
    assert replica.tables == {}


def test_a_table_whose_rename_was_passed_over_goes_before_another_gets_its_name(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.database("e", 2)
    feed.create("e.b", 5)
    feed.drop("e.b", 6)
    feed.create("d.b", 10)
    assert replica.once(15, tables=ONLY_D).exit_code == 0
    feed.create("e.a", 20)
    feed.rename("d.b", "e.b", 25)
    feed.rename("e.a", "d.b", 30)
    feed.puts("d.b", 30, {31: (1, "x")})
    drop_database(feed, "e", 35)
    assert replica.once(40, tables=ONLY_E).exit_code == 5
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {"d.b": {1: "x"}}


def test_a_database_that_was_dropped_before_it_was_given_a_table_keeps_that(feed: Feed, replica: MemoryReplica) -> None:
    feed.database("e", 2)
    feed.create("d.c", 10)
    assert replica.once(12, tables=ALL).exit_code == 0
    drop_database(feed, "d", 15)
    feed.database("d", 16)
    feed.create("e.a", 20)
    feed.puts("e.a", 20, {21: (1, "x")})
    feed.rename("e.a", "d.b", 25)
    assert replica.once(30, tables=ONLY_E).exit_code == 0
    feed.rename("d.b", "e.b", 35)
    drop_database(feed, "d", 40)
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {"e.b": {1: "x"}}


def another_keeps(replica: MemoryReplica, table: str) -> None:
    other = MemorySink(str(replica.sink._label), "second")
    other._store.owners[TableName("d", table)] = "second"
    other._store.progress["second"] = Progress("elsewhere").after(
        ProgressChange(tables={TableName("d", table): TableProgress(5)})
    )


def test_what_is_left_of_a_table_stays_where_another_consumer_keeps_it(feed: Feed, replica: MemoryReplica) -> None:
    its_end_is_left_out(feed, replica)
    another_keeps(replica, "a")
    assert not any("goes first" in note for note in app.plan(replica.settings(tables=ALL), Recorder()).notes)
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.tables == {"d.a": {1: "x"}}
    feed.create("d.a", 60)
    assert replica.once(70, tables=ALL).exit_code == 5
    assert replica.tables == {"d.a": {1: "x"}}


@pytest.mark.parametrize("kept", [False, True])
def test_a_run_that_died_before_it_emptied_a_table_is_taken_up(
    kept: bool, feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    its_end_is_left_out(feed, replica)

    def dies(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(MemorySink, "take" if kept else "empty_table", dies)
        with pytest.raises(Crash):
            replica.once(50, tables=ALL)
    assert replica.place("d.a") == (15, "emptying")
    if kept:
        another_keeps(replica, "a")
    assert replica.once(60, tables=ALL).exit_code == 0
    assert replica.tables == ({"d.a": {1: "x"}} if kept else {})


@pytest.mark.parametrize("second", [ALL, ("d.a",), ("d.b",), ("d.t",), NONE, ("*.*", "!d.t")])
@pytest.mark.parametrize("first", [ALL, ("d.a",), ("d.b",), NONE])
def test_three_renames_in_a_circle_while_the_rules_change(
    first: tuple[str, ...], second: tuple[str, ...], feed: Feed, replica: MemoryReplica
) -> None:
    assert replica.once(5, tables=first).exit_code == 0, "a first run with tables refuses rules that let none through"
    feed.create("d.a", 10)
    feed.create("d.b", 11)
    feed.puts("d.a", 10, {12: (1, "a")})
    feed.puts("d.b", 11, {13: (1, "b")})
    replica.once(15, tables=first)
    for version, (old, new) in enumerate((("d.a", "d.t"), ("d.b", "d.a"), ("d.t", "d.b")), 20):
        feed.rename(old, new, version)
    feed.puts("d.a", 21, {25: (2, "more")})
    replica.once(30, tables=second)
    result = replica.once(40, tables=ALL)
    truth = {"d.a": {1: "b", 2: "more"}, "d.b": {1: "a"}}
    for name in {*truth, *replica.tables} - {str(table) for table, one in result.tables.items() if one.error}:
        assert replica.tables.get(name) == truth.get(name), name
    if first == second == ALL:
        assert replica.tables == truth


def waits_under_its_old_name(feed: Feed, replica: MemoryReplica) -> None:
    """The target has e.a as it was before its RENAME; the next e.a was passed over."""
    feed.database("e", 2)
    feed.create("e.a", 10)
    feed.puts("e.a", 10, {11: (1, "1"), 12: (2, "2"), 13: (3, "3")})
    assert replica.once(15, tables=ALL).exit_code == 0
    feed.rename("e.a", "d.x", 20)
    feed.create("e.a", 30)
    feed.puts("e.a", 30, {31: (1, "100"), 32: (9, "9")})
    drop_database(feed, "e", 40)
    assert replica.once(45, tables=ONLY_D).exit_code == 5
    assert replica.once(46, tables=ALL, ddl=NO_RENAMES).exit_code == 5
    assert replica.tables == {"e.a": {1: "1", 2: "2", 3: "3"}}


def test_a_table_that_waits_for_its_rename_is_not_compared_with_the_next_one_of_its_name(
    feed: Feed, replica: MemoryReplica
) -> None:
    waits_under_its_old_name(feed, replica)
    for repairing in (Repairing(), Repairing(write=True)):
        settings = replica.settings(tables=ALL, ddl=NO_RENAMES)
        checks = app.verify(settings, Recorder(), loader=InlineLoader(), repairing=repairing).tables
        found = {str(check.table): check for check in checks}
        assert found.keys() == {"e.a", "d.x"}
        assert (found["e.a"].state, found["e.a"].counted.found) == ("equal", 3)
        assert "the target has no such table yet: its statement of version 20 waits" in str(found["d.x"].error)
        assert replica.tables == {"e.a": {1: "1", 2: "2", 3: "3"}}
    assert replica.once(47, tables=ALL).exit_code == 0
    assert replica.tables == {"d.x": {1: "1", 2: "2", 3: "3"}}


def test_a_table_that_waits_for_its_rename_is_loaded_again_as_itself(feed: Feed, replica: MemoryReplica) -> None:
    waits_under_its_old_name(feed, replica)
    found = app.resync(replica.settings(tables=ALL), Recorder(), TableName("e", "a"), InlineLoader())
    assert found.exit_code == 0
    assert replica.tables == {"d.x": {1: "1", 2: "2", 3: "3"}}
