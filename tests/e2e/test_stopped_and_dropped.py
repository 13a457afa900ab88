"""Stopped, waiting, dropped and left-out tables over several runs, on the in-memory target."""

from __future__ import annotations

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import DdlKind
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica, states

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


def test_a_truncate_of_a_later_table_does_not_move_the_one_that_had_its_name(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.a", 10)
    broken = feed.damaged("d.a", 10)
    feed.statement("d.a", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT 'x'")
    feed.rename("d.a", "d.b", 20)
    feed.create("d.a", 25)
    feed.truncate("d.a", 30)
    assert states(replica.once(40)) == {"d.a": "stopped", "d.b": "waits"}
    broken.write_bytes(feed._line("d.a", 12, 1, "x"))
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"d.a": {}, "d.b": {1: "x"}}


def test_a_truncate_behind_a_copy_does_not_move_its_source(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 10)
    broken = feed.damaged("d.a", 10)
    feed.statement("d.a", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT 'x'")
    feed.statement("d.b", 20, Action.CREATE_TABLE, "CREATE TABLE `b` LIKE `a`")
    feed.truncate("d.a", 30)
    assert states(replica.once(40)) == {"d.a": "stopped", "d.b": "waits"}
    broken.write_bytes(feed._line("d.a", 12, 1, "x"))
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"d.a": {}, "d.b": {}}


def test_a_database_that_waited_stays_where_it_is_when_the_checkpoint_goes_back(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.a", 10)
    broken = feed.damaged("d.a", 10)
    feed.database("e", 2)
    feed.rename("d.a", "e.b", 20)
    feed.database("d", 23, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 24)
    feed.create("d.c", 25)
    feed.database("d", 30, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    assert states(replica.once(40))["d.a"] == "stopped"
    broken.write_bytes(feed._line("d.a", 12, 1, "x"))
    assert replica.once(26).exit_code == 0
    assert replica.tables == {"d.c": {}, "e.b": {1: "x"}}
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"e.b": {1: "x"}}


# What heals


def test_a_drop_does_not_heal_a_table_of_which_nobody_knows_what_was_renamed_to_it(
    feed: Feed, replica: MemoryReplica
) -> None:
    """The target would keep the table that upstream has no more, under its old name."""
    feed.create("d.a", 10)
    feed.create("e.a", 11)
    feed.statement("d.b", 20, Action.RENAME_TABLE, "ALTER TABLE `a` RENAME TO `d`.`b`")
    feed.drop("d.b", 30)
    for checkpoint in (25, 40):
        assert states(replica.once(checkpoint))["d.b"] == "stopped"
    assert replica.tables == {"d.a": {}, "e.a": {}}


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
    assert any("d.a: 1 file was never read" in note for note in replica.seen.notes)
    skipped = [d for d, record in replica.sink.progress().ddls.items() if record.kind is DdlKind.OVERTAKEN]
    # A truncated table keeps its definition, so earlier statements on it still run; a dropped one needs none of them.
    assert [ddl.version for ddl in skipped] == ([] if how == "truncate" else [15])
    assert comment.name.startswith("schema_15_")
    assert replica.once(50).exit_code == 0
    assert not [note for note in replica.seen.notes if "older than the progress" in note]


@pytest.mark.parametrize("stopped", [False, True])
def test_rows_behind_a_truncate_may_lie_in_an_older_folder(stopped: bool, feed: Feed, replica: MemoryReplica) -> None:
    """A column goes by a statement that TiCDC filtered out: the rows are written where the columns were so before."""
    wide = (ID, VALUE, Column("w", "INT"))
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {5: (1, "1")})
    feed.statement("d.t", 10, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT", wide)
    if stopped:
        feed.damaged("d.t", 10)
        assert states(replica.once(15)) == {"d.t": "stopped"}
    feed.statement("d.t", 20, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", wide)
    feed.puts("d.t", 2, {30: (3, "30")})
    assert states(replica.once(40)) == {"d.t": "ok"}
    assert replica.tables == {"d.t": {3: "30"}}


def test_a_damaged_file_that_may_hold_rows_behind_a_truncate_still_stops_its_table(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 2)
    broken = feed.damaged("d.t", 2)
    wide = (ID, VALUE, Column("w", "INT"))
    feed.statement("d.t", 10, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT", wide)
    feed.statement("d.t", 20, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", wide)
    result = replica.once(40)
    assert states(result) == {"d.t": "stopped"}
    assert broken.name in result.tables[TableName("d", "t")].error
    broken.write_bytes(feed._line("d.t", 5, 1, "1") + feed._line("d.t", 30, 3, "30"))
    assert states(replica.once(50)) == {"d.t": "ok"}
    assert replica.tables == {"d.t": {3: "30"}}


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
