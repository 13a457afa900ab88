"""--start-ts RULE=MOMENT in the long run: what is left out for a while, cleaned up or made again loses no row."""

from __future__ import annotations

import pytest

from consumer import app
from consumer.errors import GapFound
from tests.e2e.test_starts import ONLY_A, T, replica
from tests.support.build import ID, VALUE
from tests.support.feed import MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

__all__ = ["replica"]


def test_now_loses_no_row_of_a_table_that_the_storage_tells_of_later(replica: MemoryReplica) -> None:
    for name in ("d.a", "d.t", "d.old"):
        replica.holds(name)
    flags = {"start_ts": ("*.*=now",)}
    assert replica.once(40, **flags).exit_code == 0
    replica.feed.describe("d.old", 45, (ID, VALUE))  # quiet until then, and so without a schema file
    replica.feed.puts("d.old", 45, {46: (1, "first"), 55: (2, "second")})
    assert replica.once(60, **flags).exit_code == 0
    assert replica.tables["d.old"] == {1: "first", 2: "second"}


@pytest.mark.parametrize("begun_by", ["now", "its statements"])
def test_now_loses_no_row_of_a_table_that_was_left_out_for_a_while(replica: MemoryReplica, begun_by: str) -> None:
    if begun_by == "now":
        assert replica.once(30, tables=ONLY_A).exit_code == 0
        replica.holds("d.t", (1, "s"), (2, "s"))
    flags = {"start_ts": ("*.*=now",)} if begun_by == "now" else {}
    assert replica.once(32, **flags).exit_code == 0
    assert replica.once(34, tables=ONLY_A, start_ts=("*.*=now",)).exit_code == 0
    assert replica.once(40, start_ts=("*.*=now",)).exit_code == 0
    assert replica.tables["d.t"][3] == "new"


def test_now_of_a_table_that_was_made_anew_while_it_was_left_out(replica: MemoryReplica) -> None:
    assert replica.once(30, tables=ONLY_A).exit_code == 0
    replica.feed.drop("d.t", 41)
    replica.feed.create("d.t", 42)
    replica.feed.puts("d.t", 42, {43: (9, "second"), 65: (10, "later")})
    replica.holds("d.t", (9, "s"))
    for checkpoint in (60, 70):
        assert replica.once(checkpoint, start_ts=("d.t=now",)).exit_code == 0
    assert replica.tables["d.t"] == {9: "s", 10: "later"}


def test_now_beside_a_moment_for_all(replica: MemoryReplica) -> None:
    replica.holds("d.a", (1, "s"))
    replica.holds("d.t", (2, "by hand"))
    for checkpoint in (30, 40):
        assert replica.once(checkpoint, start_ts=("11", "d.t=now")).exit_code == 0
    assert replica.tables == {"d.a": {1: "s"}, "d.t": {2: "by hand", 3: "new"}}
    assert replica.sink.progress().starts == {T: 30}


def test_a_table_whose_files_were_cleaned_up_while_it_was_left_out_comes_back(replica: MemoryReplica) -> None:
    feed = replica.feed
    assert replica.once(21).exit_code == 0
    assert replica.once(22, tables=ONLY_A).exit_code == 0
    for commit_ts in (36, 37, 51):
        feed.puts("d.t", 15, {commit_ts: (commit_ts, "x")})
    for number in (1, 2):
        (feed.folder / f"d/t/15/CDC{number:020d}.json").unlink()
    replica.holds("d.t", (1, "s"))
    assert replica.once(60, start_ts=("d.t=40",)).exit_code == 0
    assert replica.tables["d.t"] == {1: "s", 51: "x"}


@pytest.mark.parametrize("start", ["30", "d.t=30"])
def test_a_resync_needs_the_files_from_before_the_moment_too(replica: MemoryReplica, start: str) -> None:
    replica.feed.puts("d.t", 15, {36: (4, "x")})
    if start != "30":
        assert replica.once(12).exit_code == 0
        assert replica.once(14, tables=ONLY_A).exit_code == 0
    replica.holds("d.a", (1, "a"))
    replica.holds("d.t", (1, "s"), (2, "s"))
    assert replica.once(40, start_ts=(start,)).exit_code == 0
    (replica.feed.folder / "d/t/15/CDC00000000000000000001.json").unlink()
    before = replica.tables
    with pytest.raises(GapFound, match="some of its files are gone from the storage"):
        app.resync(replica.settings(), Recorder(), T, InlineLoader())
    assert replica.tables == before


def test_now_of_a_round_in_parts_is_the_checkpoint_of_all(replica: MemoryReplica) -> None:
    flags = {"consistency": "snapshot"}
    assert replica.once(30, tables=ONLY_A, **flags).exit_code == 0
    replica.holds("d.t", (1, "by hand"))
    replica.feed.truncate("d.a", 33)  # readers see it, so a part of the round ends before it
    replica.feed.checkpoint(40)
    planned = app.plan(replica.settings(start_ts=("d.t=now",), **flags), Recorder())
    assert replica.once(40, start_ts=("d.t=now",), **flags).exit_code == 0
    assert "d.t begins at --start-ts 40: the target must have it as upstream had it then" in planned.notes
    assert replica.tables == {"d.a": {}, "d.t": {1: "by hand"}}
    assert replica.sink.progress().starts == {T: 40}


@pytest.mark.parametrize("end", ["drop", "rename"])
def test_a_table_that_goes_on_is_dropped_and_made_as_upstream(replica: MemoryReplica, end: str) -> None:
    assert replica.once(40).exit_code == 0
    if end == "drop":
        replica.feed.drop("d.t", 41)
    else:
        replica.feed.rename("d.t", "d.x", 41)
    replica.feed.create("d.t", 43)
    replica.feed.puts("d.t", 43, {44: (7, "in time"), 55: (8, "later")})
    assert replica.once(60, start_ts=("d.t=50",)).exit_code == 0, "the rule is for tables that are new"
    assert replica.tables["d.t"] == {7: "in time", 8: "later"}
    assert replica.sink.progress().starts == {}


def test_a_table_that_was_given_can_be_made_from_the_storage(replica: MemoryReplica) -> None:
    replica.holds("d.t", (1, "s"), (9, "wrong"))
    assert replica.once(40, start_ts=("d.t=20",)).exit_code == 0
    assert app.resync(replica.settings(start_ts=("d.t=20",)), Recorder(), T, InlineLoader()).exit_code == 0
    assert replica.tables["d.t"] == {1: "old", 2: "between", 3: "new"}
    assert replica.once(50, start_ts=("d.t=20",)).exit_code == 0
    assert replica.tables["d.t"] == {1: "old", 2: "between", 3: "new"}


@pytest.mark.parametrize("begun_by", ["now", "its statements"])
def test_now_of_a_table_that_was_renamed_while_it_was_left_out(replica: MemoryReplica, begun_by: str) -> None:
    if begun_by == "now":
        assert replica.once(30, tables=ONLY_A).exit_code == 0
        replica.holds("d.t", (1, "s"), (2, "s"))
    assert replica.once(32, **({"start_ts": ("d.t=now",)} if begun_by == "now" else {})).exit_code == 0
    assert replica.once(34, tables=ONLY_A).exit_code == 0
    replica.feed.rename("d.t", "d.u", 41)
    replica.feed.puts("d.u", 41, {45: (4, "u")})
    assert replica.once(50, tables=ONLY_A).exit_code == 0
    assert replica.once(60, start_ts=("*.*=now",)).exit_code == 0
    assert replica.tables["d.u"].keys() == {1, 2, 3, 4}
