"""[consumer.ddl] on every target: what is kept, left alone or refused, whenever a run dies."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.app import parts as app_parts
from consumer.errors import WrongUpstream
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import DdlState
from consumer.results import Health
from consumer.sink import sink_for
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.every_target import Tables, Target
from tests.support.feed import Feed, MemoryReplica, Replica, with_two_rows
from tests.support.observers import Recorder

ADDED = Column("w", "INT")


def rules(action: str, *kinds: str, tables: str = "*.*") -> dict[str, Any]:
    return {"ddl": {"rules": [{"action": action, "kinds": list(kinds), "tables": [tables]}]}}


RENAME = rules("rename", "drop-table", "truncate-table", "drop-database")


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return with_two_rows(tmp_path / "cdc")


def flashback(feed: Feed, query: str, version: int, table: str = "d.t") -> None:
    feed.statement(table, version, Action.RECOVER_TABLE, query)


# rename


def test_what_is_dropped_or_truncated_is_kept_under_a_name_with_the_version(feed: Feed, target: Target) -> None:
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (3, "3")})
    feed.drop("d.t", 30)
    assert target.once(40, **RENAME).exit_code == 0
    assert target.tables == {"d.__trash_20_t": {1: "1", 2: "2"}, "d.__trash_30_t": {3: "3"}}
    assert any("d.t is kept as d.__trash_30_t" in note for note in target.replica.seen.notes)
    feed.create("d.t", 45)
    feed.puts("d.t", 45, {46: (4, "4")})
    assert target.once(50, **RENAME).exit_code == 0
    assert target.tables["d.t"] == {4: "4"}


def test_an_empty_table_leaves_no_trash_when_truncated(feed: Feed, target: Target) -> None:
    feed.create("d.u", 15)
    feed.truncate("d.u", 20)
    assert target.once(40, **RENAME).exit_code == 0
    assert target.tables == {"d.t": {1: "1", 2: "2"}, "d.u": {}}


def test_a_database_is_kept_with_all_of_its_tables(feed: Feed, target: Target) -> None:
    feed.create("d.u", 15)
    feed.puts("d.u", 15, {16: (7, "7")})
    feed.database("d", 20, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    feed.database("d", 30)
    feed.create("d.t", 31)
    assert target.once(40, **RENAME).exit_code == 0
    assert target.tables == {"__trash_20_d.t": {1: "1", 2: "2"}, "__trash_20_d.u": {7: "7"}, "d.t": {}}


def test_flashback_brings_a_dropped_table_back_from_the_trash(feed: Feed, target: Target) -> None:
    feed.drop("d.t", 20)
    flashback(feed, "FLASHBACK TABLE `T` TO `back`", 30, "d.back")
    feed.puts("d.back", 30, {31: (2, "22")})
    assert target.once(25, **RENAME).exit_code == 0
    assert target.once(40, **RENAME).exit_code == 0
    assert target.tables == {"d.back": {1: "1", 2: "22"}}


def test_recover_table_brings_back_what_an_earlier_round_dropped(feed: Feed, target: Target) -> None:
    feed.drop("d.t", 20)
    flashback(feed, "RECOVER TABLE `t`", 30)
    feed.puts("d.t", 30, {31: (3, "3")})
    assert target.once(40, **RENAME).exit_code == 0
    assert target.tables == {"d.t": {1: "1", 2: "2", 3: "3"}}


def test_a_truncated_table_comes_back_beside_the_new_one(feed: Feed, target: Target) -> None:
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (3, "3")})
    flashback(feed, "FLASHBACK TABLE `t` TO `old`", 30, "d.old")
    assert target.once(40, **RENAME).exit_code == 0
    assert target.tables == {"d.old": {1: "1", 2: "2"}, "d.t": {3: "3"}}


@pytest.mark.parametrize("dropped", [False, True])
def test_what_comes_after_a_refused_statement_is_planned_as_it_runs(dropped: bool, feed: Feed, target: Target) -> None:
    feed.drop("d.t", 20)
    flashback(feed, "RECOVER TABLE `t`", 30)
    feed.rename("d.t", "d.u", 40)
    feed.statement("d.u", 50, Action.ADD_INDEX, "ALTER TABLE `u` ADD INDEX `i`(`v`)")
    if dropped:
        feed.drop("d.u", 60)
    assert target.once(15).exit_code == 0
    feed.checkpoint(70)
    plan = app.plan(target.replica.settings(), Recorder())
    assert [(step.kind, step.to_ts) for step in plan.steps if step.kind == "ddl"] == [("ddl", 20)] + (
        [("ddl", 60)] if dropped else []
    )
    refused = next(step for step in plan.steps if step.to_ts == 30)
    assert refused.kind == "barrier"
    assert "did not keep it" in refused.waits_for
    assert refused.target is not None
    assert "did not keep it" in refused.target.error
    waiting = [step for step in plan.steps if step.kind == "barrier" and step.to_ts > 30]
    assert [step.to_ts for step in waiting] == ([] if dropped else [40, 50])
    assert all(step.target is None or not step.target.error for step in waiting)
    result = target.once(70)
    assert {row.table for row in plan.stopped} == {n for n, t in result.tables.items() if t.state == "stopped"}


@pytest.mark.parametrize("how", ["not kept", "by job", "incomplete"])
def test_a_table_that_the_target_did_not_keep_stops_by_name(how: str, feed: Feed, target: Target) -> None:
    if how == "incomplete":
        feed.damaged("d.t", 10)
    feed.drop("d.t", 20)
    flashback(feed, "RECOVER TABLE BY JOB 77" if how == "by job" else "RECOVER TABLE `t`", 30)
    result = target.once(40, **({} if how == "not kept" else RENAME))
    table = result.tables[TableName("d", "t")]
    assert (result.exit_code, table.state) == (5, "stopped")
    assert "the target did not keep it" in table.error
    assert "copy the table from upstream as of 30" in table.hint
    assert "skip-ddl --table d.t --version 30" in table.hint
    kept = {"not kept": [], "by job": ["d.__trash_20_t"], "incomplete": ["d.__partial_20_t"]}
    assert list(target.tables) == kept[how]
    if kept[how]:
        copied = target.tables[kept[how][0]]
        target.rename(kept[how][0], "d.t")
        app.skip_ddl(target.replica.settings(), Recorder(), TableName("d", "t"), 30, "copied")
        feed.puts("d.t", 30, {45: (4, "4")})
        assert target.once(50).exit_code == 0
        assert target.tables["d.t"] == copied | {4: "4"}


def test_a_truncate_that_a_resync_runs_again_leaves_the_first_trash_alone(feed: Feed, target: Target) -> None:
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (3, "3")})
    assert target.once(40, **RENAME).exit_code == 0
    result = app.resync(target.replica.settings(**RENAME), Recorder(), TableName("d", "t"), CrashingLoader(Fuse()))
    assert result.exit_code == 0
    assert target.tables == {"d.__trash_20_t": {1: "1", 2: "2"}, "d.t": {3: "3"}}


@pytest.mark.parametrize("kind", ["drop", "truncate"])
def test_a_foreign_table_under_the_trash_name_is_neither_lost_nor_taken_for_the_kept_one(
    kind: str, feed: Feed, target: Target
) -> None:
    feed.create("d.mine", 15)
    feed.puts("d.mine", 15, {16: (9, "9")})
    assert target.once(18, **RENAME).exit_code == 0
    target.rename("d.mine", "d.__trash_20_t")
    feed.drop("d.t", 20) if kind == "drop" else feed.truncate("d.t", 20)
    for checkpoint in (30, 40):
        result = target.once(checkpoint, **RENAME)
        table = result.tables[TableName("d", "t")]
        assert (result.exit_code, table.state) == (5, "stopped")
        assert "d.__trash_20_t" in table.error
        assert "rename or drop d.__trash_20_t" in table.hint
        assert target.tables == {"d.__trash_20_t": {9: "9"}, "d.t": {1: "1", 2: "2"}}
    target.rename("d.__trash_20_t", "d.mine")
    assert target.once(50, **RENAME).exit_code == 0
    empty: Tables = {} if kind == "drop" else {"d.t": {}}
    assert target.tables == {"d.__trash_20_t": {1: "1", 2: "2"}, "d.mine": {9: "9"}, **empty}


def test_a_run_that_dies_anywhere_ends_with_the_same_trash(
    feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (3, "3")})
    feed.drop("d.t", 30)
    flashback(feed, "FLASHBACK TABLE `t` TO `u`", 40, "d.u")
    feed.database("e", 41)
    feed.create("e.x", 42)
    feed.puts("e.x", 42, {43: (9, "9")})
    feed.database("e", 50, "DROP DATABASE `e`", Action.DROP_SCHEMA)
    feed.checkpoint(60)
    fuse, real = Fuse(), sink_for
    monkeypatch.setattr(app_parts, "sink_for", lambda *given, **named: CrashingSink(real(*given, **named), fuse))
    for moment in itertools.count(0, 3):
        # Every run gets a little further than the one before.
        fuse = Fuse(moment)
        try:
            result = app.once(target.replica.settings(**RENAME), Recorder(), CrashingLoader(fuse))
            break
        except Crash:
            continue
    assert [t.error for t in result.tables.values() if t.error] == []
    assert moment > 9
    assert target.tables == {"__trash_50_e.x": {9: "9"}, "d.__trash_20_t": {1: "1", 2: "2"}, "d.u": {3: "3"}}


# ignore


def test_an_ignored_statement_is_recorded_and_rows_go_on(feed: Feed, target: Target) -> None:
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (3, "3"), 22: (1, "11")})
    result = target.once(40, **rules("ignore", "truncate-table"))
    assert result.exit_code == 0
    assert target.tables == {"d.t": {1: "11", 2: "2", 3: "3"}}
    assert any("not executed, as the policy for truncate-table is ignore" in n for n in target.replica.seen.notes)
    again = target.once(50)
    assert (again.exit_code, target.tables["d.t"]) == (0, {1: "11", 2: "2", 3: "3"})


def test_the_name_of_a_table_whose_drop_was_ignored_is_not_used_again(feed: Feed, target: Target) -> None:
    feed.drop("d.t", 20)
    feed.create("d.t", 30)
    feed.puts("d.t", 30, {31: (5, "5")})
    drop = rules("ignore", "drop-table")
    result = target.once(40, **drop)
    assert (result.exit_code, result.tables[TableName("d", "t")].state) == (5, "stopped")
    both = rules("ignore", "drop-table", "create-table")
    result = target.once(50, **both)
    assert "holds rows" in result.tables[TableName("d", "t")].error
    assert "skip-ddl --table d.t --version 30" in result.tables[TableName("d", "t")].hint
    assert target.tables == {"d.t": {1: "1", 2: "2"}}
    app.skip_ddl(target.replica.settings(**both), Recorder(), TableName("d", "t"), 30, "its rows are upstream's")
    assert target.once(60, **both).exit_code == 0
    assert target.tables == {"d.t": {1: "1", 2: "2", 5: "5"}}


def test_rows_that_no_longer_fit_after_an_ignored_statement_stop_their_table(feed: Feed, target: Target) -> None:
    feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT", (ID, VALUE, ADDED))
    feed.puts("d.t", 20, {21: (3, "3")})
    ignoring = rules("ignore", "add-column", tables="d.t")
    result = target.once(40, **ignoring)
    assert (result.exit_code, result.tables[TableName("d", "t")].state) == (3, "stopped")
    assert target.tables == {"d.t": {1: "1", 2: "2"}}


# fail


def test_a_failing_statement_stops_its_table_and_names_both_ways_out(feed: Feed, target: Target) -> None:
    feed.create("d.u", 15)
    feed.puts("d.u", 15, {16: (7, "7"), 35: (8, "8")})
    feed.drop("d.t", 20)
    policy = rules("fail", "drop-table")
    result = target.once(40, **policy)
    table = result.tables[TableName("d", "t")]
    assert (result.exit_code, table.state) == (5, "stopped")
    assert "the policy for drop-table is fail: DROP TABLE `d`.`t`" in table.error
    assert "[consumer.ddl]" in table.hint
    assert "skip-ddl --table d.t --version 20" in table.hint
    assert target.tables == {"d.t": {1: "1", 2: "2"}, "d.u": {7: "7", 8: "8"}}
    assert target.once(50).exit_code == 0
    assert list(target.tables) == ["d.u"]


def test_a_failing_drop_does_not_heal_a_stopped_table(feed: Feed, tmp_path: Path) -> None:
    replica = MemoryReplica(feed)
    broken = feed.damaged("d.t", 10)
    feed.drop("d.t", 20)
    policy = rules("fail", "drop-table")
    assert replica.once(30, **policy).exit_code == 3
    broken.write_bytes(feed._line("d.t", 13, 3, "3"))
    assert replica.once(30, **policy).exit_code == 5
    assert replica.tables == {"d.t": {1: "1", 2: "2", 3: "3"}}
    assert {r.state for i, r in replica.sink.progress().ddls.items() if i.version == 20} <= {DdlState.REFUSED}


# plan


def test_plan_shows_each_statement_with_its_policy_and_what_would_run(feed: Feed, target: Target) -> None:
    feed.truncate("d.t", 20)
    feed.statement("d.t", 25, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
    feed.statement("d.v", 26, Action.CREATE_VIEW, "CREATE VIEW `v` AS SELECT 1")
    feed.drop("d.t", 30)
    feed.checkpoint(40)
    policy = {"ddl": {"rules": [*RENAME["ddl"]["rules"], *rules("ignore", "view")["ddl"]["rules"]]}}
    found = app.plan(target.replica.settings(**policy), Recorder())
    steps = {step.to_ts: step for step in found.steps if step.kind == "ddl"}
    assert {at: step.policy for at, step in steps.items()} == {
        1: "evolve", 10: "evolve", 20: "rename", 25: "evolve", 26: "ignore", 30: "rename"
    }  # fmt: skip
    assert steps[26].target is None
    for at in (1, 10, 20, 25, 30):
        shown = steps[at].target
        assert shown is not None
        assert not shown.error, shown
    assert "CREATE TABLE" in " ".join(steps[10].target.statements)  # type: ignore[union-attr]
    result = target.once(40, **policy)
    assert result.exit_code == 0


def test_plan_and_status_refuse_another_upstream(feed: Feed, target: Target, tmp_path: Path) -> None:
    target.once(40)
    other = Feed(tmp_path / "other")
    other.database("d", 1)
    other.checkpoint(9)
    elsewhere = Replica(other, target.replica._downstream)
    found = app.status(elsewhere.settings(), Recorder())
    with pytest.raises(WrongUpstream) as refused:
        app.plan(elsewhere.settings(), Recorder())
    assert (found.exit_code, found.code, found.error) == (5, refused.value.code, refused.value.sentence())
    assert (found.checkpoint_ts, found.unread, found.health(600)) == (None, None, Health.UNKNOWN)
    assert all(f"file://{tmp_path}/{name}" in (found.error or "") for name in ("cdc", "other"))


@pytest.mark.parametrize("checkpoints", [(70,), (21, 31, 41, 51, 70)])
def test_a_global_temporary_table_has_no_effect(checkpoints: tuple[int, ...], feed: Feed, target: Target) -> None:
    made = "CREATE GLOBAL TEMPORARY TABLE `{}` {}ON COMMIT DELETE ROWS"
    feed.statement("d.g", 20, Action.CREATE_TABLE, made.format("g", "(`id` INT PRIMARY KEY,`v` INT) "))
    feed.statement("d.g", 30, Action.ADD_INDEX, "ALTER TABLE `g` ADD INDEX `i`(`v`)")
    feed.truncate("d.g", 35)
    feed.rename("d.g", "d.h", 40)
    feed.statement("d.l", 45, Action.CREATE_TABLE, made.format("l", "LIKE `h` "))
    feed.statement("d.h", 50, Action.ADD_COLUMN, "ALTER TABLE `h` ADD COLUMN `w` INT")
    feed.drop("d.h", 60)
    feed.puts("d.t", 10, {61: (9, "9")})
    for checkpoint in checkpoints:
        result = target.once(checkpoint, **RENAME)
        assert (result.exit_code, list(target.tables)) == (0, ["d.t"])
        assert not app.status(target.replica.settings(), Recorder()).unwell
    assert target.tables["d.t"][9] == "9"
    checked = app.verify(target.replica.settings(), Recorder())
    assert [(check.table, check.error) for check in checked.tables] == [(TableName("d", "t"), None)]
