"""A table that has another name in the target than upstream, in the words of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.names import TableName
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

A, U, D = TableName("d", "a"), TableName("e", "u"), TableName("d", "")


@pytest.fixture
def replica(tmp_path: Path) -> MemoryReplica:
    """Upstream's d.a is e.u; d.b and x.c have their own names."""
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.database("x", 2)
    for version, table in enumerate(("d.a", "d.b", "x.c"), 3):
        feed.create(table, version)
        feed.puts(table, version, {10 + version: (1, "one")})
    replica = MemoryReplica(feed)
    replica.routes = ("d.a -> e.u",)
    return replica


def test_a_statement_that_cannot_be_said_in_the_targets_names_stops_its_tables(replica: MemoryReplica) -> None:
    replica.feed.database("d", 40, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    replica.feed.puts("x.c", 5, {45: (2, "two")})
    result = replica.once(50)
    assert result.exit_code == 5
    assert states(result) == {"d": "stopped", "d.a": "stopped", "d.b": "stopped", "x.c": "ok"}
    assert "not all in d of the target, but in e too" in result.tables[A].error
    assert "DROP DATABASE `d`" in result.tables[A].error
    assert "storage-consumer skip-ddl --table d --version 40" in result.tables[A].hint
    assert replica.tables == {"d.b": {1: "one"}, "e.u": {1: "one"}, "x.c": {1: "one", 2: "two"}}
    for gone in (U, TableName("d", "b")):
        del replica.sink._store.tables[gone]
    app.skip_ddl(replica.settings(), Recorder(), D, 40, "by hand")
    assert replica.once(60).exit_code == 0
    assert replica.tables == {"x.c": {1: "one", 2: "two"}}


def test_a_table_that_was_dropped_by_hand_is_told_under_both_names_and_comes_back(replica: MemoryReplica) -> None:
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"d.b": {1: "one"}, "e.u": {1: "one"}, "x.c": {1: "one"}}
    checked = {
        str(table.table): table for table in app.verify(replica.settings(), Recorder(), loader=InlineLoader()).tables
    }
    assert {name: table.state for name, table in checked.items()} == dict.fromkeys(("d.a", "d.b", "x.c"), "equal")
    del replica.sink._store.tables[U]
    stopped = replica.once(60).tables[A]
    assert "the target has no table e.u (upstream's d.a)" in stopped.error
    assert "storage-consumer resync --table d.a" in stopped.hint
    assert app.resync(replica.settings(), Recorder(), A, InlineLoader()).exit_code == 0
    assert replica.tables["e.u"] == {1: "one"}


def test_the_plan_names_upstreams_table_and_shows_the_targets_statement(replica: MemoryReplica) -> None:
    replica.feed.statement("d.a", 20, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `a` COMMENT = 'a'")
    replica.feed.checkpoint(30)
    steps = [step for step in app.plan(replica.settings(), Recorder()).steps if step.from_ts == 20]
    assert [(step.table, step.statement) for step in steps] == [(A, "ALTER TABLE `a` COMMENT = 'a'")]
    assert steps[0].target is not None
    assert steps[0].target.statements == ("ALTER TABLE `e`.`u` COMMENT = 'a'",)
