"""The commands beside `once`, called in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from consumer import app
from consumer.errors import BadConfig, CannotBeExact, GapFound
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.progress import DdlKind
from consumer.results import RunResult
from tests.support.build import ID, VALUE
from tests.support.feed import ENDS, Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "t")
ADDED = Column("w", "INT", default="7")


def busy(feed: Feed) -> None:
    """Loads split by statements, a rename, a table that stops."""
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x"), 21: (2, "y"), 31: (3, "z"), 45: (9, "late")})
    feed.statement("d.t", 20, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
    feed.statement("d.t", 30, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'y'")
    feed.create("d.a", 12)
    feed.puts("d.a", 12, {13: (1, "x")})
    feed.rename("d.a", "d.b", 22)
    feed.puts("d.b", 22, {23: (1, "y")})
    feed.create("d.s", 14)
    feed.damaged("d.s", 14)
    feed.statement("d.c", 24, Action.CREATE_TABLE, "CREATE TABLE `c` LIKE `s`")
    feed.checkpoint(40)


# plan


def test_plan_changes_nothing_and_tells_what_then_happens(feed: Feed, replica: MemoryReplica) -> None:
    busy(feed)
    planned = app.plan(replica.settings(), Recorder())
    assert replica.tables == {}
    assert replica.sink.progress().applied_ts == 0
    assert planned.checkpoint_ts == 40
    replica.once()
    steps = [(step.kind, str(step.table), step.from_ts, step.to_ts) for step in planned.steps]
    done = [(row.step, str(row.table), row.from_ts, row.to_ts) for row in replica.seen.steps]
    assert [step for step in steps if step[0] != "barrier"] == done
    assert [step for step in steps if step[0] == "load" and step[1] == "d.t"] == [
        ("load", "d.t", 10, 20),
        ("load", "d.t", 20, 30),
        ("load", "d.t", 30, 40),
    ]
    waiting = [step for step in planned.steps if step.kind == "barrier"]
    assert [(str(step.table), step.waits_for.partition(":")[0]) for step in waiting] == [("d.c", "d.s")]
    assert any("d/s/14/" in row.error for row in planned.stopped)
    again = app.plan(replica.settings(), Recorder())
    assert [str(step.table) for step in again.steps] == ["d.c"]


# status


def test_status_tells_where_each_table_is(feed: Feed, replica: MemoryReplica) -> None:
    busy(feed)
    assert app.status(replica.settings(), Recorder()).target_upstream is None
    replica.once()
    feed.checkpoint(50)
    found = app.status(replica.settings(), Recorder())
    assert (found.applied_ts, found.checkpoint_ts) == (40, 50)
    tables = {str(table.table): (table.state, table.watermark) for table in found.tables}
    assert tables == {"d.a": ("dropped", 22), "d.c": ("waits", 0), "d.s": ("stopped", 14)}
    stopped = next(table for table in found.tables if table.state == "stopped")
    assert "d/s/14/" in stopped.error
    assert stopped.hint
    waits = next(table for table in found.tables if table.state == "waits")
    assert waits.error.startswith("waits for d.s: ")
    assert waits.error.endswith("; held up until then: CREATE TABLE `c` LIKE `s` (version 24)")


def test_status_works_without_the_storage(feed: Feed, replica: MemoryReplica) -> None:
    feed.checkpoint(5)
    replica.once()
    (feed.folder / "metadata").unlink()
    found = app.status(replica.settings(), Recorder())
    assert (found.applied_ts, found.checkpoint_ts) == (5, None)
    assert found.notes


# resync


def resync(replica: MemoryReplica, table: TableName = T, **flags: object) -> RunResult:
    return app.resync(replica.settings(**flags), Recorder(), table, InlineLoader())


def test_resync_loads_a_table_again_from_its_create(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 5)
    feed.puts("d.t", 5, {6: (9, "first life")})
    feed.drop("d.t", 8)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x"), 12: (2, "x")})
    feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 7", (ID, VALUE, ADDED))
    feed.create("d.u", 21)
    feed.puts("d.u", 21, {22: (1, "x")})
    replica.once(30)
    replica.sink.rows(T)[0]["v"] = "spoilt"
    replica.sink.rows(T).pop()
    feed.puts("d.u", 21, {31: (2, "y")})
    feed.checkpoint(40)
    result = resync(replica)
    assert result.exit_code == 0
    assert sorted(replica.sink.rows(T), key=lambda row: row["id"]) == [
        {"id": "1", "v": "x", "w": "7"},
        {"id": "2", "v": "x", "w": "7"},
    ]
    assert replica.tables["d.u"] == {1: "x", 2: "y"}
    assert replica.place("d.t") is None
    assert replica.once(50).exit_code == 0


def test_resync_brings_a_stopped_table_back(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    broken = feed.damaged("d.t", 10)
    assert replica.once(20).exit_code == 3
    broken.write_bytes(feed._line("d.t", 12, 2, "y"))
    assert resync(replica).exit_code == 0
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}


def test_resync_refuses_a_table_older_than_the_changefeed(feed: Feed, replica: MemoryReplica) -> None:
    feed.describe("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    replica.holds("d.t", (7, "before"))
    replica.once(20)
    with pytest.raises(CannotBeExact, match="older than the changefeed"):
        resync(replica)
    assert replica.tables == {"d.t": {7: "before", 1: "x"}}


@pytest.mark.parametrize("how", ENDS)
def test_resync_refuses_a_table_that_is_gone_upstream(how: str, feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.end("d.t", 20, how)
    replica.once(30)
    before = replica.tables, replica.sink.progress()
    with pytest.raises(BadConfig, match="dropped or renamed"):
        resync(replica)
    assert (replica.tables, replica.sink.progress()) == before


def test_resync_refuses_what_it_cannot_bring_back(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.create("d.p", 11)
    replica.once(20)
    with pytest.raises(BadConfig, match="table rules exclude"):
        resync(replica, tables=("d.p",))
    with pytest.raises(BadConfig, match="there is no table"):
        resync(replica, TableName("d", "nowhere"))
    query = "ALTER TABLE `d`.`p` EXCHANGE PARTITION `p0` WITH TABLE `d`.`T`"
    feed.statement("d.p", 21, Action.EXCHANGE_PARTITION, query)
    feed.checkpoint(30)
    for table in ("t", "p"):
        with pytest.raises(CannotBeExact, match="EXCHANGE PARTITION"):
            resync(replica, TableName("d", table))
    assert replica.tables["d.t"] == {1: "x"}


def test_resync_refuses_a_table_whose_files_were_cleaned_up(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    old = feed.puts("d.t", 10, {11: (1, "x")})
    feed.statement("d.t", 15, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
    feed.puts("d.t", 15, {16: (2, "y")})
    replica.once(20)
    assert Folder("d/t", 10) in replica.sink.progress().folders
    old.unlink()
    with pytest.raises(GapFound, match="gone from the storage"):
        resync(replica)
    assert replica.tables["d.t"] == {1: "x", 2: "y"}
    assert resync(replica, accept_gap_in=["*.*"]).exit_code == 0
    assert replica.tables["d.t"] == {2: "y"}


# skip-ddl


@pytest.mark.parametrize("reason", ["by hand", "overtaken by a change that we made by hand"])
def test_skip_ddl_records_a_refused_statement(reason: str, feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x"), 21: (2, "y")})
    feed.statement("d.t", 20, Action.TRUNCATE_PARTITION, "ALTER TABLE `t` TRUNCATE PARTITION `p0`")
    feed.statement("d.t", 25, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
    assert replica.once(30).exit_code == 5
    for version, problem in ((25, "not applied yet"), (19, "is pending")):
        with pytest.raises(BadConfig, match=problem):
            app.skip_ddl(replica.settings(), Recorder(), T, version, "by hand")
    assert reason in app.skip_ddl(replica.settings(), Recorder(), T, 20, reason).skipped
    records = {ddl.version: (r.kind, r.reason) for ddl, r in replica.sink.progress().ddls.items() if ddl.table}
    assert records[20] == (DdlKind.BY_HAND, reason)
    assert replica.once(40).exit_code == 0
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}


# backfill


def test_backfill_wants_an_empty_target(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.checkpoint(20)

    def backfill(**flags: object) -> RunResult:
        return app.backfill(replica.settings(**flags), Recorder(), InlineLoader())

    assert backfill().exit_code == 0
    assert replica.tables == {"d.t": {1: "x"}}
    with pytest.raises(BadConfig, match="already has progress"):
        backfill()
    with pytest.raises(BadConfig, match="has rows"):
        backfill(name="other")
    assert replica.tables == {"d.t": {1: "x"}}


# run


def test_run_follows_a_growing_storage_until_it_is_told_to_stop(feed: Feed, replica: MemoryReplica) -> None:
    stop, results = threading.Event(), []
    settings, seen = replica.settings(flush_interval="20ms"), Recorder()
    worker = threading.Thread(target=lambda: results.append(app.run(settings, seen, stop, InlineLoader())))
    worker.start()
    try:
        wait_for(lambda: any("metadata" in text for text in seen.retries))  # there is none yet
        feed.create("d.t", 10)
        feed.damaged("d.s", 12)
        feed.create("d.s", 12)
        for ts in range(20, 60, 10):
            feed.puts("d.t", 10, {ts - 1: (ts, "x")})
            feed.checkpoint(ts)
            wait_for(lambda ts=ts: replica.sink.progress().applied_ts == ts)
        feed.drop("d.s", 60)
        feed.checkpoint(70)
        wait_for(lambda: replica.sink.progress().applied_ts == 70)
        time.sleep(0.1)
    finally:
        stop.set()
        worker.join(10)
    (result,) = results
    assert replica.tables == {"d.t": dict.fromkeys(range(20, 60, 10), "x")}
    assert result.checkpoint_ts == 70
    assert result.rounds >= 5
    assert result.exit_code == 0
    assert {str(name): table.state for name, table in result.tables.items()} == {"d.s": "dropped", "d.t": "ok"}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
