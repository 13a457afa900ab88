"""A table that is loaded again is loaded beside the one that the target has: that one stays until all rows are there,
whatever stops the load, and whenever a run dies."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from consumer import app
from consumer.app import parts
from consumer.config.settings import Settings
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import is_parallel_load, is_resync
from consumer.results import RunResult
from consumer.sink import sink_for
from consumer.target import TargetOptions
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse, once_through_crashes
from tests.support.every_target import Tables, Target
from tests.support.feed import Feed, MemoryReplica, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "t")
WIDER = (ID, VALUE, Column("w", "INT"))


def resync(replica: Replica, **flags: object) -> RunResult:
    replica.seen = Recorder()
    return app.resync(replica.settings(**flags), replica.seen, T, InlineLoader())


def seen(target: Target) -> Tables:
    """What users read."""
    return {name: rows for name, rows in target.tables.items() if not is_parallel_load(TableName(*name.split(".")))}


def names(target: Target) -> list[str]:
    """The consumer names that the target holds progress of."""
    return list(parts.sink_of(target.replica.settings()).consumers())


def is_equal(target: Target) -> None:
    found = app.verify(target.replica.settings(), Recorder(), loader=InlineLoader())
    assert [(check.error, check.counted.differences) for check in found.tables] == [(None, 0)] * 2, found.tables


def dying_sink(fuse: Fuse, uri: str, options: TargetOptions) -> Any:
    return CrashingSink(sink_for(uri, options), fuse)


def life(feed: Feed) -> None:
    """Two rows, a TRUNCATE, three rows, a column."""
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 12: (2, "2")})
    feed.truncate("d.t", 15)
    feed.puts("d.t", 15, {16: (3, "3"), 17: (4, "4")})
    feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD `w` INT", WIDER)
    feed.create("d.other", 12)
    feed.puts("d.other", 12, {13: (9, "9")})


def test_a_load_that_stops_leaves_the_table_as_it_was(feed: Feed, target: Target) -> None:
    life(feed)
    file = feed.puts("d.t", 15, {18: (5, "5")})
    assert target.once(30).exit_code == 0
    before = seen(target)
    assert before["d.t"] == {3: "3", 4: "4", 5: "5"}
    good = file.read_bytes()
    # What is in memory takes any text.
    harm = b'"ix": "5"' if isinstance(target.replica, MemoryReplica) else b'"id": "x8"'
    file.write_bytes(good.replace(b'"id": "5"', harm))
    stopped = resync(target.replica)
    assert stopped.exit_code == 3
    assert "was not touched" in (stopped.tables[T].hint or "")
    assert "resync --table d.t" in (stopped.tables[T].hint or "")
    assert seen(target) == before
    # The replica goes on with it.
    feed.puts("d.t", 20, {31: (6, "6")})
    assert target.once(40).exit_code == 0
    assert seen(target)["d.t"] == {3: "3", 4: "4", 5: "5", 6: "6"}
    assert any(map(is_resync, names(target)))
    (loading,) = app.status(target.replica.settings(), Recorder()).resyncs
    assert (loading.table, loading.consumer) == (T, next(filter(is_resync, names(target))))
    assert stopped.tables[T].target_table == "", "it is the table that people know"
    file.write_bytes(good)
    feed.puts("d.t", 20, {41: (7, "7")})
    feed.checkpoint(50)
    assert resync(target.replica).exit_code == 0
    assert target.tables == {"d.t": {3: "3", 4: "4", 5: "5", 6: "6", 7: "7"}, "d.other": {9: "9"}}
    assert names(target) == ["default"]
    feed.puts("d.t", 20, {51: (3, "8")})
    assert target.once(60).exit_code == 0
    assert target.tables["d.t"] == {3: "8", 4: "4", 5: "5", 6: "6", 7: "7"}
    is_equal(target)


def test_killed_anywhere_the_table_is_whole_before_and_after(
    feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each moment it has the rows that it had, or those that were loaded."""
    life(feed)
    assert target.once(30).exit_code == 0
    before = seen(target)

    def run(settings: Settings, observer: Recorder, loader: InlineLoader) -> RunResult:
        there = seen(target)
        assert there == before or "d.t" not in there  # a server has no name between DROP and RENAME
        return app.resync(settings, observer, T, loader)

    with monkeypatch.context() as patched:
        assert once_through_crashes(target.replica.settings(), 1, patched, run).exit_code == 0
    assert target.tables == before
    assert names(target) == ["default"]
    feed.puts("d.t", 20, {31: (6, "6")})
    assert target.once(40).exit_code == 0
    assert target.tables["d.t"] == {3: "3", 4: "4", 6: "6"}
    is_equal(target)


def test_a_run_that_dies_anywhere_is_followed_by_a_round_of_the_replica(
    feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    life(feed)
    assert target.once(30).exit_code == 0
    rows, end = dict(seen(target)["d.t"]), 30

    for moment in range(200):
        fuse, result = Fuse(moment), None
        with monkeypatch.context() as patched, suppress(Crash):
            patched.setattr(parts, "sink_for", partial(dying_sink, fuse))
            result = app.resync(target.replica.settings(), Recorder(), T, CrashingLoader(fuse))
        rows[end], end = str(end), end + 2
        feed.puts("d.t", 20, {end - 1: (end - 2, str(end - 2))})
        assert target.once(end).exit_code == 0
        assert seen(target)["d.t"] == rows
        if result is not None:
            assert result.exit_code == 0
            break
    assert moment > 10
    is_equal(target)


def test_a_table_that_ends_while_it_is_loaded_again_ends_as_ever(feed: Feed, target: Target) -> None:
    """What was loaded beside it holds up nothing, and is not taken for the next table of the name."""
    life(feed)
    file = feed.puts("d.t", 15, {18: (5, "5")})
    assert target.once(30).exit_code == 0
    good = file.read_bytes()
    harm = b'"ix": "5"' if isinstance(target.replica, MemoryReplica) else b'"id": "x8"'
    file.write_bytes(good.replace(b'"id": "5"', harm))
    assert resync(target.replica).exit_code == 3
    assert any(map(is_resync, names(target)))
    feed.database("d", 35, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    ended = target.once(40)
    assert ended.exit_code == 0
    assert target.tables == {}
    assert names(target) == ["default"]
    feed.database("d", 45)
    feed.create("d.t", 46)
    feed.puts("d.t", 46, {47: (8, "8")})
    assert target.once(50).exit_code == 0
    assert resync(target.replica).exit_code == 0
    assert target.tables == {"d.t": {8: "8"}}
    assert names(target) == ["default"]


def test_a_table_that_is_gone_from_the_target_is_loaded_alone(feed: Feed, replica: MemoryReplica) -> None:
    """Also where a load beside it has begun."""
    life(feed)
    file = feed.puts("d.t", 15, {18: (5, "5")})
    assert replica.once(30).exit_code == 0
    good = file.read_bytes()
    file.write_bytes(good.replace(b'"id": "5"', b'"ix": "5"'))
    assert resync(replica).exit_code == 3
    file.write_bytes(good)
    del replica.sink._store.tables[T]
    assert resync(replica).exit_code == 0
    assert replica.tables == {"d.t": {3: "3", 4: "4", 5: "5"}, "d.other": {9: "9"}}
    assert list(replica.sink.consumers()) == ["default"]


def test_a_table_with_a_statement_that_a_person_did_is_emptied_first_and_that_is_said(
    feed: Feed, replica: MemoryReplica
) -> None:
    life(feed)
    odd = {"ddl": {"rules": [{"kinds": ["add-column"], "action": "fail"}]}}
    assert replica.once(30, **odd).exit_code == 5
    app.skip_ddl(replica.settings(), Recorder(), T, 20, "by hand")
    assert replica.once(40).exit_code == 0
    assert resync(replica).exit_code == 0
    assert any("is emptied before it is loaded again" in note for note in replica.seen.notes)
    assert replica.tables["d.t"] == {3: "3", 4: "4"}
