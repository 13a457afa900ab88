"""Statements that the target refuses: never taken for done, tried again by every run, from the state as it is then."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.app import parts as app_parts
from consumer.app.parts import sink_of
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult
from consumer.sink import sink_for
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.every_target import Target
from tests.support.feed import Feed, MemoryReplica, Replica
from tests.support.observers import Recorder


def setup(feed: Feed, target: Target) -> None:
    """The target has a table d.b of somebody's, and upstream renames d.a to d.b."""
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "1")})
    feed.create("d.mine", 12)
    feed.puts("d.mine", 12, {13: (9, "9")})
    assert target.once(20).exit_code == 0
    target.rename("d.mine", "d.b")
    feed.rename("d.a", "d.b", 30)
    feed.puts("d.b", 30, {35: (2, "2")})


def once(target: Target, checkpoint: int) -> tuple[int, str]:
    result: RunResult = target.once(checkpoint)
    return result.exit_code, result.tables[TableName("d", "b")].state


def test_a_rename_onto_a_taken_name_is_refused_until_the_name_is_free(feed: Feed, target: Target) -> None:
    setup(feed, target)
    for checkpoint in (40, 50, 60):
        assert once(target, checkpoint) == (5, "stopped")
        assert target.tables == {"d.a": {1: "1"}, "d.b": {9: "9"}}
    target.rename("d.b", "d.mine")
    assert once(target, 70) == (0, "ok")
    assert target.tables == {"d.b": {1: "1", 2: "2"}, "d.mine": {9: "9"}}


def test_a_refused_statement_that_was_seen_to_by_hand_is_skipped(feed: Feed, target: Target) -> None:
    setup(feed, target)
    hint = target.once(40).tables[TableName("d", "b")].hint
    if not isinstance(target.replica, MemoryReplica):
        assert (
            "do by hand what the statement means and then: storage-consumer skip-ddl --table d.b --version 30" in hint
        )
    target.rename("d.b", "d.mine")
    target.rename("d.a", "d.b")
    app.skip_ddl(target.replica.settings(), Recorder(), TableName("d", "b"), 30, "by hand")
    assert once(target, 50) == (0, "ok")
    assert target.tables == {"d.b": {1: "1", 2: "2"}, "d.mine": {9: "9"}}


def test_statements_behind_a_refused_one_of_the_same_call_wait_for_it(feed: Feed, tmp_path: Path) -> None:
    """The second of three ALTERs, which follow one another without rows, stops the table at its own version."""
    name, url = TableName("d", "t"), f"duckdb:///{tmp_path}/replica.duckdb"
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "300")})
    narrow, new = Column("v", "TINYINT"), (Column("a", "INT"), Column("b", "INT"))
    feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `a` INT", (ID, VALUE, new[0]))
    feed.statement("d.t", 30, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` TINYINT", (ID, narrow, new[0]))
    feed.statement("d.t", 40, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `b` INT", (ID, narrow, *new))
    replica = Replica(feed, url)
    for checkpoint in (50, 60):
        result = replica.once(checkpoint)
        assert (result.exit_code, result.tables[name].version, result.tables[name].watermark) == (5, 30, 30)
        with closing(sink_of(replica.settings())) as sink:
            assert sink.progress().table(name).applied_ts == 30


def test_a_refused_statement_follows_the_policy_of_the_next_run(feed: Feed, target: Target) -> None:
    setup(feed, target)
    assert once(target, 40) == (5, "stopped")
    rules = [{"action": "fail", "kinds": ["rename-table"], "tables": ["*.*"]}]
    result = target.once(50, ddl={"rules": rules})
    assert "the policy for rename-table is fail" in result.tables[TableName("d", "b")].error
    target.rename("d.b", "d.mine")
    assert once(target, 60) == (0, "ok")
    assert target.tables == {"d.b": {1: "1", 2: "2"}, "d.mine": {9: "9"}}


def test_a_refused_statement_stays_refused_wherever_the_runs_die(
    feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup(feed, target)
    feed.checkpoint(40)
    fuse, real = Fuse(), sink_for
    monkeypatch.setattr(app_parts, "sink_for", lambda *given, **named: CrashingSink(real(*given, **named), fuse))
    died = 0
    for moment in itertools.count():
        fuse = Fuse(moment)
        try:
            result = app.once(target.replica.settings(), Recorder(), CrashingLoader(fuse))
        except Crash:
            died += 1
            assert target.tables == {"d.a": {1: "1"}, "d.b": {9: "9"}}
            continue
        break
    monkeypatch.undo()
    assert died > 3
    assert (result.exit_code, result.tables[TableName("d", "b")].state) == (5, "stopped")
    assert target.tables == {"d.a": {1: "1"}, "d.b": {9: "9"}}
    target.rename("d.b", "d.mine")
    assert once(target, 50) == (0, "ok")
    assert target.tables == {"d.b": {1: "1", 2: "2"}, "d.mine": {9: "9"}}


def test_a_refused_drop_does_not_leave_out_what_it_would_have_overtaken(
    feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a stopped table waited with is given up in the same breath as the DROP runs, and not before."""
    feed.create("d.a", 10)
    broken = feed.damaged("d.a", 10)
    feed.statement("d.a", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT 'x'")
    assert target.once(20).exit_code == 3
    feed.drop("d.a", 30)
    rules: Any = {"rules": [{"action": "fail", "kinds": ["drop-table"], "tables": ["*.*"]}]}
    assert target.once(40, ddl=rules).exit_code in (3, 5)
    broken.write_bytes(feed._line("d.a", 11, 1, "1"))
    assert target.once(40, ddl=rules).exit_code == 5
    assert target.tables == {"d.a": {1: "1"}}
    assert target.once(50).exit_code == 0
    assert target.tables == {}
