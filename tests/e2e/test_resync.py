"""resync asks what the table's life is: a table is made again as it is now, or not touched."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import consumer.sink.mysql.sink as mysql_sink
from consumer import app
from consumer.errors import BadConfig, CannotBeExact, CheckpointBehind, ConsumerError, SchemaMissing
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import resync_name
from consumer.results import RunResult
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, Fuse
from tests.support.feed import CREATE, Feed, MemoryReplica, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.observers import Recorder

T = TableName("d", "t")
IGNORE_CREATE = {"default": "evolve", "rules": [{"kinds": ["create-table"], "action": "ignore"}]}


def resync(replica: Replica, table: TableName = T, **flags: object) -> RunResult:
    return app.resync(replica.settings(**flags), Recorder(), table, InlineLoader())


def refused(replica: MemoryReplica, error: type[ConsumerError], match: str, table: TableName = T) -> str:
    """Neither the target nor the progress is another afterwards; its hint."""
    before = replica.tables, replica.sink.progress()
    with pytest.raises(error, match=match) as found:
        resync(replica, table)
    assert (replica.tables, replica.sink.progress()) == before
    return found.value.hint


def test_rows_whose_schema_file_is_gone_are_not_begun_again(feed: Feed, replica: MemoryReplica) -> None:
    """It would stop there again, without the rows that it has."""
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    replica.once(20)
    feed.puts("d.t", 30, {31: (2, "y")})
    stopped = replica.once(40).tables[T]
    assert "no schema file of that version" in (stopped.error or "")
    assert not stopped.resync
    refused(replica, SchemaMissing, "no schema file of that version")


@pytest.mark.parametrize("later", [False, True])
def test_a_view_is_not_made_anew(feed: Feed, replica: MemoryReplica, later: bool) -> None:
    """What it shows may have other names by now; also where upstream has a table in its place that is still to come."""
    feed.create("d.u", 10)
    feed.statement("d.t", 20, Action.CREATE_VIEW, "CREATE VIEW `t` AS SELECT `id` FROM `u`", ())
    replica.once(25)
    if later:
        feed.rename("d.u", "d.w", 30)
        feed.statement("d.t", 35, Action.DROP_VIEW, "DROP VIEW `t`", ())
        feed.create("d.t", 40)
        feed.checkpoint(50)
    assert "resync the tables" in refused(replica, CannotBeExact, "is a view, without rows of its own")


def test_a_table_is_named_as_upstream_names_it(feed: Feed, replica: MemoryReplica) -> None:
    """Not as a route does."""
    replica.routes = ("d.t -> other.t",)
    feed.create("d.t", 2)
    assert replica.once(10).exit_code == 0
    with pytest.raises(BadConfig, match=r"there is no table other\.t in the storage"):
        resync(replica, TableName("other", "t"))


def test_plan_says_that_rows_lack_their_schema_file(feed: Feed, replica: MemoryReplica) -> None:
    """Also of a table that its first step makes."""
    feed.create("d.t", 10)
    feed.puts("d.t", 30, {31: (2, "y")})
    feed.checkpoint(40)
    (planned,) = app.plan(replica.settings(), Recorder()).stopped
    assert planned.error == replica.once().tables[T].error


# The checkpoint has gone back


@pytest.mark.parametrize("statement", ["truncate", "add column", "rename", "drop"])
def test_a_statement_above_the_checkpoint_that_ran_is_not_undone(
    statement: str, feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    match statement:
        case "truncate":
            feed.truncate("d.t", 30)
        case "add column":
            feed.statement("d.t", 30, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'x'")
        case "rename":
            feed.rename("d.t", "d.u", 30)
        case _:
            feed.drop("d.t", 30)
    replica.once(40)
    feed.checkpoint(20)
    refused(replica, CheckpointBehind, "below what was applied")
    expected = replica.tables
    assert replica.once(50).exit_code == 0
    assert replica.tables == expected


# A name with several lives


def test_the_table_that_the_target_has_is_made_anew_while_its_rename_is_pending(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    damaged = feed.damaged("d.t", 10)
    feed.rename("d.t", "d.u", 20)
    feed.puts("d.u", 20, {21: (2, "x")})
    feed.create("d.t", 25)
    feed.puts("d.t", 25, {26: (5, "second life")})
    assert states(replica.once(40)) == {"d.t": "stopped", "d.u": "waits"}
    rows = replica.tables["d.t"]
    stopped = resync(replica).tables[T]
    assert (stopped.state, replica.tables["d.t"]) == ("stopped", rows)
    assert "was not touched" in (stopped.hint or "")
    damaged.write_bytes(feed._line("d.t", 12, 3, "x"))
    assert resync(replica).exit_code == 0
    assert replica.tables == {"d.t": {5: "second life"}, "d.u": {1: "x", 2: "x", 3: "x"}}


@pytest.mark.parametrize("end", ["drop", "rename"])
def test_a_table_that_the_target_does_not_have_yet_waits_for_the_one_before_it(
    end: str, feed: Feed, replica: MemoryReplica
) -> None:
    replica.once(5)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "first life")})
    feed.drop("d.t", 20) if end == "drop" else feed.rename("d.t", "d.u", 20)
    feed.create("d.t", 25)
    feed.puts("d.t", 25, {26: (5, "second life")})
    feed.checkpoint(30)
    assert "then run `once`" in refused(replica, CannotBeExact, "does not have it yet")
    assert replica.once(40).exit_code == 0
    expected = {"d.t": {5: "second life"}} | ({"d.u": {1: "first life"}} if end == "rename" else {})
    assert replica.tables == expected
    assert resync(replica).exit_code == 0
    assert replica.tables == expected


def test_a_damaged_file_of_an_earlier_table_is_not_read_again(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "first life")})
    feed.damaged("d.t", 10)
    feed.drop("d.t", 20)
    feed.create("d.t", 25)
    feed.puts("d.t", 25, {26: (5, "second life")})
    assert replica.once(40).exit_code == 0
    assert resync(replica).exit_code == 0
    assert replica.tables == {"d.t": {5: "second life"}}


def test_rows_that_lie_in_a_folder_of_an_earlier_table_come_again(feed: Feed, replica: MemoryReplica) -> None:
    """TiCDC looks for a folder by the columns, where an event filter has left out the statement that made them."""
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "first life")})
    feed.drop("d.t", 20)
    feed.create("d.t", 25)
    feed.puts("d.t", 25, {26: (5, "second life")})
    feed.puts("d.t", 10, {27: (6, "second life")})
    feed.puts("d.t", 10, {12: (1, "sent again")})
    assert replica.once(40).exit_code == 0
    expected = {"d.t": {5: "second life", 6: "second life"}}
    assert replica.tables == expected
    assert resync(replica).exit_code == 0
    assert replica.tables == expected
    assert sum(table.rows for table in replica.once(50).tables.values()) == 0


# What the storage cannot make again


def test_a_table_that_came_back_from_the_trash_stays(feed: Feed, replica: MemoryReplica) -> None:
    keep = {"default": "evolve", "rules": [{"kinds": ["drop-table"], "action": "rename"}]}
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.drop("d.t", 20)
    feed.statement("d.t", 30, Action.RECOVER_TABLE, "RECOVER TABLE `t`")
    feed.puts("d.t", 30, {31: (2, "y")})
    replica.once(40, ddl=keep)
    assert replica.tables["d.t"] == {1: "x", 2: "y"}
    refused(replica, CannotBeExact, "came back with rows")


def test_a_comment_is_no_copy_of_a_table(feed: Feed, replica: MemoryReplica) -> None:
    feed.statement("d.t", 10, Action.CREATE_TABLE, CREATE.format("t") + " COMMENT 'as LIKE as two peas'")
    feed.puts("d.t", 10, {11: (1, "x")})
    feed.statement("d.u", 12, Action.CREATE_TABLE, "CREATE TABLE `u` LIKE `t`")
    replica.once(20)
    assert resync(replica).exit_code == 0
    assert replica.tables["d.t"] == {1: "x"}
    refused(replica, CannotBeExact, "copy of a table", TableName("d", "u"))


def test_a_table_that_was_made_by_hand_stays(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    replica.holds("d.t")
    replica.once(20, ddl=IGNORE_CREATE)
    before = replica.tables
    with pytest.raises(CannotBeExact, match="made by hand") as found:
        resync(replica, ddl=IGNORE_CREATE)
    assert "let [consumer.ddl] execute create-table for it" in found.value.hint
    assert replica.tables == before == {"d.t": {1: "x"}}
    assert resync(replica).exit_code == 0  # the policy is another now
    assert replica.tables == before


def test_a_table_whose_create_was_recorded_by_hand_stays(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    replica.holds("d.t", (7, "by hand"))
    replica.once(20)
    app.skip_ddl(replica.settings(), Recorder(), T, 10, "it has rows of its own")
    replica.once(30)
    hint = refused(replica, CannotBeExact, "it has rows of its own")
    assert "load-export" in hint
    replica.holds("d.t", (1, "x"))
    feed.puts("d.t", 10, {31: (2, "y")})
    assert replica.once(40, name="new", start_ts="30").exit_code == 0
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}


@pytest.mark.parametrize("start", ["20", ("d.t=20",)], ids=["of all tables", "of this one"])
def test_a_table_that_was_given_is_whole_once_it_is_made_from_its_beginning(
    feed: Feed, replica: MemoryReplica, start: object
) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x"), 21: (2, "y")})
    replica.holds("d.t", (1, "x"))
    assert replica.once(30, start_ts=start).exit_code == 0

    def verified() -> str:
        (found,) = app.verify(replica.settings(), Recorder(), loader=InlineLoader()).tables
        return found.state

    assert verified() == "equal in part"
    assert resync(replica).exit_code == 0
    assert (verified(), replica.tables) == ("equal", {"d.t": {1: "x", 2: "y"}})
    assert replica.once(40, start_ts=start).exit_code == 0
    assert verified() == "equal"


def test_a_table_that_would_stop_at_a_policy_stays(feed: Feed, replica: MemoryReplica) -> None:
    fail = {"default": "evolve", "rules": [{"kinds": ["truncate-table"], "action": "fail"}]}
    feed.create("d.t", 10)
    feed.truncate("d.t", 15)
    feed.puts("d.t", 15, {16: (1, "x")})
    replica.once(20)
    with pytest.raises(CannotBeExact, match="the policy for truncate-table is fail") as found:
        resync(replica, ddl=fail)
    assert replica.tables == {"d.t": {1: "x"}}
    assert "set another action for it in [consumer.ddl]" in found.value.hint
    assert resync(replica).exit_code == 0
    assert replica.tables == {"d.t": {1: "x"}}


# A run that dies


def dies_at_the_exchange(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch, first: Callable[[MemorySink], object]
) -> None:
    """A resync of d.t, which has a row, dies behind `first` when the new table is to take its place."""

    def dies(self: MemorySink, table: TableName, change: object) -> None:
        first(self)
        self._store.held = False
        raise Crash

    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "x")})
    replica.once(20)
    with monkeypatch.context() as patched:
        patched.setattr(MemorySink, "replace_table", dies)
        with pytest.raises(Crash):
            resync(replica)


def test_an_exchange_that_died_is_finished_by_the_next_run(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_at_the_exchange(feed, replica, monkeypatch, lambda sink: None)
    assert replica.place("d.t") == (20, "exchanging")
    assert any("takes its place first" in note for note in app.plan(replica.settings(), Recorder()).notes)
    (compared,) = app.verify(replica.settings(), Recorder(), loader=InlineLoader()).tables
    assert "run `once` first" in (compared.error.hint if compared.error is not None else "")
    feed.puts("d.t", 10, {21: (2, "y")})
    assert replica.once(30).exit_code == 0
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}


def test_what_was_loaded_beside_a_table_and_dropped_by_hand_takes_no_place(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_at_the_exchange(feed, replica, monkeypatch, lambda sink: sink._store.tables.pop(sink.parallel_name(T)))
    feed.create("d.u", 21)
    feed.puts("d.u", 21, {22: (1, "1")})
    feed.puts("d.t", 10, {23: (2, "2")})
    for checkpoint in (30, 40):
        result = replica.once(checkpoint)
        assert (result.exit_code, states(result)) == (3, {"d.t": "stopped", "d.u": "ok"})
        assert "is gone from the target" in str(result.tables[T].error)
        assert "resync --table d.t" in str(result.tables[T].hint)
        assert (replica.tables, replica.place("d.t")) == ({"d.t": {1: "x"}, "d.u": {1: "1"}}, (20, "exchanging"))
    assert resync(replica).exit_code == 0
    assert replica.tables == {"d.t": {1: "x", 2: "2"}, "d.u": {1: "1"}}


def test_a_resync_of_a_server_can_die_at_any_moment(
    tmp_path: Path, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the statements of the exchange: the next run of the replica goes on, or the same command does."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    replica = Replica(feed, fresh_mariadb.url())
    replica.once(20)
    for moment in range(100):
        fuse, result = Fuse(moment), None
        with monkeypatch.context() as patched, suppress(Crash):
            for name in ("store", "give_away", "_drop"):
                patched.setattr(mysql_sink, name, fuse.around(getattr(mysql_sink, name)))
            result = resync(replica)
        if moment % 2:
            assert replica.once(30).exit_code == 0
            assert fresh_mariadb.execute("SELECT id, v FROM d.t") == [(1, 1)]
        if result is not None:
            break
    assert moment > 10
    assert resync(replica).exit_code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.t") == [(1, 1)]
    assert fresh_mariadb.execute("SELECT DISTINCT name FROM storage_consumer.consumer") == [("default",)]
    assert fresh_mariadb.execute("SHOW TABLES FROM storage_consumer LIKE '\\_\\_%'") == []


def test_a_value_that_only_the_target_refuses_takes_no_rows_away(tmp_path: Path, fresh_mariadb: MariaDb) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    file = feed.puts("d.t", 10, {12: (2, "2")})
    replica = Replica(feed, fresh_mariadb.url())
    replica.once(20)
    good = file.read_bytes()
    file.write_bytes(good.replace(b'"v": "2"', b'"v": "99999999999"'))
    stopped = resync(replica)
    assert stopped.exit_code == 3
    assert "99999999999" in (stopped.tables[T].error or "") or "out of range" in (stopped.tables[T].error or "").lower()
    feed.puts("d.t", 10, {21: (3, "3")})
    assert replica.once(30).exit_code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 1), (2, 2), (3, 3)]
    file.write_bytes(good)
    assert resync(replica).exit_code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 1), (2, 2), (3, 3)]


ADD_KEY = "ALTER TABLE `t` ADD CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES {}(`id`)"
DROP_PRIMARY = (Action.DROP_PRIMARY_KEY, "ALTER TABLE `p` DROP PRIMARY KEY")
WIDER = (Action.MODIFY_COLUMN, "ALTER TABLE `p` MODIFY COLUMN `id` BIGINT")
OTHER = (Action.MODIFY_COLUMN, "ALTER TABLE `p` MODIFY COLUMN `v` BIGINT")
COMMENT = (Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `p` COMMENT 'x'")


@pytest.mark.parametrize(
    ("key", "later", "fits"),
    [
        ("`P`", DROP_PRIMARY, False),
        ("`d`.`p`", DROP_PRIMARY, False),
        ("`p`", WIDER, False),
        ("`p`", OTHER, True),
        ("`p`", COMMENT, True),
        ("`t`", DROP_PRIMARY, True),
    ],
)
def test_a_table_stays_whose_foreign_key_does_not_fit_the_other_table_any_more(
    key: str, later: tuple[Action, str], fits: bool, tmp_path: Path, fresh_mariadb: MariaDb
) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.p", 5)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.statement("d.t", 12, Action.ADD_FOREIGN_KEY, ADD_KEY.format(key))
    feed.statement("d.t", 13, Action.DROP_FOREIGN_KEY, "ALTER TABLE `t` DROP FOREIGN KEY `f`")
    feed.statement("d.p", 14, *later)
    replica = Replica(feed, fresh_mariadb.url())
    for checkpoint in (13, 20):
        assert replica.once(checkpoint).exit_code == 0
    if fits:
        assert resync(replica).exit_code == 0
    else:
        with pytest.raises(CannotBeExact, match=r"may not fit d\.p any more") as found:
            resync(replica)
        assert "into an empty target with backfill" in found.value.hint
        other = replica.settings(downstream_uri=f"memory://{tmp_path.name.replace('_', '-')}")
        assert app.backfill(other, Recorder(), InlineLoader()).exit_code == 0
    assert replica.once(30).exit_code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.t") == [(1, 1)]


def test_two_broken_off_loads_whose_tables_have_a_foreign_key_of_one_name(
    tmp_path: Path, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in one database until they are at their ends, and a server has such a name there once."""
    feed = Feed(tmp_path)
    for database, version in (("d", 1), ("e", 2)):
        feed.database(database, version)
        feed.create(f"{database}.p", version + 4)
        feed.create(f"{database}.t", version + 9)
        feed.statement(f"{database}.t", version + 11, Action.ADD_FOREIGN_KEY, ADD_KEY.format("`p`"))
        feed.puts(f"{database}.t", version + 11, {version + 20: (1, "1")})
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(30).exit_code == 0
    other = TableName("e", "t")
    with monkeypatch.context() as patched:
        patched.setattr(InlineLoader, "load", dies)
        with pytest.raises(Crash):
            resync(replica)
    stopped = resync(replica, other)
    reason = (
        "foreign key `f`: d.t has one of this name, and is being loaded, too (under"
        f" '{resync_name('default', T, 10)}'); until both are at their ends, they are in one database of the target"
    )
    assert (stopped.exit_code, reason in stopped.tables[other].error) == (5, True), stopped.tables[other].error
    assert resync(replica).exit_code == 0
    assert resync(replica, other).exit_code == 0
    for database in "de":
        assert fresh_mariadb.execute(f"SELECT id, v FROM {database}.t") == [(1, 1)]
    query = "SELECT constraint_schema, constraint_name FROM information_schema.referential_constraints ORDER BY 1"
    assert fresh_mariadb.execute(query) == [("d", "f"), ("e", "f")]


def dies(*_: object, **__: object) -> Any:
    raise Crash


@pytest.mark.parametrize("table", ["p", "t"])
def test_a_target_without_foreign_keys_makes_both_tables_anew(table: str, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.p", 5)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.statement("d.t", 12, Action.ADD_FOREIGN_KEY, ADD_KEY.format("`p`"))
    feed.statement("d.p", 14, *WIDER, columns=(Column("id", "BIGINT", nullable=False, is_pk=True), VALUE))
    feed.puts("d.p", 14, {15: (1, "1")})
    file = tmp_path / "target.duckdb"
    replica = Replica(feed, f"duckdb:///{file}")
    replica.once(20)
    assert resync(replica, TableName("d", table)).exit_code == 0
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute(f"SELECT id, v FROM d.{table}").fetchall() == [(1, 1)]


DAMAGES = {
    "cut off": (b'"}]', b""),
    "of another": (b'"d"', b'"e"'),
}


@pytest.mark.parametrize(("there", "instead"), DAMAGES.values(), ids=list(DAMAGES))
def test_a_table_keeps_its_rows_until_all_of_its_files_can_be_read(
    there: bytes, instead: bytes, feed: Feed, replica: MemoryReplica
) -> None:
    """A file that was read once can have been harmed since."""
    feed.create("d.t", 10)
    file = feed.puts("d.t", 10, {11: (1, "1")})
    feed.statement("d.t", 12, Action.ADD_COLUMN, "ALTER TABLE `t` ADD `w` INT", (ID, VALUE, Column("w", "INT")))
    assert replica.once(20).exit_code == 0
    good, rows = file.read_bytes(), replica.tables["d.t"]
    assert there in good
    file.write_bytes(good.replace(there, instead))
    stopped = resync(replica)
    assert stopped.exit_code == 3
    assert replica.tables["d.t"] == rows
    assert "resync --table d.t --accept-gap-in d.t" in (stopped.tables[T].hint or "")
    file.write_bytes(good)
    assert resync(replica).exit_code == 0
    assert replica.tables == {"d.t": rows}


def test_a_file_that_is_being_written_keeps_no_table_from_a_resync(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    assert replica.once(20).exit_code == 0
    whole = feed.puts("d.t", 10, {21: (2, "2"), 22: (3, "3")})
    whole.write_bytes(whole.read_bytes()[:-9])
    assert resync(replica).exit_code == 0
