"""Rounds that begin in unusual places: other checkpoints, other filters, tables and files that are not all there."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.target import DdlOutcome
from tests.support.feed import CREATE, Feed, MemoryReplica, states
from tests.support.memory.sink import MemorySink


def _refusing(action: Action, reason: str) -> Callable[[MemorySink, ApplyDdl], DdlOutcome]:
    real = MemorySink._apply

    def apply(self: MemorySink, step: ApplyDdl) -> DdlOutcome:
        return DdlOutcome(step, DdlRefused(reason)) if step.file.type == action else real(self, step)

    return apply


# Metadata that goes backwards, or is not there


def test_a_checkpoint_of_0_is_told_as_such(feed: Feed, replica: MemoryReplica) -> None:
    """It is no storage with nothing new."""
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    result = replica.once(0)
    assert (result.exit_code, replica.tables) == (0, {})
    assert "`metadata` has checkpoint-ts 0: of nothing in the storage is it known that it is complete" in " ".join(
        replica.seen.notes
    )


def test_metadata_that_goes_backwards_changes_nothing(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.drop("d.t", 30)
    feed.create("d.u", 12)
    feed.puts("d.u", 12, {13: (1, "x"), 35: (1, "y")})
    replica.once(40)
    before = replica.sink.progress()
    for checkpoint in (12, 25, 35):
        replica.once(checkpoint)
        assert replica.sink.progress() == before
        assert any("below what was applied" in note for note in replica.seen.notes)
    feed.puts("d.u", 12, {35: (1, "y"), 45: (1, "z")})
    replica.once(50)
    assert replica.tables == {"d.u": {1: "z"}}
    assert replica.place("d.t") == (30, "dropped")


def test_a_table_that_stopped_above_a_metadata_that_goes_backwards_is_still_stopped(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x"), 35: (2, "y")})
    feed.statement("d.t", 30, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
    with monkeypatch.context() as refusing:
        refusing.setattr(MemorySink, "_apply", _refusing(Action.MODIFY_TABLE_COMMENT, "no comments here"))
        stopped = replica.once(40)
    again = replica.once(20)
    for result, code in ((stopped, 5), (again, 3)):
        assert (result.exit_code, states(result)) == (code, {"d.t": "stopped"})
        assert result.tables[TableName("d", "t")].error == "d.t: no comments here"
    assert replica.once(40).exit_code == 0
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}


def test_without_metadata_everything_is_applied_and_the_place_stays(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    assert replica.once(checkpoint_ts="max").exit_code == 0
    assert replica.tables == {"d.t": {1: "x"}}
    feed.truncate("d.t", 20)
    feed.puts("d.t", 10, {12: (2, "x")})
    feed.puts("d.t", 20, {21: (3, "y")})
    replica.once(checkpoint_ts="max")
    assert replica.tables == {"d.t": {3: "y"}}
    feed.puts("d.t", 20, {22: (3, "z")})
    replica.once(30)
    assert replica.tables == {"d.t": {3: "z"}}
    assert replica.sink.progress().applied_ts == 30


DATES = ("2026-03-01", "2026-03-02", "2026-03-03")


@pytest.mark.parametrize("how", ["touched", "late", "gone"])
def test_without_metadata_older_rows_are_folded_with_all_that_were_read(
    how: str, feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 10)
    first = feed.puts("d.t", 10, {21: (1, "old"), 22: (2, "kept")}, date=DATES[1])
    second = feed.puts("d.t", 10, {31: (1, "new")}, date=DATES[2])
    assert replica.once(checkpoint_ts="max").exit_code == 0
    if how == "late":
        feed.puts("d.t", 10, {11: (1, "older"), 12: (3, "kept")}, date=DATES[0])
    else:
        os.utime(first, ns=(0, 0))
    if how == "gone":
        feed.puts("d.t", 10, {41: (4, "newer")}, date=DATES[2])
        second.unlink()
        stopped = replica.once(checkpoint_ts="max")
        assert states(stopped) == {"d.t": "stopped"}
        assert "put the files back" in stopped.tables[TableName("d", "t")].hint
        feed.puts("d.t", 10, {31: (1, "new")}, number=1, date=DATES[2])
    for _ in range(2):
        assert replica.once(checkpoint_ts="max").exit_code == 0
    more = {"touched": {}, "late": {3: "kept"}, "gone": {4: "newer"}}[how]
    assert replica.tables == {"d.t": {1: "new", 2: "kept", **more}}


def test_without_metadata_a_statement_that_comes_late_is_in_front_of_the_rows_behind_it(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {21: (1, "gone"), 31: (2, "kept")})
    replica.once(checkpoint_ts="max")
    feed.truncate("d.t", 30)
    for _ in range(2):
        assert replica.once(checkpoint_ts="max").exit_code == 0
        assert replica.tables == {"d.t": {2: "kept"}}


def test_without_metadata_rows_that_are_newer_than_all_others_are_read_alone(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {21: (1, "x")}, date=DATES[0])
    replica.once(checkpoint_ts="max")
    feed.puts("d.t", 10, {31: (2, "y")}, date=DATES[1])
    result = replica.once(checkpoint_ts="max")
    assert result.tables[TableName("d", "t")].changes == 1
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}


# The filter


def test_a_table_left_out_is_read_from_where_it_was_once_it_is_wanted(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "a")})
    feed.create("d.b", 12)
    feed.puts("d.b", 12, {13: (1, "b")})
    only_a = {"tables": ("d.a",)}
    replica.once(20, **only_a)
    assert replica.tables == {"d.a": {1: "a"}}
    feed.create("d.c", 25)
    feed.statement("d.a", 24, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT 'x'")
    assert states(replica.once(30, **only_a)) == {"d.a": "ok"}
    feed.puts("d.c", 25, {31: (1, "c")})
    replica.once(40, **only_a)
    assert replica.tables == {"d.a": {1: "a"}}
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"d.a": {1: "a"}, "d.b": {1: "b"}, "d.c": {1: "c"}}
    assert replica.place("d.b") is None


def test_a_barrier_does_not_read_a_table_that_is_left_out(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "a")})
    feed.statement("d.b", 20, Action.CREATE_TABLE, "CREATE TABLE `b` LIKE `a`")
    only_b = {"tables": ("d.b",)}
    replica.once(30, **only_b)
    assert "d.a" not in replica.tables
    assert replica.place("d.a") == (0, "excluded")
    replica.once(40)
    assert replica.tables == {"d.a": {1: "a"}, "d.b": {}}


def test_a_wanted_table_renamed_to_one_left_out_is_gone(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "a")})
    feed.rename("d.a", "d.b", 20)
    feed.puts("d.b", 20, {21: (2, "b")})
    replica.once(30, tables=("d.a",))
    assert "d.a" not in replica.tables
    assert replica.place("d.a") == (20, "dropped")
    replica.once(40)
    assert replica.tables == {"d.b": {1: "a", 2: "b"}}


@pytest.mark.parametrize("was_read_before", [False, True])
def test_a_table_that_is_renamed_into_the_filter_stops_as_its_rows_were_not_read(
    feed: Feed, replica: MemoryReplica, was_read_before: bool
) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "a")})
    feed.create("d.c", 12)
    if was_read_before:
        replica.once(13)
    feed.puts("d.a", 10, {14: (2, "a")})
    feed.rename("d.a", "d.b", 20)
    feed.puts("d.b", 20, {21: (3, "b")})
    feed.puts("d.c", 12, {22: (1, "c")})
    result = replica.once(30, tables=("d.b", "d.c"))
    assert result.exit_code == 5
    assert "the table rules leave out d.a" in str(result.tables[TableName("d", "b")].error)
    assert "d.b" not in replica.tables
    assert replica.tables["d.c"] == {1: "c"}
    assert replica.once(40).exit_code == 0
    assert replica.tables == {"d.b": {1: "a", 2: "a", 3: "b"}, "d.c": {1: "c"}}


@pytest.mark.parametrize("wanted", ["d.p", "d.x"])
def test_an_exchange_with_a_table_that_is_left_out_stops_as_its_rows_were_not_read(
    feed: Feed, replica: MemoryReplica, wanted: str
) -> None:
    ranges = " PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10))"
    feed.statement("d.p", 10, Action.CREATE_TABLE, CREATE.format("p") + ranges)
    feed.create("d.x", 11)
    replica.once(12)
    feed.puts("d.p", 10, {13: (1, "p")})
    feed.puts("d.x", 11, {14: (2, "x")})
    query = "ALTER TABLE `d`.`p` EXCHANGE PARTITION `p0` WITH TABLE `d`.`x`"
    feed.statement("d.p", 20, Action.EXCHANGE_PARTITION, query)
    result = replica.once(30, tables=(wanted,))
    assert result.exit_code == 5
    left_out = "d.x" if wanted == "d.p" else "d.p"
    assert f"the table rules leave out {left_out}" in str(result.tables[TableName(*wanted.split("."))].error)
    assert replica.place(left_out) == (12, "excluded")


def test_a_database_left_out_is_left_alone_and_found_later(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.database("e", 11)
    feed.create("e.t", 12)
    feed.puts("e.t", 12, {13: (1, "first life")})
    only_d = {"tables": ("d.*",)}
    replica.once(20, **only_d)
    feed.database("e", 21, "DROP DATABASE `e`", Action.DROP_SCHEMA)
    feed.database("e", 22)
    feed.create("e.t", 23)
    feed.puts("e.t", 23, {24: (2, "second life")})
    replica.once(30, **only_d)
    assert replica.tables == {"d.a": {}}
    assert replica.once(40).exit_code == 0
    assert replica.tables == {"d.a": {}, "e.t": {2: "second life"}}


# Tables older than the changefeed, missing files


def test_a_table_older_than_the_changefeed_begins_with_its_first_statement(feed: Feed, replica: MemoryReplica) -> None:
    feed.statement("d.t", 20, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
    feed.puts("d.t", 20, {21: (1, "x")})
    feed.statement("d.u", 22, Action.RENAME_TABLE, "RENAME TABLE `d`.`s` TO `d`.`u`")
    feed.puts("d.u", 22, {23: (1, "x")})
    replica.holds("d.t", (7, "before"))
    replica.holds("d.s", (8, "before"))
    result = replica.once(30)
    assert states(result) == {"d.s": "dropped", "d.t": "ok", "d.u": "ok"}
    assert replica.tables == {"d.t": {7: "before", 1: "x"}, "d.u": {8: "before", 1: "x"}}


def test_rows_with_no_schema_file_stop_their_table(feed: Feed, replica: MemoryReplica) -> None:
    feed.puts("d.t", 10, {11: (1, "x")})
    result = replica.once(20)
    assert result.tables[TableName("d", "t")].state == "stopped"
    assert "no schema file" in result.tables[TableName("d", "t")].error
    feed.describe("d.t", 10)
    replica.holds("d.t")
    assert replica.once(30).exit_code == 0
    assert replica.tables == {"d.t": {1: "x"}}


def test_a_folder_above_the_checkpoint_may_be_seen_before_its_schema_file(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.puts("d.t", 30, {31: (2, "y")})
    feed.puts("d.new", 40, {41: (1, "x")})
    assert states(replica.once(20)) == {"d.t": "ok"}
    feed.describe("d.t", 30)
    feed.create("d.new", 40)
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"d.new": {1: "x"}, "d.t": {1: "x", 2: "y"}}


def test_a_new_table_whose_first_file_is_missing_stops(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {12: (2, "x")}, number=2)
    result = replica.once(20)
    assert "file number 1 is missing" in result.tables[TableName("d", "t")].error
    assert result.exit_code == 5
    feed.puts("d.t", 10, {11: (1, "x")}, number=1)
    assert replica.once(30).exit_code == 0
    assert replica.tables == {"d.t": {1: "x", 2: "x"}}


# C == V


def test_a_statement_that_appears_a_round_later_at_the_old_checkpoint_runs(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    replica.once(20)
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (2, "y")})
    replica.once(30)
    assert replica.tables == {"d.t": {2: "y"}}


@pytest.mark.parametrize("both_at_once", [True, False])
def test_renames_of_one_version_wait_until_the_checkpoint_is_past_it(
    both_at_once: bool, feed: Feed, replica: MemoryReplica
) -> None:
    for name in ("d.a", "d.b"):
        feed.create(name, 10)
        feed.puts(name, 10, {11: (1, name)})
    feed.rename("d.b", "d.c", 20)
    if both_at_once:
        feed.rename("d.a", "d.b", 20)
    replica.once(20)
    assert replica.tables == {"d.a": {1: "d.a"}, "d.b": {1: "d.b"}}
    if not both_at_once:
        feed.rename("d.a", "d.b", 20)
    feed.puts("d.b", 20, {21: (2, "y")})
    replica.once(30)
    assert replica.tables == {"d.b": {1: "d.a", 2: "y"}, "d.c": {1: "d.b"}}


# Statements of a database


def test_a_refused_statement_of_a_database_stops_it_once(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.create("d.t", 10)
    feed.database("d", 20, "ALTER DATABASE `d` COLLATE = x", Action.MODIFY_SCHEMA_CHARSET)
    feed.puts("d.t", 10, {11: (1, "x"), 25: (2, "x")})
    feed.create("d.u", 30)
    monkeypatch.setattr(MemorySink, "_apply", _refusing(Action.MODIFY_SCHEMA_CHARSET, "no such collation"))
    for checkpoint in (40, 50):
        result = replica.once(checkpoint)
        assert states(result) == {"d": "stopped", "d.t": "ok", "d.u": "waits"}
        assert result.tables[TableName("d", "u")].error == (
            "waits for d: no such collation; held up until then:"
            " CREATE TABLE `u` (`id` INT PRIMARY KEY,`v` INT) (version 30)"
        )
        assert result.exit_code == 5
    assert replica.tables == {"d.t": {1: "x", 2: "x"}}
    feed.database("d", 60, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    assert replica.once(70).exit_code == 0
    assert replica.tables == {}


def test_a_database_made_again_has_the_tables_of_its_second_life_only(feed: Feed, replica: MemoryReplica) -> None:
    for name in ("d.a", "d.b"):
        feed.create(name, 10)
        feed.puts(name, 10, {11: (1, "old"), 12: (2, "old")})
    feed.database("d", 20, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 21)
    feed.create("d.a", 22)
    feed.puts("d.a", 22, {23: (1, "new")})
    replica.once(30)
    assert replica.tables == {"d.a": {1: "new"}}
    assert replica.place("d.b") == (20, "dropped")
    feed.puts("d.b", 10, {12: (2, "old")})
    replica.once(40)
    assert replica.tables == {"d.a": {1: "new"}}


def test_a_broken_schema_file_is_forgiven_once_the_rows_began_anew(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.statement("d.t", 20, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'").write_bytes(b"{")
    feed.puts("d.t", 20, {21: (2, "y")})
    assert states(replica.once(30)) == {"d.t": "stopped"}
    feed.truncate("d.t", 40)
    feed.puts("d.t", 40, {41: (3, "z")})
    for checkpoint in (50, 60):
        assert replica.once(checkpoint).exit_code == 0
        assert replica.tables == {"d.t": {3: "z"}}
