"""Tables that routes give other names: what moves, what is refused, what a change of routes may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.errors import BadConfig, DdlRefused
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange, State, TableProgress
from tests.support.every_target import Target
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

A, B = TableName("a", "t"), TableName("b", "t")
SHARED = "the routes call it x.t in the target, and {} too"


@pytest.fixture
def replica(tmp_path: Path) -> MemoryReplica:
    """Upstream has a.t with the row 1 and b.t with the row 2."""
    feed = Feed(tmp_path / "cdc")
    for version, (database, key) in enumerate((("a", 1), ("b", 2))):
        feed.database(database, 1 + 2 * version)
        feed.create(f"{database}.t", 2 + 2 * version)
        feed.puts(f"{database}.t", 2 + 2 * version, {10 + version: (key, database)})
    return MemoryReplica(feed)


def verified(replica: MemoryReplica) -> dict[str, str]:
    found = app.verify(replica.settings(), Recorder(), loader=InlineLoader()).tables
    return {str(table.table): table.state for table in found}


def test_a_database_has_another_name_with_its_tables(replica: MemoryReplica) -> None:
    replica.routes = ("a.* -> x_a.*",)
    result = replica.once(20)
    assert (result.exit_code, replica.tables) == (0, {"b.t": {2: "b"}, "x_a.t": {1: "a"}})
    assert {str(name): table.target_table for name, table in result.tables.items()} == {"a.t": "x_a.t", "b.t": ""}
    assert verified(replica) == {"a.t": "equal", "b.t": "equal"}
    replica.feed.rename("a.t", "b.u", 30)
    replica.feed.rename("b.t", "a.t", 31)
    replica.feed.puts("a.t", 31, {32: (3, "new")})
    assert replica.once(40).exit_code == 0
    assert replica.tables == {"b.u": {1: "a"}, "x_a.t": {2: "b", 3: "new"}}
    replica.feed.database("a", 50, "DROP DATABASE `a`", Action.DROP_SCHEMA)
    assert replica.once(60).exit_code == 0
    assert replica.tables == {"b.u": {1: "a"}}


@pytest.mark.parametrize("routes", [("a.* -> x.*", "b.* -> x.*"), ("a.* -> B.*",), ("a.t -> x.t", "b.t -> X.T")])
def test_tables_of_one_name_both_stop_and_nothing_is_written(replica: MemoryReplica, routes: tuple[str, ...]) -> None:
    replica.routes = routes
    replica.feed.checkpoint(20)
    planned = app.plan(replica.settings(), Recorder())
    assert {row.table for row in planned.stopped} == {A, B}
    result = replica.once(20)
    assert result.exit_code == 5
    assert {name for name, state in states(result).items() if state == "stopped"} == {"a.t", "b.t"}
    assert "in the target, and b.t too" in result.tables[A].error
    assert "with --route, or leave it out with --tables" in result.tables[A].hint
    assert replica.tables == {}
    left = replica.once(20, tables=("a.*",))
    assert (left.exit_code, states(left)["a.t"]) == (0, "ok")
    assert list(replica.tables.values()) == [{1: "a"}]


def test_the_table_that_is_there_goes_on_and_the_other_touches_nothing(replica: MemoryReplica) -> None:
    replica.routes = ("a.* -> x.*", "b.* -> x.*")
    assert replica.once(20, tables=("a.*",)).exit_code == 0
    replica.feed.truncate("b.t", 30)
    replica.feed.puts("a.t", 2, {31: (5, "more")})
    result = replica.once(40)
    assert (result.exit_code, states(result)["a.t"], states(result)["b.t"]) == (5, "ok", "stopped")
    assert result.tables[B].error.endswith(SHARED.format("a.t"))
    replica.feed.drop("b.t", 50)
    result = replica.once(60)
    assert (result.exit_code, states(result)["b.t"]) == (5, "stopped")
    assert replica.tables == {"x.t": {1: "a", 5: "more"}}
    with pytest.raises(DdlRefused, match=SHARED.format("a.t")):
        app.resync(replica.settings(), Recorder(), B, InlineLoader())
    replica.feed.rename("a.t", "a.u", 70)
    assert states(replica.once(80))["a.u"] == "ok"
    assert replica.tables == {"x.u": {1: "a", 5: "more"}}


def test_a_table_does_not_take_the_name_of_another_by_a_rename_or_a_copy(replica: MemoryReplica) -> None:
    replica.routes = ("a.* -> x.*", "b.u -> x.t")
    assert replica.once(20).exit_code == 0
    replica.feed.rename("b.t", "b.u", 30)
    result = replica.once(40)
    assert (result.exit_code, states(result)["a.t"], states(result)["b.u"]) == (5, "ok", "stopped")
    assert replica.tables == {"b.t": {2: "b"}, "x.t": {1: "a"}}


def test_an_older_table_that_shares_its_name_is_neither_loaded_nor_repaired(tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.routes = ("a.* -> x.*", "b.* -> x.*")
    replica.holds("x.t", (1, "a"))
    for number, table in enumerate(("a.t", "b.t")):
        replica.feed.describe(table, 2 + number)
        replica.feed.puts(table, 2 + number, {10: (5 + number, table)})
    assert replica.once(20, start_ts="1").exit_code == 5
    assert set(verified(replica).values()) == {"not compared"}
    assert replica.tables == {"x.t": {1: "a"}}


def test_what_is_left_of_a_table_is_not_taken_away_with_another_of_its_name(replica: MemoryReplica) -> None:
    replica.routes = ("a.* -> x.*", "b.* -> x.*")
    replica.holds("x.t")
    assert replica.once(20, tables=("a.*",), start_ts="5").exit_code == 0
    replica.feed.rename("b.t", "a.v", 25)
    replica.feed.drop("a.v", 26)
    replica.feed.create("a.v", 27)
    assert replica.once(30, tables=("a.*",)).exit_code == 0
    replica.once(40)
    assert replica.tables == {"x.t": {1: "a"}, "x.v": {}}


def test_a_database_is_not_dropped_with_tables_of_another(replica: MemoryReplica) -> None:
    replica.routes = ("a.t -> b.of_a",)
    assert replica.once(20).exit_code == 0
    replica.feed.database("b", 30, "DROP DATABASE `b`", Action.DROP_SCHEMA)
    result = replica.once(40)
    assert (result.exit_code, states(result)["a.t"], states(result)["b.t"]) == (5, "ok", "stopped")
    assert "it would also drop b.of_a (upstream's a.t): DROP DATABASE `b`" in result.tables[B].error
    assert replica.tables == {"b.of_a": {1: "a"}, "b.t": {2: "b"}}
    assert "skip-ddl --table b --version 30" in result.tables[B].hint
    del replica.sink._store.tables[B]
    app.skip_ddl(replica.settings(), Recorder(), TableName("b", ""), 30, "by hand")
    assert replica.once(40).exit_code == 0
    assert replica.tables == {"b.of_a": {1: "a"}}


def test_a_database_is_not_dropped_with_tables_that_the_storage_does_not_tell_of(target: Target, feed: Feed) -> None:
    """a.t is older than the changefeed, and has no change yet."""
    target.makes("x.t", (7, 7))
    target.replica.routes = ("a.* -> x.*", "b.* -> x.*")
    feed.database("b", 10)
    feed.create("b.u", 11)
    feed.database("b", 20, "DROP DATABASE `b`", Action.DROP_SCHEMA)
    result = target.once(30, start_ts="5")
    assert (result.exit_code, states(result)["b"]) == (5, "stopped")
    assert "it has x.t, which is no table of b: DROP DATABASE `b`" in result.tables[B._replace(table="")].error
    assert "skip-ddl --table b --version 20" in result.tables[B._replace(table="")].hint
    app.skip_ddl(target.replica.settings(), Recorder(), B._replace(table=""), 20, "by hand")
    feed.describe("a.t", 31)
    feed.puts("a.t", 31, {32: (8, "8")})
    assert target.once(40).exit_code == 0
    assert target.tables["x.t"] == {7: "7", 8: "8"}


def test_a_database_goes_where_all_in_it_is_its_own(target: Target, feed: Feed) -> None:
    target.replica.routes = ("a.* -> x.*", "c.* -> y.*")
    target.makes("d.t", (7, 7))
    for version, name in enumerate(("a", "d"), 1):
        feed.database(name, version)
        feed.create(f"{name}.u", 2 + version)
        feed.database(name, 20 + version, f"DROP DATABASE `{name}`", Action.DROP_SCHEMA)
    assert target.once(10).exit_code == 0
    assert set(target.tables) == {"d.t", "d.u", "x.u"}
    planned = app.plan(target.replica.settings(), Recorder())
    assert planned.stopped == ()
    assert target.once(30).exit_code == 0
    assert target.tables == {}


def test_routes_that_move_a_table_are_refused_until_they_are_as_before(replica: MemoryReplica) -> None:
    replica.routes = ("a.* -> x.*",)
    assert replica.once(20).exit_code == 0
    replica.feed.puts("a.t", 2, {21: (7, "later")})
    before, replica.routes = replica.routes, ("a.t -> y.t", *replica.routes)
    why = r"the routes call a.t y.t in the target, where it is x.t already"
    for command in (
        lambda: replica.once(30),
        lambda: app.plan(replica.settings(), Recorder()),
        lambda: app.resync(replica.settings(), Recorder(), A, InlineLoader()),
        lambda: verified(replica),
    ):
        with pytest.raises(BadConfig, match=why) as refused:
            command()
        assert "--route 'a.* -> x.*'" in refused.value.hint
    assert any("y.t in the target" in note for note in app.status(replica.settings(), Recorder()).notes)
    replica.routes = ()
    with pytest.raises(BadConfig, match=r"the routes call a a in the target, where it is x already"):
        replica.once(30)
    replica.routes = (*before, "b.u -> z.u")
    assert replica.once(30).exit_code == 0
    assert replica.tables == {"b.t": {2: "b"}, "x.t": {1: "a", 7: "later"}}
    replica.feed.rename("b.t", "b.u", 40)
    assert replica.once(50).exit_code == 0
    assert replica.tables == {"x.t": {1: "a", 7: "later"}, "z.u": {2: "b"}}
    replica.routes = before
    with pytest.raises(BadConfig, match=r"b.u in the target, where it is z.u already"):
        replica.once(60)


def test_a_route_that_fits_nothing_is_told(replica: MemoryReplica) -> None:
    replica.routes = ("a.* -> x.*", "a.t -> y.t", "c.* -> d.*")
    replica.feed.checkpoint(20)
    why = "the route '{}' matches no table of the storage, or only tables that an earlier route has taken"
    assert app.plan(replica.settings(), Recorder()).notes == (why.format("a.t -> y.t"), why.format("c.* -> d.*"))
    replica.routes = ("a.* -> x.*",)
    assert app.plan(replica.settings(), Recorder()).notes == ()


def test_a_route_can_be_given_to_a_table_that_never_began(replica: MemoryReplica) -> None:
    replica.routes = ("a.* -> x.*", "b.* -> x.*")
    assert replica.once(20).exit_code == 5
    replica.routes = ("a.* -> x.*", "b.* -> x.of_b_*")
    assert replica.once(20).exit_code == 0
    assert replica.tables == {"x.of_b_t": {2: "b"}, "x.t": {1: "a"}}


def test_other_routes_drop_no_table_that_a_resync_has_left(replica: MemoryReplica) -> None:
    assert replica.once(20).exit_code == 0
    replica.sink.acquire(f"file://{replica.feed.folder}")
    marked = ProgressChange(tables={A: TableProgress(1, State.EMPTYING)}, rewind=True)
    replica.sink._store.progress["default"] = replica.sink.progress().after(marked)
    replica.sink._store.held = False
    replica.routes = ("a.t -> b.t",)
    with pytest.raises(BadConfig, match=r"a.t b.t in the target"):
        replica.once(30, tables=("a.*",))
    assert replica.tables["b.t"] == {2: "b"}
