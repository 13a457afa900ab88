"""Stopped, waiting, dropped and left-out tables over several runs, on the in-memory target."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.progress import DdlState
from consumer.model.result import RunResult
from consumer.model.steps import ApplyDdl
from consumer.ports import DdlOutcome
from consumer.sink.memory import MemorySink
from tests.support.feed import Feed, MemoryReplica


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    return feed


@pytest.fixture
def replica(feed: Feed) -> MemoryReplica:
    return MemoryReplica(feed)


def states(result: RunResult) -> dict[str, str]:
    return {str(name): table.state for name, table in result.tables.items()}


# What is stopped holds up its own barriers only, for as many rounds as it takes


def test_a_table_created_while_another_is_stopped_is_kept_up_to_date(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.damaged("d.a", 10)
    feed.truncate("d.b", 30)
    feed.create("d.b", 20)
    feed.statement("d.a", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT 'x'")
    feed.puts("d.b", 30, {31: (1, "x")})
    assert states(replica.once(40)) == {"d.a": "stopped", "d.b": "ok"}
    feed.create("d.c", 45)
    feed.puts("d.c", 45, {46: (1, "x")})
    assert states(replica.once(50)) == {"d.a": "stopped", "d.b": "ok", "d.c": "ok"}
    feed.puts("d.b", 30, {51: (2, "y")})
    feed.puts("d.c", 45, {52: (2, "y")})
    assert states(replica.once(60)) == {"d.a": "stopped", "d.b": "ok", "d.c": "ok"}
    assert replica.tables == {"d.a": {}, "d.b": {1: "x", 2: "y"}, "d.c": {1: "x", 2: "y"}}


def test_a_rename_waits_for_its_stopped_table_as_long_as_it_takes(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    broken = feed.damaged("d.a", 10)
    feed.rename("d.a", "d.b", 20)
    feed.puts("d.b", 20, {21: (2, "y")})
    for checkpoint in (30, 40, 50):
        result = replica.once(checkpoint)
        assert states(result) == {"d.a": "stopped", "d.b": "waits"}
        assert result.tables[TableName("d", "b")].error.startswith("waits for d.a: ")
        assert result.exit_code == 3
        assert replica.tables == {"d.a": {}}
    broken.write_bytes(feed._line("d.a", 12, 1, "x"))
    result = replica.once(60)
    assert result.exit_code == 0
    assert replica.tables == {"d.b": {1: "x", 2: "y"}}
    assert replica.place("d.a") == (20, "dropped")


def test_a_copy_waits_for_its_stopped_source(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    broken = feed.damaged("d.a", 10)
    feed.statement("d.b", 20, Action.CREATE_TABLE, "CREATE TABLE `b` LIKE `a`")
    feed.puts("d.b", 20, {21: (2, "y")})
    replica.once(30)
    assert states(replica.once(40)) == {"d.a": "stopped", "d.b": "waits"}
    broken.write_bytes(feed._line("d.a", 12, 1, "x"))
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"d.a": {1: "x"}, "d.b": {2: "y"}}


def test_dropping_a_database_waits_for_a_barrier_with_another_database(feed: Feed, replica: MemoryReplica) -> None:
    feed.database("e", 2)
    feed.create("e.x", 10)
    broken = feed.damaged("e.x", 10)
    feed.statement("d.c", 20, Action.CREATE_TABLE, "CREATE TABLE `c` LIKE `e`.`x`")
    feed.database("d", 30, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    for checkpoint in (40, 50):
        found = states(replica.once(checkpoint))
        assert found["e.x"] == "stopped"
        assert found["d.c"] == "waits"
    broken.write_bytes(feed._line("e.x", 12, 1, "x"))
    assert replica.once(60).exit_code == 0
    assert replica.tables == {"e.x": {1: "x"}}


# What heals


@pytest.mark.parametrize("how", ["drop", "truncate", "drop database"])
def test_a_statement_that_ends_the_rows_heals_a_stopped_table(how: str, feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.damaged("d.a", 10)
    comment = feed.statement("d.a", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT 'x'")
    assert states(replica.once(20)) == {"d.a": "stopped"}
    if how == "truncate":
        feed.truncate("d.a", 30)
        feed.puts("d.a", 30, {31: (1, "x")})
    else:
        if how == "drop":
            feed.drop("d.a", 30)
        else:
            feed.database("d", 30, "DROP DATABASE `d`", Action.DROP_SCHEMA)
            feed.database("d", 31)
        feed.create("d.a", 32)
        feed.puts("d.a", 32, {33: (1, "x")})
    result = replica.once(40)
    assert states(result) == {"d.a": "ok"}
    assert result.exit_code == 0
    assert result.tables[TableName("d", "a")].error == ""
    assert replica.tables == {"d.a": {1: "x"}}
    assert any("d.a: 1 files from before" in note for note in replica.seen.notes)
    skipped = [d for d, record in replica.sink.progress().ddls.items() if record.state is DdlState.SKIPPED]
    # A truncated table keeps its definition, so earlier statements on it still run; a dropped one needs none of them.
    assert [ddl.version for ddl in skipped] == ([] if how == "truncate" else [15])
    assert comment.name.startswith("schema_15_")
    assert replica.once(50).exit_code == 0
    assert not [note for note in replica.seen.notes if "older than the progress" in note]


def test_a_stopped_table_that_is_dropped_says_no_more_of_its_error(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.damaged("d.a", 10)
    replica.once(20)
    feed.drop("d.a", 30)
    result = replica.once(40)
    table = result.tables[TableName("d", "a")]
    assert (table.state, table.error, table.hint, result.exit_code) == ("dropped", "", "", 0)
    assert replica.tables == {}


def test_dropping_a_database_heals_a_renamed_table_in_it(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.damaged("d.a", 10)
    feed.rename("d.a", "d.b", 20)
    replica.once(25)
    feed.database("d", 30, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    assert replica.once(40).exit_code == 0
    assert replica.tables == {}


# What is dropped stays dropped


def test_rows_of_a_dropped_table_sent_again_do_not_bring_it_back(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.drop("d.t", 20)
    feed.create("d.s", 12)
    feed.damaged("d.s", 12)
    feed.statement("d.s", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `s` COMMENT 'x'")
    replica.once(30)
    feed.puts("d.t", 10, {11: (1, "x")})
    for checkpoint in (40, 50):
        assert "d.t" not in states(replica.once(checkpoint))
        assert "d.t" not in replica.tables
        assert replica.place("d.t") == (20, "dropped")


def test_a_name_used_again_does_not_get_the_rows_of_its_first_life(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "old"), 12: (2, "old")})
    feed.drop("d.t", 20)
    replica.once(25)
    feed.create("d.t", 30)
    feed.puts("d.t", 30, {12: (2, "old"), 31: (1, "new")})
    feed.puts("d.t", 10, {32: (3, "new")})
    replica.once(40)
    assert replica.tables == {"d.t": {1: "new", 3: "new"}}


def test_names_move_in_a_circle_through_a_third_one(feed: Feed, replica: MemoryReplica) -> None:
    for at, name in ((10, "d.a"), (11, "d.b")):
        feed.create(name, at)
        feed.puts(name, at, {at + 2: (1, name)})
    feed.rename("d.a", "d.x", 20)
    feed.rename("d.b", "d.a", 21)
    feed.rename("d.x", "d.b", 22)
    feed.puts("d.a", 21, {30: (2, "second a")})
    feed.puts("d.b", 22, {31: (2, "second b")})
    assert replica.once(40).exit_code == 0
    assert replica.tables == {"d.a": {1: "d.b", 2: "second a"}, "d.b": {1: "d.a", 2: "second b"}}


def test_a_table_renamed_away_and_back_keeps_all_of_its_rows(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "a")})
    feed.rename("d.a", "d.b", 20)
    feed.puts("d.b", 20, {21: (2, "b")})
    feed.rename("d.b", "d.a", 30)
    feed.puts("d.a", 30, {31: (3, "a")})
    replica.once(25)
    assert replica.tables == {"d.b": {1: "a", 2: "b"}}
    replica.once(40)
    assert replica.tables == {"d.a": {1: "a", 2: "b", 3: "a"}}
    feed.puts("d.b", 20, {21: (2, "b")})
    feed.puts("d.a", 10, {11: (1, "a")})
    replica.once(50)
    assert replica.tables == {"d.a": {1: "a", 2: "b", 3: "a"}}


# Metadata that goes backwards, or is not there


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
    result = replica.once(30)
    assert states(result) == {"d.s": "dropped", "d.t": "ok", "d.u": "ok"}
    assert replica.tables == {"d.t": {1: "x"}, "d.u": {1: "x"}}


def test_rows_with_no_schema_file_stop_their_table(feed: Feed, replica: MemoryReplica) -> None:
    feed.puts("d.t", 10, {11: (1, "x")})
    result = replica.once(20)
    assert result.tables[TableName("d", "t")].state == "stopped"
    assert "no schema file" in result.tables[TableName("d", "t")].error
    feed.describe("d.t", 10)
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
    real = MemorySink._apply

    def refuse(self: MemorySink, step: ApplyDdl) -> DdlOutcome:
        if step.file.type == Action.MODIFY_SCHEMA_CHARSET:
            return DdlOutcome(step, DdlRefused("no such collation"))
        return real(self, step)

    feed.create("d.t", 10)
    feed.database("d", 20, "ALTER DATABASE `d` COLLATE = x", Action.MODIFY_SCHEMA_CHARSET)
    feed.puts("d.t", 10, {11: (1, "x"), 25: (2, "x")})
    feed.create("d.u", 30)
    monkeypatch.setattr(MemorySink, "_apply", refuse)
    for checkpoint in (40, 50):
        result = replica.once(checkpoint)
        assert states(result) == {"d": "stopped", "d.t": "ok", "d.u": "waits"}
        assert result.tables[TableName("d", "u")].error == "waits for d: no such collation"
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
