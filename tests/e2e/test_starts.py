"""Tables that begin at a moment of their own: --start-ts RULE=MOMENT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from consumer import app
from consumer.errors import BadConfig, CheckpointBehind, ConsumerError
from consumer.model.actions import Action
from consumer.model.names import TableName
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.observers import Recorder

T = TableName("d", "t")
ALL, ONLY_A = ("*.*",), ("d.a",)


@pytest.fixture
def replica(tmp_path: Path) -> MemoryReplica:
    """Upstream: d.a from 2 on; d.t with the row 1 (at 11), altered at 15, the rows 2 (at 21) and 3 (at 35)."""
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.a", 2)
    feed.puts("d.a", 2, {3: (1, "a")})
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "old")})
    feed.statement("d.t", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
    feed.puts("d.t", 15, {21: (2, "between"), 35: (3, "new")})
    return MemoryReplica(feed)


def statements(replica: MemoryReplica) -> list[str]:
    return [row.statement for row in replica.seen.steps if row.step == "ddl"]


def test_a_table_let_in_later_begins_at_its_snapshot(replica: MemoryReplica) -> None:
    assert replica.once(30, tables=ONLY_A).exit_code == 0
    replica.holds("d.t", (1, "from the snapshot"))
    replica.feed.puts("d.a", 2, {38: (2, "b")})
    replica.feed.checkpoint(40)
    flags = {"tables": ALL, "start_ts": ("d.t=20",)}
    planned = app.plan(replica.settings(**flags), Recorder())
    loads = {str(step.table): (step.kind, step.from_ts) for step in planned.steps}
    assert loads == {"d.a": ("load", 30), "d.t": ("load", 20)}
    assert "d.t begins at --start-ts 20: the target must have it as upstream had it then" in planned.notes
    assert replica.once(**flags).exit_code == 0
    assert statements(replica) == []
    assert replica.tables == {
        "d.a": {1: "a", 2: "b"},
        "d.t": {1: "from the snapshot", 2: "between", 3: "new"},
    }
    assert replica.sink.progress().starts == {T: 20}
    assert replica.once(50, tables=ALL).exit_code == 0
    assert replica.once(60, **flags).exit_code == 0
    with pytest.raises(BadConfig, match=r"d\.t: it began at --start-ts 20, and 21 is another moment") as caught:
        replica.once(60, tables=ALL, start_ts=("d.t=21",))
    assert "leave out what --start-ts says of it to continue" in caught.value.hint
    assert replica.once(70, tables=ONLY_A).exit_code == 0
    assert replica.once(80, **flags).exit_code == 0, "left out for a while"


def test_a_first_run_with_some_tables_of_a_snapshot(replica: MemoryReplica) -> None:
    replica.holds("d.t", (1, "from the snapshot"))
    assert replica.once(40, start_ts=("d.t=20",)).exit_code == 0
    assert replica.tables == {"d.a": {1: "a"}, "d.t": {1: "from the snapshot", 2: "between", 3: "new"}}
    replica.feed.create("d.new", 45)
    assert replica.once(50, start_ts=("d.t=20",)).exit_code == 0


def test_later_tables_of_a_pattern_begin_with_their_create(replica: MemoryReplica) -> None:
    replica.holds("d.t", (1, "s"))
    replica.holds("d.a", (1, "s"))
    for flags, end in (("d.*=20", 40), ("d.*=now", 60)):
        replica.feed.create(f"d.n{end}", end - 5)
        replica.feed.puts(f"d.n{end}", end - 5, {end - 4: (1, "n")})
        assert replica.once(end, start_ts=(flags,)).exit_code == 0
        assert replica.tables[f"d.n{end}"] == {1: "n"}
    assert replica.tables["d.t"] == {1: "s", 2: "between", 3: "new"}
    assert replica.sink.progress().starts == {T: 20, TableName("d", "a"): 20}


def test_now_is_the_checkpoint(replica: MemoryReplica) -> None:
    assert replica.once(30, tables=ONLY_A).exit_code == 0
    replica.holds("d.t", (2, "by hand"))
    assert replica.once(32, tables=ALL, start_ts=("d.t=now",)).exit_code == 0
    assert replica.tables["d.t"] == {2: "by hand"}
    assert replica.sink.progress().starts == {T: 32}
    assert replica.once(40, tables=ALL, start_ts=("d.t=now",)).exit_code == 0
    assert replica.tables["d.t"] == {2: "by hand", 3: "new"}


def test_a_table_that_has_begun_is_refused(replica: MemoryReplica) -> None:
    assert replica.once(30).exit_code == 0
    with pytest.raises(BadConfig, match=r"d\.t: it began without a --start-ts of its own, and 20 is another"):
        replica.once(40, start_ts=("d.t=20",))
    assert replica.once(40, start_ts=("d.t=now",)).exit_code == 0, "now is for tables that are new"
    assert replica.sink.progress().starts == {}


def test_a_table_that_was_left_out_can_come_back_from_a_snapshot(replica: MemoryReplica) -> None:
    assert replica.once(12).exit_code == 0
    assert replica.once(14, tables=ONLY_A).exit_code == 0
    replica.holds("d.t", (1, "s"), (2, "s"))
    with pytest.raises(BadConfig, match=r"and is complete up to 1\d, and 11 is another moment"):
        replica.once(30, start_ts=("d.t=11",))
    assert replica.once(40, start_ts=("d.t=30",)).exit_code == 0
    assert replica.tables["d.t"] == {1: "s", 2: "s", 3: "new"}
    assert statements(replica) == []


def test_a_table_that_the_target_lacks_stops_and_can_begin_elsewhere(replica: MemoryReplica) -> None:
    result = replica.once(25, start_ts=("d.t=20",))
    assert states(result) == {"d.a": "ok", "d.t": "stopped"}
    assert (
        "the target has no table d.t, although --start-ts or an export declared that it holds it as of 20"
        in result.tables[T].error
    )
    replica.holds("d.t", (1, "s"))
    assert replica.once(40, start_ts=("d.t=12",)).exit_code == 0
    assert replica.tables["d.t"] == {1: "s", 2: "between", 3: "new"}
    assert statements(replica) == ["ALTER TABLE `t` COMMENT 'x'"]


def test_a_table_without_rows_that_the_target_lacks_stops_too(replica: MemoryReplica) -> None:
    result = replica.once(40, start_ts=("d.t=38",))
    assert (result.exit_code, states(result)["d.t"]) == (3, "stopped")


def test_former_tables_of_the_name_are_not_made(replica: MemoryReplica) -> None:
    feed = replica.feed
    feed.drop("d.t", 41)
    feed.create("d.t", 42)
    feed.puts("d.t", 42, {43: (9, "second"), 55: (10, "later")})
    replica.holds("d.t", (9, "s"))
    assert replica.once(60, start_ts=("d.t=50",)).exit_code == 0
    assert replica.tables["d.t"] == {9: "s", 10: "later"}


@pytest.mark.parametrize("followed", [False, True], ids=["never followed", "followed before"])
def test_a_former_table_of_the_name_that_had_another_one_first(replica: MemoryReplica, followed: bool) -> None:
    """It is not made, and goes where the target has it."""
    if followed:
        assert replica.once(30).exit_code == 0
        assert replica.once(31, tables=ONLY_A).exit_code == 0
    feed = replica.feed
    feed.rename("d.t", "d.u", 41)
    feed.drop("d.u", 42)
    feed.create("d.u", 43)
    feed.puts("d.u", 43, {44: (9, "second"), 55: (10, "later")})
    replica.holds("d.u", (9, "s"))
    assert replica.once(60, start_ts=("d.u=50",)).exit_code == 0
    assert replica.tables == {"d.a": {1: "a"}, "d.u": {9: "s", 10: "later"}}


def test_what_the_target_has_of_a_table_that_is_left_out_stays(replica: MemoryReplica) -> None:
    assert replica.once(30).exit_code == 0
    assert replica.once(31, tables=ONLY_A).exit_code == 0
    replica.feed.rename("d.t", "d.u", 41)
    replica.holds("d.u", (1, "s"))
    with pytest.raises(BadConfig, match=r"former state of it as d\.t, which would have to be dropped"):
        replica.once(60, tables=("d.u", "d.a"), start_ts=("d.u=50",))


def test_a_table_with_another_name_before(replica: MemoryReplica) -> None:
    feed = replica.feed
    feed.rename("d.t", "d.u", 41)
    feed.puts("d.u", 41, {45: (4, "u"), 55: (5, "u")})
    feed.create("d.t", 47)
    feed.puts("d.t", 47, {48: (1, "another")})
    replica.holds("d.u", (4, "s"))
    assert replica.once(60, start_ts=("d.u=50",)).exit_code == 0
    assert replica.tables == {"d.a": {1: "a"}, "d.t": {1: "another"}, "d.u": {4: "s", 5: "u"}}


def test_the_table_that_had_the_name_before_its_rename_is_not_the_one(replica: MemoryReplica) -> None:
    replica.feed.rename("d.t", "d.u", 41)
    assert replica.once(60, start_ts=("d.t=50",)).exit_code == 0
    assert replica.tables["d.u"] == {1: "old", 2: "between", 3: "new"}


def test_a_rename_behind_the_moment_runs(replica: MemoryReplica) -> None:
    replica.feed.rename("d.t", "d.u", 41)
    replica.feed.puts("d.u", 41, {45: (4, "u")})
    replica.holds("d.t", (1, "s"))
    assert replica.once(60, start_ts=("d.t=20",)).exit_code == 0
    assert replica.tables["d.u"] == {1: "s", 2: "between", 3: "new", 4: "u"}
    replica.feed.drop("d.u", 65)
    assert replica.once(70, start_ts=("d.t=20",)).exit_code == 0
    assert replica.tables == {"d.a": {1: "a"}}


def test_a_database_that_was_dropped_before(replica: MemoryReplica) -> None:
    feed = replica.feed
    feed.database("d", 41, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 42)
    feed.create("d.t", 43)
    feed.puts("d.t", 43, {44: (7, "x"), 55: (8, "y")})
    feed.create("d.a", 45)
    feed.puts("d.a", 45, {46: (3, "second")})
    replica.holds("d.t", (7, "s"))
    assert replica.once(60, start_ts=("d.t=50",)).exit_code == 0
    assert replica.tables == {"d.a": {3: "second"}, "d.t": {7: "s", 8: "y"}}


def test_a_database_whose_drop_would_take_others_too(replica: MemoryReplica) -> None:
    assert replica.once(30, tables=ONLY_A).exit_code == 0
    feed = replica.feed
    feed.database("d", 41, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 42)
    feed.create("d.t", 43)
    replica.holds("d.t", (7, "s"))
    with pytest.raises(BadConfig, match=r"after a DROP DATABASE that is still to run \(version 41\), which takes d\.a"):
        replica.once(60, tables=ALL, start_ts=("d.t=50",))
    assert replica.once(60, tables=("*.*", "!d.t")).exit_code == 0
    replica.holds("d.t", (7, "s"))
    replica.feed.puts("d.t", 43, {55: (8, "y")})
    assert replica.once(70, tables=ALL, start_ts=("d.t=50",)).exit_code == 0
    assert replica.tables == {"d.t": {7: "s", 8: "y"}}


LIKE = "CREATE TABLE `c` LIKE `t`"


def test_a_copy_of_what_the_target_has_no_more_is_refused(replica: MemoryReplica) -> None:
    replica.feed.statement("d.c", 12, Action.CREATE_TABLE, LIKE)
    replica.holds("d.t", (1, "s"))
    result = replica.once(40, start_ts=("d.t=20",))
    assert result.exit_code == 5
    assert (
        "d.t begins at --start-ts 20, so the target does not have it as it was before"
        in result.tables[TableName("d", "c")].error
    )
    assert replica.tables["d.t"] == {1: "s", 2: "between", 3: "new"}


EXCHANGE = "ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `d`.`a`"


def test_an_exchange_before_the_moment(replica: MemoryReplica) -> None:
    replica.feed.statement("d.t", 18, Action.EXCHANGE_PARTITION, EXCHANGE)
    replica.holds("d.t", (1, "s"))
    with pytest.raises(BadConfig, match=r"d\.a exchanged a partition with a table that begins after that") as caught:
        replica.once(40, start_ts=("d.t=20",))
    assert "give d.a a --start-ts of its own that is not below 18, or leave it out with --tables" in caught.value.hint
    assert replica.once(40, tables=("d.t",), start_ts=("d.t=20",)).exit_code == 0
    with pytest.raises(BadConfig, match="exchanged a partition"):
        replica.once(50, tables=ALL)
    replica.holds("d.a", (1, "s"))
    assert replica.once(50, tables=ALL, start_ts=("d.t=20", "d.a=20")).exit_code == 0


def test_an_exchange_of_the_other_table_is_refused(replica: MemoryReplica) -> None:
    text = EXCHANGE.replace("`t`", "`a`", 1).replace("`d`.`a`", "`d`.`t`")
    replica.feed.statement("d.a", 18, Action.EXCHANGE_PARTITION, text)
    replica.holds("d.t", (1, "s"))
    result = replica.once(40, start_ts=("d.t=20",))
    assert (result.exit_code, states(result)["d.a"]) == (5, "stopped")
    assert "d.t begins at --start-ts 20" in result.tables[TableName("d", "a")].error


def test_a_table_of_which_nothing_was_told_until_then(replica: MemoryReplica) -> None:
    assert replica.once(40).exit_code == 0
    replica.feed.describe("d.old", 45, (ID, VALUE))
    replica.feed.puts("d.old", 45, {46: (1, "in the snapshot"), 55: (2, "new")})
    replica.holds("d.old", (1, "s"))
    assert replica.once(60, start_ts=("d.old=50",)).exit_code == 0
    assert replica.tables["d.old"] == {1: "s", 2: "new"}


def test_a_moment_that_the_checkpoint_has_reached_by_the_next_run(replica: MemoryReplica) -> None:
    replica.holds("d.t", (1, "s"), (3, "s"))
    with pytest.raises(CheckpointBehind):
        replica.once(30, start_ts=("d.t=36",))
    replica.feed.truncate("d.t", 36)
    replica.feed.puts("d.t", 36, {37: (4, "later")})
    assert replica.once(60, start_ts=("d.t=36",)).exit_code == 0
    assert replica.tables["d.t"] == {1: "s", 3: "s", 4: "later"}


def test_rules_with_a_moment_for_all(replica: MemoryReplica) -> None:
    replica.holds("d.a", (1, "s"))
    replica.holds("d.t", (1, "s"))
    assert replica.once(40, start_ts=("5", "d.t=20")).exit_code == 0
    assert replica.tables == {"d.a": {1: "s"}, "d.t": {1: "s", 2: "between", 3: "new"}}
    with pytest.raises(BadConfig, match="all tables began at --start-ts 5, and 3 is before that"):
        replica.once(50, name="n", start_ts=("5", "d.a=3"))


def test_a_rule_without_an_effect_is_told(replica: MemoryReplica) -> None:
    def told(checkpoint: int, *rules: str, **flags: object) -> list[str]:
        replica.once(checkpoint, start_ts=rules, **flags)
        planned = app.plan(replica.settings(start_ts=rules, **flags), Recorder()).notes
        found = [note for note in replica.seen.notes if "--start-ts '" in note]
        assert found == [note for note in planned if "--start-ts '" in note]
        return found

    no_table = "--start-ts '{}' says nothing of any table of the storage that is selected"
    assert told(30, "d.mistyped=20", tables=ONLY_A) == [no_table.format("d.mistyped=20")]
    assert told(30, "d.t=20", tables=ONLY_A) == [no_table.format("d.t=20")], "left out"
    no_effect = "--start-ts '{}' has no effect: {} has begun already, or is another table than at that moment"
    assert told(31, "d.t=5", "d.a=now", tables=ALL) == [
        no_effect.format("d.a=now", "d.a"),
        no_effect.format("d.t=5", "d.t"),
    ]
    assert replica.tables["d.t"] == {1: "old", 2: "between"}, "from its CREATE TABLE on"
    assert told(32, "d.t=5", "d.*=now", tables=ALL) == [no_table.format("d.t=5")], "the last rule decides"
    replica.feed.create("d.u", 34)
    assert told(35, "d.u=33") == [no_effect.format("d.u=33", "d.u")]


def test_a_rule_that_had_its_effect_is_no_news(replica: MemoryReplica) -> None:
    replica.holds("d.t", (1, "s"))
    for checkpoint in (30, 40):
        replica.once(checkpoint, start_ts=("d.t=20", "d.a=now"))
        assert not [note for note in replica.seen.notes if "has no effect" in note]


@pytest.mark.parametrize("start", [("{}",), ("d.t={}",)], ids=["all tables", "one table"])
@pytest.mark.parametrize(("moment", "code", "words"), [("2999-01-01", 2, "in the future"), ("31", 4, "TiCDC is past")])
@pytest.mark.parametrize("command", [app.once, app.plan, app.backfill])
def test_a_moment_above_the_checkpoint_is_refused(
    command: Callable[..., object], moment: str, code: int, words: str, start: tuple[str, ...], replica: MemoryReplica
) -> None:
    """The rows up to it would never be read, and the table would look as if it were far ahead."""
    replica.feed.checkpoint(30)
    settings = replica.settings(start_ts=tuple(one.format(moment) for one in start), tz="UTC")
    with pytest.raises(ConsumerError, match=r"--start-ts is .*, above the storage's checkpoint") as caught:
        command(settings, Recorder())
    assert (caught.value.exit_code, words in f"{caught.value.message} {caught.value.hint}") == (code, True)
    assert replica.once(30, start_ts=tuple(one.format("20") for one in start), tz="UTC").exit_code in (0, 3)


def test_a_start_that_was_recorded_is_not_asked_again(replica: MemoryReplica) -> None:
    assert replica.once(30, start_ts=("20",)).exit_code in (0, 3)
    place = replica.sink.progress().applied_ts
    replica.once(19, start_ts=("20",))
    assert replica.sink.progress().applied_ts == place, "TiCDC set its checkpoint back"
